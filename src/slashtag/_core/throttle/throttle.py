"""Decide when the next request may be sent under a rate limit that nobody documented.

state      may depart                     429                           429s that cluster   accepted
open       in flight < cap: 10 at first   delays its own call           probing             cap + 1/8
probing    one probe at a time, after     of the probe: the next one    (is known)          probe: see below
           a pause                        later; of others: nothing
quota      in flight < cap, until the     beyond the budget: probing    probing             cap + 1/8
           budget is spent
paced      when due, by the curve         after a curve: cut if more    probing             -
                                          above its rate than below

A cluster says that the limit is exhausted. Each 429 adds one to a row, each accepted request that was sent
after the first of them takes off a third, so that up to one 429 in four is none; a call counts once in a
row.

Single probes then find when the limit is open again. What was accepted from one opening to the next, by the
time between, is the rate, of a bucket and of a window of any width. An accepted probe picks the first that
fits:
- The rate is given: paced.
- The limit was exhausted for most of that time, and for seconds: it is a quota. What was accepted is its
  budget, the time its width. The budget is spent at full speed; a slow start from there finds out whether
  there is more; then probes are few until shortly before the width is over.
- In a quota, most of the budget is spent, or it has just begun: it goes on.
- It was a quota, but exhausted before its budget: it is none. Its mean rate is paced.
- No rate is known, and what was measured is short and little: open, with half of the places in flight as at
  the start, and the measurement goes on.
- Else: paced at the rate. What is measured in less than a curve's time cuts the rate to a quarter at most.

The curve: rate * exp(DIP * (t / time - 1) ** 3). It begins under the rate, is there at `time`, stays close,
and rises ever faster: the cautious return, the test for more and the search after a lifted limit are one
formula. Each curve is an experiment. Below the rate 429s are those that occur at any pace; only if there
are more above it, beyond chance, the pace causes them, and what was accepted becomes the rate.

A Retry-After delays its own call. A probe that is told one is obeyed for as long as the limit has been
exhausted already, so that the wait at most doubles: one wrong answer costs little, a real pause is kept.

A call answered 429 although one sent after its previous 429 was accepted is refused: that says nothing of
others. It waits by itself, twice as long each time, its 429s count in no sum, and it takes no turn of
others. But where the rate is so low that many calls meet 429s again by chance, it does for the first times;
and if it is accepted, it was not refused, and adds one to the row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, sqrt

__all__ = ["Throttle", "Ticket"]

OPEN, PROBING, PACED, QUOTA = "open", "probing", "paced", "quota"

START = 10  # requests in flight at the start: few are lost where the limit is low
GROWTH = 1 / 8  # of a place in flight for each accepted request: as many more are lost when the limit is met
CLUSTER = 4  # 429s, and one for every 2 * CLUSTER in flight: strays under a quarter rarely do that
LEAK = 1 / 3  # of a 429 that an accepted request offsets: more than one 429 in four is a limit
WAIT = 0.125  # seconds, about a round trip: the first wait of a call, doubled each time it is refused
FLOOR = 0.05  # seconds: the shortest time that is measured, and between probes: 20 a second at most
BRIEF = (
    1.0  # seconds in which fewer than SAMPLE requests measure no rate: they may be few by chance, or refused
)
SLOWEST = 3.5  # seconds between probes without Retry-After: lost at most, 6 % of a minute
SLACK = 0.01  # seconds that a departure may be early or late: timers are; at 500/s a burst of 5
SAMPLE = 25  # requests at least until a curve is at its rate, which is then measured to 4 %; and of a quota
QUICK, LONG = (
    2.5,
    7.5,
)  # seconds until a curve is at its rate: a lifted limit takes 3 to 5 times that
DIP = 0.1  # a curve begins 10 % under its rate, and is 10 % over it after twice its time
STEEPEST = 5  # times its time after which a curve rises no more: 250,000-fold
ENOUGH = 1.5  # times its time until a curve may be cut; round trips of a 429 until the first probe
EARLY = 1 / 64  # of its width that a window is tried before its end, and between tries: shrinks 1.6 %
SLOW = 20.0  # requests a second under which a call refused once takes a turn: many meet two 429s by chance
LONGEST = 60.0  # seconds that one 503 may pause the session: one answer is no reason to stop for hours


@dataclass(slots=True, eq=False)
class Ticket:
    """One call: its request in flight, and the 429s that it met."""

    sent: float = 0.0
    above: bool = False  # whether it departed when the curve was above its rate
    rejects: int = 0  # all of its 429s
    refusals: int = 0  # the last ones, while others passed
    first: float = inf  # time of its first 429
    last: float = -inf  # time of its last one

    @property
    def is_refused(self) -> bool:
        """Whether the call is answered 429 for a reason of its own."""
        return self.refusals > 0


class Throttle:
    """Decision when requests depart, from what their answers say; in virtual or real time, without timers."""

    def __init__(
        self, concurrency: int, rate: float | None = None, notify: Callable[[str], None] = lambda text: None
    ) -> None:
        self._concurrency, self._given, self._notify = concurrency, rate, notify
        self.state = OPEN if rate is None else PACED
        self.in_flight = self.throttled = 0  # requests; 429s so far
        self.paused_until = 0.0
        self._row = self._row_from = 0.0  # 429s not offset; departure of the first of them
        self._passed = -inf  # departure of the last request that was accepted
        self._probe: Ticket | None = None
        self._opened, self._accepted = 0.0, 0  # start of the measurement; requests accepted since
        self._budget, self._width = 0, 0.0  # of a quota: requests, and seconds from one opening to the next
        self._rate = rate or inf  # of the curve; inf: none yet
        self._since = self._due = 0.0  # start of the curve, or when the limit was exhausted; next departure
        self._counts = [[0, 0], [0, 0]]  # below and above the rate of the curve: accepted, 429s
        self._landed = 0.0  # the last answer, or the end of a wait after a 429: from then on it may be idle

    @property
    def exhausted(self) -> bool:
        """Whether single requests find out when the limit is open again."""
        return self.state == PROBING

    @property
    def learned_rate(self) -> float | None:
        """Return the requests a second that the service allows, None while no rate is known."""
        return None if self._rate == inf else self._rate

    def resume(self, rate: float) -> None:
        """Begin at a rate that was learnt before, unless one is given or known."""
        if self._rate == inf:
            self.state, self._rate = PACED, rate

    def ready_at(self, now: float) -> float:
        """Return when the next request may be sent: up to now at once, inf not before an answer arrives."""
        if now < self.paused_until:
            return self.paused_until
        cap: float = self._concurrency
        if self.state in (OPEN, QUOTA):
            cap = min(cap, (START / 2 if self._since else START) + GROWTH * self._accepted)
        if self.state == QUOTA:
            left = self._budget - self._accepted
            cap = min(cap, left if left > 0 else 1 - GROWTH * left)
        if self._probe or self.in_flight >= cap:
            return inf
        return self._due if self.state == PACED and self._due - now > SLACK else now

    def depart(self, now: float, previous: Ticket | None = None) -> Ticket:
        """Send a request; `previous` is the ticket with which its call was answered 429 before."""
        ticket = previous or Ticket()
        ticket.sent, ticket.above = now, False
        if self.state == OPEN and not self.in_flight and now - max(self._landed, self.paused_until) > SLACK:
            self._opened, self._accepted = now, 0  # after idle time: fewer came than the limit may allow
        elif self.state == QUOTA and now > self._opened + self._width:  # not spent in time
            self._opened, self._budget, self._accepted = now, max(self._budget, self._accepted), 0
        elif self.state == PROBING:
            self._probe = ticket
            self._pause(now + FLOOR)
        elif self.state == PACED and ticket.refusals**2 * self._rate < SLOW:
            late = max(0.0, now - self._due - SLACK)  # nothing was waiting: this time is not made up for
            self._due += late
            self._since, self._opened = min(self._since + late, now), min(self._opened + late, now)
            self._due += 1 / self._pace(now)
            ticket.above = now - self._since > self._time
        self.in_flight += 1
        return ticket

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Take note of a request that was let through, whatever came of it."""
        is_probe = ticket is self._probe
        self.failed(ticket, now)
        self._accepted += 1
        self._counts[ticket.above][0] += 1
        if ticket.sent > self._row_from:
            self._row = max(0.0, self._row - LEAK)
        self._passed = max(self._passed, ticket.sent)
        if is_probe:
            self._reopened(ticket.sent, now)
        elif ticket.refusals and self.state != PROBING:  # so it was not refused
            if not self._row:
                self._row_from = ticket.sent
            self._row += 1
            if self._is_full():
                self._exhaust(ticket.sent, now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> float:
        """Return the earliest time to send this call again, in addition to `ready_at`."""
        is_probe = ticket is self._probe
        self.failed(ticket, now)
        self.throttled += 1
        before, ticket.last, ticket.first = ticket.last, now, min(ticket.first, now)
        ticket.rejects += 1
        if self.state == PROBING:
            ticket.refusals = 0
            if is_probe:
                self._pause(self._next_probe(now, retry_after))
            return self.paused_until + FLOOR
        is_refused = ticket.rejects > 1 and before < self._passed
        ticket.refusals = ticket.refusals + 1 if is_refused else 0
        alone = WAIT * 2.0**ticket.refusals if is_refused else min((now - ticket.first) / 2, SLOWEST)
        again = now + max(alone, WAIT, retry_after or 0.0)
        if not is_refused:  # what waits as it was told is not idle
            self._landed = max(self._landed, again)
        if is_refused or ticket.sent < self._since:
            return again
        if not self._row:
            self._row_from = ticket.sent
        self._row += before < self._row_from
        self._counts[ticket.above][1] += 1
        is_spent = self.state == QUOTA and self._accepted >= self._budget
        if is_spent or self._is_full():
            self._exhaust(ticket.sent, now)
            return self.paused_until + FLOOR
        if self.state == PACED and now - self._since > ENOUGH * self._time and self._is_too_fast():
            passed = self._counts[0][0] + self._counts[1][0]
            high = self._pace(ticket.sent)
            low = min(max(passed, 1) / (now - self._since), high)
            # Nearer to what was accepted, but a bucket also refilled while the curve was below its rate.
            self._follow(sqrt(low * sqrt(low * high)), now, now)
        return again

    def failed(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        """Take note of any other end, be it cancelled; `retry_after`: the seconds of a 503, which pause."""
        self.in_flight -= 1
        self._landed = max(self._landed, now)
        if ticket is self._probe:
            self._probe = None
        self._pause(now + min(retry_after or 0.0, LONGEST))

    @property
    def _time(self) -> float:
        """Seconds until the curve is at its rate."""
        return min(max(SAMPLE / self._rate, QUICK), LONG)

    def _pace(self, now: float) -> float:
        """Return the requests a second at a time."""
        x = min((now - self._since) / self._time - 1, STEEPEST)
        return self._given or self._rate * exp(DIP * x * x * x)

    def _is_full(self) -> bool:
        """Return whether the row of 429s is a cluster."""
        return self._row >= CLUSTER + self.in_flight / (2 * CLUSTER)

    def _exhaust(self, sent: float, now: float) -> None:
        """Take the limit for exhausted, and probe one and a half round trips of the last request later."""
        self.state, self._row, self._since = PROBING, 0.0, now
        self._pause(now + max(ENOUGH * (now - sent), FLOOR))

    def _is_too_fast(self) -> bool:
        """Return whether 429s are more frequent above the rate than below it, and not by chance."""
        if self._given:
            return False
        (below, few), (above, many) = self._counts
        expected = few * (above + many) / (below + few + 1)
        return many > expected + sqrt(expected) + 1 / 2

    def _next_probe(self, now: float, retry_after: float | None) -> float:
        """Return when the next probe departs, if one was refused now."""
        waited = now - self._since
        end = self._opened + self._width * (1 - EARLY) if self._budget else self._since
        if now < end:
            return min(end, now + max(2 * SAMPLE / self._rate, min(waited, retry_after or 0.0)))
        interval = EARLY * self._width if self._budget else FLOOR
        wait = min(waited, retry_after) if retry_after else min((now - max(end, self._since)) / 2, SLOWEST)
        return now + max(wait, interval, FLOOR)

    def _reopened(self, sent: float, now: float) -> None:
        """Go on after a probe that was accepted, as the docstring of the module has it."""
        measured = max(sent - self._opened, FLOOR)
        passed = self._accepted - 1  # without the probe, which is the first of what follows
        budget, self._budget = self._budget, 0
        if self._given:
            self._follow(self._given, sent, now)
        elif sent - self._since > max(QUICK, measured / 2) and passed >= SAMPLE:
            self.state, self._budget, self._width, self._rate = QUOTA, passed, measured, passed / measured
            self._pause(sent + EARLY * measured)
        elif budget and (passed > (1 - DIP) * budget or measured < 2 * EARLY * self._width):
            self.state, self._budget = QUOTA, max(passed, budget)
            return
        elif self._rate == inf and measured < BRIEF and passed < SAMPLE:
            self.state = OPEN
            return
        elif budget:
            self._follow(self._rate, sent, now)
        else:
            rate = max(passed, 1) / measured
            is_short = self._rate < inf and measured < self._time
            self._follow(max(rate, self._rate / CLUSTER) if is_short else rate, sent, now)
        self._opened, self._accepted = sent, 1

    def _follow(self, rate: float, since: float, now: float) -> None:
        """Start a curve at a rate; the next request departs after one interval of it."""
        if not 1 - DIP < self._rate / rate < 1 + DIP:
            self._notify(f"the service allows about {rate:.3g} requests/s")
        self.state, self._rate, self._since = PACED, rate, since
        self._due = max(now + 1 / rate, self.paused_until)
        self._counts = [[0, 0], [0, 0]]

    def _pause(self, until: float) -> None:
        self.paused_until = max(until, self.paused_until)
