"""Decide when the next request may be sent under a rate limit that nobody documented.

state    may depart                      429                                a cluster  accepted
open     in flight < cap: 9 at first     probing, if calls are few          probing    cap + 1/9
 level   in flight < level, later more   at it: level - 1, the 4th probing; probing    after n rounds: cap =
                                         above: cap - 1                                level + (n / 9) ** 2
probing  one probe, after a pause        of the probe: the next later       -          see below
quota    in flight < cap, and budget     beyond the budget: probing         probing    cap + 1/9
paced    when due, by the curve          cut, if the curve causes them (*)  probing    -
(*) A rate that is given is not cut.

A 429 delays only its own call. A cluster says that the limit is exhausted: each 429 adds one to a sum, a call
once, and each accepted request sent after the first takes off a quarter: one 429 in five is no cluster.
Then single probes find when the limit is open. What was accepted from one opening to the next, by the time
between, is the rate, of a bucket and of a window of any width. An accepted probe picks the first that fits:
- The rate is given: paced.
- The limit was exhausted for most of the time, and for seconds: a quota. What was accepted is its budget, the
  time its width. It is spent at full speed, and begins anew if it is not within the width; then the cap is
  one, and probes are few until shortly before the width is over.
- In a quota, most of the budget is spent, or it has just begun: it goes on.
- No rate is known and none measured: open as at the start; but at a level of one if others than probes were
  accepted, and there is no level as in the next rule.
- No rate is known, and no probe was rejected while it was alone: the limit may be one of requests in flight.
  Open, at a level: the number in flight at the cluster that was accepted, if any. Another cluster, or four
  429s at it, refute it.
- Else: paced. If the time was idle, or a quota was exhausted before its budget, at the rate as it was.
Idle is time in which a request might depart, but no call waited, in the queue or by itself after a 429. A
measurement that was idle for more than half counts for nothing, nor does a brief one of few requests; in idle
time the curve stands still, and an open session without a level begins as at the start. An outage is idle
time. Calls are few if half of the cap is free: they meet too few 429s together for a cluster; one will do.
The curve, rate * exp(DIP * (t / time - 1) ** 3), begins under the rate, is there at `time`, stays close, and
rises ever faster: cautious return, test for more and search after a lifted limit in one. Curve and level are
experiments: 429s below them occur anyway, up to one in five; only if there are more above, beyond chance, the
higher rate or number in flight causes them. The next rate is then between what was accepted and the pace at
that time, nearer to the first.
A call that was answered 429 waits by itself for half of the time since its first 429, 0.125 to 3.5 s, or its
Retry-After if that is longer; while the limit is exhausted, with the others. A probe's Retry-After delays the
session, for as long as the limit has been exhausted already: one wrong answer costs little.
A call answered 429 although one sent after its previous 429 was accepted is refused: that says nothing of
others. It waits by itself, up to a minute, counts in no sum, and takes, after the first time, no departure of
the curve.
"""

from logging import INFO
from math import exp, inf, sqrt

from .outage import Notify, Outage
from .ticket import Ticket

OPEN, PROBING, PACED, QUOTA = "open", "probing", "paced", "quota"

START = 9  # requests in flight at the start: few are lost where the limit is low
GROWTH = 1 / 9  # of a request in flight for each accepted one: as many more are lost when the limit is met
CLUSTER = 4  # 429s, and one for every 2 * CLUSTER in flight: fewer may be chance
STRAYS = 1 / 5  # of the requests, at most, are answered 429 at any pace: twice the one in ten that is met
LEAK = STRAYS / (1 - STRAYS)  # of a 429 that an accepted request offsets: up to STRAYS are no cluster
WAIT = 0.125  # seconds, about a round trip: the first wait of a call, doubled each time it is refused
FLOOR = 0.05  # seconds: the shortest time that is measured, and between probes: 20 a second at most
BRIEF = 0.5  # seconds in which fewer than 2 * CLUSTER requests measure no rate: they may be few by chance
SLOWEST = 3.5  # seconds between probes, and of a wait, without Retry-After: lost at most, 6 % of a minute
SLACK = 0.01  # seconds that a departure may be early or late: timers are; at 500/s a burst of 5
SAMPLE = 25  # requests at least until a curve is at its rate, which is then measured to 4 %; and of a quota
QUICK, LONG = 2.5, 7.5  # seconds until a curve is at its rate: a lifted limit takes 3 to 5 times that
DIP = 0.1  # a curve begins 10 % under its rate, and is 10 % over it after twice its time
STEEPEST = 5  # times its time, after it is at its rate, until a curve rises no more: 250,000-fold
ENOUGH = 1.5  # times its time until a curve may be cut: half of that lies above its rate
EARLY = 1 / 64  # of its width that a window is tried before its end, and between tries: shrinks 1.6 %
LONGEST_REFUSED = 60.0  # seconds that a refused call waits: not hours for one answer
REFUTED = -inf  # as a level: the limit is not one of requests in flight


class Throttle:
    """Decision when requests depart, from what their answers say; in virtual or real time, without timers."""

    def __init__(
        self, concurrency: int, rate: float | None = None, notify: Notify = lambda level, text: None
    ) -> None:
        self._concurrency, self._given, self._notify = concurrency, rate, notify
        self.state = OPEN if rate is None else PACED
        self.in_flight = 0
        self.outage = Outage(notify)
        self._paused_until = 0.0
        self._sum = self._sum_from = 0.0  # 429s that nothing has offset yet; departure of the first of them
        self._passed = -inf  # departure of the last request that was accepted
        self._held = 0.0  # until when a call waits by itself after a 429, and is not refused
        # The measurement: when the limit opened; since then, requests accepted, and idle seconds.
        self._opened, self._accepted, self._idle = 0.0, 0, 0.0
        self._probe: Ticket | None = None
        # The number in flight that was accepted together: that at the last cluster, less each 429 that came
        # while it was probed. Without one it is 0, and REFUTED if the limit is no such number.
        self._level: float = 0
        self._budget, self._width = 0, 0.0  # of a quota: requests, and seconds from one opening to the next
        self._rate = rate or inf  # of the curve; inf: none yet
        self._since = 0.0  # start of the curve, of the level or of probing
        self._due = 0.0  # when the next request may depart by the curve; else since when one might
        # Below and above the curve's rate, or the level (all is above 0): accepted, 429s.
        self._counts = [[0, 0], [0, 0]]

    @property
    def exhausted(self) -> bool:
        """Whether single requests find out when the limit is open again, or the service answers."""
        return self.state == PROBING or self.outage.is_on

    @property
    def paused_until(self) -> float:
        """Until when nothing is sent; past if nothing pauses."""
        return self.outage.next_at if self.outage.is_on else self._paused_until

    @property
    def learned_rate(self) -> float | None:
        """Return the requests a second that the service allows, None while no rate is known."""
        return None if self._rate == inf else self._rate

    def ready_at(self, now: float) -> float:
        """Return when the next request may be sent: up to now at once, inf not before an answer arrives."""
        if (self._probe and self.exhausted) or self.in_flight >= self._cap:
            return inf
        if now < (until := self.paused_until):
            return until
        return self._due if self.state == PACED and self._due - now > SLACK else now

    def depart(self, now: float, previous: Ticket | None = None) -> Ticket:
        """Send a request; `previous` is the ticket with which its call was answered 429 before."""
        ticket = previous or Ticket()
        ticket.sent = now
        self.in_flight += 1
        # Each request comes here: `max` would take twice as long.
        ready = self._due + SLACK if self.state == PACED else self._due
        if ready < self._paused_until:
            ready = self._paused_until
        idle = now - (ready if ready > self._held else self._held)
        if idle < 0.0:
            idle = 0.0
        self._idle += idle
        if self.outage.is_on:
            self._probe = ticket
        elif self.state == OPEN:
            if self._idle > (now - self._opened) / 2:
                self._measure(now, 0)
        elif self.state == QUOTA:
            if now > self._opened + self._width:  # which was not spent
                self._measure(now, 0)
        elif self.state == PROBING:
            self._probe = ticket
            self._pause(now + FLOOR)
        elif ticket.refusals < 2:
            self._since += idle
            # What is late is not made up for.
            self._due += max(0.0, now - ready) + 1 / self._pace(now)
        if self.state != PACED:
            self._due = now if self.in_flight < self._cap else inf
        return ticket

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Take note of a request that was let through, whatever came of it."""
        is_probe = ticket is self._probe
        self.cancelled(ticket, now)
        self.outage.answered(now)
        self._accepted += 1
        self._counts[self._is_above(ticket)][0] += 1
        if self._sum and ticket.sent > self._sum_from:
            self._sum = max(0.0, self._sum - LEAK)
        if ticket.sent > self._passed:
            self._passed = ticket.sent
        if is_probe and self.state == PROBING:
            self._reopened(ticket.sent, now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> float:
        """Return the earliest time to send this call again, in addition to `ready_at`."""
        is_probe = ticket is self._probe
        self.cancelled(ticket, now)
        self.outage.answered(now)
        before, ticket.last, ticket.first = ticket.last, now, min(ticket.first, now)
        ticket.rejects += 1
        if self.state == PROBING:
            # Others are kept back too: that says nothing of this call alone.
            ticket.refusals = 0
            if not is_probe:
                self._level -= 1
            else:
                # A probe that was rejected while alone shows no limit of requests in flight.
                self._level = self._level if self.in_flight else min(self._level, 0)
                self._pause(self._next_probe(now, retry_after))
            return self._paused_until + FLOOR  # with the others, after the next probe
        is_refused = -inf < before < self._passed
        ticket.refusals = ticket.refusals + 1 if is_refused else 0
        doubled = WAIT * min(2**ticket.refusals, LONGEST_REFUSED / WAIT)
        alone = doubled if is_refused else min((now - ticket.first) / 2, SLOWEST)
        again = now + max(alone, WAIT, retry_after or 0.0)
        # It says nothing of the present curve or level. But as each 429 changes the level, those that are in
        # flight together are a cluster all the same.
        is_before = ticket.sent < self._since
        if is_refused or (is_before and self.state != OPEN):
            return again
        self._held = max(self._held, again)
        self._counts[self._is_above(ticket)][1] += not is_before
        self._add_to_sum(ticket.sent, before, now)
        if self.state == OPEN and not is_before:
            self._judge_open(ticket.sent, now)
        elif self.state == PACED and not self._given:
            self._judge_curve(ticket.sent, now)
        return self._paused_until + FLOOR if self.exhausted else again

    def failed(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        """Take note of a 5xx, a 408, or no answer; `retry_after`: the seconds that a 503 told."""
        self.cancelled(ticket, now)
        self.outage.failed(ticket.sent, now, retry_after)

    def cancelled(self, ticket: Ticket, now: float) -> None:
        """Take note that a request is in flight no longer, from which nothing is learnt."""
        self.in_flight -= 1
        if now < self._due and self.state != PACED:
            self._due = now
        if ticket is self._probe:
            self._probe = None

    @property
    def _cap(self) -> float:
        """How many requests may be in flight."""
        cap, grown = self._concurrency, START + GROWTH * self._accepted
        if self.state == OPEN:
            if not self._level:
                return cap if cap < grown else grown
            rounds = sum(passed for passed, _ in self._counts) / self._level
            return min(cap, self._level + int((GROWTH * rounds) ** 2))
        if self.state == QUOTA:
            left = self._budget - self._accepted
            return min(cap, grown, left if left > 0 else 1 - GROWTH * left)
        return cap

    @property
    def _time(self) -> float:
        """Seconds until the curve is at its rate."""
        return min(max(SAMPLE / self._rate, QUICK), LONG)

    def _pace(self, now: float) -> float:
        """Return the requests a second at a time."""
        x = min((now - self._since) / self._time - 1, STEEPEST)
        return self._given or self._rate * exp(DIP * x * x * x)

    def _is_above(self, ticket: Ticket) -> bool:
        """Return whether a request departed above the curve's rate, or is answered above the level."""
        if self.state != OPEN:
            return ticket.sent - self._since > self._time
        return self._level <= 0 or self._cap > self._level

    def _is_excess(self) -> bool:
        """Return whether 429s are more frequent above than below, and not by chance."""
        (below, few), (above, many) = self._counts
        # One request more, so that a single 429 below does not excuse all above.
        expected = min(few / (below + few + 1), STRAYS) * (above + many)
        return many > expected + sqrt(expected) + 1 / 2  # one standard deviation, rounded

    def _is_measured(self, now: float) -> bool:
        """Return whether the measurement was not idle, nor brief, nor with few requests."""
        least = 2 if now - self._opened >= BRIEF else 2 * CLUSTER
        return self._accepted >= least and self._idle <= (now - self._opened) / 2

    def _add_to_sum(self, sent: float, before: float, now: float) -> None:
        """Add a 429 of a call that met another one `before`; if the sum is a cluster, begin to probe."""
        if not self._sum:
            self._sum_from = sent
        self._sum += before < self._sum_from
        is_spent = self.state == QUOTA and self._accepted >= self._budget
        if is_spent or self._sum >= CLUSTER + self.in_flight / (2 * CLUSTER):
            self._exhaust(sent, now, REFUTED if self._level else self.in_flight)

    def _exhaust(self, sent: float, now: float, level: float) -> None:
        """Begin to probe."""
        self.state, self._sum, self._since, self._level = PROBING, 0.0, now, level
        # Most of those in flight are answered after another round trip like that of the 429.
        self._pause(now + max(now - sent, FLOOR))

    def _judge_open(self, sent: float, now: float) -> None:
        """Probe if calls are few, or 429s came at the level: it is not the limit; else correct the level."""
        at_level = self._counts[0][1] if self._cap == self._level else 0
        if (self.in_flight < self._cap / 2 or at_level >= CLUSTER) and self._is_measured(now):
            self._exhaust(sent, now, REFUTED)
        elif self._level and (at_level or self._is_excess()):
            self._level, self._since, self._counts = max(1, self._cap - 1), now, [[0, at_level], [0, 0]]

    def _judge_curve(self, sent: float, now: float) -> None:
        """Cut the rate if the curve is old enough, and causes the 429s."""
        lasted = now - self._since
        if lasted > ENOUGH * self._time and self._is_excess():
            high = self._pace(sent)
            low = min(max(sum(passed for passed, _ in self._counts), 1) / lasted, high)
            # A quarter of the way up: the lower one leaves room in sliding windows, the middle doubles 429s.
            self._follow(sqrt(low * sqrt(low * high)), now, now)

    def _next_probe(self, now: float, retry_after: float | None) -> float:
        """Return when the next probe departs, if one was rejected now."""
        waited = now - self._since
        end = self._opened + self._width * (1 - EARLY) if self._budget else self._since
        if now < end:  # few probes: 50 requests of the rate apart
            return min(end, now + max(2 * SAMPLE / self._rate, min(waited, retry_after or 0.0)))
        wait = min(waited, retry_after) if retry_after else min((now - max(end, self._since)) / 2, SLOWEST)
        return now + max(wait, EARLY * self._width if self._budget else FLOOR, FLOOR)

    def _reopened(self, sent: float, now: float) -> None:
        """Go on after a probe that was accepted, as the docstring of the module has it."""
        measured, is_idle = max(sent - self._opened, FLOOR), self._idle > (sent - self._opened) / 2
        passed, budget, self._budget = self._accepted - 1, self._budget, 0  # without the probe
        if self._given:
            self._follow(self._given, sent, now)
        elif sent - self._since > max(QUICK, measured / 2) and passed >= SAMPLE and not is_idle:
            self.state, self._budget, self._width, self._rate = QUOTA, passed, measured, passed / measured
        elif budget and (passed > (1 - DIP) * budget or measured < 2 * EARLY * self._width):
            self.state, self._budget = QUOTA, max(passed, budget)
            return  # the measurement goes on
        elif self._rate == inf and (self._level > 0 or not self._is_measured(sent)):
            self.state, self._counts = OPEN, [[0, 0], [0, 0]]
            if not self._is_measured(sent):
                self._level = 1 if passed and self._level <= 0 else 0
                return  # the measurement goes on
        elif budget or is_idle:
            self._follow(self._rate, sent, now)
        else:
            # Few may have passed because refused calls kept others back; but since the cluster one did.
            least = 0.0 if passed >= CLUSTER else 1 / max(sent - self._since, FLOOR)
            self._follow(max(passed / measured, least), sent, now)
        self._measure(sent, 1)

    def _measure(self, now: float, accepted: int) -> None:
        """Begin a measurement."""
        self._opened, self._accepted, self._idle = now, accepted, 0.0

    def _follow(self, rate: float, since: float, now: float) -> None:
        """Start a curve at a rate; the next request departs after one interval of it."""
        if not 1 - DIP < self._rate / rate < 1 + DIP:
            self._notify(INFO, f"paced at {rate:.3g} requests/s")
        self.state, self._rate, self._since, self._counts = PACED, rate, since, [[0, 0], [0, 0]]
        self._due, self._sum = max(now + 1 / rate, self._paused_until), 0.0

    def _pause(self, until: float) -> None:
        self._paused_until = max(until, self._paused_until)
