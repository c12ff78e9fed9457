"""Estimate of the allowed rate, from the requests accepted between 429s."""

from __future__ import annotations

from collections import deque
from math import sqrt

from .hypotheses import FORGET, MOST_TOLERATED, Losses
from .schedule import FLOOR, Schedule, Ticket

SAMPLE = 20  # requests that a measured rate needs
BRIEF = 0.3  # minimum seconds of a measurement
TOLERATED = 0.005  # share of 429s that does not cut the rate
JITTER = 50.0  # requests/s above which some 429s are due to uneven arrival: a lower rate hardly avoids them
TOLERATED_JITTER = 0.0195  # share of 429s that does not cut such a rate
SAME = 0.9  # scheduled rate / rate accepted before from which both may be at one limit
USELESS = 0.06  # share of 429s after cuts that have not helped
CLOSE = 1.3  # scheduled / accepted rate up to which the limit is surely between them
DEEP = 0.3  # dip of the curve after cuts without effect: if this has none either, no cut has
STUBBORN = 2  # consecutive early corrections after which cuts have had no effect
SLOWEST = 8.0  # seconds at most until the curve is back at its rate

Curve = tuple[float, float, float]  # rate, dip and time of a Schedule


class RateEstimate:
    """Estimate of a rate limit, corrected by every exhaustion of it.

    At a 429 the limit is exhausted. The requests sent between two 429s and not rejected are exactly what the
    limit accepted in that time, regardless of latency and burst allowance. `mark` is the first of these
    requests, `lost` counts the 429s since, `proven` is the rate accepted before the last correction, `losses`
    finds out whether corrections help.
    """

    __slots__ = ("_early", "_first", "_high", "_marks", "losses", "lost", "mark", "proven")

    def __init__(self) -> None:
        self.losses = Losses()
        self.proven = 0.0
        self._high = 0.0  # scheduled at the last correction
        self._first: float | None = None  # departure of the first 429 since the last correction
        self._early = 0  # consecutive corrections before the curve was back at its rate
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
        self.mark, self.lost, self._first = ticket, 0, None

    def reject(self, ticket: Ticket, epoch: float) -> None:
        """Count a 429; the last correction was at `epoch`."""
        self.lost += ticket.number > self.mark.number
        if self._first is None and ticket.sent >= epoch:
            self._first = ticket.sent

    def measured(self, ticket: Ticket, seconds: float = 0.0) -> float:
        """Return the accepted rate up to this request, in requests/s.

        If the last measurement is shorter than `seconds`, or has too few requests, earlier ones are added.
        """
        mark, passed, lost = self.mark, 0, self.lost
        for mark, lost_before in reversed(self._marks):
            passed = ticket.number - mark.number - lost
            if passed >= SAMPLE and ticket.sent - mark.sent >= seconds:
                break
            lost += lost_before
        return max(passed, 1) / max(ticket.sent - mark.sent, FLOOR)

    def exceeds(self, ticket: Ticket, share: float) -> bool:
        """Return whether more than a share of the requests up to this one were answered 429."""
        return self.lost > share * (ticket.number - self.mark.number)

    def is_due(self, ticket: Ticket, schedule: Schedule) -> bool:
        """Return whether a 429 among accepted requests calls for a correction."""
        mark = self.mark
        enough = ticket.number - mark.number >= SAMPLE and ticket.sent - mark.sent >= BRIEF
        jitter = self._early > STUBBORN and schedule.rate > JITTER
        tolerated = TOLERATED_JITTER if jitter else TOLERATED
        return enough and self.losses.excessive and self.exceeds(ticket, tolerated)

    def correct(self, ticket: Ticket, schedule: Schedule) -> Curve:
        """Return the next curve after a 429 among accepted requests."""
        before, sample, lost = self.proven, ticket.number - self.mark.number, self.lost
        self._high = high = schedule.at(ticket.sent)
        low = min(self.measured(ticket), high)
        # At a low rate the sample takes as long as the curve: what counts is its first 429.
        slow = high * SLOWEST < 2 * SAMPLE
        first = ticket.sent if self._first is None or not slow else self._first
        early = first - schedule.since < 0.9 * schedule.time
        # A real limit would accept now what it accepted before; if cuts do not help, be stricter about it.
        useless = self._early > 1 and lost > max(2, USELESS * sample)
        below = schedule.at(first) < (1 if useless else SAME) * before
        in_vain = early and below and lost < MOST_TOLERATED * sample
        if early and high >= SAME * before:
            low = max(low, min(before, high))  # the mean since is low because of the dip alone
        back = ticket.sent - max(1.0, 2 * SAMPLE / high)
        if back > schedule.since:  # a window accepts evenly what it accepted a second ago
            low = max(low, min(schedule.at(back) * (1 - 4 * lost / sample), high))
        self._early = self._early + 1 if early else 0
        self.proven = low
        self.advance(ticket)
        if (in_vain or not early) and self.losses.judge(lost, sample, in_vain=in_vain):
            return 1.1 * low, 0.1, 1
        rate, dip, time = self._between(low, high, 2.5)
        if self._early and high < CLOSE * low:
            return (rate, DEEP, 1.5 * time) if self._early > STUBBORN else (rate, 0.1, time)
        return rate, dip, time

    def resume(
        self, ticket: Ticket, schedule: Schedule, exhausted_at: float, cycle_rate: float, *, costly: bool
    ) -> Curve:
        """Return the next curve after probing from `exhausted_at` to the accepted probe `ticket`.

        `cycle_rate` was accepted from one opening of the limit to the next, 0 if unknown; `costly`: the 429
        paused all requests, as would the next.
        """
        high = schedule.at(exhausted_at)
        if exhausted_at - schedule.since < BRIEF:
            high = max(high, self._high)  # the first 429s of this exhaustion have already cut it
        self.proven = low = min(max(self.measured(ticket, 1.0), cycle_rate), high)
        self._early = 0
        self.advance(ticket)
        return self._between(low, high, SLOWEST if costly else 1.5)

    def _between(self, low: float, high: float, time: float) -> Curve:
        """Return the curve between the accepted and the scheduled rate that takes at least `time` seconds."""
        share = self.losses.share
        if share:  # stay below the limit until the 429s show whether they occur at any rate
            return low, 0.1, FORGET / (share * low)
        if high >= CLOSE * low:
            rate = min(sqrt(low * high), 1.25 * low)
            return rate, 1 - 0.97 * low / rate, 1.5
        rate = low**0.75 * high**0.25
        time = min(max(time, 60 / rate), SLOWEST)
        return rate, min(0.1, max(0.02, 16 / (rate * time))), time
