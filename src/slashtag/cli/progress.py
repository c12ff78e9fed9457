"""Progress on stderr: what is done, how fast, and what a session waits for."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from .. import Metrics
from .._internal import Progress
from .errors import say

#: Seconds after which a wait is shown, and after which it is printed where there is no terminal.
SHOWN_AFTER, PRINTED_AFTER = 2.0, 30.0


class Watch:
    """Look at a session every second: what it waits for, or how fast it is."""

    def __init__(
        self, metrics: Metrics, display: Bars, print_: Callable[[str], object], every: float
    ) -> None:
        self._metrics = metrics
        self._display = display
        self._print = print_
        self._every = every
        self._is_silence_printed = False
        self._loop = asyncio.get_running_loop()
        self._answers = (0, 0, 0)
        self._printed_at = now = self._loop.time()
        #: The attempts and the time when the last answer was noticed.
        self._at_answer = 0, now
        self._sent, self._speed = metrics.attempts, 0.0
        self._timer = self._loop.call_later(1, self._look)

    def _look(self) -> None:
        self._timer = self._loop.call_later(1, self._look)
        now, sent = self._loop.time(), self._metrics.attempts
        # The average of the last seconds, in which the newest counts most.
        self._speed += (sent - self._sent - self._speed) * (0.3 if self._sent else 1)
        self._sent = sent
        wait = self._wait(now)
        limit = self._metrics.learned_rate
        speed = f"{self._speed:.0f} requests/s" + ("" if limit is None else f", limit {limit:.0f}")
        if not self._display.tasks:
            return
        task = self._display.tasks[-1]
        left = f"about {timedelta(seconds=task.time_remaining)} left" if task.time_remaining else ""
        self._display.update(task.id, status=wait or ", ".join(filter(None, (speed, left))))
        if self._every and now - self._printed_at >= self._every:
            self._printed_at = now
            line = f"{task.description}: {task.fields['count']}", speed, left, wait
            self._print("; ".join(filter(None, line)))

    def _wait(self, now: float) -> str:
        """Return what the session waits for: its rate limit, or a service that does not answer."""
        metrics = self._metrics
        answers = metrics.bytes_received, metrics.throttled, metrics.replayed
        if answers != self._answers:
            self._answers, self._at_answer = answers, (metrics.attempts, now)
        attempts, answered_at = self._at_answer
        pause, silence = metrics.paused_until - now, now - answered_at
        # Between two attempts nothing is in flight, and the one before was not answered.
        unanswered = metrics.in_flight > 0 or metrics.attempts > attempts
        if metrics.waiting and pause >= SHOWN_AFTER:
            return f"waiting {pause:.0f} s for the service's limit"
        if not unanswered or silence < SHOWN_AFTER:
            return ""
        if silence >= PRINTED_AFTER and not self._is_silence_printed:
            self._is_silence_printed = True
            self._print(f"the service has not answered for {silence:.0f} s; still trying")
        return f"no answer for {silence:.0f} s"

    def close(self) -> None:
        """Stop looking."""
        self._timer.cancel()


@contextmanager
def bars(
    *, shown: bool = True, metrics: Metrics | None = None, quiet: bool = False, every: float = 0.0
) -> Generator[Callable[[str], Progress], None, None]:
    """Show progress on stderr if it is a terminal; yields what starts a bar and returns its callback.

    With the `metrics` of a session, the bar says how fast it is or what it waits for. Without a terminal a
    line says so `every` so many seconds (0: never), unless `quiet`; without metrics, at the next progress.
    """
    console = Console(stderr=True)
    drawn = shown and console.is_terminal
    display = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        transient=True,
        disable=not drawn,
    )

    def start(name: str) -> Progress:
        for earlier in display.tasks:
            # A bar without a known total is complete when the next one starts.
            display.update(earlier.id, total=earlier.completed, status="")
        task = display.add_task(name, total=None, count="0", status="")
        printed_at = monotonic()

        def report(done: int, total: int | None) -> None:
            nonlocal printed_at
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            display.update(task, completed=done, total=total, count=count)
            if metrics is None and every and not (drawn or quiet) and monotonic() - printed_at >= every:
                printed_at = monotonic()
                say(f"{name}: {count}")

        return report

    with display:
        watch = None
        if metrics is not None:
            watch = Watch(metrics, display, (lambda _: None) if quiet else say, 0.0 if drawn else every)
        try:
            yield start
        finally:
            if watch is not None:
                watch.close()
