"""When a request may be sent: in the queue, as the throttle allows; as a retry, as its budget does."""

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from math import inf
from typing import Any

import anyio

from .._core.call import Call
from .._core.queue import Flow, Place, Queue
from .._core.retry import RetryPolicy, backoff, is_failure
from .._core.throttle.throttle import Throttle, Ticket
from .._errors import APIError, RateLimitError, SessionClosedError, SlashtagError, TransportError

LONG_WAIT = 10.0  # seconds: a longer wait is logged as a warning

RETRIES_AT_ONCE = 100.0  # retries that a session may send at once
EARNED = 0.2  # retries per request that succeeds at once
#: Consecutive failures at which an outage is logged; shorter outages are not.
OUTAGE_FAILURES = 3
#: Seconds between two requests to a service that has not answered for so long that the others are not sent.
PROBE_INTERVAL = 15.0

log = logging.getLogger("slashtag")


class WaitTooLongError(Exception):
    """Failure to admit a request within its max_wait; `seconds`: until a pause ends, None without one."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds


class _Waiter:
    """A request in the queue; its future gives its ticket."""

    __slots__ = ("deadline", "future", "place", "ticket")

    def __init__(
        self, place: Place, deadline: float, ticket: Ticket | None, future: asyncio.Future[Ticket]
    ) -> None:
        self.place, self.deadline, self.ticket, self.future = place, deadline, ticket, future


class Admission:
    """Requests of a session that wait until the throttle allows them, in the order of `_core.queue`.

    A request that was answered 429 first waits by itself, and then in the queue. Every ticket must be given
    back to exactly one of `accepted`, `rejected`, `failed`, `cancelled`.
    """

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self._queue: Queue[_Waiter] = Queue()
        self._first_deadline = inf  # no request that waits has an earlier one
        self._alone = 0  # requests that wait by themselves after a 429
        self._warned_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._closing = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for admission."""
        return len(self._queue) + self._alone

    def place(self, flow: Flow | None) -> Place:
        """Return the place in the queue of a new request of this operation; None: one of its own."""
        return self._queue.place(flow)

    def try_enter(self, place: Place, now: float) -> Ticket | None:
        """Admit a new request at once if nothing waits in the queue and the throttle allows it."""
        if self._queue or self.throttle.ready_at(now) > now:
            return None
        self._queue.depart(place)
        return self.throttle.depart(now)

    async def enter(
        self,
        place: Place,
        max_wait: float | None = None,
        earliest: float = 0.0,
        ticket: Ticket | None = None,
    ) -> Ticket:
        """Wait for admission, at most `max_wait` seconds, and outside the queue until `earliest`.

        `ticket` is that of a call that was answered 429. Raises SessionClosedError, and
        WaitTooLongError as soon as that is certain.
        """
        if self._closing.is_set():
            raise SessionClosedError("the session is closed")
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline = inf if max_wait is None else now + max(max_wait, 0.0)
        if deadline < earliest:
            raise WaitTooLongError(earliest - now)
        if earliest > now:
            self._warn_of_wait(earliest, now)
            self._alone += 1
            try:
                await self.sleep_until(earliest)
            finally:
                self._alone -= 1
            now = loop.time()
        waiter = _Waiter(place, deadline, ticket, loop.create_future())
        rejects, is_refused = (ticket.rejects, ticket.is_refused) if ticket is not None else (0, False)
        self._queue.put(place, waiter, rejects, is_refused=is_refused)
        self._first_deadline = min(self._first_deadline, deadline)
        timer = None if max_wait is None else loop.call_at(deadline, self._refuse, waiter)
        try:
            self._pump(now)
            return await waiter.future
        except asyncio.CancelledError:
            # Admitted and cancelled at the same time: admit the next in the queue.
            if waiter.future.done() and not waiter.future.cancelled():
                if not waiter.future.exception():
                    self.cancelled(waiter.future.result())
            else:
                self._queue.remove(place)
                self._pump(loop.time())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def sleep_until(self, until: float) -> None:
        """Wait outside the queue; raises SessionClosedError if the session closes before `until`."""
        # Not anyio: the event loop would stand still for 0.1 s while it is imported, at the first 429.
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([closing], timeout=until - asyncio.get_running_loop().time())
        finally:
            closing.cancel()
        if self._closing.is_set():
            raise SessionClosedError("the session was closed before the request was sent again")

    def _warn_of_wait(self, until: float, now: float) -> None:
        """Log a long wait once, as a warning."""
        if until - now > LONG_WAIT and until > self._warned_until + 1:
            self._warned_until = until
            end = datetime.now() + timedelta(seconds=until - now)
            seconds, message = until - now, "waiting %.0f s for the service's limit, until %s"
            log.warning(message, seconds, f"{end:%Y-%m-%d %H:%M:%S}", extra={"seconds": seconds})

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Return a ticket after an accepted request."""
        self.throttle.accepted(ticket, now)
        if self._queue:
            self._pump(now)

    def rejected(self, ticket: Ticket, place: Place, now: float, retry_after: float | None) -> float:
        """Return a ticket after a rate-limit 429; return when that request may `enter` again."""
        earliest = self.throttle.rejected(ticket, now, retry_after)
        self._queue.put_back(place)
        self._pump(now)
        return earliest

    def failed(self, ticket: Ticket, now: float, retry_after: float | None) -> None:
        """Return a ticket after a 5xx, a lost connection or a timeout."""
        self.throttle.failed(ticket, now, retry_after)
        self._pump(now)

    def cancelled(self, ticket: Ticket) -> None:
        """Return a ticket that was not used, or whose request gave no information."""
        self.failed(ticket, asyncio.get_running_loop().time(), None)

    def _pump(self, now: float) -> None:
        """Admit requests while the throttle allows it, then set the timer."""
        throttle = self.throttle
        if throttle.paused_until > self._first_deadline:
            self._refuse_hopeless()
        while self._queue:
            at = throttle.ready_at(now)
            if at > now:
                self._warn_of_wait(throttle.paused_until, now)
                self._set_timer(at)
                return
            waiter = self._queue.pop(exhausted=throttle.exhausted)
            # A task that is cancelled cancels what it waits for, before it can leave the queue itself.
            if not waiter.future.done():
                waiter.future.set_result(throttle.depart(now, waiter.ticket))

    def _refuse_hopeless(self) -> None:
        """Refuse the requests whose time ends before the pause does."""
        for waiter in list(self._queue):
            if waiter.deadline < self.throttle.paused_until:
                self._refuse(waiter)
        self._first_deadline = min((waiter.deadline for waiter in self._queue), default=inf)

    def _refuse(self, waiter: _Waiter) -> None:
        """Raise WaitTooLongError in a request that waits."""
        if not waiter.future.done():
            self._queue.remove(waiter.place)
            seconds = self.throttle.paused_until - asyncio.get_running_loop().time()
            waiter.future.set_exception(WaitTooLongError(seconds if seconds > 0 else None))

    def _set_timer(self, at: float) -> None:
        if at < self._timer_at:  # never if it is inf: the next answer pumps
            self._stop_timer()
            self._timer_at = at
            self._timer = asyncio.get_running_loop().call_at(at, self._wake)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, inf

    def _wake(self) -> None:
        self._stop_timer()
        self._pump(asyncio.get_running_loop().time())

    def close(self) -> None:
        """Raise SessionClosedError in requests that wait, and in later ones that would have to."""
        self._closing.set()
        self._stop_timer()
        for waiter in list(self._queue):
            if not waiter.future.done():
                waiter.future.set_exception(SessionClosedError("the session is closed"))
        self._queue = Queue()


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
        self._left = RETRIES_AT_ONCE
        #: Failures in a row of retries that were sent alone.
        self._failed_alone = 0
        #: Times of the first failure since the last answer, of the latest one, and of the next probe.
        self._failing_since = self._failed_at = inf
        self._probe_at = -inf
        #: Held by the first in the queue, and by one that was sent with an empty budget.
        self._turn = asyncio.Lock()

    def earn(self) -> None:
        """Record a request that succeeded at once."""
        if self._left < RETRIES_AT_ONCE:
            self._left = min(RETRIES_AT_ONCE, self._left + EARNED)

    def answered(self) -> None:
        """Record an answer, be it an error that concerns its request only."""
        self._failing_since = inf

    def failed(self, now: float) -> None:
        """Record an attempt that failed because of the service's health."""
        self._failing_since, self._failed_at = min(self._failing_since, now), now

    def is_outage(self, patience: float) -> bool:
        """Return whether retries keep failing, and all requests have for `patience` seconds."""
        if self._failed_alone < OUTAGE_FAILURES:
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

    async def wait(self, patience: float, last: SlashtagError) -> bool:
        """Wait up to `patience` seconds until a retry may be sent, whose end is told to `ended`.

        Return whether no other one is sent until then. Raises the `last` error if it may not be sent, and
        SessionClosedError.
        """
        # Not asyncio.timeout: up to Python 3.11.2 it cannot end in a task that was cancelled before.
        with anyio.move_on_after(patience):
            async with AsyncExitStack() as turn:
                await turn.enter_async_context(self._turn)
                if self._left < 1:
                    # Not random, because no other one waits for it.
                    seconds = backoff(RetryPolicy(), self._failed_alone + 1, jitter=0.75)
                    await self._admission.sleep_until(asyncio.get_running_loop().time() + seconds)
                is_alone = self._left < 1
                self._left = max(self._left - 1, 0.0)
                if is_alone:
                    turn.pop_all()  # `ended` lets the next one go on
                return is_alone
        raise last

    def ended(self, error: BaseException | None, *, is_alone: bool) -> None:
        """Record the end of a retry."""
        if error is not None and is_failure(error):
            self._failed_alone += is_alone
            if is_alone and self._failed_alone == OUTAGE_FAILURES:
                log.warning("the service keeps failing, retrying one request at a time: %s", error)
        else:
            is_answered = error is None or (
                isinstance(error, APIError) and not isinstance(error, RateLimitError)
            )
            if is_answered:
                if self._failed_alone >= OUTAGE_FAILURES:
                    log.info("the service has recovered")
                self._failed_alone = 0
            # Refund the cost, and as much again while retries are sent one at a time, or wait for that.
            self._left = min(RETRIES_AT_ONCE, self._left + (2 if is_answered and self._turn.locked() else 1))
        if is_alone:
            self._turn.release()
