"""Schedule of departures at a rate."""

from __future__ import annotations

from math import inf

EARLY = 0.008  # seconds a departure may be ahead of its schedule: one timer wakes a group of them
FLOOR = 0.05  # seconds: the shortest time that is measured, and between two probes; a clock may tick in 16 ms
LATE = 0.03  # seconds of lateness that are caught up; more would be a burst after a stall


class Ticket:
    """One request in flight; opaque to callers.

    `sent` is the time of departure, `number` counts departures, `load` is the number in flight with this one.
    """

    __slots__ = ("load", "number", "sent")

    def __init__(self, sent: float, number: int, load: int) -> None:
        self.sent = sent
        self.number = number
        self.load = load


class Schedule:
    """Schedule of departures at `rate` (requests/s), bent by a cubic curve.

    The curve starts at rate x (1 - dip), reaches the rate after `time` seconds and rises above it:
    rate x (1 + dip ((t / time) - 1)^3). After twice the time a steeper one follows. Dip 0: constant.
    """

    __slots__ = ("dip", "due", "rate", "since", "time")

    def __init__(self, rate: float = 1.0) -> None:
        self.rate: float = rate
        self.dip: float = 0.0
        self.time: float = 1.0
        self.since: float = 0.0
        self.due: float = -inf

    def start(self, now: float, rate: float, dip: float, time: float, due: float) -> None:
        """Start a new curve at `now`, with the next departure at `due`."""
        self.rate, self.dip, self.time, self.since, self.due = rate, dip, time, now, due

    def at(self, now: float) -> float:
        """Return the scheduled rate at a time, in requests/s."""
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
        rate = self.rate * (1 + self.dip * x * x * x)
        if x > 1 and self.dip:
            # No 429 so far: continue in half the time, and twice as far.
            self.rate, self.time = rate, max(self.time / 2, 1.5)
            self.dip = min(1.0, max(0.3, 2 * self.dip))
            self.since = now - self.time
        self.due = due + 1 / rate
