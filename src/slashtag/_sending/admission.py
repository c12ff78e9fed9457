"""Admission of the requests of a session, one after the other, as the throttle allows."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import chain, count
from math import inf
from typing import NamedTuple

import anyio

from .._core.throttle.throttle import Throttle, Ticket
from .._errors import SessionClosedError

LONG_WAIT = 10.0  # seconds: a longer wait is logged as a warning
TURNS = 3  # new calls depart between two that met a 429, many of which may be refused

log = logging.getLogger("slashtag")


class WaitTooLongError(Exception):
    """Failure to admit a request within its max_wait.

    Its argument is the end of a pause, in seconds from now; None without one.
    """


class _Waiter(NamedTuple):
    order: int  # unique among those that wait, so that no other field is compared
    deadline: float
    ticket: Ticket | None
    future: asyncio.Future[Ticket]


class Admission:
    """Queue of the requests of a session, admitted as the throttle allows.

    Requests depart in the order of their numbers. One that returns after a failure keeps its number; one that
    was answered 429 waits by itself, then takes a new number, at the end, and TURNS new ones depart between
    two such. While the limit is exhausted, those that have met no 429 go first, and of them one of the last
    to come: it is the least like those that met one. Else refused requests go first: they take no turn of
    others. Every ticket must be given back to exactly one of `accepted`, `rejected`, `failed`, `cancelled`.
    """

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self._orders = count()
        self._new: list[_Waiter] = []
        self._returned: list[_Waiter] = []  # after a 429
        self._refused: list[_Waiter] = []
        self._queues = self._new, self._returned, self._refused
        self._turns = 0  # of new requests before the next that returned
        self._first_deadline = inf  # no request that waits has an earlier one
        self._alone = 0  # requests that wait by themselves after a 429 of their own
        self._warned_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._closing = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of requests that wait for admission."""
        return sum(not waiter.future.done() for waiter in chain(*self._queues)) + self._alone

    def order(self) -> int:
        """Return the number of a request that is to be the last of the queue."""
        return next(self._orders)

    def try_enter(self, now: float) -> Ticket | None:
        """Admit a new request at once if the queue is empty and the throttle allows it."""
        if any(self._queues) or self.throttle.ready_at(now) > now:
            return None
        return self.throttle.depart(now)

    async def enter(
        self,
        order: int,
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
        waiter = _Waiter(order, deadline, ticket, loop.create_future())
        heappush(self._queues[0 if ticket is None else 1 + ticket.is_refused], waiter)
        self._first_deadline = min(self._first_deadline, deadline)
        timer = None if max_wait is None else loop.call_at(deadline, self._refuse, waiter)
        try:
            self._pump(now)
            return await waiter.future
        except asyncio.CancelledError:
            # Admitted and cancelled at the same time: admit the next in the queue.
            if waiter.future.done() and not waiter.future.cancelled() and not waiter.future.exception():
                self.cancelled(waiter.future.result())
            else:
                self._pump(loop.time())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def sleep_until(self, until: float) -> None:
        """Wait outside the queue; raises SessionClosedError if the session closes before `until`."""
        # Not asyncio.timeout: up to Python 3.11.2 it cannot end in a task that was cancelled before.
        with anyio.move_on_after(until - asyncio.get_running_loop().time()):
            await self._closing.wait()
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
        if any(self._queues):
            self._pump(now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None) -> float:
        """Return a ticket after a rate-limit 429; return when that request may `enter` again."""
        earliest = self.throttle.rejected(ticket, now, retry_after)
        self._pump(now)
        return earliest

    def failed(self, ticket: Ticket, now: float, retry_after: float | None) -> None:
        """Return a ticket after a 5xx, a lost connection or a timeout."""
        self.throttle.failed(ticket, now, retry_after)
        self._pump(now)

    def cancelled(self, ticket: Ticket) -> None:
        """Return a ticket that was not used, or whose request gave no information."""
        now = asyncio.get_running_loop().time()
        self.throttle.cancelled(ticket, now)
        self._pump(now)

    def _pump(self, now: float) -> None:
        """Admit requests while the throttle allows it, then set the timer."""
        throttle = self.throttle
        if throttle.paused_until > self._first_deadline:
            self._refuse_hopeless()
        while queue := self._next_queue():
            if queue[0].future.done():
                heappop(queue)
                continue
            at = throttle.ready_at(now, beside=queue is self._refused)
            if at > now:
                self._warn_of_wait(throttle.paused_until, now)
                self._set_timer(at)
                return
            # The last entry of a heap is one of the last in order, and to take it leaves a heap.
            waiter = queue.pop() if throttle.exhausted and queue is self._new else heappop(queue)
            if not waiter.future.done():
                self._turns = TURNS if queue is self._returned else max(self._turns - (queue is self._new), 0)
                waiter.future.set_result(throttle.depart(now, waiter.ticket))

    def _next_queue(self) -> list[_Waiter]:
        """Return the queue whose first request is the next to depart; an empty one if none waits."""
        if self.throttle.exhausted:
            return self._new or self._returned or self._refused
        if self._new and self._returned and not self._refused:
            return self._new if self._turns or self._new < self._returned else self._returned
        return self._refused or self._new or self._returned

    def _refuse_hopeless(self) -> None:
        """Refuse the requests whose time ends before the pause does."""
        left: list[float] = []
        for waiter in chain(*self._queues):
            if waiter.deadline < self.throttle.paused_until:
                self._refuse(waiter)
            elif not waiter.future.done():
                left.append(waiter.deadline)
        self._first_deadline = min(left, default=inf)

    def _refuse(self, waiter: _Waiter) -> None:
        """Raise WaitTooLongError in a request that waits."""
        if not waiter.future.done():
            seconds = self.throttle.paused_until - asyncio.get_running_loop().time()
            waiter.future.set_exception(WaitTooLongError(seconds if seconds > 0 else None))

    def _set_timer(self, at: float) -> None:
        if at < self._timer_at:
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
        for waiter in chain(*self._queues):
            if not waiter.future.done():
                waiter.future.set_exception(SessionClosedError("the session is closed"))
        for queue in self._queues:
            queue.clear()
