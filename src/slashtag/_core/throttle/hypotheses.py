"""Hypotheses about a limit that is not, or not only, a rate: a cap in flight, a window's quota, stray 429s.

All serve `pacing.Throttle`.
"""

from __future__ import annotations

STRIKES = 3  # 429s that do not fit a cap in flight; slower samples that prove strays
PROVEN = 3  # probes in a row that must pass before everybody may go
SAMPLE = 20  # requests that an estimate needs
EXCESS = 6.0  # 429s over the share of strays that make an event


class ConcurrencyCap:
    """Suspect a cap on requests in flight: keep to what was accepted together, and try carefully more.

    After a hold the number is raised by 1, 2, 4. A 429 over the safe number was to be expected; one at or
    under it, or after many were accepted over it, is a strike against the suspicion.
    """

    __slots__ = ("_above", "_hold", "_raise_at", "_step", "safe", "strikes")

    def __init__(self) -> None:
        self.safe = 0
        self.strikes = 0
        self._above = 0  # accepted over the safe number
        self._hold = 1.0
        self._step = 1
        self._raise_at = 0.0

    @property
    def disproved(self) -> bool:
        """Tell whether a cap in flight cannot explain the 429s."""
        return self.strikes >= STRIKES

    def suspect(self, together: int, now: float) -> int:
        """Begin with the number accepted together; return the cap, from which it grows by accepts."""
        if not self.strikes:
            self.safe = max(4, together)
        self._hold, self._step, self._above = 1.0, 1, 0
        self._raise_at = now + self._hold
        return min(PROVEN, self.safe)

    def accepted(self, load: int, now: float, cap: float) -> float:
        """Return the cap after an accept of a request that was one of `load` in flight."""
        self._above += load > self.safe
        if cap < self.safe:
            return cap + 1
        if now < self._raise_at or load < cap:
            return cap
        self.safe, self._above = int(cap), 0
        step, self._step = self._step, min(4, 2 * self._step)
        self._raise_at = now + self._hold
        return self.safe + step

    def rejected(self, load: int, now: float) -> int:
        """Return the cap after a 429 of a request that was one of `load` in flight."""
        if load <= self.safe or self._above >= SAMPLE:
            return self.strike()
        self._hold, self._step, self._above = min(4.0, 2 * self._hold), 1, 0
        self._raise_at = now + self._hold
        return self.safe

    def strike(self) -> int:
        """Count a strike, and return the cap: from one up again to less than was thought safe."""
        self.strikes += 1
        self.safe, self._above = max(1, int(0.9 * self.safe)), 0
        return 1


class QuotaWindow:
    """Count what a cycle lets pass, from the opening of a limit to the next, and keep a window's quota.

    `quota` requests (0: not known) pass in `width` seconds; `start` is when this cycle opened, `accepted`
    what it let pass so far, `budget` what may still depart at full speed, `slack` by how many
    seconds the opening is uncertain.
    """

    __slots__ = ("accepted", "budget", "explored_from", "quota", "slack", "start", "width")

    def __init__(self) -> None:
        self.accepted = 0
        self.start = 0.0
        self.quota = 0
        self.width = 0.0
        self.budget = 0
        self.explored_from = 0  # the departure after which the quota is explored one by one
        self.slack = 0.0

    @property
    def opens_at(self) -> float:
        """Return when the next window can open at the earliest; in the past while that is not known."""
        early = self.accepted < 0.9 * self.quota  # the edge of a sliding window: not used up
        return self.start + self.width - self.slack if self.width and not early else 0.0

    def begin(self, start: float, accepted: int) -> None:
        """Begin a cycle that opened at `start`, of which some requests were accepted since."""
        self.start, self.accepted = start, accepted

    def reopen(self, opened_at: float, hits: int, dry: float, gap: float) -> None:
        """Take what was accepted before `hits` probes as the quota; `gap`: seconds between two probes."""
        self.quota = max(1, self.accepted - hits)
        self.width = opened_at - self.start if self.width else dry
        self.slack = max(0.5, gap)
        self.budget, self.explored_from = max(1, self.quota - hits), 0
        self.begin(opened_at, hits)


class Strays:
    """Recognize 429s that have nothing to do with the pace: a slower pace meets the same share of them."""

    __slots__ = ("_alike", "_excess", "_pace", "_share", "share")

    def __init__(self) -> None:
        self.share = 0.0  # of all requests; 0 while there are none
        self._excess = 0.0  # 429s over that share, of late
        self._pace = 0.0  # under suspicion since this pace ...
        self._share = 0.0  # ... met this share
        self._alike = 0

    def accepted(self) -> None:
        """Take note of an accept, where there are strays."""
        if self._excess:
            self._excess = max(0.0, self._excess - 2.5 * self.share)

    def rejected(self, in_flight: int) -> bool:
        """Tell whether a 429 is one stray more, where there are strays; they are answered first."""
        self._excess += 1
        return self._excess < EXCESS + self.share * in_flight

    def proved(self, pace: float, share: float) -> bool:
        """Tell whether this share of 429s at a pace (requests/s), after faster ones, proves strays."""
        if share < 0.05:
            self._pace = 0.0
        elif not self._pace or share < 0.7 * self._share:
            self._pace, self._share, self._alike = pace, share, 0
        elif pace < 0.7 * self._pace:
            self._alike += 1
            if self._alike >= STRIKES:
                self._pace, self.share, self._excess = 0.0, share, 0.0
                return True
        return False
