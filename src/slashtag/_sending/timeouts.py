"""One timer for the timeouts of all attempts, which all have the same length: cheaper than one each."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadline:
    """Bound one attempt of the current task; made by `Watchdog.start`, ended by `stop`."""

    __slots__ = ("_cancelling", "at", "expired", "task")

    def __init__(self, task: asyncio.Task[Any], at: float) -> None:
        self.task = task
        self.at = at
        self.expired = False
        self._cancelling = task.cancelling()

    def take_back(self) -> bool:
        """Withdraw an expired deadline's cancellation; False if somebody else cancelled too, who wins."""
        return self.task.uncancel() <= self._cancelling


class Watchdog:
    """Cancel attempts that take longer than `seconds`.

    All deadlines have the same length, so they expire in the order in which they were set: a dict keeps
    that order and gives a finished one up in constant time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._under_way: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, now: float) -> Deadline:
        """Begin to count for the current task."""
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(task, now + self.seconds)
        self._under_way[deadline] = None
        if self._timer is None:
            self._timer = loop.call_at(deadline.at, self._expire, loop)
        return deadline

    def stop(self, deadline: Deadline) -> None:
        """Stop to count."""
        self._under_way.pop(deadline, None)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer = None
        while self._under_way:
            deadline = next(iter(self._under_way))
            if deadline.at > now:
                self._timer = loop.call_at(deadline.at, self._expire, loop)
                return
            self._cancel(deadline)

    def close(self) -> None:
        """Stop the timer and cancel the attempts under way, as if all had expired."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._under_way:
            self._cancel(next(iter(self._under_way)))

    def _cancel(self, deadline: Deadline) -> None:
        del self._under_way[deadline]
        deadline.expired = True
        deadline.task.cancel()
