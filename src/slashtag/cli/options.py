"""Groups of options that several commands share, and the decorator for commands that take them."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import tzinfo
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import typer

from .. import AsyncSession, Metrics
from .._internal import Progress, parse_base_url
from .credentials_file import credentials
from .errors import SOME_FAILED, as_usage, log_lines, say
from .progress import bars
from .selection import Selection

T = TypeVar("T")

SERVICE = "The service"
#: Seconds for which a journaled answer may be replayed; the default of the library.
MAX_AGE = 86_400.0

RangeEnd = Annotated[
    Literal["inclusive", "exclusive"],
    typer.Option(help="Whether the service counts the last second of a range.", rich_help_panel=SERVICE),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Show what would be requested; send only what is needed to know the links."
    ),
]


@dataclass(frozen=True)
class Connection:
    """Options of which service is used, and how fast."""

    base_url: Annotated[
        str | None,
        typer.Option(
            envvar="SLASHTAG_BASE_URL", metavar="URL", help="Address of the service.", rich_help_panel=SERVICE
        ),
    ] = None
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most requests in flight.", rich_help_panel=SERVICE)
    ] = 32
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="N",
            help="Requests/s that the service allows; learnt if not given.",
            rich_help_panel=SERVICE,
        ),
    ] = None
    timeout: Annotated[
        float,
        typer.Option(
            min=0.001, metavar="SECONDS", help="Seconds that one attempt may take.", rich_help_panel=SERVICE
        ),
    ] = 30.0
    allow_http: Annotated[
        bool,
        typer.Option(
            "--allow-http",
            help="Send credentials unencrypted, also off this machine.",
            rich_help_panel=SERVICE,
        ),
    ] = False

    proxy: Annotated[
        str | None,
        typer.Option(
            envvar="SLASHTAG_PROXY",
            metavar="URL",
            help="Send requests through this HTTP proxy.",
            show_default=False,
            rich_help_panel=SERVICE,
        ),
    ] = None
    trust_env: Annotated[
        bool,
        typer.Option(
            "--trust-env", help="Use the proxy of HTTPS_PROXY or HTTP_PROXY.", rich_help_panel=SERVICE
        ),
    ] = False
    profile: Annotated[
        str | None,
        typer.Option(
            envvar="SLASHTAG_PROFILE",
            metavar="NAME",
            help="Use what `slashtag login --profile NAME` saved, whatever the environment has.",
            show_default=False,
            rich_help_panel=SERVICE,
        ),
    ] = None

    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            metavar="",
            help="Log retries and throttling; -vv: every request.",
        ),
    ] = 0
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False

    log_every: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Without a terminal, print progress so often; 0: never."),
    ] = 30.0
    log_format: Annotated[Literal["text", "json"], typer.Option(help="Form of the lines on stderr.")] = "text"

    #: Whether a line about Ctrl-C was printed.
    stopped: bool = field(default=False, init=False)
    #: The metrics of the session made last.
    metrics: Metrics | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.base_url:
            with as_usage():
                parse_base_url(self.base_url, allow_http=self.allow_http)

    def session(
        self,
        *,
        range_end: RangeEnd = "inclusive",
        journal: Path | None = None,
        max_age: float = MAX_AGE,
    ) -> AsyncSession:
        """Make a session with the credentials of the environment or those saved by a login."""
        base_url, apikey, apisecret = credentials(self.base_url, self.profile)
        session = AsyncSession(
            base_url,
            apikey=apikey,
            apisecret=apisecret,
            concurrency=self.concurrency,
            rate=self.rate,
            timeout=self.timeout,
            allow_http=self.allow_http,
            proxy=self.proxy,
            trust_env=self.trust_env,
            range_end=range_end,
            journal=journal,
            journal_max_age=max_age,
        )
        object.__setattr__(self, "metrics", session.metrics)
        return session

    def say(self, text: str) -> None:
        """Print one line on stderr, unless --quiet."""
        if not self.quiet:
            say(text)

    def stop(self, text: str) -> None:
        """Print a line about Ctrl-C; only the first call counts, as the innermost knows what to do next."""
        if not self.stopped:
            object.__setattr__(self, "stopped", True)
            self.say(text)

    def bars(self) -> AbstractContextManager[Callable[[str], Progress]]:
        """Show progress and waits, unless --quiet, or --verbose sends log lines to the same terminal."""
        return bars(
            shown=not self.quiet and not self.verbose and self.log_format == "text",
            metrics=self.metrics,
            quiet=self.quiet,
            every=self.log_every,
        )

    def log(self) -> AbstractContextManager[None]:
        """Print what the library logs: warnings, more with --verbose, errors only with --quiet."""
        return log_lines(-1 if self.quiet else self.verbose, as_json=self.log_format == "json")


def parse_timezone(text: str) -> str | tzinfo:
    """Return "+HH:MM" as it is, since the library checks it, or the zone of a name."""
    if text.startswith(("+", "-")):
        return text
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise typer.BadParameter(
            f"no time zone {text!r}: give +HH:MM or a name such as Europe/Berlin"
        ) from None


Timezone = Annotated[
    Any,
    typer.Option(
        parser=parse_timezone, metavar="ZONE", help="+HH:MM, or a name such as Europe/Berlin; default +00:00."
    ),
]


def command(function: Callable[..., Coroutine[Any, Any, None] | None]) -> Callable[..., None]:
    """Turn a function, mostly async, into a command; a parameter that is a group of options becomes these."""
    takes = signature(function, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in takes.parameters.values():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = parameter.annotation
        parameters += [
            Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
            for option in _options(parameter.annotation)
        ]

    @wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in _options(group)})
        with ExitStack() as stack:
            for value in given.values():
                if isinstance(value, Connection):
                    stack.enter_context(value.log())
            try:
                work = function(**given)
                if work is not None:
                    run_async(work)
            except KeyboardInterrupt:
                for value in given.values():
                    if isinstance(value, Connection):
                        value.stop("stopped")
                raise

        if any(isinstance(value, Selection) and value.left_out for value in given.values()):
            raise typer.Exit(SOME_FAILED)

    vars(run)["__signature__"] = takes.replace(parameters=parameters, return_annotation=None)
    return run


def _options(group: Any) -> list[Field[Any]]:
    return [each for each in fields(group) if each.init]


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run on a new event loop, uvloop's if it is installed; Ctrl-C cancels."""
    try:
        import uvloop
    except ImportError:
        new_loop = None
    else:
        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)
