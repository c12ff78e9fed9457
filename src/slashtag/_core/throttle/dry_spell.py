"""Dry spell: the time from the exhaustion of a limit to its opening, found by single probes."""

from __future__ import annotations

from .schedule import FLOOR, Ticket

QUICK, SLOW = 0.5, 3.5  # seconds between two probes: doubled up to QUICK, then raised slowly up to SLOW


class DrySpell:
    """Period in which the limit is exhausted; requests are probes, one at a time and at most 20 per second.

    `since` is the departure of the first request that met the exhausted limit, `retry_after` is from its 429,
    `rejects` counts the 429s of the event, `load` is the number in flight at its start. `hits` probes were
    accepted so far, the first of them sent at `opened_at`; `misses` were not, `late_misses` of them after the
    first hit. `resume`: the rate learnt before is kept.
    """

    __slots__ = (
        "hits",
        "interval",
        "late_misses",
        "load",
        "missed_at",
        "misses",
        "opened_at",
        "probe",
        "rejects",
        "resume",
        "retry_after",
        "since",
    )

    def __init__(self, ticket: Ticket, now: float, retry_after: float, load: int, *, resume: bool) -> None:
        self.since = self.missed_at = self.opened_at = ticket.sent
        self.retry_after = retry_after
        self.load = load
        self.resume = resume
        self.rejects = 1
        self.probe: Ticket | None = None
        self.interval = max(2 * (now - ticket.sent), FLOOR)
        self.hits = self.misses = self.late_misses = 0

    @property
    def dry(self) -> float:
        """Duration of the exhaustion, in seconds."""
        return self.opened_at - self.since

    @property
    def opening(self) -> float:
        """Time at which the limit opened. A Retry-After in whole seconds may be up to one second too long."""
        if self.retry_after:
            return min(self.opened_at, self.since + max(self.retry_after - 1, 0))
        return self.opened_at

    def missed(self, ticket: Ticket) -> float:
        """Record a probe's 429; return when the next may be sent."""
        self.missed_at = ticket.sent
        if ticket.load == 1:  # otherwise an earlier request may have caused the 429
            self.misses += 1
            self.late_misses += self.hits > 0
        interval = self.interval
        self.interval = min(QUICK, 2 * interval) if interval < QUICK else min(SLOW, 1.3 * interval)
        return ticket.sent + interval

    def hit(self, ticket: Ticket) -> None:
        """Record an accepted probe."""
        if not self.hits:
            self.opened_at = ticket.sent
        self.hits += 1
