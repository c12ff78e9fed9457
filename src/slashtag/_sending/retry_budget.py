"""The retry budget of a session: a flaky service is survived, a dead one is left alone."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from .._errors import SessionClosedError

CAPACITY = 100.0
FREE, LONE = "free", "lone"
EARNED = 0.2  # of a retry, by a request that needs none
#: Failures of the line in a row at which an outage is told: shorter ones are nobody's concern.
OUTAGE_FAILURES = 3

log = logging.getLogger("slashtag")


class RetryBudget:
    """Allow retries freely while they tend to succeed, and one at a time once the budget is empty.

    A retry costs 1 and gives it back when it succeeds. With an empty budget the retries stand in line: one
    is sent, and the next only after `backoff(n)` seconds, n counting the failures of the line in a row. A
    success pays for two more, so that the line dissolves as fast as the service recovers. What lasts is told,
    once: a warning when the line keeps failing, as it may do so in silence for minutes.
    """

    def __init__(self, backoff: Callable[[int], float]) -> None:
        self._backoff = backoff
        self._left = CAPACITY
        self._line: deque[asyncio.Future[str]] = deque()
        self._lone = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> float:
        """Tell how many retries may be sent without standing in line."""
        return self._left

    def earn(self) -> None:
        """Take note of a request that succeeded at once."""
        if self._left < CAPACITY:
            self._left = min(CAPACITY, self._left + EARNED)
            if self._line:
                self._next()

    async def take(self, patience: float) -> str | None:
        """Wait until a retry may be sent and return its permit; None once that took `patience` seconds.

        Raises SessionClosedError if the budget is closed meanwhile.
        """
        if self._left >= 1 and not self._line:
            self._left -= 1
            return FREE
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[str] = loop.create_future()
        self._line.append(turn)
        self._next()
        timer = loop.call_later(patience, _cancel, turn)
        try:
            await asyncio.wait((turn,))
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and not turn.exception():
                self.give_back(turn.result(), succeeded=None)
            else:
                turn.cancel()
                self._next()
            raise
        finally:
            timer.cancel()
        return None if turn.cancelled() else turn.result()

    def give_back(self, permit: str, *, succeeded: bool | None) -> None:
        """End a retry that `take` allowed; None where it was never sent or was cancelled."""
        lone = permit == LONE
        if lone:
            self._lone = False
        if succeeded:
            if self._failures >= OUTAGE_FAILURES:
                log.info("the service answers again")
            self._failures = 0
            # The cost comes back, and with others waiting as much again.
            self._left = min(CAPACITY, self._left + (2 if self._line or lone else 1))
        elif succeeded is None:
            self._left = min(CAPACITY, self._left + (not lone))
        elif lone:
            self._failures += 1
            if self._failures == OUTAGE_FAILURES:
                log.warning("the service keeps failing: one request at a time is tried until one succeeds")
        self._next()

    def _next(self) -> None:
        while self._line:
            if self._line[0].done():
                self._line.popleft()
            elif self._left >= 1:
                self._left -= 1
                self._line.popleft().set_result(FREE)
            else:
                if not self._lone and self._timer is None:
                    delay = self._backoff(self._failures)
                    self._timer = asyncio.get_running_loop().call_later(delay, self._go_alone)
                return

    def _go_alone(self) -> None:
        self._timer = None
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                self._lone = True
                turn.set_result(LONE)
                return

    def close(self) -> None:
        """Refuse those in line: SessionClosedError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for turn in self._line:
            if not turn.done():
                turn.set_exception(SessionClosedError("the session is closed"))
        self._line.clear()


def _cancel(turn: asyncio.Future[str]) -> None:
    if not turn.done():
        turn.cancel()
