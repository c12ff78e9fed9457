"""Which service a command uses: its options, and credentials of the environment or of a saved login."""

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from typer import Option

from .. import ConfigurationError
from .._internal import VARIABLES, Login, Secret, find_saved, profiles, strip_invisible

_option = partial(Option, rich_help_panel="The service")
#: Options that `find_credentials` reads, and those of the command itself.
_NOT_OF_SESSION = {"base_url", "profile", "verbose", "quiet", "log_format", "summary"}


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
        # Read before --timezone, whose default may stand in its file.
        is_eager=True,
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
        return {name: value for name, value in asdict(self).items() if name not in _NOT_OF_SESSION}


def find_credentials(options: SessionOptions) -> Login:
    """Return the credentials to use, with the `base_url` of the options or the environment.

    Key and secret come from the same place: the file of a profile that is named, else the environment, else
    the file without a profile. Raises ConfigurationError.
    """
    base_url = options.base_url
    # An address of the environment gives way to that of a named profile.
    is_option = base_url != os.environ.get("SLASHTAG_BASE_URL")
    if (saved := find_saved(options.profile, base_url if is_option else None)) is not None:
        return saved
    apikey, apisecret = (Secret(strip_invisible(os.environ.get(name, ""))) for name in VARIABLES)
    given = Login(base_url=base_url or "", apikey=apikey, apisecret=apisecret)
    is_given = {
        "SLASHTAG_BASE_URL": bool(given.base_url),
        VARIABLES[0]: bool(given.apikey),
        VARIABLES[1]: bool(given.apisecret),
    }
    if missing := [name for name, value in is_given.items() if not value]:
        named = ""
        with suppress(ConfigurationError):  # there may be no folder for them
            named = ", ".join(filter(None, profiles()))
        chooses = f"--profile chooses saved ones ({named}), " if named else ""
        raise ConfigurationError(
            f"not set in the environment: {', '.join(missing)}; `slashtag login` saves them, "
            f"{chooses}`slashtag sandbox` prints some to try"
        )
    return given
