"""Retry budget of a session: limits retries during an outage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from typing import Any

import anyio

from .._core.call import Call
from .._core.retry import RetryPolicy, backoff, is_failure
from .._errors import APIError, RateLimitError, SlashtagError, TransportError
from .admission import Admission

CAPACITY = 100.0
EARNED = 0.2  # retries per request that succeeds at once
#: Consecutive failures at which an outage is logged; shorter outages are not.
OUTAGE_FAILURES = 3
#: Seconds between two requests to a service that has not answered for so long that the others are not sent.
PROBE_INTERVAL = 15.0

log = logging.getLogger("slashtag")


class RetryBudget:
    """Budget that allows retries freely until it is used up, then one at a time.

    A retry costs 1, which is refunded if it succeeds. With an empty budget retries queue: each is sent a
    backoff after the previous one has ended, which grows with the number of consecutive failures. A success
    pays for two more retries, so the queue empties as fast as the service recovers. A warning is logged once
    if the queue keeps failing, since that may take minutes. If all requests fail for as long as one may
    take, the others would wait as long one after the other: they fail at once, but for one in a while.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._left = CAPACITY
        self._failures = 0
        #: Times of the first failure since the last answer, of the latest one, and of the next probe.
        self._failing_since = self._failed_at = inf
        self._probe_at = -inf
        #: Held by the first in the queue, and by one that was sent with an empty budget.
        self._turn = asyncio.Lock()

    def earn(self) -> None:
        """Record a request that succeeded at once."""
        if self._left < CAPACITY:
            self._left = min(CAPACITY, self._left + EARNED)

    def answered(self) -> None:
        """Record an answer, be it an error that concerns its request only."""
        self._failing_since = inf

    def failed(self, now: float) -> None:
        """Record an attempt that failed because of the service's health."""
        self._failing_since, self._failed_at = min(self._failing_since, now), now

    def is_outage(self, patience: float) -> bool:
        """Return whether retries keep failing, and all requests have for `patience` seconds."""
        if self._failures < OUTAGE_FAILURES:
            return False
        now = asyncio.get_running_loop().time()
        return now - self._failed_at < patience <= now - self._failing_since

    def check(self, call: Call[Any], patience: float) -> None:
        """Raise TransportError during an outage of `patience` seconds, unless this call may be sent."""
        if not self.is_outage(patience):
            return
        now = asyncio.get_running_loop().time()
        if now < self._probe_at:
            seconds = now - self._failing_since
            raise TransportError(
                f"not sent: all requests have failed for {seconds:.0f} s",
                method=call.method,
                path=call.path,
                attempts=0,
                unsent=True,
            )
        self._probe_at = now + PROBE_INTERVAL

    @asynccontextmanager
    async def retry(self, patience: float, last: SlashtagError) -> AsyncGenerator[None]:
        """Wait up to `patience` seconds until a retry may be sent, which is done in the context.

        Raises the `last` error if it may not, and SessionClosedError.
        """
        async with AsyncExitStack() as turn:
            with anyio.move_on_after(patience) as waiting:
                await turn.enter_async_context(self._turn)
                if self._left < 1:
                    # Not random, because no other one waits for it.
                    seconds = backoff(RetryPolicy(), self._failures + 1, jitter=0.75)
                    await self._admission.sleep_until(asyncio.get_running_loop().time() + seconds)
            if waiting.cancelled_caught:
                raise last
            is_alone = self._left < 1
            self._left = max(self._left - 1, 0.0)
            if not is_alone:
                await turn.aclose()
            error: BaseException | None = None
            try:
                yield
            except BaseException as raised:
                error = raised
                raise
            finally:
                self._record(error, is_alone=is_alone)

    def _record(self, error: BaseException | None, *, is_alone: bool) -> None:
        """Record the end of a retry."""
        if error is not None and is_failure(error):
            self._failures += is_alone
            if is_alone and self._failures == OUTAGE_FAILURES:
                log.warning("the service keeps failing, retrying one request at a time: %s", error)
            return
        is_answered = error is None or (isinstance(error, APIError) and not isinstance(error, RateLimitError))
        if is_answered:
            if self._failures >= OUTAGE_FAILURES:
                log.info("the service has recovered")
            self._failures = 0
        # Refund the cost, and as much again if others are waiting.
        self._left = min(CAPACITY, self._left + (2 if is_answered and self._turn.locked() else 1))
