"""The links with most clicks of a span, found with few requests.

The service counts any 100 links in one request. Groups of links are counted together; the groups with most
clicks are halved until the first places are all held by single links: no link has more clicks than its group.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct

#: Links counted together at first: as many as a request may name (Limits).
GROUP = 100

Count = Callable[[Sequence[str]], Awaitable[int]]


class Place(NamedTuple):
    """One of the links with most clicks: its clicks in the span and in the one before."""

    slashtag: str
    clicks: int
    before: int


class _Group(Struct, frozen=True, eq=False):
    """Links and their clicks together; of a single link with the rank that it holds, None until known."""

    keys: Sequence[str]
    clicks: int
    #: Whether the clicks were counted, not told by subtraction: new clicks may come between two requests.
    is_counted: bool = True
    place: Place | None = None
    rank: int | None = None

    @property
    def bound(self) -> int:
        """The highest rank that one of its links can have."""
        return self.clicks if self.rank is None else self.rank


class Ranking:
    """Search for the links with most clicks, or with `growth` those whose clicks grew most.

    `count` and `count_before` count the clicks of some slashtags in the span and in the one before; `hits`
    has a guess for each slashtag, which decides only how many requests it takes. `total` is known at the end.
    """

    def __init__(self, count: Count, count_before: Count, hits: Mapping[str, int], *, growth: bool) -> None:
        self._count = count
        self._count_before = count_before
        self._hits = hits
        self._growth = growth
        self.total = 0

    async def first(self, limit: int) -> list[Place]:
        """Return at most `limit` links, those of equal clicks in any order; raises what counting raises."""
        keys = sorted(self._hits, key=lambda key: (-self._hits[key], key))
        parts = [keys[n : n + GROUP] for n in range(0, len(keys), GROUP)]
        counts = await asyncio.gather(*map(self._count, parts))
        self.total = sum(counts)
        groups = [_Group(part, clicks) for part, clicks in zip(parts, counts, strict=True)]
        while True:
            best = nlargest(limit, groups, key=lambda group: (group.bound, group.place is not None))
            best = [group for group in best if group.bound > 0]
            unsettled = {id(group): group for group in best if group.place is None}
            if not unsettled:
                return [group.place for group in best if group.place is not None]
            finer = await asyncio.gather(*map(self._refined, unsettled.values()))
            groups = [group for group in groups if id(group) not in unsettled]
            groups += [group for pair in finer for group in pair]

    async def _refined(self, group: _Group) -> list[_Group]:
        """Return the two parts of a group, or a single link with its place."""
        keys = group.keys
        if len(keys) == 1:
            clicks = group.clicks if group.is_counted else await self._count(keys)
            before = await self._count_before(keys)
            rank = clicks - before if self._growth else clicks
            return [_Group(keys, clicks, place=Place(keys[0], clicks, before), rank=rank)]
        # Cut where both parts have half of the hits: a link that outweighs the others is soon alone.
        weights = list(accumulate(self._hits[key] + 1 for key in keys))
        cut = min(max(bisect_left(weights, weights[-1] / 2), 1), len(keys) - 1)
        clicks = await self._count(keys[:cut])
        return [
            _Group(keys[:cut], clicks),
            _Group(keys[cut:], max(0, group.clicks - clicks), is_counted=False),
        ]
