"""Which service a command uses: its options, and credentials of the environment or saved by `slashtag login`.

Each profile has its own file.
"""

import os
import re
import stat
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import typer
from typer import Option

from .. import ConfigurationError
from .._internal import did_you_mean, parse_base_url, strip_invisible
from ..tables import AtomicFile

if sys.platform != "win32":
    import pwd

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
#: Version of the format of a login's file. Files of version 1 may lack it.
VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_option = partial(Option, rich_help_panel="The service")


@dataclass(frozen=True)
class SessionOptions:
    """Options of which service is used, how fast, and what is printed on stderr."""

    base_url: str | None = _option(
        None, envvar="SLASHTAG_BASE_URL", metavar="URL", help="Address of the service."
    )
    concurrency: int = _option(32, min=1, metavar="N", help="Most requests in flight.")
    rate: float | None = _option(
        None, min=0.001, metavar="N", help="Requests/s that the service allows; learnt if not given."
    )
    timeout: float = _option(30.0, min=0.001, metavar="SECONDS", help="Seconds that one attempt may take.")
    range_end: Literal["inclusive", "exclusive"] = _option(
        "inclusive",
        metavar="RULE",
        help="Whether the service counts the last second of a range: inclusive or exclusive.",
    )
    allow_http: bool = _option(
        False, "--allow-http", help="Send credentials unencrypted, also off this machine."
    )
    proxy: str | None = _option(
        None, envvar="SLASHTAG_PROXY", metavar="URL", help="Send requests through this HTTP proxy."
    )
    profile: str | None = _option(
        None,
        envvar="SLASHTAG_PROFILE",
        metavar="NAME",
        help="The account that `slashtag login --profile NAME` saved, whatever the environment has.",
    )
    verbose: int = Option(
        0,
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        metavar="",
        help="Log retries and throttling; -vv: every request.",
    )
    quiet: bool = Option(False, "--quiet", "-q", help="Print only errors and what was left out.")
    log_format: Literal["text", "json"] = Option(
        "text",
        envvar="SLASHTAG_LOG_FORMAT",
        help="What stderr gets: lines of text, or JSON objects, the last of which is the summary.",
    )
    summary: Path | None = Option(
        None, metavar="FILE", help="Write the figures of the run to a file, as one JSON object."
    )

    def of_session(self) -> dict[str, Any]:
        """Return the options of AsyncSession but for the credentials."""
        names = ("concurrency", "rate", "timeout", "range_end", "allow_http", "proxy")
        return {name: getattr(self, name) for name in names}


@dataclass
class Login:
    """Address and credentials of a session, as a file of `slashtag login` has them."""

    base_url: str
    apikey: str
    apisecret: str

    def __repr__(self) -> str:
        return f"Login({self.base_url!r}, ***)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("credentials are not pickled")


def find_credentials(options: SessionOptions) -> Login:
    """Return the credentials to use, with the `base_url` of the options or the environment.

    Key and secret come from the same place: the file of a profile that is named, else the environment, else
    the file without a profile. Those of a file are sent only to the service that they were saved for. Raises
    ConfigurationError.
    """
    base_url, profile = options.base_url, options.profile
    given = Login(base_url or "", *(strip_invisible(os.environ.get(name, "")) for name in VARIABLES))
    is_in_environment = given.apikey or given.apisecret
    if profile or (not is_in_environment and _is_saved()):
        saved = read(profile)
        if saved is None:
            raise ConfigurationError(
                f"there is no profile {profile!r}{did_you_mean(profile or '', profiles())}; "
                "`slashtag login --list` shows those there are"
            )
        is_overridden = profile and base_url == os.environ.get("SLASHTAG_BASE_URL")
        if base_url and not is_overridden and not _is_same_service(base_url, saved.base_url):
            raise ConfigurationError(
                f"the saved credentials are for {saved.base_url} and are not sent elsewhere; "
                f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
            )
        return saved
    is_given = {
        "SLASHTAG_BASE_URL": bool(given.base_url),
        VARIABLES[0]: bool(given.apikey),
        VARIABLES[1]: bool(given.apisecret),
    }
    if missing := [name for name, value in is_given.items() if not value]:
        raise ConfigurationError(
            f"not set in the environment: {', '.join(missing)}; `slashtag login` saves them, "
            "--profile chooses saved ones, `slashtag sandbox` prints some to try"
        )
    return given


def _is_same_service(one: str, other: str) -> bool:
    return parse_base_url(one, allow_http=True) == parse_base_url(other, allow_http=True)


def _folder() -> Path | None:
    """Return the folder of the files, None if there is none for this user.

    On Linux it is in XDG_CONFIG_HOME, or in .config of the home directory if that is not set, empty or
    relative (XDG Base Directory Specification). A home directory that does not exist is not made.
    """
    if sys.platform in ("win32", "darwin"):
        folder = Path(typer.get_app_dir("slashtag"))
        return folder if folder.is_absolute() else None
    if os.path.isabs(config := os.environ.get("XDG_CONFIG_HOME", "")):
        return Path(config, "slashtag")
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(home, ".config", "slashtag") if os.path.isabs(home) and os.path.isdir(home) else None


def path(profile: str | None = None) -> Path:
    """Return the path of the file of a profile.

    Raises ConfigurationError for a name that is none, and where the user has no folder for it.
    """
    if profile and not _NAME.fullmatch(profile):
        raise ConfigurationError("a profile is named by up to 40 letters, digits, - and _")
    name = f"credentials-{profile}.json" if profile else "credentials.json"
    folder = _folder()
    if folder is None:
        raise ConfigurationError(
            "there is no folder for saved credentials: set HOME to a directory that exists, or "
            f"XDG_CONFIG_HOME to an absolute path; or use {' and '.join(VARIABLES)}"
        )
    return folder / name


def _is_saved() -> bool:
    """Return whether there are credentials without a profile."""
    return _folder() is not None and path().exists()


def profiles() -> list[str]:
    """Return the names of the saved profiles; that of the one without a name is empty."""
    named = [file.stem.partition("-")[2] for file in path().parent.glob("credentials-*.json")]
    return [""] * path().exists() + sorted(filter(_NAME.fullmatch, named))


def read(profile: str | None = None) -> Login | None:
    """Return what the file of a profile has, None if there is none; raises ConfigurationError and OSError."""
    file = path(profile)
    try:
        mode = file.stat().st_mode
        found = _decode(file.read_bytes())
    except FileNotFoundError:
        return None
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


def save(found: Login, profile: str | None = None) -> Path:
    """Save credentials in a file that only its owner may read; return its path."""
    file = path(profile)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with AtomicFile(file, mode=0o600) as opened:
        opened.write(msgspec.json.encode({"version": VERSION, **asdict(found)}))
    return file
