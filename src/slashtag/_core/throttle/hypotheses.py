"""Alternatives to a rate limit: a cap in flight, a quota per window, or 429s that occur at any rate."""

from __future__ import annotations

from .probing import Probing
from .schedule import FLOOR, Ticket

STRIKES = 3  # 429s that a cap in flight cannot explain
PROVEN = 3  # consecutive accepted probes that end probing
CLUSTER = 4.0  # 429s close together that mean an exhausted limit
EXCESS = 6.0  # 429s beyond the tolerated share that are more than chance
LEAK = 1 / 3  # of a 429 that each accepted request offsets: one 429 in four is no cluster
MOST_TOLERATED = 0.3  # share of 429s
FORGET = 12.0  # 429s expected at any rate of which none came: the share is wrong


class ConcurrencyCap:
    """Hypothesis of a cap on requests in flight.

    `safe` requests were accepted together. After a hold the number is raised by 1, 2, 4. A 429 above the safe
    number is expected; one at or below it is a strike against the hypothesis.
    """

    __slots__ = ("_hold", "_raise_at", "_step", "safe", "strikes")

    def __init__(self) -> None:
        self.safe = 0
        self.strikes = 0
        self._hold = 1.0
        self._step = 1
        self._raise_at = 0.0

    @property
    def disproved(self) -> bool:
        """Whether a cap in flight cannot explain the 429s."""
        return self.strikes >= STRIKES

    def suspect(self, together: int, now: float) -> int:
        """Start with the number accepted together; return the initial cap."""
        if not self.strikes:
            self.safe = max(4, together)
        self._hold, self._step = 1.0, 1
        self._raise_at = now + self._hold
        return min(PROVEN, self.safe)

    def accepted(self, load: int, now: float, cap: float) -> float:
        """Return the cap after accepting a request that was one of `load` in flight."""
        if cap < self.safe:
            return cap + 1
        if now < self._raise_at or load < cap:
            return cap
        self.safe = int(cap)
        step, self._step = self._step, min(4, 2 * self._step)
        self._hold = max(1.0, self._hold / 2)
        self._raise_at = now + self._hold
        return self.safe + step

    def rejected(self, load: int, now: float) -> int:
        """Return the cap after a 429 of a request that was one of `load` in flight."""
        if load <= self.safe:
            return self.strike()
        self._hold, self._step = min(4.0, 2 * self._hold), 1
        self._raise_at = now + self._hold
        return self.safe

    def strike(self) -> int:
        """Count a strike and return a lower cap."""
        self.strikes += 1
        self.safe = max(1, int(0.9 * self.safe))
        return self.safe


class QuotaWindow:
    """Hypothesis of a quota per window, which is a cycle from one opening of the limit to the next.

    `quota` requests (0: unknown) are accepted in `width` seconds; `start` is the opening of this cycle,
    `accepted` counts its requests so far, `budget` those still allowed at full speed, `slack` is the
    uncertainty of the opening in seconds.
    """

    __slots__ = ("accepted", "budget", "explored_from", "quota", "slack", "start", "width")

    def __init__(self) -> None:
        self.accepted = 0
        self.start = 0.0
        self.quota = 0
        self.width = 0.0
        self.budget = 0
        self.explored_from = 0  # the request after which the quota is explored one by one
        self.slack = 0.0

    @property
    def opens_at(self) -> float:
        """Earliest time at which the next window can open; in the past if unknown."""
        early = self.accepted < 0.9 * self.quota  # the edge of a sliding window: not used up
        return self.start + self.width - self.slack if self.width and not early else 0.0

    def depart(self, number: int) -> bool:
        """Count a departure; return whether it uses up the budget."""
        self.budget -= 1
        if not self.budget:
            self.explored_from = number
        return not self.budget

    def estimate(self, at: float, ahead: int, *, open_now: bool) -> float:
        """Return the earliest time to send a request with `ahead` others before it."""
        over = ahead - (self.budget if open_now else self.quota)
        if over < 0:
            return at
        start = self.start if open_now else at - self.width
        return max(at, start + self.width * (1 + over // self.quota))

    def rate(self, probing: Probing) -> float:
        """Return the rate accepted in this cycle until the opening that probing has found, in requests/s."""
        return max(self.accepted - probing.accepted, 1) / max(probing.opening - self.start, FLOOR)

    def begin(self, start: float, accepted: int) -> None:
        """Start a cycle that opened at `start` and has accepted some requests."""
        self.start, self.accepted = start, accepted

    def reopen(self, probing: Probing) -> None:
        """Set the quota to the number accepted before the probes."""
        self.quota = max(1, self.accepted - probing.accepted)
        self.width = probing.opened_at - self.start if self.width else probing.seconds
        self.slack = max(0.5, probing.opened_at - probing.rejected_at)
        self.budget, self.explored_from = max(1, self.quota - probing.accepted), 0
        self.begin(probing.opened_at, probing.accepted)


class Losses:
    """Recent 429s: clusters mean an exhausted limit, but some may occur at any rate.

    `share` of all requests is answered 429 at any rate (0: none known): by chance, or because requests
    arrive less evenly than they are sent. It is learnt from 429s that occur although the rate was cut below
    what had been accepted, and forgotten when they stop.
    """

    __slots__ = ("_cluster", "_excess", "_last", "_lost", "_sample", "_strikes", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self._cluster = 0.0
        self._excess = 0.0  # 429s over the share
        self._last = 0  # the number of the last request answered 429
        self._strikes = 0  # consecutive cuts without effect
        self._lost = self._sample = 0  # since the first of them

    def accepted(self) -> None:
        """Record an accepted request."""
        if self._cluster:
            self._cluster = max(0.0, self._cluster - LEAK)
        if self._excess:
            self._excess = max(0.0, self._excess - 2 * self.share)

    def rejected(self, ticket: Ticket) -> None:
        """Record a 429."""
        if self.share and (ticket.number - ticket.load - self._last) * self.share > FORGET:
            self.share = 0.0
        self._last = max(self._last, ticket.number)
        self._cluster += 1
        self._excess += 1

    @property
    def doubtful(self) -> bool:
        """Whether the next answers decide between a cluster and chance."""
        return self._cluster >= 1 + 10 * self.share

    def clustered(self, in_flight: int) -> bool:
        """Return whether an exhausted limit explains the last 429s better than chance does."""
        return self._cluster >= CLUSTER + in_flight / 16 + 20 * self.share

    @property
    def excessive(self) -> bool:
        """Whether there are more 429s than the share that occurs at any rate."""
        return not self.share or self._excess >= EXCESS

    def forgive(self) -> None:
        """Forget the 429s of a cluster that was handled."""
        self._cluster = self._excess = 0.0

    def judge(self, lost: int, sample: int, *, in_vain: bool) -> bool:
        """Judge a cut by the 429s since; `in_vain`: they occurred below the rate accepted before.

        Return whether they are now known to occur at any rate.
        """
        self._excess = 0.0
        if not in_vain:
            self._strikes = self._lost = self._sample = 0
            return False
        self._strikes += 1
        self._lost += lost
        self._sample += sample
        if self._strikes < 2:
            return False
        self.share = min(MOST_TOLERATED, 1.2 * self._lost / self._sample + 0.005)
        self._strikes = self._lost = self._sample = 0
        return True
