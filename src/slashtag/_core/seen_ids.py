"""The ids of all items that a listing has yielded, in little memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import merge
from itertools import pairwise

#: So many ids are kept one by one before they are added to the ranges.
MOST_RECENT = 4_000


class SeenIds:
    """Set of ids, most of them as ranges, since those of an account are mostly consecutive."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        # Ranges in ascending order, none adjacent to another.
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._in_ranges = 0

    def __len__(self) -> int:
        return self._in_ranges + len(self._recent)

    def new(self, ids: set[int]) -> set[int]:
        """Return the ids that are not in the set."""
        starts, stops = self._starts, self._stops
        at = bisect_right(starts, max(ids)) if ids else 0
        # Most pages are before or behind all ranges.
        if at and stops[at - 1] > min(ids):
            ids = {id for id in ids if not (at := bisect_right(starts, id)) or id >= stops[at - 1]}
        return ids if self._recent.isdisjoint(ids) else ids - self._recent

    def add(self, ids: set[int]) -> None:
        """Add ids that are not in the set."""
        self._recent |= ids
        # In proportion to the ranges, so that adding ids in any order takes little time.
        if len(self._recent) > MOST_RECENT + len(self._starts) // 4:
            self._add_ranges()

    def _add_ranges(self) -> None:
        ids = sorted(self._recent)
        is_one_range = ids[-1] - ids[0] == len(ids) - 1
        gaps = [] if is_one_range else [pair for pair in pairwise(ids) if pair[1] - pair[0] > 1]
        new = zip([ids[0], *(b for _, b in gaps)], [*(a + 1 for a, _ in gaps), ids[-1] + 1], strict=True)
        # The ranges from the one that the first id touches to the one that the last id touches.
        touched = slice(bisect_left(self._stops, ids[0]), bisect_right(self._starts, ids[-1] + 1))
        starts: list[int] = []
        stops: list[int] = []
        for start, stop in merge(zip(self._starts[touched], self._stops[touched], strict=True), new):
            if stops and stops[-1] == start:
                stops[-1] = stop
            else:
                starts.append(start)
                stops.append(stop)
        self._starts[touched], self._stops[touched] = starts, stops
        self._in_ranges += len(ids)
        self._recent = set()
