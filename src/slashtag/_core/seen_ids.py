"""The ids of all items that a listing has yielded, in little memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

#: So many bits of an id are its place in a block.
BLOCK_BITS = 8
BLOCK_MASK = 2**BLOCK_BITS - 1


class SeenIds:
    """Set of ids, as bits of one number a block, since those of an account are mostly near each other."""

    def __init__(self) -> None:
        self._blocks: defaultdict[int, int] = defaultdict(int)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def new(self, ids: set[int]) -> set[int]:
        """Return the ids that are not in the set."""
        get = self._blocks.get
        if not any(get(block, 0) & bits for block, bits in _in_blocks(ids)):
            return ids
        return {id for id in ids if not get(id >> BLOCK_BITS, 0) >> (id & BLOCK_MASK) & 1}

    def add(self, ids: set[int]) -> None:
        """Add ids that are not in the set."""
        for block, bits in _in_blocks(ids):
            self._blocks[block] |= bits
        self._length += len(ids)


def _in_blocks(ids: set[int]) -> Iterable[tuple[int, int]]:
    """Return the number and the bits of each block that has some of the ids."""
    if not ids:
        return ()
    low, high = min(ids), max(ids)
    if high - low == len(ids) - 1:  # a row without gaps, as most pages
        starts = [low, *range((low >> BLOCK_BITS) + 1 << BLOCK_BITS, high + 1, BLOCK_MASK + 1)]
        ends = [min(high, start | BLOCK_MASK) for start in starts]
        pairs = zip(starts, ends, strict=True)
        return [(a >> BLOCK_BITS, (2 << (b & BLOCK_MASK)) - (1 << (a & BLOCK_MASK))) for a, b in pairs]
    found: defaultdict[int, int] = defaultdict(int)
    for id in ids:
        found[id >> BLOCK_BITS] |= 1 << (id & BLOCK_MASK)
    return found.items()
