"""When a request may be sent: in turn, as the throttle allows."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from math import inf

from msgspec import Struct

from .._core.throttle.throttle import Throttle
from .._core.throttle.ticket import Ticket
from .._core.turns import Turns
from .._errors import SessionClosedError


class NotAdmittedError(Exception):
    """A request that may not be sent in time."""


class _Waiter(Struct, eq=False):
    """A request that waits; its future gives its ticket."""

    operation: Hashable
    future: asyncio.Future[Ticket]
    ticket: Ticket | None
    deadline: float
    patience: float


class Admission:
    """Requests of a session that wait until the throttle allows them, in the order of `_core.turns`.

    Every ticket must be given back to the throttle, as accepted, rejected, failed or cancelled; then `pump`
    admits those whose turn it is.
    """

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self._turns: Turns[_Waiter] = Turns()
        self._first_deadline = inf  # no request that waits has an earlier one
        self._asleep = 0  # requests that wait by themselves before they are sent again
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._closing = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of requests that wait to be sent."""
        return len(self._turns) + self._asleep

    def enter(self, now: float, ticket: Ticket | None) -> Ticket | None:
        """Return the ticket of a request that may be sent at once, None if it has to `wait`.

        `ticket`: that of its 429s. In an outage all have to, as one at a time finds out whether it is over.
        """
        throttle = self.throttle
        if (
            self._closing.is_set()
            or self._turns.queues
            or throttle.outage.is_on
            or throttle.ready_at(now) > now
        ):
            return None
        return throttle.depart(now, ticket)

    async def wait(
        self,
        operation: Hashable,
        max_wait: float,
        patience: float,
        ticket: Ticket | None,
        *,
        is_back: bool,
    ) -> Ticket:
        """Wait for admission.

        `operation`: of whose calls this is one; `ticket`: of its 429s; `is_back`: it was sent before. Raises
        SessionClosedError, and NotAdmittedError as soon as it is certain that `max_wait` seconds are not
        enough, and once nothing was answered for `patience` seconds.
        """
        if self._closing.is_set():
            raise SessionClosedError("the session is closed")
        loop, throttle = asyncio.get_running_loop(), self.throttle
        waiter = _Waiter(operation, loop.create_future(), ticket, loop.time() + max_wait, patience)
        # One that is refused while others pass waits as a new one.
        is_back &= ticket is None or not ticket.refusals or throttle.exhausted
        self._turns.put(operation, waiter, is_back=is_back, exhausted=throttle.exhausted)
        self._first_deadline = min(self._first_deadline, waiter.deadline)
        self.pump()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter.future.cancelled():
                self._turns.remove(operation, waiter)
            elif not waiter.future.exception():  # admitted at the same time
                throttle.cancelled(waiter.future.result(), loop.time())
            self.pump()
            raise

    async def sleep(self, seconds: float) -> None:
        """Wait without a turn, or until the session closes."""
        self._asleep += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closing.wait()
        finally:
            self._asleep -= 1

    def pump(self) -> None:
        """Admit requests as the throttle allows, give up those whose time is over, set the timer."""
        if not (queues := self._turns.queues):
            return
        loop, throttle = asyncio.get_running_loop(), self.throttle
        now = at = loop.time()
        while queues and (at := throttle.ready_at(now)) <= now:
            waiter = self._turns.pop(exhausted=throttle.exhausted)
            # A task that is cancelled cancels what it waits for, before it can leave by itself.
            if not waiter.future.done():
                waiter.future.set_result(throttle.depart(now, waiter.ticket))
        if max(now, throttle.paused_until) >= self._first_deadline or throttle.outage.is_on:
            self._give_up(now)
        # Without a time the next answer pumps.
        at = min(at, self._first_deadline) if queues else inf
        if at == self._timer_at:  # it is set already
            return
        if self._timer:
            self._timer.cancel()
        self._timer_at = at
        self._timer = loop.call_at(at, self._on_time) if at < inf else None

    def _on_time(self) -> None:
        # Event loops may call this a little early: then the timer is set again.
        self._timer_at = inf
        self.pump()

    def _give_up(self, now: float) -> None:
        """Give up requests whose time ends before the pause does, or which wait for an answer no longer."""
        end, lasted = max(now, self.throttle.paused_until), self.throttle.outage.lasted(now)
        for waiter in list(self._turns):
            if lasted >= waiter.patience or waiter.deadline <= end:
                self._turns.remove(waiter.operation, waiter)
                if not waiter.future.done():
                    waiter.future.set_exception(NotAdmittedError)
        self._first_deadline = min((waiter.deadline for waiter in self._turns), default=inf)

    def close(self) -> None:
        """Raise SessionClosedError in requests that wait, and in later ones."""
        self._closing.set()
        for waiter in self._turns:
            if not waiter.future.done():
                waiter.future.set_exception(SessionClosedError("the session is closed"))
        self._turns = Turns()
