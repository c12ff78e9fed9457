"""Progress on stderr, and what a session waits for."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from .. import Metrics
from .._internal import Progress
from .errors import say

#: Seconds after which a wait is shown, and after which it is printed where there is no terminal.
SHOWN_AFTER, PRINTED_AFTER = 2.0, 30.0


class WaitWatch:
    """What a session waits for, looked at every second: its rate limit, or a service that does not answer."""

    def __init__(
        self, metrics: Metrics, show: Callable[[str], object], print_: Callable[[str], object]
    ) -> None:
        self._metrics = metrics
        self._show = show
        self._print = print_
        self._printed = False
        self._loop = asyncio.get_running_loop()
        self._answers = (0, 0, 0)
        #: The attempts and the time when the last answer was noticed.
        self._at_answer = 0, self._loop.time()
        self._timer = self._loop.call_later(1, self._look)

    def _look(self) -> None:
        now, metrics = self._loop.time(), self._metrics
        answers = metrics.bytes_received, metrics.throttled, metrics.replayed
        if answers != self._answers:
            self._answers, self._at_answer = answers, (metrics.attempts, now)
        attempts, answered_at = self._at_answer
        pause, silence, text = metrics.paused_until - now, now - answered_at, ""
        # Between two attempts nothing is in flight, and the one before was not answered.
        unanswered = metrics.in_flight > 0 or metrics.attempts > attempts
        if metrics.waiting and pause >= SHOWN_AFTER:
            text = f"waiting {pause:.0f} s for the service's limit"
        elif unanswered and silence >= SHOWN_AFTER:
            text = f"no answer for {silence:.0f} s"
            if silence >= PRINTED_AFTER and not self._printed:
                self._printed = True
                self._print(f"the service has not answered for {silence:.0f} s; still trying")
        self._show(text)
        self._timer = self._loop.call_later(1, self._look)

    def close(self) -> None:
        """Stop looking."""
        self._timer.cancel()


@contextmanager
def bars(
    *, shown: bool = True, metrics: Metrics | None = None, quiet: bool = False
) -> Generator[Callable[[str], Progress], None, None]:
    """Show progress on stderr if it is a terminal; yields what starts a bar and returns its callback.

    With the `metrics` of a session, the bar says what the session waits for; without a terminal one line
    says, unless `quiet`, that the service does not answer.
    """
    console = Console(stderr=True)
    display = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )

    def start(name: str) -> Progress:
        for earlier in display.tasks:
            # A bar without a known total is complete when the next one starts.
            display.update(earlier.id, total=earlier.completed, status="")
        task = display.add_task(name, total=None, count="", status="")

        def report(done: int, total: int | None) -> None:
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            display.update(task, completed=done, total=total, count=count)

        return report

    def show(status: str) -> None:
        if display.tasks:
            display.update(display.tasks[-1].id, status=status)

    with display:
        watch = None if metrics is None else WaitWatch(metrics, show, _nothing if quiet else say)
        try:
            yield start
        finally:
            if watch is not None:
                watch.close()


def _nothing(_: str) -> None:
    """Print nothing."""
