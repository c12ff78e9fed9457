"""Attempts under way, and the timer that ends those that take too long."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any


class Attempt:
    """One attempt of the current task to send a call: its deadline and the state of its connection.

    What sends it sets `written`, the watchdog `expired`.
    """

    expired = False
    #: Whether a byte of the request may have been written; None if that is not known.
    written: bool | None = False

    def __init__(self, task: asyncio.Task[Any], at: float, *, fresh: bool) -> None:
        self.task = task
        self.at = at
        #: Whether to use a new connection, which may reach another backend, and to ask caches for no answer.
        self.fresh = fresh
        self._cancelling = task.cancelling()

    def withdraw_timeout(self) -> bool:
        """Withdraw the cancellation of an expired deadline; return False if there was another one."""
        return self.task.uncancel() <= self._cancelling


class Watchdog:
    """One timer for all attempts, which cancels those whose deadline has passed.

    A timer for each attempt would cost four times as much.
    """

    def __init__(self) -> None:
        self._running: set[Attempt] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    def start(self, loop: asyncio.AbstractEventLoop, at: float, *, fresh: bool = False) -> Attempt:
        """Start an attempt of the current task, which ends at `at` of the loop's time."""
        task = asyncio.current_task(loop)
        assert task is not None
        attempt = Attempt(task, at, fresh=fresh)
        self._running.add(attempt)
        if at < self._timer_at:
            self._set_timer(loop, at)
        return attempt

    def stop(self, attempt: Attempt) -> None:
        """Remove the deadline of an attempt."""
        self._running.discard(attempt)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = loop.call_at(at, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._cancel([attempt for attempt in self._running if attempt.at <= now])
        self._timer, self._timer_at = None, inf
        if self._running:
            self._set_timer(loop, min(attempt.at for attempt in self._running))

    def close(self) -> None:
        """Stop the timer and cancel all attempts, as if they had expired."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, inf
        self._cancel(list(self._running))

    def _cancel(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._running.discard(attempt)
            attempt.expired = True
            attempt.task.cancel()
