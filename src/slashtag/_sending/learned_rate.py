"""Rates that sessions learnt, kept in one small file for the next run of the same account.

Nothing depends on the file: without it, or if it cannot be read, the rate is learnt anew. There is no lock:
of two sessions that end at once one keeps its rate. An account is named by a hash of its base URL and apikey,
with a salt of the file's own, so the file holds no credential and does not tell accounts.
"""

import logging
import os
import sys
from hashlib import pbkdf2_hmac
from math import inf
from pathlib import Path
from secrets import token_hex
from time import time

import msgspec
from msgspec import Struct

CAUTION = 0.8  # share of a kept rate to begin at: a short run measures the burst of a bucket, too
MAX_AGE = 86_400.0  # seconds after which a rate is out of date
ROUNDS = 5_000  # of the hash, 2 ms: an apikey is not guessed from it

log = logging.getLogger("slashtag")


class Rate(Struct, frozen=True):
    """A learnt rate, in requests a second, and when it was learnt, in epoch seconds."""

    rate: float
    at: float


class Rates(Struct):
    """Contents of the file: the rates by the hash of their account."""

    salt: str
    rates: dict[str, Rate] = {}

    def name(self, base_url: str, apikey: str) -> str:
        """Return the hash of an account."""
        return pbkdf2_hmac("sha256", f"{base_url}\0{apikey}".encode(), self.salt.encode(), ROUNDS, 16).hex()


def path() -> Path | None:
    """Return the path of the file, by the rules of the system; None where it has no place."""
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA", "")
    else:
        folder = os.environ.get("XDG_STATE_HOME", "")
        # XDG: a relative path is to be ignored.
        if not os.path.isabs(folder):
            home = os.environ.get("HOME", "")
            folder = os.path.join(home, ".local", "state") if os.path.isabs(home) else ""
    return Path(folder, "slashtag", "rates.json") if folder else None


def load(base_url: str, apikey: str) -> float | None:
    """Return the rate that the last run of an account learnt, None if it is unknown or out of date."""
    try:
        found = _read()
        rate = found.rates[found.name(base_url, apikey)]
    except (OSError, ValueError, KeyError):
        return None
    return rate.rate if _is_valid(rate, time()) else None


def save(base_url: str, apikey: str, rate: float) -> None:
    """Keep the rate that a run of an account learnt; nothing happens where that is not possible."""
    try:
        file = path()
        if file is None:
            return
        try:
            found = _read()
        except (OSError, ValueError):
            found = Rates(token_hex(16))
        now = time()
        found.rates = {name: other for name, other in found.rates.items() if _is_valid(other, now)}
        found.rates[found.name(base_url, apikey)] = Rate(rate, now)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{os.getpid()}.{token_hex(4)}.part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.encode(found))
            part.replace(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        log.debug("the learnt rate is not kept: %s", error)


def _read() -> Rates:
    """Return what the file has; raises OSError and ValueError."""
    file = path()
    if file is None:
        raise FileNotFoundError
    try:
        return msgspec.json.decode(file.read_bytes(), type=Rates)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _is_valid(rate: Rate, now: float) -> bool:
    return 0 < rate.rate < inf and 0 <= now - rate.at < MAX_AGE
