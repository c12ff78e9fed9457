"""Retry budget of a session: limits retries during an outage."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from .._core.retry import RetryPolicy, backoff
from .._errors import SessionClosedError

CAPACITY = 100.0
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
    `backoff(n)` seconds after the previous one has ended, where n is the number of consecutive failures. A
    success pays for two more retries, so the queue empties as fast as the service recovers. A warning is
    logged once if the queue keeps failing, since that may take minutes.
    """

    def __init__(self, backoff: Callable[[int], float] = lone_backoff) -> None:
        self._backoff = backoff
        self._left = CAPACITY
        self._queue: deque[asyncio.Future[None]] = deque()
        self._under_way = 0
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    def earn(self) -> None:
        """Record a request that succeeded at once."""
        if self._left < CAPACITY:
            self._left = min(CAPACITY, self._left + EARNED)
            self._next()

    async def take(self, patience: float) -> bool:
        """Wait up to `patience` seconds until a retry may be sent; return whether it may.

        Raises SessionClosedError if the budget is closed while waiting.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._next()
        try:
            await asyncio.wait((turn,), timeout=patience)
        except asyncio.CancelledError:
            if turn.done() and not turn.exception():
                self.give_back(succeeded=None)
            raise
        finally:
            if not turn.done():
                self._queue.remove(turn)
        return turn.done() and turn.result() is None

    def give_back(self, *, succeeded: bool | None, error: object = None) -> None:
        """Record the end of a retry; `succeeded` is None if it was not sent or was cancelled."""
        self._under_way -= 1
        if succeeded:
            if self._failures >= OUTAGE_FAILURES:
                log.info("the service has recovered")
            self._failures = 0
            # Refund the cost, and as much again if others are waiting.
            self._left = min(CAPACITY, self._left + (2 if self._queue else 1))
        elif succeeded is None:
            self._left = min(CAPACITY, self._left + 1)
        elif self._left < 1 and not self._under_way:
            self._failures += 1
            if self._failures == OUTAGE_FAILURES:
                log.warning("the service keeps failing, retrying one request at a time: %s", error)
        self._next()

    def _next(self) -> None:
        """Send the retries that are paid for; set the timer if none is under way and others wait."""
        while self._queue and self._left >= 1:
            self._left -= 1
            self._under_way += 1
            self._queue.popleft().set_result(None)
        if self._queue and not self._under_way and self._timer is None:
            delay = self._backoff(self._failures)
            self._timer = asyncio.get_running_loop().call_later(delay, self._pay_one)

    def _pay_one(self) -> None:
        self._timer = None
        if not self._under_way:
            self._left = 1.0
        self._next()

    def close(self) -> None:
        """Raise SessionClosedError in retries that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            self._queue.popleft().set_exception(SessionClosedError("the session is closed"))
