"""One run of a command: its session, what it reports on stderr, and its exit code."""

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, partial, wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from io import BufferedReader
from os.path import realpath
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import typer
from typer import Option

from .. import (
    AsyncSession,
    Failure,
    InvalidRequestError,
    Progress,
    RequestFailedError,
    RequestTimeoutError,
    Statistics,
    TransportError,
)
from .._files import check_local_path
from .._saved_logins import check_variables
from .._wording import many
from ..tables import About
from .errors import report
from .stderr import Lines, StartBar, Status, bars

#: The exit code if some keys or rows failed or were left out and the rest was done.
SOME_FAILED = 3
_option = partial(Option, rich_help_panel="The service")


@dataclass
class Run:
    """What a command sends with, what it reports, and whether something is left out."""

    profile: str | None = _option(
        None,
        # Read before --timezone, whose default may stand in its file.
        is_eager=True,
        envvar="SLASHTAG_PROFILE",
        show_envvar=False,
        metavar="NAME",
        help="The account that `slashtag login` saved by this name.",
    )
    rate: float | None = _option(
        None, min=0.001, metavar="N", help="Requests/s that the service allows; else learnt."
    )
    verbose: int = _option(
        0,
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        metavar="",
        help="Log retries and throttling; -vv: every request.",
    )
    quiet: bool = _option(False, "--quiet", "-q", help="Print only errors and what was left out.")

    def __post_init__(self) -> None:
        self.lines = Lines(self.profile)
        self._began = perf_counter()
        #: Whether something failed, was left out or contradicts itself: the exit code is then 3.
        self.is_incomplete = False
        #: How often something failed that the same command may get, and without which the rest went on.
        self.failures = 0
        #: What the same command goes on from: a file, if it is there at an early end, or a warehouse.
        self.resumes_from: Path | str | None = None
        #: What ends the command, if anything does.
        self._signal = int(signal.SIGINT)
        self._status = Status()
        # With --verbose log lines go to the same terminal.
        is_shown = not (self.quiet or self.verbose or self.lines.as_json)
        self._bars = bars(self.lines.console, self._status, is_shown=is_shown)

    def session(self, **options: Any) -> AsyncSession:
        """Make a session, by default with the credentials of the environment or those saved by a login.

        `options` are those of AsyncSession.
        """
        session = AsyncSession(**dict[str, Any](profile=self.profile, rate=self.rate) | options)
        self._status.metrics = session.metrics
        return session

    # -- what it reports

    def cost(self) -> str:
        """Return the requests and the time that the command took, and the pace that it had."""
        seconds = f"{perf_counter() - self._began:.1f} s"
        if (metrics := self._status.metrics) is None:
            return seconds
        parts = [
            f"{metrics.replayed:,} replayed" * bool(metrics.replayed),
            many(metrics.attempts, "request"),
            f"{many(metrics.throttled, 'time')} 429",
            seconds,
            f"paced at {metrics.learned_rate:.0f} requests/s" if metrics.learned_rate else "",
        ]
        return ", ".join(filter(None, parts))

    def about(self, session: AsyncSession, **told: str) -> About:
        """Return what a file that is complete now says of itself; `told` are further fields of About."""
        name = f", profile {self.profile}" if self.profile else ""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        is_complete = not (self.is_incomplete or session.metrics.inconsistent)
        return About(account=f"{session.base_url}{name}", collected=now, complete=is_complete, **told)

    @contextmanager
    def bars(self) -> Generator[StartBar, None, None]:
        """Show progress in a `with` block, whose value is called for a bar in place of the last one."""

        @cache
        def start(name: str, unit: str) -> Progress:
            for earlier in self._bars.tasks:
                self._bars.update(earlier.id, visible=False)
            task = self._bars.add_task(name, total=None, unit=unit)
            return lambda done, total: self._bars.update(task, completed=done, total=total)

        with self._bars:
            yield start

    def end_bars(self) -> None:
        """Remove the progress that is shown, for good, before rows are."""
        if self._bars.live.is_started:
            self._bars.stop()

    def say(self, text: str) -> None:
        """Print one line on stderr, unless --quiet."""
        if not self.quiet:
            self.lines.print(text)

    def warn(self, text: str, label: str) -> None:
        """Print one line on stderr, also with --quiet; the exit code is then 3."""
        self.lines.print(text, label=label, style="bold red")
        self.is_incomplete = True

    def note_failure(self, failure: Failure) -> None:
        """Print a failure without which the rest goes on, also with --quiet; the exit code is then 3.

        Raises its error if the service was not reached.
        """
        error = failure.error
        if isinstance(error, TransportError) and not isinstance(error, RequestTimeoutError):
            raise error
        # What cannot be requested has no plan, and fails again.
        self.failures += failure.plan is not None
        self.warn(f"{failure.label}: {error}", "failed: ")

    def note_statistics(self, stats: Statistics, by: Collection[str] = ()) -> None:
        """Print what is not whole of statistics, of all dimensions or those that are shown."""
        if not stats.complete:
            self.warn("some figures are missing, or do not add up to the totals", "incomplete: ")
        for member in stats.incomplete_dimensions:
            name = stats.DIMENSIONS[member]
            if not by or name in by:
                self.warn(f"some labels of {name}; the total is exact", "left out by the service: ")

    # -- how it ends

    @contextmanager
    def running(self, name: str) -> Generator[None, None, None]:
        """Print what the library logs, and report how the command of this name ends.

        Raises typer.Exit with the exit code of an error, a signal, or of what was left out.
        """
        log, levels = logging.getLogger("slashtag"), (logging.WARNING, logging.INFO, logging.DEBUG)
        log.setLevel(logging.ERROR if self.quiet else levels[min(self.verbose, 2)])
        log.addHandler(self.lines)
        before = signal.getsignal(signal.SIGTERM)
        # Of what a shell starts in the background SIGINT is ignored: SIGTERM ends that at once.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGTERM, self._terminate)
        code, text = 1, ""
        try:
            check_variables()
            yield
            self._conclude()
            code = SOME_FAILED if self.is_incomplete else 0
        except KeyboardInterrupt:
            code = 128 + self._signal
            if self._status.metrics is not None:
                self.say("; ".join(["stopped", *self._kept()]))
        except typer.Exit as end:
            code = end.exit_code
        except Exception as error:
            # What may pass: errors of requests, and of the system, also behind one of a file. A wrong key, or
            # rows that a file cannot hold, fail again.
            reasons = (error, error.__cause__, error.__context__)
            is_passing = any(isinstance(each, RequestFailedError | OSError) for each in reasons)
            if is_passing and not getattr(error, "is_fatal", False):
                error.__notes__ = [*getattr(error, "__notes__", ()), *self._kept()]
            text, code = report(error, self.lines)
        finally:
            log.removeHandler(self.lines)
            log.setLevel(logging.NOTSET)
            signal.signal(signal.SIGTERM, before)
        if self.lines.as_json:
            told = self._status.metrics.to_dict() if self._status.metrics else {}
            told |= {"command": name, "seconds": round(perf_counter() - self._began, 3)}
            told |= {"exit_code": code, "complete": code == 0, "error": text or None}
            self.lines.print("summary", **told)
        if code:
            raise typer.Exit(code)

    def _kept(self) -> list[str]:
        """Return where a command that ended early goes on from, if anywhere."""
        place = self.resumes_from
        if place is None or (isinstance(place, Path) and not place.exists()):
            return []
        return [f"run the same command again to go on: {place} has what was done so far"]

    def _conclude(self) -> None:
        """Print what was wrong in a run that came to its end."""
        metrics = self._status.metrics
        if metrics is not None and metrics.inconsistent:
            answers = f"{many(metrics.inconsistent, 'answer')} of the service"
            text = f"the figures may be wrong: {answers} contradicted the total or the days requested"
            self.warn(text, "inconsistent: ")
        if self.failures:
            text = f"left out: {self.failures:,} that failed"
            self.say(f"{text}, as told above; the same command again requests what can be requested")

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        """Do at SIGTERM what Ctrl-C does."""
        self._signal = number
        signal.raise_signal(signal.SIGINT)


def command(function: Callable[..., Coroutine[Any, Any, None] | None]) -> Callable[..., None]:
    """Turn a function, mostly async, into a command.

    Where it takes a dataclass, such as Run, the command has the fields of that as options, and the function
    gets the dataclass with what was given for them.
    """
    takes = signature(function, eval_str=True)
    groups: dict[str, Any] = {}
    # Typer passes what it knows of the call to a parameter of this type.
    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, parameter in takes.parameters.items():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        groups[name] = parameter.annotation
        parameters += [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in fields(parameter.annotation)
        ]

    @wraps(function)
    def execute(context: typer.Context, **given: Any) -> None:
        paths = [
            realpath(value if isinstance(value, Path) else value.name)
            for value in given.values()
            if isinstance(value, Path | BufferedReader)
        ]
        # That of OutputOptions.
        if (output := given.get("file")) is not None and paths.count(realpath(output)) > 1:
            raise InvalidRequestError(f"{output} is read by this command: give -o another file")
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        for value in given.values():
            if isinstance(value, Path):
                check_local_path(value)
        run = next((each for each in given.values() if isinstance(each, Run)), None)
        with (run or Run(None, None, 0, quiet=False)).running(context.command_path):
            if (work := function(**given)) is not None:
                new_loop = import_module("uvloop").new_event_loop if find_spec("uvloop") else None
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    runner.run(work)

    # Typer prefers the annotations of the function, which has the groups.
    execute.__annotations__ = {}
    vars(execute)["__signature__"] = takes.replace(parameters=parameters, return_annotation=None)
    return execute
