"""The time from an exhausted limit to its opening, found by one probe after the other."""

from __future__ import annotations

from .schedule import FLOOR, Ticket

QUICK, SLOW = 0.5, 3.5  # seconds between two probes: doubled up to the one, then slowly up to the other


class DrySpell:
    """A dry spell: requests are probes, sent one at a time and at most 20 a second.

    `since` is when the first request departed that met the exhausted limit, `retry_after` what its 429 asked
    for, `rejects` the 429s of the event, `load` the number in flight when it began. `hits` probes passed so
    far, the first of them sent at `opened_at`; `misses` did not, `late_misses` of those after the first hit.
    `resume`: what was known before still holds.
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
        """How long the limit stayed exhausted, in seconds."""
        return self.opened_at - self.since

    @property
    def opening(self) -> float:
        """When the limit opened. A Retry-After in whole seconds may be up to one second too long."""
        if self.retry_after:
            return min(self.opened_at, self.since + max(self.retry_after - 1, 0))
        return self.opened_at

    def missed(self, ticket: Ticket) -> float:
        """Take a probe's 429; return when the next may depart."""
        self.missed_at = ticket.sent
        if ticket.load == 1:  # otherwise the place may have been taken by a request from before
            self.misses += 1
            self.late_misses += self.hits > 0
        interval = self.interval
        self.interval = min(QUICK, 2 * interval) if interval < QUICK else min(SLOW, 1.3 * interval)
        return ticket.sent + interval

    def hit(self, ticket: Ticket) -> None:
        """Take a probe that passed."""
        if not self.hits:
            self.opened_at = ticket.sent
        self.hits += 1
