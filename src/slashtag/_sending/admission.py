"""When a request may be sent: in the queue, as the throttle allows."""

import asyncio
import logging
from datetime import datetime, timedelta
from math import inf

from .._core.queue import Flow, Place, Queue
from .._core.throttle.throttle import Throttle, Ticket
from .._errors import SessionClosedError

LONG_WAIT = 10.0  # seconds: a longer wait is logged as a warning

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
        self.throttled = 0  # answers of 429 so far
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
        rejects, is_refused = (ticket.rejects, ticket.refusals > 0) if ticket is not None else (0, False)
        self._queue.put(place, waiter, rejects, is_refused=is_refused)
        self._first_deadline = min(self._first_deadline, deadline)
        timer = None if max_wait is None else loop.call_at(deadline, self._give_up, waiter)
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
        self.throttled += 1
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
            self._give_up_hopeless()
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

    def _give_up_hopeless(self) -> None:
        """Give up the requests whose time ends before the pause does."""
        for waiter in list(self._queue):
            if waiter.deadline < self.throttle.paused_until:
                self._give_up(waiter)
        self._first_deadline = min((waiter.deadline for waiter in self._queue), default=inf)

    def _give_up(self, waiter: _Waiter) -> None:
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
