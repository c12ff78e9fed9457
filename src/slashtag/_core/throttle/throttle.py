"""Decide when the next request may be sent under an undocumented rate limit.

All requests of a session share one throttle, and so what it has learnt. The states:

unpaced   as many in flight as allowed, from START up to the session's concurrency
probing   paused, then one request at a time until the limit lets it pass (dry_spell)
capped    perhaps a cap on requests in flight: as many as were accepted together, carefully more (hypotheses)
paced     a limit of the rate: departures on a schedule, corrected by what was accepted (schedule); a rate
          known from the start is this state, and stays
quota     a window of LONG seconds or more: full speed for what it held last time, then single ones

What a 429 means: four close together, or one with nothing else in flight, are an exhausted limit; any other
is isolated. Then only its own request waits for its Retry-After.

            isolated 429                            exhausted limit: all wait for Retry-After, then probe
unpaced     not at full concurrency: ignored        dry for LONG or more: quota
            else: capped, then paced if many        no dry spell: capped
capped      over the safe number: back to it        a strike; the third: paced at what was accepted
            else a strike; the third: paced
paced       over 0.5 % of late: a lower rate, but   paced on, at a lower rate; dry for LONG: quota
            never under what was accepted
            two cuts without effect: their share is tolerated
quota       as an exhausted limit                   quota again, with what this window held

Accepted requests do not change the rate: the schedule rises with time, faster the longer there is no 429.
An unlimited service is used at full speed within a minute. 5xx and lost connections do not cut the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from .dry_spell import DrySpell
from .estimate import RateEstimate
from .hypotheses import PROVEN, ConcurrencyCap, QuotaWindow
from .schedule import EARLY, FLOOR, SAMPLE, SLOWEST, Pace, Ticket

__all__ = ["Throttle", "Ticket"]

UNPACED, PROBING, CAPPED, PACED, QUOTA = "unpaced", "probing", "capped", "paced", "quota"

START = 16  # requests in flight at the start; 64 gains nothing and doubles the waste
GROWTH = 1 / 3  # more requests in flight per accepted one: 1 wastes twice as many at the first exhaustion
LONG = 12.0  # seconds: a dry spell of this length is due to a quota window
DRY = 0.25  # seconds: a dry spell of this length is due to a window, not to a cap in flight
MAX_STOP = 900.0  # seconds: the longest pause of all requests due to one answer
BLIND = 60.0  # seconds: the longest wait for a window that no answer announced
BUFFER = 3.0  # requests skipped after a cut, as a buffer against jitter


class Throttle:
    """State machine of a session's rate limit; pure: `now` is passed in, `Admission` owns the queue.

    `concurrency` is the maximum number of requests in flight; `rate` is a known limit in requests/s. Raises
    ValueError if they are not positive. Every ticket of `depart` must be returned once, to `accepted`,
    `rejected`, `failed` or `cancelled`.

    `throttled` counts 429s, `paused_until` is the time before which nothing departs (0.0: none), `notify` is
    called with one line of text if a limit is found or changes.
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
        self._rate = RateEstimate()
        self._notified_rate = self._notified_share = 0.0  # in the last notification
        self._epoch = -inf  # a 429 of a request sent before this was already handled
        self._spell = DrySpell(Ticket(0.0, 0, 0), 0.0, 0.0, 0, resume=False)
        # what the limit may be
        self._in_flight_cap = ConcurrencyCap()
        self._window = QuotaWindow()

    @property
    def learned_rate(self) -> float | None:
        """Return the current rate in requests/s, or None if no rate limit was met."""
        if self.state == PACED or (self.state == PROBING and self._spell.resume):
            return self._pace.rate
        window = self._window
        return window.quota / window.width if window.quota and self.state in (QUOTA, PROBING) else None

    def ready_at(self, now: float, ahead: int = 0) -> float:
        """Return when the next request may be sent: <= now means at once, inf not before an answer arrives.

        With `ahead` others queued before it: the earliest known time, never inf, non-decreasing in `ahead`.
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
        elif self._spell.probe is not None or (self._rate.losses.doubtful and self.in_flight):
            return inf
        return now

    def _estimate(self, now: float, ahead: int) -> float:
        at = max(now, self.paused_until)
        if self.state == PACED:
            pace = self._pace
            at = max(at, pace.due - EARLY + ahead / max(pace.rate, pace.at(now)))
        elif self._window.quota:
            at = self._window.estimate(at, ahead, open_now=self.state == QUOTA)
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
            if (
                self.in_flight == self._concurrency
                and self._pace.rate > 1.5 * self._rate.proven
                and not self._known
            ):
                self._go(UNPACED, self._concurrency)
        elif state == PROBING:
            self._spell.probe = ticket
            self._pause(now + FLOOR)
        elif state == QUOTA and self._window.depart(self._number):
            self._cap = 1
        return ticket

    def accepted(self, ticket: Ticket, now: float) -> None:
        """Record an answer within the limit (2xx, and 4xx other than 429)."""
        self.in_flight -= 1
        self._window.accepted += 1
        self._rate.losses.accepted()
        state = self.state
        if state == UNPACED:
            if self._cap < self._concurrency:
                self._cap = min(self._cap + GROWTH, self._concurrency)
        elif state == CAPPED:
            self._go(CAPPED, self._in_flight_cap.accepted(ticket.load, now, self._cap))
        elif state == QUOTA:
            if self._cap < self._concurrency and ticket.number > self._window.explored_from:
                self._cap += 1
        elif ticket is self._spell.probe:
            self._spell.probe = None
            self._hit(ticket, now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> float:
        """Record a rate-limit 429; `retry_after` in seconds. The request goes back to the head of the queue.

        Return the earliest time to send this request again, in addition to `ready_at`; 0.0: no restriction.
        """
        self.in_flight -= 1
        self.throttled += 1
        pause = retry_after or 0.0
        if ticket.number > self._rate.flow.mark.number:
            self._rate.flow.lost += 1
        state, spell = self.state, self._spell
        if ticket is spell.probe:
            spell.probe = None
            self._pause(max(now + pause, spell.missed(ticket)))
            return 0.0
        if state == PROBING or (ticket.sent < self._epoch and now < self.paused_until):
            spell.rejects += 1
            self._pause(now + pause)
            return 0.0
        self._rate.losses.rejected(ticket.number)
        alone = state == QUOTA or (not self.in_flight and state != PACED)
        if alone or self._rate.losses.clustered(self.in_flight):
            self._pause(now + pause)
            self._exhausted(ticket, now, pause)
            return 0.0
        if ticket.sent >= self._epoch:
            self._isolated(ticket, now)
        return now + pause if pause else 0.0

    def failed(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        """Record a 5xx, a lost connection or a timeout; the `retry_after` of a 503 (seconds) is a pause."""
        if retry_after and retry_after <= MAX_STOP:
            self._pause(now + retry_after)
        self.cancelled(ticket, now)

    def cancelled(self, ticket: Ticket, now: float) -> None:
        """Record an abandoned request; nothing is learnt from it."""
        self.in_flight -= 1
        if ticket is self._spell.probe:
            self._spell.probe = None
            self._pause(ticket.sent + self._spell.interval)

    def _wake(self, now: float) -> None:
        """Start after idle time, which must not count towards the measured rate."""
        if self._number and now - self._window.start < LONG:
            return
        if self.state == UNPACED:
            self._window.begin(now, 0)
        elif not self._number:
            self._window.start = self._pace.since = self._pace.due = now
            self._rate.flow.restart(Ticket(now, 0, 0))

    def _isolated(self, ticket: Ticket, now: float) -> None:
        """Handle a 429 among accepted requests: only this request waits, but the limit may be near."""
        state, flow, losses, cap = self.state, self._rate.flow, self._rate.losses, self._in_flight_cap
        if state == PACED:
            if self._rate.due(ticket):
                self._epoch = now
                self._correct(now, self._rate.correct(ticket, self._pace))
        elif state == CAPPED:
            self._epoch = now
            self._go(CAPPED, cap.rejected(ticket.load, now))
            if cap.disproved:
                self._try_pace(ticket, now)
        elif state == UNPACED and self._cap >= self._concurrency:
            if cap.disproved:
                if flow.lost >= 5 and flow.lost > max(0.015, 1.5 * losses.share) * flow.sample(ticket):
                    self._try_pace(ticket, now)
            elif not flow.mark.number:
                self._epoch = now
                flow.restart(ticket)
            else:
                self._epoch = now
                cap.suspect(ticket.load - 1, now)
                self._go(CAPPED, cap.safe)

    def _try_pace(self, ticket: Ticket, now: float) -> None:
        """Pace at the accepted rate, to see whether that avoids the 429s."""
        self._epoch, self._rate.proven = now, self._rate.flow.rate(ticket)
        self._steer(now, self._rate.proven, 0.1, 1)
        self._rate.flow.restart(ticket)

    # -- probing

    def _exhausted(self, ticket: Ticket, now: float, pause: float) -> None:
        """Pause, then probe."""
        self._rate.losses.forgive()
        self._spell = DrySpell(ticket, now, pause, self.in_flight + 1, resume=self.state == PACED)
        if self.state == CAPPED:
            self._in_flight_cap.strike()
        elif self.state != PACED:
            self._rate.flow.restart(ticket)
        if not pause:
            self._pause(now + max(1.5 * (now - ticket.sent), FLOOR))
            if self._window.opens_at:
                self._pause(min(self._window.opens_at, now + BLIND))
                self._spell.interval = 0.5
        self._go(PROBING, self._concurrency)
        self._epoch = max(now, self.paused_until)

    def _hit(self, ticket: Ticket, now: float) -> None:
        """Record an accepted probe; with enough of them, choose the next state."""
        spell, window, cap = self._spell, self._window, self._in_flight_cap
        spell.hit(ticket)
        if self._known:
            self._steer(now, self._pace.rate, 0.0, 1.0)
        elif spell.hits < PROVEN and not (spell.resume and spell.dry < LONG):
            pass  # one more probe
        elif spell.dry >= LONG and (window.quota or not spell.late_misses):
            window.reopen(spell.opened_at, spell.hits, spell.dry, spell.opened_at - spell.missed_at)
            self._go(QUOTA, PROVEN)
            self._notify(f"the service allows about {window.quota} requests in {window.width:.0f} s")
        elif window.quota:
            self._go(QUOTA, PROVEN)
        elif spell.resume:
            rate = window.rate(spell) if window.accepted >= SAMPLE else 0.0
            costly = spell.retry_after > 0  # another 429 costs the pause again
            self._correct(now, self._rate.resume(ticket, self._pace, spell.since, rate, costly=costly))
            window.begin(spell.opened_at, spell.hits)
        elif (
            spell.late_misses
            or cap.disproved
            or (spell.dry > DRY and (spell.misses or (spell.retry_after and cap.strikes)))
        ):
            self._enter_pace(ticket, now)
        else:
            self._rate.flow.advance(ticket)
            self._go(CAPPED, cap.suspect(spell.load - spell.rejects, now))

    # -- paced

    def _enter_pace(self, ticket: Ticket, now: float) -> None:
        """Pace at the rate accepted in a whole cycle, from one opening of the limit to the next."""
        spell = self._spell
        self._rate.proven = rate = max(self._window.rate(spell), self._rate.flow.rate(ticket, 1.0))
        self._rate.span = min(2 * (spell.opening - spell.since), 2 * LONG)
        self._rate.flow.advance(Ticket(spell.opened_at, ticket.number - spell.hits + 1, 1))
        self._window.begin(spell.opened_at, spell.hits)
        self._steer(now, rate, 0.1, 1)

    def _correct(self, now: float, curve: tuple[float, float, float]) -> None:
        """Follow a new curve, unless the rate is known."""
        if self._known:
            return
        share = self._rate.losses.share
        self._steer(now, *curve)
        if share and share != self._notified_share:
            self._notified_share = share
            self._notify(f"the service answers {share:.0%} of requests with 429 at any rate")
        elif not 0.8 < self._rate.proven / (self._notified_rate or inf) < 1.25 and curve[1] <= 0.1:
            self._notified_rate = self._rate.proven
            self._notify(f"the service allows about {self._notified_rate:.3g} requests/s")

    def _steer(self, now: float, rate: float, dip: float, time: float) -> None:
        self._go(PACED, self._concurrency)
        time = min(max(time, 20 / rate), SLOWEST)
        self._pace.steer(now, rate, dip, time, max(now + BUFFER / rate, self.paused_until))

    def _go(self, state: str, cap: float) -> None:
        self.state, self._cap = state, min(cap, self._concurrency)

    def _pause(self, until: float) -> None:
        self.paused_until = max(until, self.paused_until)

    def _notify(self, text: str) -> None:
        if self.notify is not None:
            self.notify(text)
