"""Rate limit that a service announces in response headers."""

from __future__ import annotations

from math import inf

from .headers import RateHint
from .schedule import Ticket

PATIENCE = 60.0  # seconds after which a request is sent even if none is left


class AnnouncedLimit:
    """Number of requests left until the reset of a window, from the headers of the last answer.

    If none is left, nothing is sent before the reset, except one request a minute. If that is accepted,
    the headers are wrong, and are ignored for the rest of the session.
    """

    __slots__ = ("_hint", "_left", "_test", "_test_at", "_until", "wrong")

    def __init__(self) -> None:
        self.wrong = False
        self._hint: RateHint | None = None
        self._left = 0
        self._until = 0.0
        self._test: Ticket | None = None  # sent although nothing is left
        self._test_at = 0.0

    def take(self, hint: RateHint, now: float, in_flight: int) -> bool:
        """Record the headers of an answer, one of `in_flight`; return True for the first valid ones."""
        if hint.reset is None or self.wrong:
            return False
        first = self._hint is None
        self._hint = hint
        # The service may or may not have counted others in flight: assume that it has not.
        self._left = hint.remaining - max(in_flight - 1, 0)
        self._until = now + hint.reset
        self._test_at = now + min(hint.reset, PATIENCE)
        return first

    def ready_at(self, now: float, in_flight: int) -> float:
        """Return when a request may be sent; inf: not before an answer."""
        if now >= self._until or self._left > 0:
            return now
        return inf if in_flight else max(now, self._test_at)

    def estimate(self, at: float, now: float, ahead: int) -> float:
        """Return the earliest time to send a request with `ahead` others before it."""
        if now >= self._until or ahead < self._left:
            return at
        hint, later = self._hint, 0.0
        if hint and hint.limit and hint.window:
            later = (ahead - max(self._left, 0)) // hint.limit * hint.window
        return max(at, self._until + later)

    def exhausted_until(self, now: float) -> float:
        """Return the reset time if no request is left, or 0.0."""
        return self._until if self._left <= 0 and now < self._until else 0.0

    def depart(self, ticket: Ticket) -> None:
        """Count a departure."""
        if self._left <= 0 and ticket.sent < self._until:
            self._test = ticket
        self._left -= 1

    def contradicted(self, ticket: Ticket) -> bool:
        """Return whether accepting this request contradicts the headers."""
        if ticket is not self._test:
            return False
        self._test, self.wrong, self._until = None, True, 0.0
        return True
