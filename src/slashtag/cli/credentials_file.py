"""Credentials, from the environment or else as `slashtag login` saved them.

Each profile has a file with the address of its service. The apikey and apisecret are in the system's keyring
where there is one, else in the same file.
"""

import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import typer

from .. import ConfigurationError
from .._internal import did_you_mean
from ..export import AtomicFile

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
#: Address, apikey, apisecret.
Found = tuple[str, str, str]
#: Service under which the keyring has the credentials; each entry is named like the profile's file.
SERVICE = "slashtag"
#: Seconds to wait for the keyring, in which a person can unlock it.
PATIENCE = 10.0


def credentials(base_url: str | None, profile: str | None = None) -> Found:
    """Return the address, apikey and apisecret to use; `base_url` is the option or the environment's.

    Key and secret come from the same place: the file of a profile that is named, else the environment, else
    the file without a profile. Those of a file are sent only to the service that they were saved for. Raises
    ConfigurationError.
    """
    if profile and base_url == os.environ.get("SLASHTAG_BASE_URL"):
        base_url = None
    is_in_environment = any(map(os.environ.get, VARIABLES))
    if profile or (not is_in_environment and path().exists()):
        return _load(profile, base_url)
    given = {"SLASHTAG_BASE_URL": base_url or ""} | {name: os.environ.get(name, "") for name in VARIABLES}
    if missing := [name for name, value in given.items() if not value]:
        raise ConfigurationError(
            f"not set in the environment: {', '.join(missing)}; `slashtag login` saves them, "
            "--profile chooses saved ones, `slashtag sandbox` prints some to try"
        )
    address, apikey, apisecret = given.values()
    return address, apikey, apisecret


def path(profile: str | None = None) -> Path:
    """Return the path of the file of a profile; raises ConfigurationError for a name that is none."""
    if profile and not _NAME.fullmatch(profile):
        raise ConfigurationError("a profile is named by up to 40 letters, digits, - and _")
    name = f"credentials-{profile}.json" if profile else "credentials.json"
    return Path(typer.get_app_dir("slashtag")) / name


def profiles() -> list[str]:
    """Return the names of the saved profiles; that of the one without a name is empty."""
    named = [file.stem.partition("-")[2] for file in path().parent.glob("credentials-*.json")]
    return [""] * path().exists() + sorted(filter(_NAME.fullmatch, named))


class Saved(msgspec.Struct, omit_defaults=True):
    """What a file or an entry of the keyring has: the address, with key and secret or without both."""

    base_url: str
    apikey: str = ""
    apisecret: str = ""


def _load(profile: str | None, base_url: str | None) -> Found:
    """Return saved credentials, if need be only those for `base_url`; raises ConfigurationError."""
    saved = read(profile)
    if saved is None:
        raise ConfigurationError(
            f"there is no profile {profile!r}{did_you_mean(profile or '', profiles())}; "
            "`slashtag login --list` shows those there are"
        )
    if base_url and _address(base_url) != _address(saved.base_url):
        raise ConfigurationError(
            f"the saved credentials are for {saved.base_url} and are not sent elsewhere; "
            f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
        )
    if saved.apikey:
        return saved.base_url, saved.apikey, saved.apisecret
    keyring = _keyring()
    text = keyring and _answer(lambda: keyring.get_password(SERVICE, path(profile).stem))
    entry = _parsed((text or "").encode())
    # Another folder of settings may have a profile of this name; its credentials are for its own service.
    if entry is None or entry.base_url != saved.base_url or not entry.apikey:
        problem = "is not available here" if keyring is None else "has none for this service"
        raise ConfigurationError(
            f"the credentials for {saved.base_url} are in the system's keyring, which {problem}; "
            "run `slashtag login` again"
        )
    return entry.base_url, entry.apikey, entry.apisecret


def _address(base_url: str) -> str:
    """Return a base URL as it is compared: with or without /api/v1 it is the same."""
    return base_url.rstrip("/").removesuffix("/api/v1").rstrip("/")


def read(profile: str | None = None) -> Saved | None:
    """Return what the file of a profile has, None if there is none; raises ConfigurationError and OSError."""
    file = path(profile)
    try:
        mode, data = file.stat().st_mode, file.read_bytes()
    except FileNotFoundError:
        return None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
    if (saved := _parsed(data)) is None:
        raise ConfigurationError(f"{file} is damaged; run `slashtag login` again")
    return saved


def _parsed(data: bytes) -> Saved | None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        saved = msgspec.json.decode(data, type=Saved)
        if bool(saved.apikey) == bool(saved.apisecret):
            return saved
    return None


def save(base_url: str, apikey: str, apisecret: str, profile: str | None = None) -> str:
    """Save credentials in the system's keyring, or else in a file that only its owner may read; return where.

    A keyring that does not answer, or not as it should, is treated as if there were none.
    """
    file, saved = path(profile), Saved(base_url, apikey, apisecret)
    place, text = str(file), msgspec.json.encode(saved).decode()
    with suppress(ConfigurationError):
        if (keyring := _keyring()) is not None:
            _answer(lambda: keyring.set_password(SERVICE, file.stem, text))
            place, saved = "the system's keyring", Saved(base_url)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with AtomicFile(file, mode=0o600) as opened:
        opened.write(msgspec.json.encode(saved))
    return place


def remove(profile: str | None = None) -> None:
    """Remove saved credentials, those in the keyring first."""
    file, keyring = path(profile), _keyring()
    if keyring is not None and _answer(lambda: keyring.get_password(SERVICE, file.stem)) is not None:
        _answer(lambda: keyring.delete_password(SERVICE, file.stem))
    file.unlink(missing_ok=True)


def _keyring() -> Any:
    """Return the system's keyring, None if there is none or the package `keyring` is missing."""
    try:
        package: Any = import_module("keyring")
    except ImportError:
        return None
    keyring = _answer(package.get_keyring)
    # Lower ones keep nothing, or keep it unencrypted.
    return keyring if _answer(lambda: keyring.priority) >= 1 else None


def _answer(ask: Callable[[], Any]) -> Any:
    """Return what the keyring answers; whatever it raises, and no answer, is a ConfigurationError."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    # A keyring may wait for ever: for a dialogue that nobody sees, or for another process.
    Thread(target=run, daemon=True).start()
    advice = "unlock it, or run `slashtag login` again"
    try:
        error = answer.exception(PATIENCE)
    except TimeoutError:
        raise ConfigurationError(f"the system's keyring does not answer; {advice}") from None
    if error is not None:
        # Without its text, which may quote what was to be saved.
        raise ConfigurationError(f"the system's keyring cannot be used: {type(error).__name__}; {advice}")
    return answer.result()
