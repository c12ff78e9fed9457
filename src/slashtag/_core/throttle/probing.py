"""Probing of an exhausted limit by single requests."""

from __future__ import annotations

from .schedule import FLOOR, Ticket

QUICK, SLOW = 0.5, 3.5  # seconds between two probes: doubled up to QUICK, then raised slowly up to SLOW


class Probing:
    """Period from the exhaustion of a limit to its opening; requests are sent one at a time, at most 20/s.

    `since` is the departure of the first request that met the exhausted limit, `retry_after` is from its 429,
    `rejected` counts the 429s of the event, `load` is the number in flight at its start. `accepted` probes
    passed so far, the first of them sent at `opened_at`; `waited`: the limit was seen exhausted by a probe
    with nothing else in flight. `resume`: the rate learnt before is kept.
    """

    __slots__ = (
        "accepted",
        "interval",
        "load",
        "opened_at",
        "rejected",
        "rejected_at",
        "request",
        "resume",
        "retry_after",
        "since",
        "waited",
    )

    def __init__(self, ticket: Ticket, now: float, retry_after: float, load: int, *, resume: bool) -> None:
        self.since = self.rejected_at = self.opened_at = ticket.sent
        self.retry_after = retry_after
        self.load = load
        self.resume = resume
        self.request: Ticket | None = None  # the probe in flight
        self.interval = max(2 * (now - ticket.sent), FLOOR)
        self.accepted = 0
        self.rejected = 1
        self.waited = False

    @property
    def seconds(self) -> float:
        """Duration of the exhaustion."""
        return self.opened_at - self.since

    @property
    def opening(self) -> float:
        """Time at which the limit opened. A Retry-After in whole seconds may be up to one second too long."""
        if self.retry_after:
            return min(self.opened_at, self.since + max(self.retry_after - 1, 0))
        return self.opened_at

    def reject(self, ticket: Ticket) -> float:
        """Record a probe's 429; return when the next may be sent."""
        self.request, self.rejected_at = None, ticket.sent
        self.waited |= ticket.load == 1  # otherwise an earlier request may have caused the 429
        interval = self.interval
        self.interval = min(QUICK, 2 * interval) if interval < QUICK else min(SLOW, 1.3 * interval)
        return ticket.sent + interval

    def accept(self, ticket: Ticket) -> None:
        """Record an accepted probe."""
        self.request = None
        if not self.accepted:
            self.opened_at = ticket.sent
        self.accepted += 1
