"""Schedule of departures at a rate, and measurement of the accepted rate."""

from __future__ import annotations

from collections import deque
from math import inf, sqrt

EARLY = 0.008  # seconds a departure may be ahead of its schedule: one timer wakes a group of them
SAMPLE = 20  # requests that a measured rate needs
FLOOR = 0.05  # seconds: the shortest time that is measured, and between two probes; a clock may tick in 16 ms
CLOSE = 1.3  # pace / accepted rate up to which the limit is surely between them
DEEP = 0.3  # dip of the curve after cuts without effect: if this has none either, no cut has
LATE = 0.03  # seconds of lateness that are caught up; more would be a burst after a stall
SLOWEST = 8.0  # seconds at most until the curve is back at its rate


class Ticket:
    """One request in flight; opaque to callers.

    `sent` is the time of departure, `number` counts departures, `load` is the number in flight with this one.
    """

    __slots__ = ("load", "number", "sent")

    def __init__(self, sent: float, number: int, load: int) -> None:
        self.sent = sent
        self.number = number
        self.load = load


class Pace:
    """Schedule of departures at `rate` (requests/s), bent by a cubic curve.

    The curve starts at rate x (1 - dip), reaches the rate after `time` seconds and rises above it:
    rate x (1 + dip ((t / time) - 1)^3). Then a new curve starts, in half the time. With dip 0 it is constant.
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
        """Advance the schedule by one request; the curve stops while no requests are sent."""
        due = self.due
        late = now - due - LATE
        if late > 0:
            due += late
            self.since += late
            if self.since > now:  # the first departure, or one after a very long time
                self.since, due = now, now
        x = (now - self.since) / self.time - 1
        pace = self.rate * (1 + self.dip * x * x * x)
        if x > 1 and self.dip:
            # No 429 so far: continue twice as fast, and further.
            self.rate, self.dip, self.time = pace, 0.3, max(self.time / 2, 1.5)
            self.since = now - self.time
        self.due = due + 1 / pace


class Flow:
    """Measurement of the accepted rate between two exhaustions of the limit, by departure times.

    At a 429 the limit is exhausted. The requests sent between two 429s and not rejected are exactly what the
    limit accepted in that time, regardless of latency and burst allowance.
    """

    __slots__ = ("_marks", "lost", "mark")

    def __init__(self) -> None:
        self._marks: deque[tuple[Ticket, int]] = deque(maxlen=8)
        self.restart(Ticket(0.0, 0, 0))

    def restart(self, ticket: Ticket) -> None:
        """Start at a request that met the exhausted limit, and forget earlier measurements."""
        self._marks.clear()
        self.lost = 0
        self.advance(ticket)

    def advance(self, ticket: Ticket) -> None:
        """Start a new measurement."""
        self._marks.append((ticket, self.lost))
        self.mark, self.lost = ticket, 0

    def sample(self, ticket: Ticket) -> int:
        """Count the requests from the mark up to this one."""
        return ticket.number - self.mark.number

    def rate(self, ticket: Ticket, seconds: float = 0.0) -> float:
        """Return the accepted rate up to this request, in requests/s.

        If the last measurement is shorter than `seconds`, earlier ones are added.
        """
        mark, passed, lost = self.mark, 0, self.lost
        for mark, lost_before in reversed(self._marks):
            passed = ticket.number - mark.number - lost
            if passed >= SAMPLE and ticket.sent - mark.sent >= seconds:
                break
            lost += lost_before
        return max(passed, 1) / max(ticket.sent - mark.sent, FLOOR)


def corrected(
    low: float, high: float, early: int, *, after_pause: bool, costly: bool
) -> tuple[float, float, float]:
    """Return rate, dip and time of the curve after a 429 at the pace `high`, where `low` was accepted.

    `early` counts consecutive corrections before the curve was back at its rate; `costly`: another 429 would
    cause a pause.
    """
    if high >= CLOSE * low:
        rate = min(sqrt(low * high), 1.5 * low)
        return rate, 1 - 0.97 * low / rate, 1.5
    rate = low**0.75 * high**0.25
    time = SLOWEST if costly else min(max(1.5 if after_pause else 2.5, 60 / rate), SLOWEST)
    if early > 1:
        return rate, DEEP, 1.5 * time
    return rate, 0.1 if early else min(0.1, max(0.02, 16 / (rate * time))), time
