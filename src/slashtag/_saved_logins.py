"""Logins that `slashtag login` saved: which one is used, where its file is, and what that has.

Each profile has its own file. A traceback may show the variables of functions, so none has a secret in a
variable when it raises.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ._credentials import Credentials, parse_base_url, strip_invisible
from ._errors import ConfigurationError
from ._files import user_folder

#: Version of the format of a login's file. Files of version 1 may lack it.
VERSION = 1
VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass
class Login:
    """Address and credentials of a session, and the time zone of its commands, "" for none.

    In a file, all but the zone may be "": the zone is then that of credentials of the environment.
    """

    base_url: str
    apikey: str
    apisecret: str
    timezone: str = ""

    def __repr__(self) -> str:
        return f"Login({self.base_url!r}, ***)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("credentials are not pickled")

    @property
    def arguments(self) -> dict[str, Any]:
        """What to pass to AsyncSession; in no variable, which a traceback may show."""
        return {"base_url": self.base_url, "apikey": self.apikey, "apisecret": self.apisecret}

    @property
    def credentials(self) -> Credentials:
        """The pair of apikey and apisecret."""
        return Credentials(self.apikey, self.apisecret)


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
        is_in_environment = any(strip_invisible(os.environ.get(name, "")) for name in VARIABLES)
        if is_in_environment or user_folder("config") is None:
            return None
        base_url = base_url or os.environ.get("SLASHTAG_BASE_URL")
    saved = read_login(profile)
    if saved is not None and not saved.apikey:
        return None  # only a zone is saved
    if saved is None and profile is not None:
        there = ", ".join(filter(None, profiles())) or "none"
        raise ConfigurationError(f"there is no profile {profile!r}; saved with a name: {there}")
    if saved is not None and base_url and not _is_same_service(base_url, saved.base_url):
        raise ConfigurationError(
            f"the saved credentials are for {saved.base_url} and are not sent elsewhere; "
            f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
        )
    return saved


def find_zone(profile: str | None) -> str:
    """Return the time zone saved with the login that is used, "" for none.

    Where no saved login is used, it is the zone that is saved without credentials. Raises ConfigurationError.
    """
    if (saved := find_saved(profile)) is None and user_folder("config") is not None:
        alone = read_login()
        saved = alone if alone is not None and not alone.apikey else None
    return saved.timezone if saved is not None else ""


def _is_same_service(one: str, other: str) -> bool:
    return parse_base_url(one, allow_http=True) == parse_base_url(other, allow_http=True)


def login_path(profile: str | None = None) -> Path:
    """Return the path of the file of a profile.

    Raises ConfigurationError for a name that is none, and where the user has no folder for it.
    """
    if profile and not (isinstance(profile, str) and _NAME.fullmatch(profile)):
        raise ConfigurationError("a profile is named by up to 40 letters, digits, - and _")
    name = f"credentials-{profile}.json" if profile else "credentials.json"
    folder = user_folder("config")
    if folder is None:
        raise ConfigurationError(
            "there is no folder for saved credentials: set HOME to a directory that exists, or "
            f"XDG_CONFIG_HOME to an absolute path; or use {' and '.join(VARIABLES)}"
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
        mode = file.stat().st_mode
        found = _decode(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror or error}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
    if isinstance(found, str):
        raise ConfigurationError(f"{file} {found}")
    return found


def _decode(data: bytes) -> Login | str:
    """Return what a file has, or what is wrong with it: an error raised here would show its variables."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Any])
        version = msgspec.convert(found.pop("version", 1), int)
        if version > VERSION:
            return f"was written by a newer slashtag (format {version}): upgrade slashtag"
        return msgspec.convert(found, Login)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "is damaged; run `slashtag login` again"
