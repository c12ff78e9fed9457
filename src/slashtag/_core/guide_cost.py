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
The cost in excess of the savings stays under 1 % of the requests for windows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

#: Share of the requests for windows that may be spent on exploring.
EXPLORED = 0.01
#: Weight of the initial estimate, in observations.
PRIOR = 1.0
#: Exploring ends after this many nodes of each size if few of them would have saved a request.
ENOUGH, HARDLY = 50, 0.2


class GuideCost:
    """Estimator of the requests that all-time statistics of half a node save, for one run."""

    def __init__(self, offsets: int = 1) -> None:
        self._price = offsets
        self._spent = 0.0
        self._saved = 0.0
        self._windows = 0.0
        #: [nodes, nodes with clicks in only one half], by size and clicks, and by size.
        self._seen: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        self._of_size: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    def begin(self, keys: int, windows: int, active: int) -> None:
        """Record the all-time statistics of a batch, after which `active` of its windows remain."""
        self._spent += self._price
        self._saved += windows - active
        self._windows += active * keys

    def observe(self, keys: int, clicks: int, *, one_sided: bool, guided: bool = False) -> None:
        """Record whether only one half of a node had clicks in a window, and whether that saved a request."""
        entry = self._seen[_class(keys, clicks)]
        entry[0] += 1
        entry[1] += one_sided
        of_size = self._of_size[keys.bit_length()]
        of_size[0] += 1
        of_size[1] += one_sided
        self._saved += guided and one_sided

    def is_worth(self, keys: int, clicks: Iterable[int]) -> bool:
        """Return whether to request all-time statistics of half a node, given its clicks in each window."""
        windows = [(n, 1.0) for n in clicks if n > 0]
        if keys < 2 or not windows:
            return False
        explores = self._spent + self._price <= self._saved + EXPLORED * self._windows
        explores = explores and not self._hopeless(keys, len(windows))
        if not explores and self._gain(keys, windows) <= 0:
            return False
        self._spent += self._price
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

    def _hopeless(self, keys: int, windows: int) -> bool:
        for size in range(2, keys.bit_length() + 1):
            nodes, one_sided = self._of_size[size]
            if nodes < ENOUGH or windows * one_sided > HARDLY * self._price * nodes:
                return False
        return True

    def _one_sided(self, keys: int, clicks: int) -> float:
        seen, one_sided = self._seen.get(_class(keys, clicks), (0, 0))
        # Assumes that on average each slashtag with clicks has two.
        first: float = min(1.0, 2.0 ** (1 - min(clicks, keys) / 2))
        return (one_sided + PRIOR * first) / (seen + PRIOR)


def _class(keys: int, clicks: int) -> tuple[int, int]:
    return keys.bit_length(), min(clicks, 2**20).bit_length()
