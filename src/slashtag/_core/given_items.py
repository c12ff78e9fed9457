"""Ids of the items that a listing has yielded, so that none is yielded twice."""

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
    """Set of yielded ids: all of the last pages, and the first and last of each older page.

    A page that repeats items of older pages contains one of those two, since all pages have the same length.
    """

    def __init__(self, recent_pages: int) -> None:
        self.pages = 0
        self._most_recent = recent_pages
        self._recent: deque[list[int]] = deque()
        self._ids: set[int] = set()
        self._edges: set[int] = set()

    def compare(self, items: Sequence[T], ids: list[int]) -> tuple[bool, Sequence[T]]:
        """Return whether a page repeats items, and its new items."""
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
        """Add the ids of the new items of a page."""
        if not ids:
            return
        self.pages += 1
        self._recent.append(ids)
        self._ids.update(ids)
        # If the page size changes, a page may start this far back.
        while (
            len(self._recent) > self._most_recent
            and len(self._ids) - len(self._recent[0]) >= 2 * MAX_PAGESIZE
        ):
            old = self._recent.popleft()
            self._ids.difference_update(old)
            self._edges.update((old[0], old[-1]))
