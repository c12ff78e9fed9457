"""Logins and settings of a connection: those that `slashtag login` saved, and those of the environment.

Each profile has a file of its own, which only its user may read. What counts, the first that is there:
an argument of AsyncSession or an option of a command, a variable SLASHTAG_..., the profile, the default.
"""

import os
import re
import stat
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec
import platformdirs

from ._core.secret import Secret
from ._credentials import parse_base_url, strip_invisible
from ._errors import ConfigurationError
from ._files import AtomicFile, writing_to

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
#: What else is read from the environment, here and by commands.
_OTHER_VARIABLES = (*VARIABLES, "SLASHTAG_BASE_URL", "SLASHTAG_PROFILE", "SLASHTAG_LINK_PASSWORD")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Settings(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Settings by the names of AsyncSession's arguments, and two of commands; None: not set."""

    proxy: Secret | None = None
    allow_http: bool | None = None
    range_end: Literal["inclusive", "exclusive"] | None = None
    concurrency: int | None = None
    timeout: float | None = None
    timezone: str | None = None
    log_format: Literal["text", "json"] | None = None


class Login(Settings, omit_defaults=True, kw_only=True):
    """Address, credentials and settings of a profile."""

    base_url: str = ""
    apikey: Secret = Secret()
    apisecret: Secret = Secret()

    @property
    def arguments(self) -> dict[str, Any]:
        """What to pass to AsyncSession."""
        return {"base_url": self.base_url, "apikey": self.apikey, "apisecret": self.apisecret}


_TYPES = get_type_hints(Settings)


def settings(login: str | Login | None = None) -> dict[str, Any]:
    """Return the settings of the environment, over those of a login or of the one that a profile names.

    Where no saved login is used, these are the ones that are saved without credentials. Raises
    ConfigurationError.
    """
    saved = login if isinstance(login, Login) else find_saved(login)
    if saved is None and _folder() is not None:
        alone = read_login()
        saved = alone if alone is not None and not alone.apikey else None
    found = {name: getattr(saved, name, None) for name in _TYPES}
    for name, kind in _TYPES.items():
        variable = f"SLASHTAG_{name.upper()}"
        if text := strip_invisible(os.environ.get(variable, "")):
            try:
                found[name] = msgspec.convert(text, kind, strict=False, dec_hook=_made)
            except msgspec.ValidationError as error:
                raise ConfigurationError(f"{variable}: {error}") from None
    return {name: value for name, value in found.items() if value is not None}


def check_variables() -> None:
    """Raise ConfigurationError for an unknown variable of the environment that is like one of ours."""
    known = [*_OTHER_VARIABLES, *(f"SLASHTAG_{name.upper()}" for name in _TYPES)]
    for name in os.environ:
        if (
            name.startswith("SLASHTAG_")
            and name not in known
            and (meant := get_close_matches(name, known, 1, 0.8))
        ):
            raise ConfigurationError(f"{name} in the environment is unknown: {meant[0]} is meant?")


def find_saved(
    profile: str | None, base_url: str | None = None, *, has_credentials: bool = False
) -> Login | None:
    """Return the saved login to use, None where arguments or the environment have the credentials.

    A profile that is named, by argument or else by SLASHTAG_PROFILE, is used whatever else the environment
    has. The one without a name is used where neither arguments (`has_credentials`) nor the environment have
    an apikey or an apisecret. Credentials of a file are only used for the service that they were saved for,
    which `base_url`, or without a named profile SLASHTAG_BASE_URL, must be. Raises ConfigurationError.
    """
    if profile and has_credentials:
        raise ConfigurationError("pass a profile or an apikey and apisecret, not both")
    if has_credentials:
        return None
    profile = profile or os.environ.get("SLASHTAG_PROFILE") or None
    if profile is None:
        if any(strip_invisible(os.environ.get(name, "")) for name in VARIABLES) or _folder() is None:
            return None
        base_url = base_url or os.environ.get("SLASHTAG_BASE_URL")
    saved = read_login(profile)
    if saved is not None and not saved.apikey:
        return None  # only settings are saved
    if saved is None and profile is not None:
        there = ", ".join(filter(None, profiles())) or "none"
        raise ConfigurationError(f"there is no profile {profile!r}; saved with a name: {there}")
    if saved is not None and base_url and not _is_same_service(base_url, saved.base_url):
        raise ConfigurationError(
            f"the saved credentials are for {saved.base_url} and are not sent elsewhere; "
            f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
        )
    return saved


def _is_same_service(one: str, other: str) -> bool:
    return parse_base_url(one, allow_http=True) == parse_base_url(other, allow_http=True)


def _folder() -> Path | None:
    """Return the folder of the files, None for a user without a home."""
    folder = platformdirs.user_config_path("slashtag", appauthor=False, roaming=True)
    return folder if folder.is_absolute() else None


def login_path(profile: str | None = None) -> Path:
    """Return the path of the file of a profile.

    Raises ConfigurationError for a name that is none, and where the user has no folder for it.
    """
    if profile and not (isinstance(profile, str) and _NAME.fullmatch(profile)):
        raise ConfigurationError("a profile is named by up to 40 letters, digits, - and _")
    name = f"credentials-{profile}.json" if profile else "credentials.json"
    folder = _folder()
    if folder is None:
        raise ConfigurationError(
            "there is no folder for saved credentials: set HOME or XDG_CONFIG_HOME to an absolute path; or "
            f"use {' and '.join(VARIABLES)}"
        )
    return folder / name


def profiles() -> list[str]:
    """Return the names of the saved profiles; that of the one without a name is empty."""
    named = [file.stem.partition("-")[2] for file in login_path().parent.glob("credentials-*.json")]
    return [""] * login_path().exists() + sorted(filter(_NAME.fullmatch, named))


def read_login(profile: str | None = None) -> Login | None:
    """Return what the file of a profile has, None if there is none.

    Raises ConfigurationError, also for a file that cannot be read.
    """
    file = login_path(profile)
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
        # In no variable, which a traceback may show.
        saved = msgspec.json.decode(file.read_bytes(), type=Login, dec_hook=_made)
        if len({bool(each) for each in saved.arguments.values()}) == 1:  # all or none
            return saved
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    raise ConfigurationError(f"{file} is damaged; run `slashtag login` again")


def save_login(login: Login, profile: str | None = None) -> Path:
    """Save a login in a file that only its owner may read; return its path."""
    file = login_path(profile)
    with writing_to(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with AtomicFile(file, mode=0o600) as opened:
        opened.write(msgspec.json.encode(login, enc_hook=str))
    return file


def _made(kind: type, text: Any) -> Any:
    return kind(text)
