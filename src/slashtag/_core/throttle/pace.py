"""Departures along a curve, and the rate that a service accepts between two corrections of it."""

from collections import deque
from dataclasses import dataclass
from math import exp, inf, log, sqrt

EARLY = 0.008  # seconds a departure may be ahead of its schedule: one timer wakes a group of them
LATE = 0.03  # seconds of lateness that are caught up; more would be a burst after a stall
FLOOR = 0.05  # seconds: the shortest time that is measured, and between two probes; a clock may tick in 16 ms
SAMPLE = 20  # requests that a measured rate needs
BRIEF = 0.5  # seconds at least between two corrections
SETTLE = 0.2  # seconds until a correction shows in the answers
SIGMA = 2.5  # standard deviations of the expected strays that are chance
TOLERATED = 0.005  # share of 429s that does not cut the rate
QUICK, SLOW = 2.5, 7.2  # seconds until a curve is back at its rate; for SAMPLE requests up to eight times
RISE = 20  # requests that a session adds, whatever its rate: sessions that share a limit become equal
COMPANY = 4  # corrections in which others may share the limit: at first, and after early ones
DOUBT = 0.7  # dip, to half the rate, which does not cause the 429s that still occur there
FALLEN = 0.8  # of the accepted rate: below it the limit is another, and strays are counted anew
SOON = 200  # requests, unpaced, after which no limit is exhausted if 429s occur at any pace
MOST = 0.3  # share of 429s that may occur at any pace

# rate, dip under it, seconds until the curve is back at it, and by what it rises from there
Curve = tuple[float, float, float, float]


@dataclass(slots=True, eq=False)
class Ticket:
    """One call: its request in flight, and the 429s that it met."""

    sent: float = 0.0
    number: int = 0  # of the request in the session
    load: int = 0  # requests in flight when it was sent, without those of refused calls
    pace: float = inf  # requests a second at which it departed; inf: not paced, or in the first SETTLE
    beside: bool = False  # sent while the call was known to be refused, and no probe
    rejects: int = 0  # all of its 429s
    refusals: int = 0  # the last ones, before each of which a request sent after the one before was accepted
    strays: int = 0  # 429s at a pace that was accepted before, until the call is accepted
    first: float = inf  # time of its first 429
    last: float = inf  # time of its last one

    @property
    def is_refused(self) -> bool:
        """Whether the call is answered 429 for a reason of its own: once may be a limit exceeded for long."""
        return self.refusals > 1

    def reject(self, now: float, passed: float) -> bool:
        """Count a 429; return whether it says nothing of others: one sent after a 429 of it has passed."""
        self.refusals = self.refusals + 1 if passed > self.last else 0
        self.rejects += 1
        self.first, self.last = min(self.first, now), now
        return self.refusals > 0


class Pace:
    """The curve `rate * exp(dip * (t / time - 1) ** 3)` and the measurements that start a new one.

    It begins under the rate, stays near it around `time`, and then rises ever faster: the cautious return,
    the probe for more and the search after a lifted limit are one formula. While other sessions may share
    the limit a slow one rises more steeply than it dips: each gains as many requests, whatever its rate.
    """

    def __init__(self, rate: float) -> None:
        self.rate, self.dip, self.rise, self.time, self.since, self.due = rate, 0.0, 0.0, 1.0, 0.0, 0.0
        self.proven = 0.0  # rate that was accepted before the last correction
        self.known = 0.0  # share of 429s that was learnt to occur at any pace
        self._needed = 3  # 429s that teach it; twice as many each time they were due to others
        self._early = 0  # consecutive corrections before the curve was back, or when less was accepted
        self._company = COMPANY  # corrections until the session takes the limit for its own
        self._below = self._strays = 0  # answers at a pace under `proven`; 429s, to calls not accepted since
        self._slow = self._slow_lost = 0  # answers at a pace well under `proven`, and 429s
        self.marked, self._lost, self._weight = 0, 0, 0.0  # last request at a mark; 429s; those since it
        self._marks: deque[tuple[int, float, int]] = deque([(0, 0.0, 0)], maxlen=8)

    def start(self, now: float, curve: Curve, due: float) -> None:
        """Follow a curve from now on; the next request departs at `due`."""
        self.rate, self.dip, time, self.rise = curve
        self.time, self.since, self.due = max(time, min(SAMPLE / self.rate, 8 * SLOW)), now, due

    def begin(self, rate: float) -> None:
        """Follow the curve of a rate that was learnt before, from the first request on."""
        self.proven = rate
        self.start(0.0, (rate, 0.1, QUICK, 0.1), 0.0)

    def at(self, now: float) -> float:
        """Return the requests a second at a time."""
        x = (now - self.since) / self.time - 1
        return self.rate * exp(min((self.rise if x > 0 else self.dip) * max(x, -1.0) ** 3, 9.0))

    def depart(self, now: float) -> float:
        """Schedule the next departure; return the pace of this one, inf while answers show an older one."""
        late = now - self.due - LATE
        if late > 0:  # time in which nothing was waiting is not made up for, and does not raise the pace
            self.due += late
            self.since = min(self.since + late, now)
        pace = self.at(now)
        self.due += 1 / pace
        return pace if now - self.since > SETTLE else inf

    def accepted(self, ticket: Ticket) -> None:
        """Take note of an accepted request: its call is not refused."""
        self._strays, ticket.strays = max(0, self._strays - ticket.strays), 0
        self._judge(ticket, 0)

    def rejected(self, ticket: Ticket, *, counts: bool) -> None:
        """Take note of a 429; that of a refused call counts as a request that was not accepted."""
        if ticket.number > self.marked:
            self._lost += 1
            self._weight += counts
        self._judge(ticket, counts)

    def _judge(self, ticket: Ticket, lost: int) -> None:
        """Count an answer, and whether it was a 429, at a pace under what was accepted before."""
        if ticket.pace < self.proven:
            self._below += 1
            self._strays += lost
            ticket.strays += lost
        if ticket.pace < 0.9 * self.proven:
            self._slow += 1
            self._slow_lost += lost

    def learnt(self) -> bool:
        """Return whether the share of 429s at any pace has been learnt, or is much higher than it was."""
        share = self._slow_lost / (self._slow + SAMPLE)
        enough = self._slow >= SAMPLE and self._needed <= self._slow_lost <= MOST * self._slow
        if learnt := enough and share > 1.5 * self.known:
            self.known, self._weight = share, 0.0
        return learnt

    def excessive(self, ticket: Ticket) -> bool:
        """Return whether there were more 429s since the last correction than occur at any pace."""
        count, seconds = ticket.number - self.marked, ticket.sent - self._marks[-1][1]
        strays = max(1.2 * self.known, min(MOST, 2 * self._strays / (self._below + SAMPLE))) * count
        enough = seconds >= BRIEF if count >= SAMPLE else seconds >= SLOW and ticket.pace < inf
        return enough and self._weight > TOLERATED * count + strays + SIGMA * sqrt(strays)

    def measured(self, ticket: Ticket, seconds: float) -> float:
        """Return the requests a second, without 429s, since the latest mark that is old enough, or all."""
        passed, sent = 0, ticket.sent
        for number, sent, lost in reversed(self._marks):
            passed = ticket.number - number - (self._lost - lost)
            if passed >= SAMPLE and ticket.sent - sent >= seconds:
                break
        return max(passed, 1) / max(ticket.sent - sent, FLOOR)

    def restart(self, number: int, sent: float, *, exhausted: bool = False) -> None:
        """Measure from this request on; a limit exhausted soon after a share was learnt disproves that."""
        if exhausted and self.known and number - self.marked < SOON:
            self.known, self._needed = 0.0, 2 * self._needed
        self._marks.clear()
        self._mark(number, sent)

    def enter(self, ticket: Ticket, rate: float) -> Curve:
        """Return the first curve, at a rate measured without pacing: it may be that of a burst."""
        self.proven, self._early = rate, -1
        self._slow = self._slow_lost = 0
        self.restart(ticket.number, ticket.sent)
        return rate, DOUBT, 1.0, DOUBT

    def correct(self, ticket: Ticket) -> Curve:
        """Return the curve after excessive 429s; one that follows early ones, or lower rates, dips deep."""
        low = self.measured(ticket, 0.0)
        early = ticket.sent - self.since < 0.9 * self.time or low < 0.9 * self.proven
        return self.resume(ticket, low, self.at(ticket.sent), self._early + 1 if early else 0)

    def resume(self, ticket: Ticket, low: float, high: float, early: int = 0) -> Curve:
        """Return the curve between a rate that was accepted and that at which the limit was exceeded."""
        low = min(low, high)
        self._early = early
        self._company = COMPANY if early else max(0, self._company - 1)
        self._mark(ticket.number, ticket.sent)
        if low < FALLEN * self.proven:
            self._below = self._strays = 0
        self.proven = low
        rate = low**0.75 * high**0.25
        time = min(max((30 if self._company else 50) / rate, QUICK), SLOW)
        rise = RISE / (rate * time)
        dip = log(rate / low) + (DOUBT if self._early >= 2 else min(0.1, max(0.02, rise)))
        return rate, dip, time, max(dip, min(rise, DOUBT)) if self._company else dip

    def _mark(self, number: int, sent: float) -> None:
        self._marks.append((number, sent, self._lost))
        self.marked, self._weight = number, 0.0
