"""Options that several commands share, as groups, and commands that take them."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields, is_dataclass
from datetime import tzinfo
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar
from zoneinfo import ZoneInfo

import typer

from .. import AsyncSession, InvalidRequestError
from .._credentials import parse_base_url
from .._resources.listing import Progress
from .credentials_file import credentials
from .errors import as_usage, log_lines, say
from .output import bars

T = TypeVar("T")

SERVICE = "The service"
SELECTION = "Which links (one of these)"
#: Seconds for which an answer of an earlier run may stand in, as the library has it.
MAX_AGE = 86_400.0

Start = Annotated[str, typer.Argument(metavar="START", help="First day, YYYY-MM-DD.")]
End = Annotated[str, typer.Argument(metavar="END", help="Last day, included.")]
RangeEnd = Annotated[
    Literal["inclusive", "exclusive"],
    typer.Option(help="Whether the service counts the last second of a range.", rich_help_panel=SERVICE),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Tell what would be asked; send only what it takes to know the links."),
]


@dataclass(frozen=True)
class Connection:
    """Say which service is asked, and how hard."""

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

    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            metavar="",
            help="Tell retries and throttling; -vv: every request.",
        ),
    ] = 0
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False

    #: Whether it was said that Ctrl-C ended it.
    stopped: ClassVar[bool] = False

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
        """Make a session with the credentials of the environment or those that were kept by a login."""
        base_url, apikey, apisecret = credentials(self.base_url)
        return AsyncSession(
            base_url,
            apikey=apikey,
            apisecret=apisecret,
            concurrency=self.concurrency,
            rate=self.rate,
            timeout=self.timeout,
            allow_http=self.allow_http,
            range_end=range_end,
            journal=journal,
            journal_max_age=max_age,
        )

    def say(self, text: str) -> None:
        """Print one line on stderr unless it is to be quiet."""
        if not self.quiet:
            say(text)

    def stop(self, text: str) -> None:
        """Say that Ctrl-C ended it; only the first who knows what that means has a say."""
        if not self.stopped:
            object.__setattr__(self, "stopped", True)
            self.say(text)

    def bars(self) -> AbstractContextManager[Callable[[str], Progress]]:
        """Show progress, unless it is to be quiet or lines of the log go to the same terminal."""
        return bars(shown=not self.quiet and not self.verbose)

    def log(self) -> AbstractContextManager[None]:
        """Print what the library logs: its warnings, and more or less as was asked for."""
        return log_lines(-1 if self.quiet else self.verbose)


@dataclass(frozen=True)
class Selection:
    """Say which links statistics are asked for."""

    keys: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="These slashtags.", rich_help_panel=SELECTION)
    ] = None
    keys_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Slashtags from a file, one a line; - reads stdin.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="The links of this tag; may be repeated.", rich_help_panel=SELECTION
        ),
    ] = None
    every: Annotated[
        bool, typer.Option("--all", help="Every link of the account.", rich_help_panel=SELECTION)
    ] = False

    def __post_init__(self) -> None:
        if sum([self.keys is not None, self.keys_file is not None, bool(self.tag), self.every]) != 1:
            raise typer.BadParameter("exactly one of --keys, --keys-file, --tag and --all says which links")
        file = self.keys_file
        if file and str(file) != "-" and (not file.exists() or file.is_dir()):
            raise typer.BadParameter(f"--keys-file names no file: {file}")

    async def of(self, session: AsyncSession) -> dict[str, Any]:
        """Return the selector, as an argument of `session.stats.collect`."""
        if self.tag:
            return {"tags": self.tag}
        if self.every:
            return {"keys": [url.slashtag async for url in session.urls.list()]}
        return {"keys": self._slashtags()}

    def streamed(self) -> dict[str, Any]:
        """Return the selector as an argument of an export, to which none means all."""
        if self.tag:
            return {"keys": None, "tags": self.tag}
        return {"keys": None if self.every else self._slashtags(), "tags": None}

    def _slashtags(self) -> list[str]:
        if self.keys is not None:
            where, found = "--keys", [key for key in self.keys.split(",") if key]
        else:
            file = self.keys_file
            piped = file is None or str(file) == "-"
            where = "stdin" if piped else str(file)
            text = _text(where, sys.stdin.buffer.read() if piped or file is None else file.read_bytes())
            found = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
        if not found:
            # Of nothing the statistics are zeros, and an export would replace a file by its header.
            raise InvalidRequestError(f"{where} holds no slashtags; --all selects every link")
        return found


def _text(where: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidRequestError(f"{where}, line {line}: not UTF-8 text") from None


def parse_timezone(text: str) -> str | tzinfo:
    """Read "+HH:MM", which the library checks, or the name of a zone."""
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


def command(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make an async function a command; a parameter that is a group of options becomes these options."""
    takes = signature(function, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in takes.parameters.values():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = parameter.annotation
        parameters += [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for field in fields(parameter.annotation)
        ]

    @wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        with ExitStack() as stack:
            for value in given.values():
                if isinstance(value, Connection):
                    stack.enter_context(value.log())
            try:
                run_async(function(**given))
            except KeyboardInterrupt:
                for value in given.values():
                    if isinstance(value, Connection):
                        value.stop("stopped")
                raise

    vars(run)["__signature__"] = takes.replace(parameters=parameters, return_annotation=None)
    return run


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run on an event loop of its own, uvloop's where it is installed; Ctrl-C cancels."""
    try:
        import uvloop
    except ImportError:
        new_loop = None
    else:
        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)
