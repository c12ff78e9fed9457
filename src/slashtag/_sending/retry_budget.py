"""Retry budget of a session: limits retries during an outage."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from .._core.retry import RetryPolicy, backoff
from .._errors import SessionClosedError

CAPACITY = 100.0
FREE, LONE = "free", "lone"
EARNED = 0.2  # retries per request that succeeds at once
#: Consecutive failures at which an outage is logged; shorter outages are not.
OUTAGE_FAILURES = 3

log = logging.getLogger("slashtag")


def lone_backoff(failures: int) -> float:
    """Return the pause before the next retry in the queue; not random, because no other one waits for it."""
    return backoff(RetryPolicy(), failures + 1, jitter=0.75)


class RetryBudget:
    """Budget that allows retries freely until it is used up, then one at a time.

    A retry costs 1, which is refunded if it succeeds. With an empty budget retries queue: each is sent
    `backoff(n)` seconds after the previous one, where n is the number of consecutive failures in the queue. A
    success pays for two more retries, so the queue empties as fast as the service recovers. A warning is
    logged once if the queue keeps failing, since that may take minutes.
    """

    def __init__(self, backoff: Callable[[int], float] = lone_backoff) -> None:
        self._backoff = backoff
        self._left = CAPACITY
        self._queue: deque[asyncio.Future[str]] = deque()
        self._lone = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    def earn(self) -> None:
        """Record a request that succeeded at once."""
        if self._left < CAPACITY:
            self._left = min(CAPACITY, self._left + EARNED)
            if self._queue:
                self._next()

    async def take(self, patience: float) -> str | None:
        """Wait up to `patience` seconds until a retry may be sent; return its permit, or None.

        Raises SessionClosedError if the budget is closed while waiting.
        """
        if self._left >= 1 and not self._queue:
            self._left -= 1
            return FREE
        turn: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._next()
        try:
            await asyncio.wait((turn,), timeout=patience)
        except asyncio.CancelledError:
            if turn.done() and not turn.exception():
                self.give_back(turn.result(), succeeded=None)
            raise
        finally:
            if not turn.done():
                self._queue.remove(turn)
        return turn.result() if turn.done() else None

    def give_back(self, permit: str, *, succeeded: bool | None, error: object = None) -> None:
        """Return the permit of a retry; `succeeded` is None if it was not sent or was cancelled."""
        lone = permit == LONE
        if lone:
            self._lone = False
        if succeeded:
            if self._failures >= OUTAGE_FAILURES:
                log.info("the service has recovered")
            self._failures = 0
            # Refund the cost, and as much again if others are waiting.
            self._left = min(CAPACITY, self._left + (2 if self._queue or lone else 1))
        elif succeeded is None:
            self._left = min(CAPACITY, self._left + (not lone))
        elif lone:
            self._failures += 1
            if self._failures == OUTAGE_FAILURES:
                log.warning("the service keeps failing, retrying one request at a time: %s", error)
        self._next()

    def _next(self) -> None:
        """Send the retries that are paid for; set the timer if none is and others wait."""
        while self._queue and self._left >= 1:
            self._left -= 1
            self._queue.popleft().set_result(FREE)
        if self._queue and not self._lone and self._timer is None:
            delay = self._backoff(self._failures)
            self._timer = asyncio.get_running_loop().call_later(delay, self._send_alone)

    def _send_alone(self) -> None:
        self._timer = None
        if self._queue:
            self._lone = True
            self._queue.popleft().set_result(LONE)

    def close(self) -> None:
        """Raise SessionClosedError in retries that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            self._queue.popleft().set_exception(SessionClosedError("the session is closed"))
