"""One run of a command: its session, what it reports on stderr, and its exit code."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import typer

from .. import (
    AsyncSession,
    ConfigurationError,
    Failure,
    Metrics,
    RequestFailedError,
    RequestTimeoutError,
    SlashtagError,
    Statistics,
    TransportError,
    __version__,
)
from .._files import check_local_path
from .._saved_logins import Login, check_variables, settings
from .._wording import many
from ..counts import ROLLED, TIMED
from ..tables import About
from .errors import report
from .service import SessionOptions, find_credentials
from .stderr import Lines, StartBar, Watch

#: The exit code if some keys or rows failed or were left out and the rest was done.
SOME_FAILED = 3
#: So many requests may fail while the rest goes on: if more do, no single link is at fault.
MOST_FAILURES = 100
#: Counters of a session that the last line of JSON has.
COUNTERS = ("requests", "attempts", "replayed", "retries", "throttled", "bytes_received", "inconsistent")
GO_ON = "run the same command again to go on"
#: Signals at which a command ends as at Ctrl-C; Windows has one of them.
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Run:
    """What a command sends with, what it reports, and whether something is left out.

    `options` are those that it was given; `name` is the command's, such as `slashtag tags list`.
    """

    def __init__(self, options: SessionOptions, name: str) -> None:
        self.options = options
        self.name = name
        form = None
        with suppress(ConfigurationError):  # which the session raises
            form = settings(options.profile).get("log_format")
        self.lines = Lines(as_json=form == "json")
        #: What the last line of JSON says of this command, beside what it says of all.
        self.figures: dict[str, Any] = {}
        self._started = datetime.now(UTC)
        self._began = perf_counter()
        self._is_incomplete = False
        self._resumes_from: Path | None = None
        #: Requests that failed for good, without which the rest went on.
        self.failures = 0
        #: What ends the command, if anything does.
        self._signal = int(signal.SIGINT)
        # With --verbose log lines go to the same terminal.
        is_shown = not (options.quiet or options.verbose or self.lines.as_json)
        self._watch = Watch(self.lines.console, partial(self.say, dated=True), is_shown=is_shown)

    # -- the session

    def session(self, credentials: Login | None = None, **options: Any) -> AsyncSession:
        """Make a session, by default with the credentials of the environment or those saved by a login.

        `options` are those of AsyncSession.
        """
        # Not in a variable, which a traceback may show.
        session = AsyncSession(
            **(credentials or find_credentials(self.options)).arguments,
            **self.options.of_session(credentials),
            **options,
        )
        self.follow(lambda: session.metrics)
        return session

    def follow(self, source: Callable[[], Metrics | None]) -> None:
        """Report and show the progress of what `source` counts; it returns None while there is no session."""
        self._watch.source = source

    def _counted(self, counter: str) -> Any:
        return getattr(self._watch.source(), counter, 0)

    def cost(self) -> str:
        """Return the requests and the time that the command took, and the pace that it had."""
        replayed, retries = self._counted("replayed"), self._counted("retries")
        rate = self._counted("learned_rate")
        parts = [
            f"{replayed:,} replayed" * bool(replayed),
            many(self._counted("attempts"), "request"),
            many(retries, "retry", "retries") * bool(retries),
            f"{many(self._counted('throttled'), 'time')} 429",
            f"{perf_counter() - self._began:.1f} s",
            f"paced at {rate:.0f} requests/s" if rate else "",
        ]
        return ", ".join(filter(None, parts))

    # -- what it reports

    def about(self, session: AsyncSession, **told: str) -> About:
        """Return what a file that is complete now says of itself; `told` are further fields of About."""
        name = f", profile {self.options.profile}" if self.options.profile else ""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return About(
            account=f"{session.base_url}{name}", collected=now, complete=not self._is_incomplete, **told
        )

    def bars(self) -> AbstractContextManager[StartBar]:
        """Show progress and waits in a `with` block, whose value is called to start a bar."""
        return self._watch.bars()

    def end_bars(self) -> None:
        """Remove the progress that is shown, before rows are."""
        self._watch.end_bars()

    def say(self, text: str, *, dated: bool = False, **fields: Any) -> None:
        """Print one line on stderr, unless --quiet; `fields` are for lines in JSON."""
        if not self.options.quiet:
            self.lines.print(text, dated=dated, **fields)

    def warn(self, text: str, label: str) -> None:
        """Print one line on stderr, also with --quiet; the exit code is then 3."""
        self.lines.print(text, label=label, style="bold red")
        self.mark_incomplete()

    def mark_incomplete(self) -> None:
        """Note that something failed, was left out or contradicts itself: the exit code is then 3."""
        self._is_incomplete = True

    def note_failure(self, failure: Failure) -> None:
        """Print a failure without which the rest goes on, also with --quiet; the exit code is then 3.

        Raises its error if the service was not reached, and SlashtagError if more than MOST_FAILURES fail.
        """
        error = failure.error
        if isinstance(error, TransportError) and not isinstance(error, RequestTimeoutError):
            raise error
        self.failures += 1
        if self.failures > MOST_FAILURES:
            raise SlashtagError(f"more than {MOST_FAILURES} requests failed, the last: {error}") from error
        self.warn(f"{failure.label}: {error}", "failed: ")

    def note_statistics(self, stats: Statistics, by: Iterable[str] = ()) -> None:
        """Print what is not whole of statistics, of all dimensions or those that are shown.

        The exit code is then 3, but not for dimensions that no answer bears.
        """
        shown = {*by}
        shows_days = not shown or not shown.isdisjoint((*TIMED, *ROLLED))
        if not stats.reconciles or stats.missing or (shows_days and not stats.complete):
            self.warn("some figures are missing, or do not add up to the totals", "incomplete: ")
        cut = {stats.DIMENSIONS[name]: getattr(stats, name) for name in stats.incomplete_dimensions}
        absent = [name for name, counts in cut.items() if not counts and not shown]
        if absent:
            self.say(f"the service gives no labels of {', '.join(absent)}; the total is exact")
        if lacking := [name for name in cut if name not in absent and (not shown or name in shown)]:
            self.warn(f"some labels of {', '.join(lacking)}; the total is exact", "left out by the service: ")

    def confirm(self, doubts: Iterable[object], question: str = "Send it all the same?") -> bool:
        """Print what is doubtful, and ask the question on the terminal; False where there is none."""
        if not sys.stdin.isatty():
            return False
        display = self._watch.display
        if is_drawn := display.live.is_started:
            display.stop()
        for doubt in doubts:
            self.lines.print(str(doubt))
        # Of asyncio's handler only a second Ctrl-C would end the question.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return typer.confirm(question, err=True)
        finally:
            signal.signal(signal.SIGINT, before)
            if is_drawn:
                display.start()

    def resumes_from(self, path: Path) -> None:
        """Set what the same command goes on from, if it is there when this run ends early."""
        self._resumes_from = path

    @property
    def _can_resume(self) -> bool:
        return self._resumes_from is not None and self._resumes_from.exists()

    # -- how it ends

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Print waits and what the library logs, and report how the command ends.

        Raises typer.Exit with the exit code of an error, a signal, or of what was left out.
        """
        log, levels = logging.getLogger("slashtag"), (logging.WARNING, logging.INFO, logging.DEBUG)
        log.setLevel(logging.ERROR if self.options.quiet else levels[min(self.options.verbose, 2)])
        log.addHandler(self.lines)
        # `nohup` has SIGHUP ignored.
        ending = [each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, self._terminate) for each in ending}
        # A shell has what it starts in the background ignore SIGINT, which SIGTERM is turned into.
        is_background = sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if is_background:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
        code, text = 1, ""
        try:
            check_variables()
            with self._watch.running():
                yield
            self._conclude()
            code = SOME_FAILED if self._is_incomplete else 0
        except KeyboardInterrupt:
            code = 128 + self._signal
            if self._watch.source() is not None:
                kept = f"; {GO_ON}: {self._resumes_from} has what was done so far"
                self.say("stopped" + kept * self._can_resume)
        except typer.Exit as end:
            code = end.exit_code
        except Exception as error:
            # Not what a file cannot hold, which is the same again; an error of a journal says what to do.
            reasons = (error, error.__cause__, error.__context__)
            if self._can_resume and any(isinstance(each, RequestFailedError | OSError) for each in reasons):
                error.add_note(GO_ON)
            text, code = report(error, self.lines)
        finally:
            log.removeHandler(self.lines)
            log.setLevel(logging.NOTSET)
            for number, handler in before.items():
                signal.signal(number, handler)
            if is_background:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if self.lines.as_json:
            self.lines.print("summary", **self._summary(code, text))
        if code:
            raise typer.Exit(code)

    def _conclude(self) -> None:
        """Print what was wrong in a run that came to its end."""
        if inconsistent := self._counted("inconsistent"):
            answers = f"{many(inconsistent, 'answer')} of the service"
            text = f"the figures may be wrong: {answers} contradicted the total or the days requested"
            self.warn(text, "inconsistent: ")
        if self._counted("clock_behind") > 86_400:  # more than zones explain
            # The library has logged it.
            self.mark_incomplete()
        if self.failures:
            text = f"left out: {many(self.failures, 'request')} that failed"
            self.say(f"{text}; run the same command again to request them again")

    def _summary(self, code: int, error: str) -> dict[str, Any]:
        """Return the figures of the run, which are the last line of JSON."""
        return {
            "command": self.name,
            "version": __version__,
            "started_at": self._started.isoformat(timespec="seconds"),
            "seconds": round(perf_counter() - self._began, 3),
            "exit_code": code,
            "complete": code == 0,
            "error": error or None,
            "failures": self.failures,
            **{name: self._counted(name) for name in COUNTERS},
            "learned_rate": self._counted("learned_rate") or None,
            **self.figures,
        }

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        """Do at SIGTERM or SIGHUP what Ctrl-C does; a second one ends the process at once."""
        self._signal = number
        signal.signal(number, signal.SIG_DFL)
        # Called rather than raised: a SIGINT that is blocked would be a second one, which ends at once too.
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)


def command(function: Callable[..., Coroutine[Any, Any, None] | None]) -> Callable[..., None]:
    """Turn a function, mostly async, into a command.

    Where it takes a dataclass, such as OutputOptions, the command has the fields of that as options, and the
    function gets the dataclass with what was given for them. For a Run these are SessionOptions.
    """
    takes = signature(function, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, parameter in takes.parameters.items():
        group: Any = SessionOptions if parameter.annotation is Run else parameter.annotation
        options = [parameter]
        if is_dataclass(group):
            groups[name] = group
            options = [
                parameter.replace(name=each.name, default=each.default, annotation=each.type)
                for each in fields(group)
            ]
        parameters += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in options]

    # Typer passes what it knows of the call to a parameter of this type.
    parameters.append(Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context))

    @wraps(function)
    def execute(context: typer.Context, **given: Any) -> None:
        def make(group: Any) -> Any:
            return group(*(given.pop(each.name) for each in fields(group)))

        if SessionOptions in groups.values():
            run = Run(make(SessionOptions), context.command_path)
        else:
            run = Run(SessionOptions(None, None, 0, False), context.command_path)
        with run.running():
            for name, group in groups.items():
                given[name] = run if group is SessionOptions else make(group)
            for value in given.values():
                if isinstance(value, Path):
                    check_local_path(value)
            if (work := function(**given)) is not None:
                new_loop = import_module("uvloop").new_event_loop if find_spec("uvloop") else None
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    runner.run(work)

    # Typer prefers the annotations of the function, which has the groups.
    execute.__annotations__ = {}
    vars(execute)["__signature__"] = takes.replace(parameters=parameters, return_annotation=None)
    return execute
