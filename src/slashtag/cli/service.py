"""Which service a command uses: its options, and credentials of the environment or saved by `slashtag login`.

Each profile has its own file.
"""

import os
import re
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import typer
from typer import Option

from .. import ConfigurationError
from .._internal import did_you_mean
from ..tables import AtomicFile

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
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
    quiet: bool = Option(False, "--quiet", "-q", help="Print nothing but errors.")

    def of_session(self) -> dict[str, Any]:
        """Return the options of AsyncSession but for the credentials."""
        names = ("concurrency", "rate", "timeout", "range_end", "allow_http", "proxy")
        return {name: getattr(self, name) for name in names}


class Login(msgspec.Struct):
    """Address and credentials of a session, as a file of `slashtag login` has them."""

    base_url: str
    apikey: str
    apisecret: str

    def __repr__(self) -> str:
        return f"Login({self.base_url!r}, ***)"


def find_credentials(options: SessionOptions) -> Login:
    """Return the credentials to use, with the `base_url` of the options or the environment.

    Key and secret come from the same place: the file of a profile that is named, else the environment, else
    the file without a profile. Those of a file are sent only to the service that they were saved for. Raises
    ConfigurationError.
    """
    base_url, profile = options.base_url, options.profile
    is_in_environment = any(map(os.environ.get, VARIABLES))
    if profile or (not is_in_environment and path().exists()):
        saved = read(profile)
        if saved is None:
            raise ConfigurationError(
                f"there is no profile {profile!r}{did_you_mean(profile or '', profiles())}; "
                "`slashtag login --list` shows those there are"
            )
        is_overridden = profile and base_url == os.environ.get("SLASHTAG_BASE_URL")
        if base_url and not is_overridden and _address(base_url) != _address(saved.base_url):
            raise ConfigurationError(
                f"the saved credentials are for {saved.base_url} and are not sent elsewhere; "
                f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
            )
        return saved
    given = {"SLASHTAG_BASE_URL": base_url or ""} | {name: os.environ.get(name, "") for name in VARIABLES}
    if missing := [name for name, value in given.items() if not value]:
        raise ConfigurationError(
            f"not set in the environment: {', '.join(missing)}; `slashtag login` saves them, "
            "--profile chooses saved ones, `slashtag sandbox` prints some to try"
        )
    return Login(*given.values())


def _address(base_url: str) -> str:
    """Return a base URL as it is compared: with or without /api/v1 it is the same."""
    return base_url.rstrip("/").removesuffix("/api/v1").rstrip("/")


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


def read(profile: str | None = None) -> Login | None:
    """Return what the file of a profile has, None if there is none; raises ConfigurationError and OSError."""
    file = path(profile)
    try:
        mode, data = file.stat().st_mode, file.read_bytes()
    except FileNotFoundError:
        return None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
    try:
        return msgspec.json.decode(data, type=Login)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigurationError(f"{file} is damaged; run `slashtag login` again") from None


def save(found: Login, profile: str | None = None) -> Path:
    """Save credentials in a file that only its owner may read; return its path."""
    file = path(profile)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with AtomicFile(file, mode=0o600) as opened:
        opened.write(msgspec.json.encode(found))
    return file
