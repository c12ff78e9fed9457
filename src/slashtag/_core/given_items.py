"""Ids of the items that a listing has given, so that none is given twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeVar

from .call import MAX_PAGESIZE


class HasId(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=HasId)


class GivenItems:
    """Ids that were given: all of the last pages, and of older pages the first and the last.

    A page that goes back further than the last pages holds one of those two, since pages are equally long.
    """

    def __init__(self, pages: int) -> None:
        self.pages = 0
        self._most = pages
        self._recent: deque[list[int]] = deque()
        self._ids: set[int] = set()
        self._edges: set[int] = set()

    def compare(self, items: Sequence[T], ids: list[int]) -> tuple[bool, Sequence[T]]:
        """Return whether a page repeats items, and the items that were not given yet."""
        seen = set(ids)
        if not self._edges.isdisjoint(seen):
            return True, ()
        if self._ids.isdisjoint(seen) and len(seen) == len(ids):
            return False, items
        new: dict[int, T] = {}
        for item in items:
            if item.id not in self._ids:
                new.setdefault(item.id, item)
        return not self._ids.isdisjoint(seen), list(new.values())

    def add(self, ids: list[int]) -> None:
        """Take the ids of the items that a page adds."""
        if not ids:
            return
        self.pages += 1
        self._recent.append(ids)
        self._ids.update(ids)
        # Pages of another size may begin this far back.
        while len(self._recent) > self._most and len(self._ids) - len(self._recent[0]) >= 2 * MAX_PAGESIZE:
            old = self._recent.popleft()
            self._ids.difference_update(old)
            self._edges.update((old[0], old[-1]))
