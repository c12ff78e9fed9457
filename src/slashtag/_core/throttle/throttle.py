"""Decide when the next request may be sent under an undocumented rate limit.

A call is refused when it is answered 429 although a request sent after its previous 429 was accepted: it then
waits by itself, twice as long each time, until it meets a 429 of which that is not true, or one while the
limit is exhausted. Refused twice, it is sent beside the others: it takes no place under the cap and waits for
no pace but a given one. A row of 429s counts each call once; each accepted request sent later than the first
of them takes off a third.

state       may depart                    429, the row is not full     429 that fills  accepted
                                                                       the row
open        in flight < cap,              at the highest cap, if       probing         cap + 1/4
            row < HOLD                    excessive: suspect a cap
open, cap   the same                      over the safe number: back;  probing         under it cap + 1; at it
suspected                                 else strike: it falls by                     + 1, 2, 4, each after a
                                          10 %, the cap to half the                    second without a 429
                                          load; 3, 20 sent: paced
probing     one probe at a time           -                            -               probe: see below
paced       when due                      excessive: correct the rate  probing         -
quota       in flight < cap, 1 when the   budget left: budget + 1,     probing         cap + 1
            budget ends; row < HOLD       cap 1; none left: probing

A 429 of a request sent before the last event, or before the budget was used up, is counted and makes its call
wait. So does that of a refused call (no budget left: if refused twice), but it takes back a strike of that
call, gives back its part of the budget, and is counted as not accepted; after a probe the next one follows.

An accepted probe picks the first that fits. Rate given: paced. Exhausted (which needs a probe answered 429
alone in flight) for 7 s, or quota known and its window over, or exhausted for a third of it: quota, measured
anew. Quota half used up: the same again. Only probes accepted, not paced before: open, as at the start. Paced
before: near what was accepted since the limit opened, or as before if only probes were, at once. Quota known,
3 strikes, or such a 429: paced. Else: a cap is suspected. As a sliding window frees places as they were
taken, each 429 with budget left lets those after the first answer of a window wait 1/8 s longer.

429s that go on at a pace well under an accepted rate are not caused by it: their share is learnt, the session
is open again, and next paced. If the limit is exhausted soon after, the share is forgotten, and needs twice
as many 429s. Those of calls not accepted since, which may be refused, cut no rate up to twice their share.
"""

from collections.abc import Callable
from math import inf

from .pace import EARLY, FLOOR, SAMPLE, Curve, Pace, Ticket

__all__ = ["Throttle", "Ticket"]

OPEN, PROBING, PACED, QUOTA = "open", "probing", "paced", "quota"

START = 10  # requests in flight at the start: 16 wastes more, and gains nothing
GROWTH = 1 / 4  # of a place in flight for each accepted request: more is rejected when the limit is met
CLUSTER = 4.0  # a full row, with 1/16 (paced: 1/8) of those in flight: no chance explains it
LEAK = 1 / 3  # of a 429 that each accepted request sent later offsets: one 429 in four is no cluster
HOLD = 2  # length of a row from which an unpaced session waits for the answers that are under way
STRAY = 20  # added to HOLD and CLUSTER, times the share of 429s that occur at any pace
STRIKES = 3  # 429s at a load that was safe before, of calls not refused, which refute a cap in flight
FEWEST = 4  # in flight, at least, of the first cap, and requests of a first rate: few prove little
STEADY = 1.0  # seconds without a 429 at a cap until a higher one is tried
LONG = 7.0  # seconds: a limit exhausted for this long is a quota window; idle time that is not measured
PATIENCE = 3  # an exhausted limit is probed again after a third of the time it has been so
SLOWEST = 3.5  # seconds between two probes at most, unless the end of the window or of a pause is known
BELIEVED = 5  # probes in a row told a Retry-After, none of the call before: fewer may be refused calls
LONGEST = 900.0  # seconds that a 503 may pause the session: one answer is no reason to stop for hours
ALONE = 0.125  # seconds that a call waits after a 429, but for a probe; doubled each time it is refused


class Throttle:
    """Decision when requests depart, from what their answers say; in virtual or real time, without timers."""

    def __init__(
        self, concurrency: int, rate: float | None = None, notify: Callable[[str], None] = lambda text: None
    ) -> None:
        self.in_flight = self._beside = self.throttled = 0  # all; of refused calls, beside others; 429s
        self.paused_until = 0.0
        self.state = OPEN if rate is None else PACED
        self._notify = notify  # told what is learnt
        self._concurrency = concurrency
        self._is_given = rate is not None
        self._cap: float = min(START, concurrency) if rate is None else concurrency
        self._number, self._passed = 0, -inf  # of requests; departure of the last one accepted
        self._run = self._first = 0.0  # length of the row of 429s; when the request of its first one was sent
        self._epoch = -inf  # a 429 of a request sent before this belongs to an event that was handled
        self._pace = Pace(rate or inf)  # inf: none yet
        self._probe: Ticket | None = None
        self._resume, self._exceeded = False, inf  # whether a pace is resumed; that at which it met the limit
        self._since = self._from = 0.0  # exhausted since; from when the time until the next probe counts
        self._told = inf  # the earliest end of the Retry-After of the last calls
        self._teller: Ticket | None = None  # the last call that was answered 429
        self._tellers = self._waited = 0  # probes in a row told one; probes answered 429 alone in flight
        self._load = 0  # in flight when the limit was exhausted, less what was answered 429 since
        self._safe = self._strikes = 0  # how many in flight are safe; 0: no cap is suspected
        self._struck: dict[Ticket, int] = {}  # the calls whose 429s were strikes, and `_safe` before
        self._step, self._raise_at = 1, 0.0  # of the next raise over what is safe
        self._opened, self._accepted = -inf, 0  # start of what is measured, and requests accepted since
        self._quota, self._width, self._budget = 0, 0.0, 0  # requests and seconds of a window; those left
        self._late = 0.0  # seconds from the first answer in a window to the next requests

    @property
    def exhausted(self) -> bool:
        """Whether single requests find out when the limit is open again."""
        return self.state == PROBING

    @property
    def learned_rate(self) -> float | None:
        """Return the requests a second that the service allows, None while no rate is known."""
        if self.state == PACED or (self.state == PROBING and self._resume):
            return self._pace.rate
        return self._quota / self._width if self._quota and self.state in (QUOTA, PROBING) else None

    def resume(self, rate: float) -> None:
        """Begin at a rate that was learnt before, unless one is given or known."""
        if self.state == OPEN and self._pace.rate == inf:
            self._pace.begin(rate)
            self._go(PACED, self._concurrency)

    def ready_at(self, now: float, *, beside: bool = False) -> float:
        """Return when the next request may be sent: up to now at once, inf not before an answer arrives.

        `beside`: for a refused call, which takes no place of others and waits for no pace but a given one.
        """
        if now < self.paused_until:
            return self.paused_until
        if self.in_flight >= self._concurrency or (not beside and self.in_flight - self._beside >= self._cap):
            return inf
        if beside and self.state != PROBING and not self._is_given:
            return now
        if self.state == PACED:
            return self._pace.due if self._pace.due - now > EARLY else now
        held = self._run >= HOLD + STRAY * self._pace.known and self.in_flight
        return inf if held or self._probe is not None else now

    def depart(self, now: float, previous: Ticket | None = None) -> Ticket:
        """Send a request; `previous` is the ticket with which its call was answered 429 before."""
        idle_since = self._pace.due if self.state == PACED else self._opened  # idle time is no rate
        if now - idle_since > LONG and (self.state == PACED or (self.state == OPEN and not self.in_flight)):
            self._opened, self._accepted = now, 0
            self._pace.restart(self._number, now)
        self.in_flight += 1
        self._number += 1
        ticket = previous or Ticket()
        beside = ticket.is_refused and self.state != PROBING
        self._beside += beside
        ticket.sent, ticket.number, ticket.beside = now, self._number, beside
        ticket.load = self.in_flight - self._beside
        paced = self.state == PACED and (self._is_given or not beside)
        ticket.pace = self._pace.depart(now) if paced else inf
        if self.state == PROBING:
            self._probe = ticket
            self._since += max(0.0, now - self.paused_until)  # in which nothing was waiting
            self._pause(now + FLOOR)
        elif self.state == QUOTA and not beside:
            self._budget -= 1
            if not self._budget:
                self._cap, self._epoch = 1, now
        return ticket

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Take note of a request that was let through, whatever came of it."""
        self._landed(ticket)
        self._accepted += 1
        self._passed = max(self._passed, ticket.sent)
        if self._run and ticket.sent > self._first:
            self._run = max(0.0, self._run - LEAK)
        self._pace.accepted(ticket)
        if self.state == OPEN and self._safe:
            self._raise_cap(ticket, now)
        elif self.state == OPEN:
            self._cap = min(self._cap + GROWTH, self._concurrency)
        elif self.state == QUOTA and ticket.sent > self._epoch:
            self._cap = min(self._cap + 1, self._concurrency)
        elif ticket is self._probe:
            self._reopened(ticket, now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> float:
        """Return the earliest time to send this call again, in addition to `ready_at`."""
        self._landed(ticket)
        self.throttled += 1
        before, refused = ticket.last, ticket.reject(now, self._passed if self.state != PROBING else -inf)
        if refused and (safe := self._struck.pop(ticket, 0)):  # it was no strike
            self._strikes, self._safe = self._strikes - 1, max(self._safe, safe)
        alone = ALONE * 2.0 ** min(ticket.refusals, 12) if refused else (now - ticket.first) / PATIENCE
        own = now + max(retry_after or 0.0, ALONE, alone)
        self._pace.rejected(ticket, counts=not refused)
        if self.state == PROBING:
            self._still_exhausted(ticket, now, retry_after)
            return self.paused_until + FLOOR
        if ticket.sent < self._epoch:
            return own
        if refused and (ticket.is_refused or self.state != QUOTA or self._budget > 0):
            self._budget += self.state == QUOTA and not ticket.beside
            return own
        if not self._run:
            self._first = ticket.sent
        self._run += not self._first <= before < inf  # each call counts once
        cluster = CLUSTER + STRAY * self._pace.known + self.in_flight / (8 if self.state == PACED else 16)
        if self._run >= cluster or (self.state == QUOTA and self._budget <= 0):
            self._exhausted(ticket, now)
            return self.paused_until + FLOOR
        if self.state == QUOTA:
            self._budget, self._cap = self._budget + (not ticket.beside), 1
            self._late = min(self._late + ALONE, self._width / 4)
        elif not self._is_given:
            self._isolated(ticket, now)
        return own

    def failed(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        """Take note of any other end, be it cancelled; `retry_after`: the seconds of a 503, which pause."""
        self._landed(ticket)
        if ticket is self._probe:
            self._probe = None
        if retry_after and retry_after <= LONGEST:
            self._pause(now + retry_after)

    def _landed(self, ticket: Ticket) -> None:
        self.in_flight -= 1
        self._beside -= ticket.beside

    def _isolated(self, ticket: Ticket, now: float) -> None:
        if self.state == PACED and self._pace.learnt():  # at any pace: look for the limit anew
            self._safe, self._strikes, self._struck, self._epoch = 0, STRIKES, {}, now
            self._pace.restart(self._number, now)
            self._go(OPEN, START)
            self._notify(f"the service answers {self._pace.known:.0%} of requests with 429 at any pace")
            return
        if self.state == OPEN and self._safe:
            self._judge_cap(ticket, now)
            if self._strikes < STRIKES or ticket.number - self._pace.marked < SAMPLE:
                return
        elif self._cap < self._concurrency or not self._pace.excessive(ticket):
            return
        self._epoch = now
        if self.state == PACED:
            self._follow(now, self._pace.correct(ticket))
        elif self._strikes < STRIKES:
            self._suspect(ticket.load - 1, now)
        else:
            self._follow(now, self._pace.enter(ticket, self._pace.measured(ticket, 1.0)))

    def _suspect(self, together: int, now: float) -> None:
        if not self._strikes:
            self._safe = min(max(FEWEST, together), self._concurrency)
        self._step, self._raise_at = 1, now + STEADY
        self._go(OPEN, min(3, self._safe))

    def _judge_cap(self, ticket: Ticket, now: float) -> None:
        self._epoch, self._step, self._raise_at = now, 1, now + STEADY
        if ticket.load <= self._safe and ticket not in self._struck:  # one for each call, to be taken back
            self._struck[ticket] = self._safe
            self._strikes += 1
            self._safe, self._cap = max(1, int(0.9 * self._safe)), min(self._cap, max(1, ticket.load // 2))
        self._cap = min(self._cap, self._safe)

    def _raise_cap(self, ticket: Ticket, now: float) -> None:
        if self._cap < min(self._safe, self._concurrency):
            self._cap += 1
        elif now >= self._raise_at and ticket.load >= self._cap:
            self._safe = int(self._cap)
            self._cap = min(self._safe + self._step, self._concurrency)
            self._step = min(4, 2 * self._step)
            self._raise_at = now + STEADY

    def _exhausted(self, ticket: Ticket, now: float) -> None:
        self._run, self._resume, self._exceeded = 0.0, self.state == PACED, self._pace.at(ticket.sent)
        self._since, self._from, self._waited, self._load = ticket.sent, now, 0, self.in_flight
        self._told, self._teller, self._tellers = inf, ticket, 0
        if self.state != PACED:
            self._pace.restart(self._number, ticket.sent, exhausted=True)
        self._pause(now + max(1.5 * (now - ticket.sent), FLOOR))
        if self._quota and self._accepted >= 0.9 * self._quota:
            self._pause(min(self._opened + self._width - 0.5, now + 60))
            self._from = self.paused_until - 0.5
        self._go(PROBING, self._concurrency)
        self._epoch = max(now, self.paused_until)

    def _still_exhausted(self, ticket: Ticket, now: float, pause: float | None) -> None:
        if ticket is not self._probe:  # sent before: the same event
            self._load -= 1
            return
        self._probe = None
        self._waited += ticket.load == 1
        self._pause(now + max(FLOOR, min((now - self._from) / PATIENCE, SLOWEST)))
        if ticket is self._teller:
            return
        self._teller, self._tellers = ticket, self._tellers + 1 if pause else 0
        self._told = min(self._told, now + pause) if pause else inf
        if self._tellers >= BELIEVED and self._told - 1 > self.paused_until:  # in whole seconds, rounded up
            self._from = self._told - 2  # the next interval is a third of a second
            self._pause(self._told - 1)

    def _reopened(self, ticket: Ticket, now: float) -> None:
        self._probe = None
        exhausted = ticket.sent - self._since if self._waited else 0.0  # for how long, as a probe found
        accepted, cycle = max(self._accepted - 1, 1), max(ticket.sent - self._opened, FLOOR)
        if self._is_given:
            self._follow(now, (self._pace.rate, 0.0, 1.0, 0.0))
        elif exhausted >= LONG or (self._quota and max(cycle, 3 * exhausted) >= 0.9 * self._width):
            self._width = cycle if self._quota else exhausted
            self._quota, self._budget = accepted, accepted - 1
            self._opened, self._accepted = ticket.sent, 1
            self._pause(now + self._late)
            self._go(QUOTA, 3)
            self._notify(f"the service allows about {self._quota} requests in {self._width:.0f} s")
        elif self._quota and 2 * self._budget < self._quota:
            self._go(QUOTA, 3)
        elif self._accepted < 2 and not self._resume:  # all but probes may be refused calls
            self._opened, self._accepted, self._quota = ticket.sent, 0, 0
            self._go(OPEN, START)
        elif self._resume or self._quota or self._strikes >= STRIKES or self._waited:
            self._opened, self._accepted, self._quota = ticket.sent, 1, 0
            if self._resume:
                rate = inf if accepted < 2 and not self._waited else accepted / cycle  # inf: as before
                rate = max(rate, self._pace.measured(ticket, 1.0))
                self._follow(now, self._pace.resume(ticket, rate, self._exceeded))
            else:
                self._follow(now, self._pace.enter(ticket, max(accepted, FEWEST) / cycle))
        else:
            self._pace.restart(ticket.number, ticket.sent)
            self._suspect(self._load, now)

    def _follow(self, now: float, curve: Curve) -> None:
        before, rate = self._pace.rate, curve[0]
        self._pace.start(now, curve, max(now + 3 / rate, self.paused_until))
        self._go(PACED, self._concurrency)
        if not 0.9 < before / rate < 1.1:
            self._notify(f"the service allows about {rate:.3g} requests/s")

    def _go(self, state: str, cap: float) -> None:
        self.state, self._cap = state, min(cap, self._concurrency)

    def _pause(self, until: float) -> None:
        self.paused_until = max(until, self.paused_until)
