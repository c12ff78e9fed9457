"""Logins and settings of a connection: of the environment, and those that `slashtag login` saved.

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
from msgspec.structs import asdict, replace

from ._core.secret import Secret
from ._credentials import parse_base_url, strip_invisible
from ._errors import ConfigurationError
from ._files import AtomicFile, writing_to

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
#: What else is read from the environment, here and by commands.
_OTHER_VARIABLES = ("SLASHTAG_PROFILE", "SLASHTAG_LINK_PASSWORD")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Login(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Address, credentials and settings by the names of AsyncSession's arguments, and two of commands.

    None: not set.
    """

    base_url: str | None = None
    apikey: Secret | None = None
    apisecret: Secret | None = None
    proxy: Secret | None = None
    allow_http: bool | None = None
    range_end: Literal["inclusive", "exclusive"] | None = None
    concurrency: int | None = None
    timeout: float | None = None
    timezone: str | None = None
    log_format: Literal["text", "json"] | None = None


_DEFAULTS = Login(allow_http=False, range_end="inclusive", concurrency=32, timeout=30.0)
#: The variable of each member, and its type.
_VARIABLES = {name: (f"SLASHTAG_{name.upper()}", kind) for name, kind in get_type_hints(Login).items()}


def find_login(given: Login, profile: str | None = None) -> Login:
    """Return what is given, completed by the environment, a saved login and the defaults.

    The apikey and apisecret are of one place: the arguments, else the profile that is named, by argument or
    by SLASHTAG_PROFILE, else the environment, else the login without a name. Those of a file are only used
    for the service that they were saved for. Raises ConfigurationError.
    """
    environment, saved = _environment(), Login()
    is_given = given.apikey is not None or given.apisecret is not None
    if profile and is_given:
        raise ConfigurationError("pass a profile or an apikey and apisecret, not both")
    profile = profile or os.environ.get("SLASHTAG_PROFILE")
    if not is_given and (profile or _folder() is not None):
        saved = read_login(profile) or saved
        if profile and saved == Login():
            there = ", ".join(filter(None, profiles())) or "none"
            raise ConfigurationError(f"there is no profile {profile!r}; saved with a name: {there}")
        if saved.apikey and not profile and (environment.apikey or environment.apisecret):
            saved = Login()
        elif saved.apikey:
            asked = given.base_url or (None if profile else environment.base_url) or saved.base_url
            if parse_base_url(asked, allow_http=True) != parse_base_url(saved.base_url, allow_http=True):
                raise ConfigurationError(
                    f"the saved credentials are for {saved.base_url} and are not sent elsewhere; "
                    f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
                )
            environment = replace(environment, base_url=None, apikey=None, apisecret=None)
    layers = _DEFAULTS, saved, environment, given  # the last has most say
    members = [pair for layer in layers for pair in asdict(layer).items()]
    return Login(**{name: value for name, value in members if value is not None})


def _environment() -> Login:
    found = Login()
    for name, (variable, _) in _VARIABLES.items():
        if text := strip_invisible(os.environ.get(variable, "")):
            setattr(found, name, parse_setting(name, text))
    return found


def parse_setting(name: str, text: str) -> Any:
    """Return the value of a member of a login; raises ConfigurationError for another text."""
    variable, kind = _VARIABLES[name]
    try:
        return msgspec.convert(text, kind, strict=False, dec_hook=_made)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{variable}: {error}") from None


def check_variables() -> None:
    """Raise ConfigurationError for an unknown variable of the environment that is like one of ours."""
    known = [*_OTHER_VARIABLES, *(variable for variable, _ in _VARIABLES.values())]
    for name in os.environ:
        meant = get_close_matches(name, known, 1, 0.8) if name.startswith("SLASHTAG_") else []
        if meant and name not in known:
            raise ConfigurationError(f"{name} in the environment is unknown: {meant[0]} is meant?")


def _folder() -> Path | None:
    """Return the folder of the files, None for a user without a home."""
    # Imported here: a session that is given its credentials needs no folder.
    import platformdirs

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
        if bool(saved.base_url) == bool(saved.apikey) == bool(saved.apisecret):
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
