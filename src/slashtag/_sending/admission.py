"""When a request may be sent: in turn, as the throttle allows."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf

from .._core.throttle.throttle import Throttle
from .._core.throttle.ticket import Ticket
from .._core.turns import Turns
from .._errors import SessionClosedError

LONG_WAIT = 10.0  # seconds: a longer wait is logged as a warning
QUIET = 60.0  # seconds between two such warnings, at least


class NotAdmittedError(Exception):
    """A request that may not be sent in time.

    `seconds`: until a pause ends, None without one; `is_outage`: nothing was answered for its max_elapsed.
    """

    def __init__(self, seconds: float | None, *, is_outage: bool = False) -> None:
        self.seconds, self.is_outage = seconds, is_outage


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request that waits; its future gives its ticket."""

    operation: Hashable
    future: asyncio.Future[Ticket]
    ticket: Ticket | None
    deadline: float
    patience: float


class Admission:
    """Requests of a session that wait until the throttle allows them, in the order of `_core.turns`.

    Every ticket must be given back to exactly one of `accepted`, `rejected`, `failed`, `cancelled`.
    """

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self.throttled = 0  # answers of 429 so far
        self._turns: Turns[_Waiter] = Turns()
        self._first_deadline = inf  # no request that waits has an earlier one
        self._alone = 0  # requests that wait by themselves before they are sent again
        self._quiet_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._closing = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of requests that wait to be sent."""
        return len(self._turns) + self._alone

    def try_enter(self, now: float) -> Ticket | None:
        """Admit a new request at once if no other waits for its turn and the throttle allows it."""
        return None if self._turns or self.throttle.ready_at(now) > now else self.throttle.depart(now)

    async def enter(
        self,
        operation: Hashable,
        max_wait: float = inf,
        patience: float = inf,
        ticket: Ticket | None = None,
        *,
        is_back: bool = False,
    ) -> Ticket:
        """Wait for admission.

        `operation`: of whose calls this is one; `ticket`: of its 429s; `is_back`: it was sent before. Raises
        SessionClosedError, and NotAdmittedError as soon as it is certain that `max_wait` seconds are not
        enough, and once nothing was answered for `patience` seconds.
        """
        if self._closing.is_set():
            raise SessionClosedError("the session is closed")
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiter = _Waiter(operation, loop.create_future(), ticket, now + max(max_wait, 0.0), patience)
        # One that is refused while others pass waits as a new one.
        is_back &= ticket is None or not ticket.refusals or self.throttle.exhausted
        self._turns.put(operation, waiter, is_back=is_back, exhausted=self.throttle.exhausted)
        self._first_deadline = min(self._first_deadline, waiter.deadline)
        self._pump(now)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            # Admitted and cancelled at the same time: admit the next one.
            if waiter.future.cancelled():
                self._turns.remove(operation, waiter)
                self._pump(loop.time())
            elif not waiter.future.exception():
                self.cancelled(waiter.future.result())
            raise

    async def sleep(self, seconds: float) -> None:
        """Wait without a turn; raises SessionClosedError if the session closes meanwhile."""
        self._alone += 1
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        finally:
            self._alone -= 1
        raise SessionClosedError("the session was closed before the request was sent again")

    def is_due(self, seconds: float, now: float) -> bool:
        """Return whether a wait is told as a warning: it is long, and none was told for a while."""
        if seconds <= LONG_WAIT or now < self._quiet_until:
            return False
        self._quiet_until = now + QUIET
        return True

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Return a ticket after an accepted request."""
        self.throttle.accepted(ticket, now)
        if self._turns:
            self._pump(now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None) -> float:
        """Return a ticket after a rate-limit 429; return when that request may `enter` again."""
        self.throttled += 1
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
        """Admit requests as the throttle allows, give up those whose time is over, set the timer."""
        throttle, at = self.throttle, inf
        while self._turns and (at := throttle.ready_at(now)) <= now:
            waiter = self._turns.pop(exhausted=throttle.exhausted)
            # A task that is cancelled cancels what it waits for, before it can leave by itself.
            if not waiter.future.done():
                waiter.future.set_result(throttle.depart(now, waiter.ticket))
        if max(now, throttle.paused_until) >= self._first_deadline or throttle.outage.is_on:
            self._give_up(now)
        at = min(at, self._first_deadline)
        if self._turns and at < self._timer_at:  # never if it is inf: the next answer pumps
            self._stop_timer()
            self._timer_at = at
            self._timer = asyncio.get_running_loop().call_at(at, self._wake)

    def _give_up(self, now: float) -> None:
        """Give up requests whose time ends before the pause does, or which wait for an answer no longer."""
        end, lasted = max(now, self.throttle.paused_until), self.throttle.outage.lasted(now)
        for waiter in list(self._turns):
            is_outage = lasted >= waiter.patience
            if is_outage or waiter.deadline <= end:
                self._turns.remove(waiter.operation, waiter)
                if not waiter.future.done():
                    waiter.future.set_exception(NotAdmittedError(end - now or None, is_outage=is_outage))
        self._first_deadline = min((waiter.deadline for waiter in self._turns), default=inf)

    def _wake(self) -> None:
        self._stop_timer()
        self._pump(asyncio.get_running_loop().time())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, inf

    def close(self) -> None:
        """Raise SessionClosedError in requests that wait, and in later ones that would have to."""
        self._closing.set()
        self._stop_timer()
        for waiter in self._turns:
            if not waiter.future.done():
                waiter.future.set_exception(SessionClosedError("the session is closed"))
        self._turns = Turns()
