"""What is printed on stderr: lines and progress."""

import json
import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from threading import Event, Thread
from time import monotonic
from traceback import format_exception
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from .. import Metrics, Progress

#: Called with a name and the unit of what is counted, starts a bar and returns what to call with progress.
StartBar = Callable[[str, str], Progress]
#: Seconds between two looks at a session, after which a wait is shown, and between two printed lines where
#: no bar is drawn.
INTERVAL, SHOWN_AFTER, PRINTED_EVERY = 1.0, 2.0, 30.0
#: What every log record bears; fields are the others.
_PLAIN = {*vars(logging.makeLogRecord({})), "message", "asctime"}
#: Levels of lines, by their labels; any other is a warning.
_LEVELS = {"": "info", "error: ": "error"}


def one_line(text: str) -> str:
    """Return a text with a blank for each line break and control character, safe for a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


class _Stderr(Console):
    """Console on stderr, which goes quiet once nobody reads it; rich would end the command."""

    def on_broken_pipe(self) -> None:
        """Print nothing from now on."""
        self.quiet = True


class Lines(logging.Handler):
    """Printer of lines on stderr, also of what the library logs.

    Progress is drawn on the same `console`, so that lines do not run into it. What cannot be written, as on a
    full disk, is dropped: the work of a command, and its exit code, do not depend on it. `as_json` makes each
    line a JSON object with `time`, `level`, `message` and the fields of the line.
    """

    def __init__(self, *, as_json: bool | None = None) -> None:
        super().__init__()
        self.as_json = os.environ.get("SLASHTAG_LOG_FORMAT") == "json" if as_json is None else as_json
        self.console: Console = _Stderr(stderr=True, highlight=False)

    def print(
        self, text: str, *, label: str = "", style: str = "", dated: bool = False, **fields: Any
    ) -> None:
        """Print one line, however narrow the terminal is.

        `dated` lines begin with the time in UTC where stderr is not a terminal. `fields` are for JSON.
        """
        if self.as_json:
            self._print_object(_LEVELS.get(label, "warning"), text, fields)
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        moment = f"{now} " if dated and not self.console.is_terminal else ""
        with suppress(OSError):
            self.console.print(Text.assemble(moment, (label, style), one_line(text)), soft_wrap=True)

    def _print_object(self, level: str, text: str, fields: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "level": level, "message": text, **fields}, default=str)
        with self.lock or nullcontext(), suppress(OSError, ValueError):
            # In one piece: threads print too.
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def error(self, text: str) -> None:
        """Print the error that ended a command, if there is anything to say about it."""
        if text:
            self.print(text, label="error: ", style="bold red")

    def traceback(self, error: BaseException) -> None:
        """Print an error that nobody expected, with where it was raised."""
        text = "".join(format_exception(error))
        if self.as_json:
            self._print_object("error", f"{type(error).__name__}: {error}", {"traceback": text})
            return
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        level = record.levelname.lower()
        if self.as_json:
            fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
            self._print_object(level, record.getMessage(), fields)
        else:
            self.print(record.getMessage(), label=f"{level}: ", style="dim", dated=True)


class Watch:
    """Thread that looks at a session every second and says how fast it is, or what it waits for.

    It does so in the last bar that is drawn. Where none is, it calls `print_` with a line now and then.
    """

    def __init__(self, console: Console, print_: Callable[..., object], *, is_shown: bool = True) -> None:
        self._print = print_
        #: Returns the counters of the session, None while there is none.
        self.source: Callable[[], Metrics | None] = lambda: None
        self._attempts = 0
        self._answers: object = None
        self._answered_at = self._printed_at = monotonic()
        self.display = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=console,
            transient=True,
            # Data goes to stdout, even while progress is shown.
            redirect_stdout=False,
            disable=not (is_shown and console.is_terminal),
        )

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Look at the session in a thread."""
        ended = Event()

        def run() -> None:
            while not ended.wait(INTERVAL):
                with suppress(OSError):  # stderr may be on a full disk
                    self.look(monotonic())

        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def look(self, now: float) -> None:
        """Show or print what there is to say at a time of `time.monotonic`."""
        if (metrics := self.source()) is None:
            return
        sent, self._attempts = metrics.attempts - self._attempts, metrics.attempts
        wait = self._wait(metrics, now)
        status, fields = wait or f"{sent} requests/s", dict[str, Any]()
        for task in self.display.tasks[-1:]:
            self.display.update(task.id, status=status)
            status = f"{task.description}: {task.fields['count']}; {status}"
            fields = {"what": task.description, "done": task.completed, "total": task.total}
        is_due = self.display.disable and now - self._printed_at >= PRINTED_EVERY
        if is_due and (self.display.tasks or wait):
            self._printed_at = now
            self._print(status, **fields)

    def _wait(self, metrics: Metrics, now: float) -> str:
        """Return what the session waits for, if anything."""
        answers = metrics.bytes_received, metrics.throttled, metrics.replayed
        if answers != self._answers:
            self._answers, self._answered_at = answers, now
        if metrics.waiting and metrics.paused_for >= SHOWN_AFTER:
            return f"waiting {metrics.paused_for:.0f} s for the service's limit"
        silence = now - self._answered_at if metrics.in_flight else 0.0
        return f"no answer for {silence:.0f} s" if silence >= SHOWN_AFTER else ""

    @contextmanager
    def bars(self) -> Generator[StartBar, None, None]:
        """Show progress if the console is a terminal."""
        with self.display:
            yield self._start

    def end_bars(self) -> None:
        """Remove the progress that is shown, for good."""
        if self.display.live.is_started:
            self.display.stop()

    def _start(self, name: str, unit: str) -> Progress:
        for earlier in self.display.tasks:
            # A bar without a known total is complete when the next one starts.
            self.display.update(earlier.id, total=earlier.completed, status="")
        task = self.display.add_task(name, total=None, count=f"0 {unit}", status="")

        def report(done: int, total: int | None) -> None:
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            self.display.update(task, completed=done, total=total, count=f"{count} {unit}")

        return report
