"""Keep a schedule of departures, and measure at what rate requests were accepted.

Both serve `pacing.Throttle` once it has met a limit of the rate.
"""

from __future__ import annotations

from math import inf

EARLY = 0.008  # seconds a departure may be ahead of its schedule: one timer wakes a group of them
LATE = 0.03  # seconds of lateness that are caught up; more would be a burst after a stall
STEEP = 4.0  # times `time` after which the curve starts anew from where it is


class Ticket:
    """Mark one request on its way; opaque to callers.

    `sent` is the time of departure, `number` counts departures, `load` is the number in flight with this one.
    """

    __slots__ = ("load", "number", "sent")

    def __init__(self, sent: float, number: int, load: int) -> None:
        self.sent = sent
        self.number = number
        self.load = load


class Pace:
    """Schedule departures at `rate` (requests/s), bent by a cubic curve.

    The curve starts at rate x (1 - dip), comes back to the rate gently, reaches it after `time` seconds and
    probes above it later and later faster: rate x (1 + dip ((t / time) - 1)^3). With dip 0 the rate is kept.
    """

    __slots__ = ("dip", "due", "rate", "since", "time")

    def __init__(self, rate: float = 1.0) -> None:
        self.rate: float = rate
        self.dip: float = 0.0
        self.time: float = 1.0
        self.since: float = 0.0
        self.due: float = -inf

    def steer(self, now: float, rate: float, dip: float, time: float, due: float) -> None:
        """Start a new curve at `now`, with the next departure at `due`."""
        self.rate, self.dip, self.time, self.since, self.due = rate, dip, time, now, due

    def at(self, now: float) -> float:
        """Return the pace at a time, in requests/s."""
        x = max((now - self.since) / self.time, 0.0) - 1
        return self.rate * (1 + self.dip * x * x * x)

    def depart(self, now: float) -> None:
        """Move the schedule on by one request; the curve stands still while nobody uses the schedule."""
        due = self.due
        late = now - due - LATE
        if late > 0:
            due += late
            self.since += late
            if self.since > now:  # the first departure, or one after an age
                self.since, due = now, now
        x = (now - self.since) / self.time - 1
        pace = self.rate * (1 + self.dip * x * x * x)
        if x > STEEP:
            self.rate, self.since = pace, now - self.time
        self.due = due + 1 / pace


class Flow:
    """Measure the accepted rate between two exhaustions of the limit, by the times of departure.

    At a 429 the limit is exhausted. What departed between two such requests and was not rejected is what the
    limit let pass in that time, exactly: neither the latency nor a burst allowance is in it.
    """

    __slots__ = ("_lost_before", "lost", "mark", "previous")

    def __init__(self) -> None:
        self.restart(Ticket(0.0, 0, 0))

    def restart(self, ticket: Ticket) -> None:
        """Begin at a request that met the exhausted limit, and forget what was before."""
        self.mark = self.previous = ticket
        self.lost = self._lost_before = 0

    def advance(self, ticket: Ticket) -> None:
        """Begin a new measurement; keep the last one where it lasted a second at least."""
        if ticket.sent - self.mark.sent >= 1:
            self.previous, self._lost_before = self.mark, self.lost
        else:
            self._lost_before += self.lost
        self.mark, self.lost = ticket, 0

    def sample(self, ticket: Ticket) -> int:
        """Count the requests from the mark up to this one."""
        return ticket.number - self.mark.number

    def rate(self, ticket: Ticket, gate: float = 0.0, dry: bool = False) -> float:
        """Return the accepted rate up to this request, in requests/s; a gate of some seconds follows it.

        After a dry spell the last second may hold nothing but the spell: then it is the rate since the
        exhaustion before.
        """
        mark, lost = self.mark, self.lost
        if dry and ticket.sent - mark.sent < 1:
            mark, lost = self.previous, self._lost_before + lost
        seconds = ticket.sent + gate - mark.sent
        return max(ticket.number - mark.number - lost, 1) / max(seconds, 1e-3)
