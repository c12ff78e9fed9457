"""Estimate of the allowed rate, from the requests accepted between 429s."""

from __future__ import annotations

from .hypotheses import Losses
from .schedule import SAMPLE, Flow, Pace, Ticket, corrected

TOLERATED = 0.005  # share of 429s that does not cut the rate
BRIEF = 0.3  # minimum seconds of a measurement


class RateEstimate:
    """Estimate of a rate limit, corrected by every exhaustion of it.

    `flow` measures the accepted rate over at least `span` seconds, `proven` is the rate accepted before the
    last correction, `losses` finds out whether corrections help.
    """

    __slots__ = ("_early", "flow", "losses", "proven", "span")

    def __init__(self) -> None:
        self.flow = Flow()
        self.losses = Losses()
        self.span = 0.0
        self.proven = 0.0
        self._early = 0  # consecutive corrections before the curve was back at its rate

    def due(self, ticket: Ticket) -> bool:
        """Return whether a 429 among accepted requests calls for a correction."""
        flow = self.flow
        sample = flow.sample(ticket)
        enough = sample >= SAMPLE and ticket.sent - flow.mark.sent >= BRIEF
        return enough and self.losses.excessive and flow.lost > TOLERATED * sample

    def correct(self, ticket: Ticket, pace: Pace) -> tuple[float, float, float]:
        """Return rate, dip and time of the next curve after a 429 at this pace."""
        flow, before, sample, lost = self.flow, self.proven, self.flow.sample(ticket), self.flow.lost
        high = pace.at(ticket.sent)
        self.proven = low = self._accepted(flow.rate(ticket, self.span), high)
        flow.advance(ticket)
        early = ticket.sent - pace.since < 0.9 * pace.time
        self._early = self._early + 1 if early else 0
        # A real limit would accept at this rate what it accepted before.
        in_vain = early and high < 0.95 * before and 2 * lost < sample
        if self.losses.judge(lost, sample, early=in_vain):
            return 1.1 * low, 0.1, 1
        return corrected(low, high, self._early, after_pause=False, costly=False)

    def resume(
        self, ticket: Ticket, pace: Pace, exhausted_at: float, cycle_rate: float, *, costly: bool
    ) -> tuple[float, float, float]:
        """Return the next curve after a dry spell from `exhausted_at` to the probe `ticket`.

        `cycle_rate` was accepted from one opening of the limit to the next, 0 if unknown;
        `costly`: the dry spell was a Retry-After.
        """
        high = pace.at(exhausted_at)
        low = max(self.flow.rate(ticket, max(self.span, 1.0)), cycle_rate)
        if costly and exhausted_at - pace.since < BRIEF:
            low = max(low, self.proven)  # corrected already by the first 429 of this exhaustion
        self.proven = low = self._accepted(low, high)
        self.flow.advance(ticket)
        self._early = 0
        return corrected(low, high, 0, after_pause=True, costly=costly)

    def _accepted(self, rate: float, high: float) -> float:
        """Return the accepted rate without the 429s that occur at any rate."""
        return min(rate / (1 - self.losses.share), high)
