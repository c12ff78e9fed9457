"""Options that several commands share, as groups, and commands that take them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import tzinfo
from functools import cached_property, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import typer

from .. import AsyncSession, InvalidRequestError, Metrics, ShortUrl
from .._internal import Progress, check_slashtag, parse_base_url
from .credentials_file import credentials
from .errors import SOME_FAILED, as_usage, log_lines, say
from .output import bars

T = TypeVar("T")

SERVICE = "The service"
SELECTION = "Which links (one of these)"
#: Seconds for which an answer of an earlier run may stand in, as the library has it.
MAX_AGE = 86_400.0
#: So many slashtags are looked up in the account by default, and so many unknown ones are named.
CHECKED, NAMED = 1_000, 10

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
        """Make a session with the credentials of the environment or those that were kept by a login."""
        base_url, apikey, apisecret = credentials(self.base_url)
        session = AsyncSession(
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
        object.__setattr__(self, "metrics", session.metrics)
        return session

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
        """Show progress and waits, unless it is to be quiet or lines of the log go to the same terminal."""
        return bars(shown=not self.quiet and not self.verbose, metrics=self.metrics, quiet=self.quiet)

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

    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help=f"Name slashtags that no link has; the default up to {CHECKED:,} slashtags.",
            rich_help_panel=SELECTION,
            show_default=False,
        ),
    ] = None

    #: What was left out, and why; the exit code is then 3.
    left_out: list[str] = field(default_factory=list[str], init=False)

    def __post_init__(self) -> None:
        if sum([self.keys is not None, self.keys_file is not None, bool(self.tag), self.every]) != 1:
            raise typer.BadParameter("exactly one of --keys, --keys-file, --tag and --all says which links")
        file = self.keys_file
        if file and str(file) != "-" and (not file.exists() or file.is_dir()):
            raise typer.BadParameter(f"--keys-file names no file: {file}")
        if not self.tag and not self.every:
            # Read and checked before anything is sent or written.
            self.slashtags  # noqa: B018

    async def of(
        self, session: AsyncSession, progress: Progress | None = None, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Return the selector, as an argument of `session.stats.collect`; a dry run checks no slashtags."""
        if self.every:
            return {"keys": self._links(session)}
        found = await self.streamed(session, progress, dry_run=dry_run)
        return {name: value for name, value in found.items() if value is not None}

    async def streamed(
        self, session: AsyncSession, progress: Progress | None = None, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Return the selector as an argument of an export, where no keys and no tags mean all links."""
        if self.tag:
            return {"keys": None, "tags": self.tag}
        if self.every:
            return {"keys": None, "tags": None}
        return {"keys": self.slashtags if dry_run else await self._checked(session, progress), "tags": None}

    async def _links(self, session: AsyncSession) -> AsyncIterator[ShortUrl]:
        """Yield the links of the account, leaving out those that statistics cannot name."""
        async with session.urls.list() as links:
            async for link in links:
                try:
                    check_slashtag(link)
                except InvalidRequestError as error:
                    self._leave_out(str(error))
                else:
                    yield link

    async def _checked(self, session: AsyncSession, progress: Progress | None) -> list[str]:
        """Return the slashtags that links have, also of short URLs; what no link has is left out."""
        keys = self.slashtags
        if not (len(keys) <= CHECKED or any(map(_is_address, keys)) if self.check is None else self.check):
            return keys
        found = await session.urls.find(keys, progress=progress)
        unknown = [key for key, link in found.items() if link is None]
        if unknown:
            named = ", ".join(map(repr, unknown[:NAMED]))
            more = f" and {len(unknown) - NAMED:,} more" if len(unknown) > NAMED else ""
            self._leave_out(f"no link has the slashtag {named}{more}; --no-check asks for it all the same")
        if len(unknown) == len(found):
            raise typer.Exit(SOME_FAILED)
        return [link.slashtag for link in found.values() if link is not None]

    def _leave_out(self, text: str) -> None:
        say(text, label="left out: ", style="bold red")
        self.left_out.append(text)

    @cached_property
    def slashtags(self) -> list[str]:
        """Slashtags and short URLs as given; raises InvalidRequestError for what statistics cannot name."""
        if self.keys is not None:
            where, lines = "--keys", self.keys.split(",")
        else:
            file = self.keys_file
            piped = file is None or str(file) == "-"
            where = "stdin" if piped else str(file)
            text = _text(where, sys.stdin.buffer.read() if piped or file is None else file.read_bytes())
            lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        found = [key for line in lines if (key := line.strip())]
        if self.keys is None and found and found[0].lower() == "slashtag":
            del found[0]
        if not found:
            # Statistics of no links are zeros, and an export would replace a file by its header.
            raise InvalidRequestError(f"{where} holds no slashtags; --all selects every link")
        for key in found:
            if not _is_address(key):
                check_slashtag(key)
            elif self.check is False:
                raise InvalidRequestError(f"{key!r} is a short URL; only --check finds its slashtag")
        return found


def _is_address(key: str) -> bool:
    return "://" in key


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
                run_async(function(**given))
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
    """Run on an event loop of its own, uvloop's where it is installed; Ctrl-C cancels."""
    try:
        import uvloop
    except ImportError:
        new_loop = None
    else:
        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)
