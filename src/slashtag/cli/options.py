"""Groups of options that several commands share, and the decorator for commands that take them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial, wraps
from importlib import import_module
from inspect import Parameter, signature
from signal import SIGTERM
from time import perf_counter
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer import Option

from .. import AsyncSession, Metrics
from .._internal import Progress, many, parse_base_url
from .credentials_file import Found, credentials
from .errors import SOME_FAILED, as_usage, log_lines, say
from .progress import Watch, bars

T = TypeVar("T")


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


@dataclass
class Connection:
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

    #: What is printed at Ctrl-C and SIGTERM.
    stopped: str = field(default="stopped", init=False)
    #: Whether something failed, was left out or contradicts itself; the exit code is then 3.
    left_out: bool = field(default=False, init=False)
    #: The metrics of all sessions made, and when the last one was made.
    made: list[Metrics] = field(default_factory=list[Metrics], init=False)
    began: float = field(default=0.0, init=False)
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.say, self.log_every)
        if self.base_url:
            with as_usage():
                parse_base_url(self.base_url, allow_http=self.allow_http)

    def credentials(self) -> Found:
        """Return the address, apikey and apisecret to use; raises ConfigurationError."""
        return credentials(self.base_url, self.profile)

    def session_options(self) -> dict[str, Any]:
        """Return the options of AsyncSession but for the credentials."""
        names = ("concurrency", "rate", "timeout", "range_end", "allow_http", "proxy", "trust_env")
        return {name: getattr(self, name) for name in names}

    def session(self, credentials: Found | None = None, **options: Any) -> AsyncSession:
        """Make a session, by default with the credentials of the environment or those saved by a login.

        `options` are those of AsyncSession.
        """
        base_url, apikey, apisecret = credentials or self.credentials()
        session = AsyncSession(
            base_url, apikey=apikey, apisecret=apisecret, **self.session_options(), **options
        )
        self.watch.source, self.began = lambda: session.metrics, perf_counter()
        self.made.append(session.metrics)
        return session

    def cost(self) -> str:
        """Return the requests and the time that the last session took, and the limit that it learnt."""
        metrics = self.made[-1]
        replayed = f"{metrics.replayed:,} replayed, " if metrics.replayed else ""
        limit = "" if metrics.learned_rate is None else f", {metrics.learned_rate:.0f} requests/s allowed"
        return (
            f"{replayed}{many(metrics.attempts, 'request')}, {many(metrics.throttled, 'time')} 429, "
            f"{perf_counter() - self.began:.1f} s{limit}"
        )

    def say(self, text: str) -> None:
        """Print one line on stderr, unless --quiet."""
        if not self.quiet:
            say(text)

    def leave_out(self, text: str) -> None:
        """Print what is left out, also with --quiet; the exit code is then 3."""
        say(text, label="left out: ", style="bold red")
        self.left_out = True

    def report_inconsistent(self, answers: int = 0) -> None:
        """Print how many inconsistent answers are in the figures, if any; the exit code is then 3."""
        answers += sum(metrics.inconsistent for metrics in self.made)
        if answers:
            self.left_out = True
            say(
                f"the figures may be wrong: {many(answers, 'answer')} of the service "
                "contradicted the total or the days requested",
                label="inconsistent: ",
                style="bold red",
            )

    def bars(self) -> AbstractContextManager[Callable[[str], Progress]]:
        """Show progress and waits, unless --quiet, or --verbose sends log lines to the same terminal."""
        shown = not self.quiet and not self.verbose and self.log_format == "text"
        return bars(self.watch, shown=shown)

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Print waits and what the library logs: warnings, more with --verbose, errors only with --quiet."""
        levels = (logging.WARNING, logging.INFO, logging.DEBUG)
        level = logging.ERROR if self.quiet else levels[min(self.verbose, 2)]
        with log_lines(level, as_json=self.log_format == "json"), self.watch.running():
            yield


def command(function: Callable[..., Coroutine[Any, Any, None] | None]) -> Callable[..., None]:
    """Turn a function, mostly async, into a command; a parameter that is a group of options becomes these."""
    takes = signature(function, eval_str=True)
    groups: dict[str, tuple[Any, list[Parameter]]] = {}
    parameters: list[Parameter] = []
    for parameter in takes.parameters.values():
        group: Any = parameter.annotation
        options = [parameter]
        if is_dataclass(group):
            options = [
                parameter.replace(
                    name=each.name, default=each.metadata.get("option", each.default), annotation=each.type
                )
                for each in fields(group)
                if each.init
            ]
            groups[parameter.name] = group, options
        parameters += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in options]

    @wraps(function)
    def run(**given: Any) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in options})
        connection = next((value for value in given.values() if isinstance(value, Connection)), None)
        with nullcontext() if connection is None else connection.running():
            try:
                work = function(**given)
                if work is not None:
                    run_async(work)
            except KeyboardInterrupt as stop:
                if connection is not None:
                    connection.say(connection.stopped)
                if stop.args:
                    # As shells have it after a signal.
                    raise typer.Exit(128 + stop.args[0]) from None
                raise
        if connection is not None:
            connection.report_inconsistent()
            if connection.left_out:
                raise typer.Exit(SOME_FAILED)

    # Typer prefers the annotations of the function, which has the groups.
    run.__annotations__ = {}
    vars(run)["__signature__"] = takes.replace(parameters=parameters, return_annotation=None)
    return run


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run on a new event loop, uvloop's if it is installed; Ctrl-C cancels, and so does SIGTERM.

    Raises KeyboardInterrupt after either, after SIGTERM with its number.
    """
    uvloop: Any = None
    with suppress(ImportError):
        uvloop = import_module("uvloop")
    is_terminated = False

    async def cancelled_by_sigterm() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal is_terminated
            is_terminated = True
            # A second signal ends the process at once.
            loop.remove_signal_handler(SIGTERM)
            task.cancel()

        # Not on Windows, and not in a thread.
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(SIGTERM, terminate)
        try:
            return await work
        finally:
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(SIGTERM)

    with asyncio.Runner(loop_factory=uvloop and uvloop.new_event_loop) as runner:
        try:
            return runner.run(cancelled_by_sigterm())
        except asyncio.CancelledError:
            if is_terminated:
                raise KeyboardInterrupt(SIGTERM) from None
            raise
