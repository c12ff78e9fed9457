"""Decide when the next request may be sent under an undocumented rate limit.

All requests of a session share one throttle, and so what it has learnt. The states:

unpaced   as many in flight as allowed, from START up to the session's concurrency
probing   paused, then one request at a time until the limit lets it pass (probing)
capped    perhaps a cap on requests in flight: as many as were accepted together, carefully more (hypotheses)
paced     a limit of the rate: departures on a schedule, corrected by what was accepted (schedule, estimate);
          a rate known from the start is this state, and stays
quota     a window of LONG seconds or more: full speed for what it held last time, then single requests

What a 429 means: several close together, or one sent alone (no other just before), or one with
nothing else in flight and a Retry-After of LONG, are an exhausted limit; any other is isolated. Then only its
own request waits for its Retry-After.

            isolated 429                              exhausted limit: all wait for Retry-After, then probe
unpaced     below full concurrency: ignored           exhausted for LONG or more: quota
            else: capped, then paced if many          probes rejected, or strikes: paced; else capped
capped      over the safe number: back to it          a strike; the third: paced at what was accepted
            else: a strike; the third: paced
paced       over TOLERATED: a lower rate; two cuts    a lower rate; exhausted for LONG or more: quota
            without effect: unpaced, with this share
quota       the quota used up: an exhausted limit     quota again, with what this window held;
            else: ignored                             over it and soon open again: unpaced

Accepted requests do not change the rate: the schedule rises with time, faster the longer there is no 429.
An unlimited service is used at full speed within a minute. 5xx and lost connections do not cut the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from .estimate import SAMPLE, SLOWEST, Curve, RateEstimate
from .hypotheses import PROVEN, ConcurrencyCap, QuotaWindow
from .probing import Probing
from .schedule import EARLY, FLOOR, Schedule, Ticket

__all__ = ["Throttle", "Ticket"]

UNPACED, PROBING, CAPPED, PACED, QUOTA = "unpaced", "probing", "capped", "paced", "quota"

START = 16  # requests in flight at the start; 64 gains nothing and doubles the waste
GROWTH = 1 / 4  # more requests in flight per accepted one: 1 wastes twice as many at the first exhaustion
LONG = 12.0  # seconds: a limit exhausted for this long is a quota window
MAX_STOP = 900.0  # seconds: the longest pause of all requests due to one answer
BLIND = 60.0  # seconds: the longest wait for a window that no answer announced
BUFFER = 3.0  # requests skipped after a cut, as a buffer against jitter
PATIENCE = 3  # times as many 429s stop a schedule: it is close to the limit


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
        self._schedule = Schedule(rate or 1.0)
        self._rate = RateEstimate()
        self._notified_rate = self._notified_share = 0.0  # in the last notification
        self._epoch = -inf  # a 429 of a request sent before this was already handled
        self._probing = Probing(Ticket(0.0, 0, 0), 0.0, 0.0, 0, resume=False)
        # what the limit may be
        self._in_flight_cap = ConcurrencyCap()
        self._window = QuotaWindow()

    @property
    def learned_rate(self) -> float | None:
        """Return the current rate in requests/s, or None if no rate limit was met."""
        if self.state == PACED or (self.state == PROBING and self._probing.resume):
            return self._schedule.rate
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
            due = self._schedule.due
            if due - now > EARLY:
                return due
        elif self._probing.request is not None or (self._rate.losses.doubtful and self.in_flight):
            return inf
        return now

    def _estimate(self, now: float, ahead: int) -> float:
        at = max(now, self.paused_until)
        if self.state == PACED:
            schedule = self._schedule
            return max(at, schedule.due - EARLY + ahead / max(schedule.rate, schedule.at(now)))
        if self._window.quota:
            return self._window.estimate(at, ahead, open_now=self.state == QUOTA)
        return at

    def depart(self, now: float) -> Ticket:
        """Send one request now; only after `ready_at(now) <= now`."""
        if not self.in_flight and self.state in (UNPACED, PACED):
            self._start_after_idle(now)
        self.in_flight += 1
        self._number += 1
        ticket = Ticket(now, self._number, self.in_flight)
        state = self.state
        if state == PACED:
            self._schedule.depart(now)
        elif state == PROBING:
            self._probing.request = ticket
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
        elif ticket is self._probing.request:
            self._probe_accepted(ticket, now)

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> float:
        """Record a rate-limit 429; `retry_after` in seconds. The request goes back to its place in the queue.

        Return the earliest time to send this request again, in addition to `ready_at`; 0.0: no restriction.
        """
        self.in_flight -= 1
        self.throttled += 1
        pause = retry_after or 0.0
        self._rate.reject(ticket, self._epoch)
        state, probing = self.state, self._probing
        if ticket is probing.request:
            self._pause(max(now + pause, probing.reject(ticket)))
            return 0.0
        if state == PROBING or (ticket.sent < self._epoch and now < self.paused_until):
            probing.rejected += 1
            self._pause(now + pause)
            return 0.0
        lone = pause >= LONG or (ticket.load == 1 and not self._rate.losses.doubtful)
        alone = lone and not self.in_flight and state != PACED
        self._rate.losses.rejected(ticket)
        used_up = state == QUOTA and self._window.accepted >= 0.9 * self._window.quota
        if (
            used_up
            or alone
            or self._rate.losses.clustered(self.in_flight * (PATIENCE if state == PACED else 1))
        ):
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
        if ticket is self._probing.request:
            self._probing.request = None
            self._pause(ticket.sent + self._probing.interval)

    def _start_after_idle(self, now: float) -> None:
        """Leave idle time out of what is measured."""
        if self._number and now - self._window.start < LONG:
            return
        if self.state == UNPACED:
            self._window.begin(now, 0)
        elif not self._number:
            self._window.start = self._schedule.since = self._schedule.due = now
            self._rate.restart(Ticket(now, 0, 0))

    def _isolated(self, ticket: Ticket, now: float) -> None:
        """Handle a 429 among accepted requests: only this request waits, but the limit may be near."""
        state, rate, cap = self.state, self._rate, self._in_flight_cap
        if state == PACED:
            if rate.is_due(ticket, self._schedule):
                self._epoch = now
                self._correct(now, rate.correct(ticket, self._schedule))
        elif state == CAPPED:
            self._epoch = now
            self._go(CAPPED, cap.rejected(ticket.load, now))
            if cap.disproved:
                self._try_pace(ticket, now)
        elif state == UNPACED and self._cap >= self._concurrency:
            if cap.disproved or rate.losses.share:
                if rate.lost >= 5 and rate.exceeds(ticket, max(0.015, 1.5 * rate.losses.share)):
                    self._try_pace(ticket, now)
                return
            self._epoch = now
            if rate.mark.number:
                cap.suspect(ticket.load - 1, now)
                self._go(CAPPED, cap.safe)
            else:
                rate.restart(ticket)

    def _try_pace(self, ticket: Ticket, now: float) -> None:
        """Pace at the accepted rate, to see whether that avoids the 429s."""
        self._epoch, self._rate.proven = now, self._rate.measured(ticket)
        self._follow(now, (self._rate.proven, 0.1, 1))
        self._rate.restart(ticket)

    # -- probing

    def _exhausted(self, ticket: Ticket, now: float, pause: float) -> None:
        """Pause, then probe."""
        self._rate.losses.forgive()
        self._probing = Probing(ticket, now, pause, self.in_flight + 1, resume=self.state == PACED)
        if self.state == CAPPED:
            self._in_flight_cap.strike()
        if self.state != PACED:  # what is in flight used up the burst: it says nothing about the rate
            self._rate.restart(Ticket(ticket.sent, self._number, 1))
        if not pause:
            self._pause(now + max(1.5 * (now - ticket.sent), FLOOR))
            if self._window.opens_at:
                self._pause(min(self._window.opens_at, now + BLIND))
                self._probing.interval = 0.5
        self._go(PROBING, self._concurrency)
        self._epoch = max(now, self.paused_until)

    def _probe_accepted(self, ticket: Ticket, now: float) -> None:
        """Record an accepted probe; with enough of them, choose the next state."""
        probing, window, cap = self._probing, self._window, self._in_flight_cap
        probing.accept(ticket)
        if self._known:
            self._follow(now, (self._schedule.rate, 0.0, 1.0))
        elif probing.accepted < PROVEN and not (probing.resume and probing.seconds < LONG):
            pass  # one more probe
        elif probing.seconds >= LONG:
            window.reopen(probing)
            self._go(QUOTA, PROVEN)
            self._notify(f"the service allows about {window.quota} requests in {window.width:.0f} s")
        elif window.accepted > 1.25 * window.quota > 0:
            window.quota, window.width = 0, 0.0
            self._go(UNPACED, START)
        elif window.quota:
            self._go(QUOTA, PROVEN)
        elif probing.resume:
            rate = window.rate(probing) if window.accepted >= SAMPLE else 0.0
            costly = probing.retry_after > 0
            self._correct(now, self._rate.resume(ticket, self._schedule, probing.since, rate, costly=costly))
            window.begin(probing.opened_at, probing.accepted)
        elif cap.disproved or probing.waited or (probing.retry_after and cap.strikes):
            self._enter_pace(ticket, now)
        else:
            self._rate.restart(ticket)
            self._go(CAPPED, cap.suspect(probing.load - probing.rejected, now))

    # -- paced

    def _enter_pace(self, ticket: Ticket, now: float) -> None:
        """Pace at the rate accepted in a whole cycle, from one opening of the limit to the next."""
        probing, rate = self._probing, self._rate
        rate.proven = self._window.rate(probing)
        rate.advance(Ticket(probing.opened_at, ticket.number - probing.accepted + 1, 1))
        self._window.begin(probing.opened_at, probing.accepted)
        self._follow(now, (rate.proven, 0.1, 1))

    def _correct(self, now: float, curve: Curve) -> None:
        """Follow a new curve, unless the rate is known."""
        if self._known:
            return
        share = self._rate.losses.share
        self._follow(now, curve)
        if share and share != self._notified_share:
            self._notified_share = share
            self._notify(f"the service answers {share:.0%} of requests with 429 at any rate")
            self._rate.restart(self._rate.mark)
            self._go(UNPACED, START)  # a lower rate does not avoid these 429s
        elif not 0.9 < self._rate.proven / (self._notified_rate or inf) < 1.1 and curve[1] <= 0.1:
            self._notified_rate = self._rate.proven
            self._notify(f"the service allows about {self._notified_rate:.3g} requests/s")

    def _follow(self, now: float, curve: Curve) -> None:
        self._go(PACED, self._concurrency)
        rate, dip, time = curve
        time = min(max(time, SAMPLE / rate), SLOWEST)
        self._schedule.start(now, rate, dip, time, max(now + BUFFER / rate, self.paused_until))

    def _go(self, state: str, cap: float) -> None:
        self.state, self._cap = state, min(cap, self._concurrency)

    def _pause(self, until: float) -> None:
        self.paused_until = max(until, self.paused_until)

    def _notify(self, text: str) -> None:
        if self.notify is not None:
            self.notify(text)
