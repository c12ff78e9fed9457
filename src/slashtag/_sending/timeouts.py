"""Timeouts of all attempts with a single timer, which is cheaper than one timer each."""

from __future__ import annotations

import asyncio
from typing import Any


class Attempt:
    """One attempt of the current task: its deadline and the state of its connection."""

    # Defaults of the class, not slots: most attempts set only two of them.
    expired = False
    #: Whether a byte of the request may have been written; None if that is not known.
    written: bool | None = False
    #: Whether to open a new connection instead of reusing one.
    fresh = False
    #: Whether the connection had carried an earlier request.
    reused = False
    #: Whether a reused connection was lost before any byte of the answer.
    stale = False

    def __init__(self, task: asyncio.Task[Any], at: float) -> None:
        self.task = task
        self.at = at
        self._cancelling = task.cancelling()

    def take_back(self) -> bool:
        """Withdraw the cancellation of an expired deadline; return False if there was another one."""
        return self.task.uncancel() <= self._cancelling


class Watchdog:
    """Timer that cancels attempts which take longer than `seconds`.

    All deadlines have the same length, so they expire in the order in which they were set: a dict keeps
    that order and drops a finished one in constant time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._running: dict[Attempt, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, now: float) -> Attempt:
        """Start an attempt of the current task."""
        task = asyncio.current_task(loop)
        assert task is not None
        attempt = Attempt(task, now + self.seconds)
        self._running[attempt] = None
        if self._timer is None:
            self._timer = loop.call_at(attempt.at, self._expire, loop)
        return attempt

    def stop(self, attempt: Attempt) -> None:
        """Remove the deadline of an attempt."""
        self._running.pop(attempt, None)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer = None
        while self._running:
            attempt = next(iter(self._running))
            if attempt.at > now:
                self._timer = loop.call_at(attempt.at, self._expire, loop)
                return
            self._cancel(attempt)

    def close(self) -> None:
        """Stop the timer and cancel all running attempts, as if they had expired."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._running:
            self._cancel(next(iter(self._running)))

    def _cancel(self, attempt: Attempt) -> None:
        del self._running[attempt]
        attempt.expired = True
        attempt.task.cancel()
