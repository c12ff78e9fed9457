"""Rates that sessions learnt, kept in one small file for the next run of the same account.

Nothing depends on the file: without it, or if it cannot be read, the rate is learnt anew. Of two
sessions that end at once one keeps its rate. An account is named by a hash of its base URL and apikey,
with a salt of the file's own, so the file holds no credential and does not tell accounts.
"""

import logging
from math import inf
from pathlib import Path
from secrets import token_hex
from time import time

import msgspec
import platformdirs
from msgspec import Struct

from .._atomic_file import AtomicFile
from .._credentials import account_hash
from .._errors import ExportError

CAUTION = 0.8  # share of a kept rate to begin at: a short run measures the burst of a bucket, too
MAX_AGE = 86_400.0  # seconds after which a rate is out of date

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
        return account_hash(apikey, self.salt, base_url, 16).hex()


def path() -> Path | None:
    """Return the path of the file; None where it has no place."""
    return platformdirs.user_state_path("slashtag", appauthor=False) / "rates.json"


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
        with AtomicFile(file, mode=0o600) as opened:
            opened.write(msgspec.json.encode(found))
    except (OSError, ValueError, ExportError) as error:
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
