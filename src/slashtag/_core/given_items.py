"""Ids of the items that a listing has yielded, so that none is yielded twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from .call import MAX_PAGESIZE


class HasId(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=HasId)


class GivenItems:
    """Set of yielded ids: all of the last pages, and the first and last of each older page.

    A page that repeats items of older pages contains one of those two, since all pages have the same length.
    """

    def __init__(self, recent_pages: int) -> None:
        self.pages = 0
        self._most_recent = recent_pages * MAX_PAGESIZE
        self._recent: set[int] = set()
        self._before: set[int] = set()
        self._edges: set[int] = set()

    def compare(self, items: Sequence[T], ids: list[int]) -> tuple[bool, Sequence[T]]:
        """Return whether a page repeats items, and its new items."""
        seen = {*ids}
        repeated = seen & self._recent | seen & self._before
        if not self._edges.isdisjoint(seen - repeated):
            return True, ()
        if not repeated and len(seen) == len(ids):
            return False, items
        new = {item.id: item for item in items if item.id not in repeated}
        return bool(repeated), list(new.values())

    def add(self, ids: list[int]) -> None:
        """Add the ids of the new items of a page."""
        if ids:
            self.pages += 1
            self._edges.update((ids[0], ids[-1]))
            self._recent.update(ids)
            if len(self._recent) >= self._most_recent:
                self._before, self._recent = self._recent, set()
