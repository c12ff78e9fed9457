"""One run of a command: its session, what it reports on stderr, and its exit code."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from signal import SIGTERM
from time import perf_counter
from typing import Any, TypeVar

import typer

from .. import AsyncSession, Metrics, SlashtagError
from .._internal import many
from .credentials_file import Found
from .errors import SOME_FAILED, describe
from .lines import Lines
from .options import SessionOptions
from .progress import Begin, Watch, bars

T = TypeVar("T")


class Run:
    """What a command sends with, what it reports, and whether something is left out.

    `options` are those that it was given; with --log-format json a closing line has the `fields` of what was
    done: rows, file, requests, retries, failures, seconds, exit code.
    """

    def __init__(self, options: SessionOptions, name: str = "") -> None:
        self.options = options
        self.lines = Lines(as_json=options.log_format == "json")
        self._name = name
        self._began = perf_counter()
        self._session_began = self._began
        self._is_incomplete = False
        self._when_stopped = "stopped"
        #: The metrics of all sessions made.
        self._metrics: list[Metrics] = []
        self._fields: dict[str, Any] = {}
        self._watch = Watch(self._say_progress, options.log_every)

    # -- the session

    def session(self, credentials: Found | None = None, **options: Any) -> AsyncSession:
        """Make a session, by default with the credentials of the environment or those saved by a login.

        `options` are those of AsyncSession.
        """
        base_url, apikey, apisecret = credentials or self.options.credentials()
        session = AsyncSession(
            base_url, apikey=apikey, apisecret=apisecret, **self.options.of_session(), **options
        )
        self.follow(lambda: session.metrics)
        self._session_began = perf_counter()
        self._metrics.append(session.metrics)
        return session

    def follow(self, source: Callable[[], Metrics | None]) -> None:
        """Show progress and waits by the counters that `source` returns, None while there are none."""
        self._watch.source = source

    def cost(self) -> str:
        """Return the requests and the time that the last session took, and the limit that it learnt."""
        metrics = self._metrics[-1]
        replayed = f"{metrics.replayed:,} replayed, " if metrics.replayed else ""
        retries = f", {many(metrics.retries, 'retry', 'retries')}" if metrics.retries else ""
        limit = "" if metrics.learned_rate is None else f", {metrics.learned_rate:.0f} requests/s allowed"
        return (
            f"{replayed}{many(metrics.attempts, 'request')}{retries}, {many(metrics.throttled, 'time')} 429, "
            f"{perf_counter() - self._session_began:.1f} s{limit}"
        )

    # -- what it reports

    def say(self, text: str, **fields: Any) -> None:
        """Print one line on stderr, unless --quiet; the `fields` are those of the closing line too."""
        self._fields |= fields
        if not self.options.quiet:
            self.lines.print(text, **fields)

    def say_loudly(self, text: str, label: str) -> None:
        """Print one line on stderr, also with --quiet."""
        self.lines.print(text, label=label, style="bold red")

    def leave_out(self, text: str) -> None:
        """Print what is left out, also with --quiet; the exit code is then 3."""
        self.say_loudly(text, "left out: ")
        self.mark_incomplete()

    def mark_incomplete(self) -> None:
        """Note that something failed, was left out or contradicts itself: the exit code is then 3."""
        self._is_incomplete = True

    def report_inconsistent(self, answers: int = 0) -> None:
        """Print how many inconsistent answers are in the figures, if any; the exit code is then 3."""
        answers += sum(metrics.inconsistent for metrics in self._metrics)
        if answers:
            self.mark_incomplete()
            self.say_loudly(
                f"the figures may be wrong: {many(answers, 'answer')} of the service "
                "contradicted the total or the days requested",
                "inconsistent: ",
            )

    def say_when_stopped(self, text: str) -> None:
        """Set the line that is printed at Ctrl-C and SIGTERM."""
        self._when_stopped = text

    def bars(self) -> AbstractContextManager[Begin]:
        """Show progress and waits, unless --quiet, or --verbose sends log lines to the same terminal."""
        shown = not (self.options.quiet or self.options.verbose or self.lines.as_json)
        return bars(self._watch, self.lines.console, shown=shown)

    def _say_progress(self, text: str) -> None:
        if not self.options.quiet:
            self.lines.print(text, dated=True)

    # -- how it ends

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Print waits and what the library logs, and report how the command ends.

        Raises typer.Exit with the exit code of a library error, a signal, or of what was left out.
        """
        levels = (logging.WARNING, logging.INFO, logging.DEBUG)
        level = logging.ERROR if self.options.quiet else levels[min(self.options.verbose, 2)]
        code = 1
        try:
            with self.lines.of_log(level), self._watch.running():
                yield
            self.report_inconsistent()
            code = SOME_FAILED if self._is_incomplete else 0
        except (Terminated, KeyboardInterrupt) as stop:
            code = stop.exit_code if isinstance(stop, Terminated) else 130
            self.say(self._when_stopped)
            raise
        except BrokenPipeError:
            raise
        except (SlashtagError, OSError) as error:
            text, code = describe(error)
            self.say_loudly(text, "error: ")
        except Exception as error:
            # Of typer: an exit, or wrong usage.
            code = getattr(error, "exit_code", code)
            raise
        finally:
            self._say_end(code)
        if code:
            raise typer.Exit(code)

    def _say_end(self, code: int) -> None:
        if self.lines.as_json:
            counters = ("requests", "attempts", "retries", "throttled", "replayed", "inconsistent")
            sums = {name: sum(getattr(metrics, name) for metrics in self._metrics) for name in counters}
            seconds = round(perf_counter() - self._began, 3)
            end: dict[str, Any] = {"event": "end", "command": self._name, "exit_code": code}
            end |= {"seconds": seconds, **sums, **self._fields}
            self.lines.print("ended", **end)


class Terminated(typer.Exit):
    """End of a command by SIGTERM, with the exit code that shells have for it."""

    def __init__(self) -> None:
        super().__init__(128 + SIGTERM)


def command(function: Callable[..., Coroutine[Any, Any, None] | None]) -> Callable[..., None]:
    """Turn a function, mostly async, into a command.

    A parameter that is a group of options becomes these; a Run has the SessionOptions.
    """
    takes = signature(function, eval_str=True)
    groups: dict[str, tuple[Any, list[Parameter]]] = {}
    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for parameter in takes.parameters.values():
        group: Any = SessionOptions if parameter.annotation is Run else parameter.annotation
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
    def execute(context: typer.Context, **given: Any) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in options})
        for name, value in given.items():
            if isinstance(value, SessionOptions):
                run = given[name] = Run(value, context.command_path)
                break
        else:
            run = None
        with nullcontext() if run is None else run.running():
            if (work := function(**given)) is not None:
                run_async(work)

    # Typer prefers the annotations of the function, which has the groups.
    execute.__annotations__ = {}
    vars(execute)["__signature__"] = takes.replace(parameters=parameters, return_annotation=None)
    return execute


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run on a new event loop, uvloop's if it is installed; Ctrl-C cancels, and so does SIGTERM.

    Raises KeyboardInterrupt after Ctrl-C and Terminated after SIGTERM.
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
                raise Terminated from None
            raise
