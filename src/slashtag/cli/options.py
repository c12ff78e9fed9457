"""Options that several commands share."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

from typer import Option

from .._internal import parse_base_url
from .credentials_file import Found, credentials
from .errors import as_usage


def option(default: Any, *names: str, **settings: Any) -> Any:
    """Return a field of a group of options, see `command`; names and settings are those of `typer.Option`."""
    return field(default=default, metadata={"option": Option(default, *names, **settings)})


_option = partial(option, rich_help_panel="The service")

DryRun = Annotated[
    bool,
    Option("--dry-run", help="Show what would be requested; send only what is needed to know the links."),
]
Timezone = Annotated[
    str | None, Option(metavar="ZONE", help="+HH:MM, or a name such as Europe/Berlin; default +00:00.")
]


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
    trust_env: bool = _option(False, "--trust-env", help="Use the proxy of HTTPS_PROXY or HTTP_PROXY.")
    profile: str | None = _option(
        None,
        envvar="SLASHTAG_PROFILE",
        metavar="NAME",
        help="The account that `slashtag login --profile NAME` saved, whatever the environment has.",
    )
    verbose: int = option(
        0,
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        metavar="",
        help="Log retries and throttling; -vv: every request.",
    )
    quiet: bool = option(False, "--quiet", "-q", help="Print nothing but errors.")
    log_every: float = option(
        30.0, min=0, metavar="SECONDS", help="Without a terminal, print progress so often; 0: never."
    )
    log_format: Literal["text", "json"] = option("text", help="Form of the lines on stderr.")

    def __post_init__(self) -> None:
        if self.base_url:
            with as_usage():
                parse_base_url(self.base_url, allow_http=self.allow_http)

    def credentials(self) -> Found:
        """Return the address, apikey and apisecret to use; raises ConfigurationError."""
        return credentials(self.base_url, self.profile)

    def of_session(self) -> dict[str, Any]:
        """Return the options of AsyncSession but for the credentials."""
        names = ("concurrency", "rate", "timeout", "range_end", "allow_http", "proxy", "trust_env")
        return {name: getattr(self, name) for name in names}
