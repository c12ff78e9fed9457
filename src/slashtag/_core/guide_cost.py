"""Cost model: when all-time statistics of a half batch save more requests than they cost.

There are two ways to get a per-link table over several windows. Halving requests each window of a batch,
then of one half if there are clicks. All-time statistics of a batch and its halves show in advance which half
has clicks in which months. Both use the same tree of halves, so they can be combined node by node:

    requesting all-time statistics of half a node        costs 1 request for each offset of the zone
                                                         (the other half is the difference)
    each window in which only one half has clicks        saves 1 request
                                                         (that half's answer is the node's answer)

The probability that only one half has clicks is estimated from similar nodes of this run, by clicks and
number of slashtags. The initial estimate is the probability that independent clicks all fall into one half.
To improve the estimates, nodes are also explored that seem not worth it, within the savings so far and
0.3 % of the requests for windows.
"""

from __future__ import annotations

from collections.abc import Iterable

EXPLORED = 0.003


class GuideCost:
    """Estimator of the requests that all-time statistics of half a node save, for one run."""

    def __init__(self, offsets: int = 1) -> None:
        self._price = offsets
        self._to_explore = 0.0
        #: [nodes, nodes with clicks in only one half], by size and clicks.
        self._seen: dict[tuple[int, int], list[int]] = {}

    def begin(self, keys: int, windows: int, active: int) -> None:
        """Record the all-time statistics of a batch, after which `active` of its windows remain."""
        self._to_explore += windows - active + EXPLORED * active * keys - self._price

    def observe(self, keys: int, clicks: int, *, one_sided: bool, guided: bool = False) -> None:
        """Record whether only one half of a node had clicks in a window, and whether that saved a request."""
        entry = self._seen.setdefault(_class(keys, clicks), [0, 0])
        entry[0] += 1
        entry[1] += one_sided
        self._to_explore += guided and one_sided

    def is_worth(self, keys: int, clicks: Iterable[int]) -> bool:
        """Return whether to request all-time statistics of half a node, given its clicks in each window."""
        windows = [(n, 1.0) for n in clicks if n > 0]
        if keys < 2 or not windows:
            return False
        if self._to_explore < self._price and self._gain(keys, windows) <= 0:
            return False
        self._to_explore -= self._price
        return True

    def _gain(self, keys: int, windows: list[tuple[int, float]]) -> float:
        """Return the expected savings minus cost; `windows` are (clicks, probability of any)."""
        saved = 0.0
        expected = 0.0
        below: list[tuple[int, float]] = []
        for clicks, chance in windows:
            one_sided = self._one_sided(keys, clicks)
            expected += chance
            saved += chance * one_sided
            below.append((clicks if one_sided > 0.5 else max(1, clicks // 2), chance * (1 - one_sided / 2)))
        gain = saved - self._price * min(1.0, expected)
        if keys > 3 and expected > 0.01:
            gain += 2 * max(0.0, self._gain(keys // 2, below))
        return gain

    def _one_sided(self, keys: int, clicks: int) -> float:
        seen, one_sided = self._seen.get(_class(keys, clicks), (0, 0))
        # Assumes that on average each slashtag with clicks has two.
        first: float = min(1.0, 2.0 ** (1 - min(clicks, keys) / 2))
        return (one_sided + first) / (seen + 1)


def _class(keys: int, clicks: int) -> tuple[int, int]:
    return keys.bit_length(), min(clicks, 2**20).bit_length()
