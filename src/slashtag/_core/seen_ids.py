"""The ids of all items that a listing has yielded, in little memory."""

from __future__ import annotations

#: So many bits of an id are its place in a block.
BLOCK_BITS = 8
BLOCK_MASK = 2**BLOCK_BITS - 1


class SeenIds:
    """Set of ids, 256 to a number, since those of an account are mostly consecutive."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def new(self, ids: set[int]) -> set[int]:
        """Return the ids that are not in the set."""
        get = self._blocks.get
        return {id for id in ids if not get(id >> BLOCK_BITS, 0) >> (id & BLOCK_MASK) & 1}

    def add(self, ids: set[int]) -> None:
        """Add ids that are not in the set."""
        blocks, get = self._blocks, self._blocks.get
        for id in ids:
            blocks[id >> BLOCK_BITS] = get(id >> BLOCK_BITS, 0) | 1 << (id & BLOCK_MASK)
        self._length += len(ids)
