"""Decide when the next request may depart, against a rate limit that nobody documented.

What one request learns, all requests of the session know. The states, and what leads from one to another:

    unpaced ----- 429 -----> probing <------------- 5 rejects in a row ----------------+
       ^                      |  |  |                                                  |
       |                      |  |  +--- no dry spell --> capped --- third strike --> paced
       |                      |  |                                                    ^  |
       |                      |  +------ dry for less than LONG ----------------------+  |
       |                      +--------- dry for LONG or more ---> quota                 |
       |                                                             |                   |
       |                      probing <------------- 429 ------------+                   |
       +---------------------- the 429s have nothing to do with the pace (strays) -------+

unpaced   as many in flight as allowed, from START up to the session's concurrency.
probing   paused, then one request at a time until the limit lets it pass. How long the service stayed dry,
          and whether the requests after the first accepted one pass too, tells what kind of limit it is.
capped    perhaps a cap on requests in flight: at most as many as were accepted together, carefully more. A
          429 at or under that number is a strike against the idea.
paced     a limit of the rate: departures on a schedule (pace.Pace), corrected by the rate that was accepted
          between two exhaustions (pace.Flow). A rate known from the start is this state, and stays.
quota     a window of LONG seconds or more: full speed for what the window held last time, then one by one.

`gate` (`paused_until`): nothing departs before it. `epoch`: a 429 of a request sent before it belongs to the
same event. Accepts change no rate: the schedule runs on time. 5xx and lost connections cut no rate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt

from .headers import RateHint
from .hypotheses import PROVEN, SAMPLE, ConcurrencyCap, QuotaWindow, Strays
from .schedule import EARLY, Flow, Pace, Ticket

__all__ = ["CAPPED", "PACED", "PROBING", "QUOTA", "UNPACED", "Throttle", "Ticket"]

UNPACED, PROBING, CAPPED, PACED, QUOTA = "unpaced", "probing", "capped", "paced", "quota"

START = 16  # requests in flight at the start; 64 gains nothing and doubles the waste
GROWTH = 1 / 3  # requests in flight more for every accept: 1 wastes twice as many at the first exhaustion
LONG = 3.0  # seconds: a dry spell as long as this is a quota window's
DRY = 0.25  # seconds: a dry spell as long as this is a window's, not a full house of requests in flight
ROW = 5  # 429s in a row, by departure, that make a dry spell
BUFFER = 3.0  # requests the pace waits for after a cut: tokens against jitter


class Throttle:
    """Admit every request of a session; told `now`, never asks for it.

    `concurrency` is the most requests in flight, `rate` a limit in requests/s that is known and kept from the
    first request on. Raises ValueError where they are not positive. Every ticket of `depart` is given back
    once, to `accepted`, `rejected`, `failed` or `cancelled`.

    `throttled` counts 429s, `paused_until` is the gate on the clock of `now` (0.0: none), `notify` is called
    with one line of text when a limit is found, changes, or a window is waited for.
    """

    def __init__(self, concurrency: int, rate: float | None = None) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        if rate is not None and not 0 < rate < inf:
            raise ValueError("rate must be a positive number of requests a second")
        self.in_flight = 0
        self.throttled = 0
        self.paused_until = 0.0
        self.state = UNPACED if rate is None else PACED
        self.notify: Callable[[str], None] | None = None
        self._concurrency = concurrency
        self._known = rate is not None
        self._cap: float = min(START, concurrency) if rate is None else concurrency
        self._number = 0
        self._pace = Pace(rate or 1.0)
        self._flow = Flow()
        self._told_rate = 0.0  # the rate of the last news
        # the event: one exhaustion of the limit, with all the 429s it costs
        self._epoch = -inf
        self._load = 0  # in flight when it began
        self._rejects = 0
        self._row = 0  # rejects in a row ...
        self._last = 0  # ... up to this departure
        self._retry_after = 0.0
        # probing
        self._probe: Ticket | None = None
        self._interval = 0.0  # seconds between two probes
        self._dry_since = 0.0
        self._missed_at = 0.0
        self._misses = 0  # of probes that were alone in flight
        self._hits = 0
        self._late_misses = 0  # after the first hit
        self._opened_at = 0.0
        self._resume = False  # from paced, back to paced
        # what the limit may be
        self._in_flight_cap = ConcurrencyCap()
        self._window = QuotaWindow()
        self._strays = Strays()
        # what headers tell
        self._left = 0
        self._left_until = 0.0
        self._hint: RateHint | None = None

    @property
    def learned_rate(self) -> float | None:
        """Return the rate in force in requests/s, or None while no limit of the rate was met."""
        if self.state == PACED or (self.state == PROBING and self._resume):
            return self._pace.rate
        window = self._window
        return window.quota / window.width if window.quota and self.state in (QUOTA, PROBING) else None

    def ready_at(self, now: float, ahead: int = 0) -> float:
        """Return when the next request may depart: <= now at once, inf not before an answer arrives.

        With `ahead` others queued before it: the earliest time that is known, never inf, not falling as
        `ahead` grows.
        """
        if ahead:
            return self._estimate(now, ahead)
        if self.paused_until:
            if now < self.paused_until:
                return self.paused_until
            self.paused_until = 0.0
        if self.in_flight >= self._cap:
            return inf
        if self.state == PACED:
            due = self._pace.due
            if due - now > EARLY:
                return due
        elif self._probe is not None:
            return inf
        if now < self._left_until and self._left <= 0:
            return inf if self.in_flight else self._left_until
        return now

    def _estimate(self, now: float, ahead: int) -> float:
        at = max(now, self.paused_until)
        if self.state == PACED:
            pace = self._pace
            at = max(at, pace.due - EARLY + ahead / max(pace.rate, pace.at(now)))
        elif (window := self._window).quota:
            over = ahead - (window.budget if self.state == QUOTA else window.quota)
            if over >= 0:
                start = window.start if self.state == QUOTA else at - window.width
                at = max(at, start + window.width * (1 + over // window.quota))
        if now < self._left_until and ahead >= self._left:
            at = max(at, self._left_until)
            hint = self._hint
            if hint and hint.limit and hint.window:
                at = max(at, self._left_until + (ahead - max(self._left, 0)) // hint.limit * hint.window)
        return at

    def depart(self, now: float) -> Ticket:
        """Send one request now; only after `ready_at(now) <= now`."""
        if not self.in_flight and self.state in (UNPACED, PACED):
            self._wake(now)
        self.in_flight += 1
        self._number += 1
        ticket = Ticket(now, self._number, self.in_flight)
        state = self.state
        if state == PACED:
            self._pace.depart(now)
        elif state == PROBING:
            self._probe = ticket
        elif state == QUOTA:
            window = self._window
            window.budget -= 1
            if not window.budget:
                self._cap = 1
                window.explored_from = self._number
        self._left -= 1
        return ticket

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Take an answer that shows that the limit let the request pass (2xx, and 4xx other than 429)."""
        self.in_flight -= 1
        self._window.accepted += 1
        if ticket.number > self._last:
            self._row = 0
        if self._strays.share:
            self._strays.accepted()
        state = self.state
        if state == UNPACED:
            if self._cap < self._concurrency:
                self._cap = min(self._cap + GROWTH, self._concurrency)
        elif state == CAPPED:
            self._go(CAPPED, self._in_flight_cap.accepted(ticket.load, now, self._cap))
        elif state == QUOTA:
            if self._cap < self._concurrency and ticket.number > self._window.explored_from:
                self._cap += 1
        elif ticket is self._probe:
            self._probe = None
            self._hit(ticket, now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        """Take a rate-limit 429; `retry_after` in seconds. The request goes back to the head of the queue."""
        self.in_flight -= 1
        self.throttled += 1
        told = retry_after or 0.0
        if told:
            self._pause(now + told)
        if self._strays.share and self._strays.rejected(self.in_flight) and ticket is not self._probe:
            return
        if ticket.number > self._flow.mark.number:
            self._flow.lost += 1
        if ticket is self._probe:
            self._probe = None
            self._missed(ticket)
            return
        self._row += 1
        self._last = max(self._last, ticket.number)
        if ticket.sent < self._epoch:
            self._rejects += 1
        elif self.state != PROBING:
            self._load, self._rejects = self.in_flight + 1, 1
            self._epoch = max(now, self.paused_until)
            self._event(ticket, now, told)

    def failed(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        """Take a 5xx, a lost connection or a timeout; a 503's `retry_after` (seconds) sets the gate."""
        if retry_after:
            self._pause(now + retry_after)
        self.cancelled(ticket, now)

    def cancelled(self, ticket: Ticket, now: float) -> None:
        """Give the place of an abandoned request back; nothing is learnt."""
        self.in_flight -= 1
        if ticket is self._probe:
            self._probe = None
            self._pause(ticket.sent + self._interval)

    def hint(self, now: float, limit: RateHint) -> None:
        """Believe an answer's rate-limit headers: no more than what is left departs before the reset.

        Comes before `accepted`, while the answer's own place is still taken.
        """
        if limit.reset is not None:
            # Others in flight may have been counted already, or not: the last answer of all will tell.
            self._left = limit.remaining - max(self.in_flight - 1, 0)
            self._left_until = now + limit.reset
            self._hint = limit

    def _wake(self, now: float) -> None:
        """Begin after idleness: it says nothing about what the limit lets pass."""
        if self._number and now - self._window.start < LONG:
            return
        if self.state == UNPACED:
            self._window.begin(now, 0)
        elif not self._number:
            self._window.start = self._pace.since = self._pace.due = now
            self._flow.restart(Ticket(now, 0, 0))

    def _event(self, ticket: Ticket, now: float, told: float) -> None:
        """Act on the first 429 of an event."""
        state = self.state
        if state == PACED and 0 < told < LONG:
            self._dry_since = ticket.sent
            self._correct(ticket, now, told)
            self._flow.restart(Ticket(self.paused_until, self._number, 0))
        elif told or state in (UNPACED, QUOTA) or self._row >= ROW:
            self._exhausted(ticket, now, told)
        elif state == PACED:
            if self._flow.sample(ticket) >= SAMPLE:
                self._correct(ticket, now)
        else:
            self._go(CAPPED, self._in_flight_cap.rejected(ticket.load, now))
            if self._in_flight_cap.disproved:
                self._steer(now, self._flow.rate(ticket), 0.1, 1)

    # -- probing

    def _exhausted(self, ticket: Ticket, now: float, told: float) -> None:
        """Pause, then probe."""
        self._resume = self.state == PACED
        if self.state == CAPPED:
            self._in_flight_cap.strike()
        elif not self._resume:
            self._flow.restart(ticket)
        trip = now - ticket.sent
        self._probe, self._misses, self._hits, self._late_misses = None, 0, 0, 0
        self._retry_after, self._dry_since, self._missed_at = told, ticket.sent, ticket.sent
        self._interval = 2 * trip
        if not told:
            self._pause(now + 1.5 * trip)
            if self._window.opens_at:
                self._pause(self._window.opens_at)
                self._interval = 0.5
        self._go(PROBING, self._concurrency)
        self._epoch = max(now, self.paused_until)
        if self.paused_until - now >= LONG:
            self._tell(f"waiting {self.paused_until - now:.0f} s for the service's limit")

    def _missed(self, ticket: Ticket) -> None:
        """Take a probe's 429: wait longer for the next."""
        self._missed_at = ticket.sent
        if ticket.load == 1:  # otherwise the place may have been taken by a request from before
            self._misses += 1
            self._late_misses += self._hits > 0
        interval = self._interval
        self._pause(ticket.sent + interval)
        self._interval = min(0.5, 2 * interval) if interval < 0.5 else min(3.5, 1.3 * interval)

    def _hit(self, ticket: Ticket, now: float) -> None:
        """Take a probe that passed, and decide once there are enough of them."""
        if not self._hits:
            self._opened_at = ticket.sent
        self._hits += 1
        dry = self._opened_at - self._dry_since
        if self._known:
            self._steer(now, self._pace.rate, 0.0, 1.0)
        elif self._hits < PROVEN and not (self._resume and dry < LONG):
            return
        elif dry >= LONG and (self._window.quota or not self._late_misses):
            self._window.reopen(self._opened_at, self._hits, dry, self._opened_at - self._missed_at)
            self._go(QUOTA, PROVEN)
            self._tell(
                f"the service allows about {self._window.quota} requests in {self._window.width:.0f} s"
            )
        elif self._window.quota:
            self._go(QUOTA, PROVEN)
        elif self._resume:
            self._correct(ticket, now, dry=True)
            self._window.begin(self._opened_at, self._hits)
        elif self._late_misses or self._in_flight_cap.disproved:
            self._steer(now, self._flow.rate(ticket), 0.1, 1)
        elif dry > DRY and (self._misses or self._retry_after):
            self._enter_pace(ticket, now)
        else:
            self._go(CAPPED, self._in_flight_cap.suspect(self._load - self._rejects, now))

    # -- paced

    def _enter_pace(self, ticket: Ticket, now: float) -> None:
        """Pace at what a whole cycle let pass, from its opening to the next."""
        window = self._window
        cycle = max(self._opened_at - window.start, 1e-3)
        rate = max(window.accepted - self._hits, 1) / cycle
        if self._retry_after:
            # The gate may be longer than the dry spell was: between this rate and that up to the 429.
            rate *= (cycle / (self._dry_since - window.start + 0.02)) ** 0.25
        self._flow.restart(Ticket(self._opened_at, ticket.number - self._hits + 1, 1))
        window.begin(self._opened_at, self._hits)
        self._steer(now, rate, 0.1, 1)

    def _correct(self, ticket: Ticket, now: float, told: float = 0.0, dry: bool = False) -> None:
        """Correct the rate at a 429 or after a dry spell: it lies between what was accepted and the pace."""
        pace = self._pace
        high = pace.at(ticket.sent if told else now)
        low = min(self._flow.rate(ticket, told, dry), high)
        lost, sample = self._flow.lost, self._flow.sample(ticket)
        self._flow.advance(ticket)
        if self._known:
            return
        if told:
            # A 429 costs the whole gate: come back to the pace half a second before it, and stay.
            if ticket.sent - pace.since > 1:
                rate = max(low, 0.95 * pace.at(ticket.sent - 0.5))
            else:
                rate = sqrt(low * high)
            if ticket.sent - pace.since > 1 and high < 1.35 * rate:
                self._steer(now, rate, 0.03, max(4, 100 / rate, 30 * told))
            else:
                self._steer(now, rate, 0.2, 3 * told)
        elif not dry and self._strays.proved(high, lost / sample):
            self._go(UNPACED, START)
            self._tell(
                f"the service answers about {self._strays.share:.0%} of requests 429 whatever the pace"
            )
        elif high < 1.3 * low:
            rate = low**0.75 * high**0.25
            time = max(2.5, 60 / rate)
            self._steer(now, rate, min(0.1, max(0.02, 16 / (rate * time))), time)
            self._report(rate)
        else:
            rate = min(sqrt(low * high), 1.5 * low)
            self._steer(now, rate, 1 - 0.97 * low / rate, 1.5)

    def _steer(self, now: float, rate: float, dip: float, time: float) -> None:
        self._go(PACED, self._concurrency)
        self._pace.steer(now, rate, dip, max(time, 20 / rate), max(now + BUFFER / rate, self.paused_until))

    def _go(self, state: str, cap: float) -> None:
        self.state, self._cap = state, min(cap, self._concurrency)

    def _pause(self, until: float) -> None:
        if until > self.paused_until:
            self.paused_until = until

    def _report(self, rate: float) -> None:
        if not 0.8 < rate / (self._told_rate or inf) < 1.25:
            self._told_rate = rate
            self._tell(f"the service allows about {rate:.3g} requests/s")

    def _tell(self, text: str) -> None:
        if self.notify is not None:
            self.notify(text)
