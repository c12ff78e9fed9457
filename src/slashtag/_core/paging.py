"""What a listing asks for next, in which order its answers count, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from .._errors import PaginationError
from .._models import Page


class HasId(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=HasId)

_id: Callable[[HasId], int] = attrgetter("id")


class PageCursor(Generic[T]):
    """Decide over a listing: which pages to ask for, what each answer adds, when it is complete.

    The driver asks for the pages that `ask()` names, hands the answers in the order of their numbers to
    `take()`, and ends when `done` is True. Nothing is asked for beyond `limit` items. The rules:

    - the window of pages under way grows 1, 2, 4 ... up to `prefetch`, by one for every full page;
    - a page shorter than its own pageSize is the last, unless a later page that was already asked for has
      items; an empty page ends the listing, and so does an answer for another page than the one asked for;
    - an item that the page before it held is not given twice, and where one was held, the listing has
      shifted: pages asked ahead may have been answered before the shift, so that what moved on to them is
      on none. They are asked for `again()`;
    - a full page that only repeats the page before it is passed over once and is a PaginationError the
      second time; so are a pageSize that changes midway and a listing that begins again. A short page
      that repeats is the end, told again.

    (List short URLs, List tags: the document shows no total and no end mark.)
    """

    def __init__(self, *, start_page: int = 1, prefetch: int = 8, limit: int | None = None) -> None:
        self._next_asked = start_page
        self._next_taken = start_page
        self._start = start_page
        self._prefetch = prefetch
        self._window = 1
        self._left = limit
        self._page_size: int | None = None
        self._known: frozenset[int] = frozenset()
        self._first: frozenset[int] = frozenset()
        self._repeats = 0
        self._short = False
        self._stale = False
        self.done = limit == 0

    def ask(self) -> int | None:
        """Name the next page to ask for, None while enough is under way."""
        if self.done or self._short:
            return None
        under_way = self._next_asked - self._next_taken
        if under_way >= self._window or (under_way and not self._needed(under_way)):
            return None
        page = self._next_asked
        self._next_asked += 1
        return page

    def _needed(self, under_way: int) -> bool:
        # With a limit, pages that can only lie beyond it are not asked for.
        if self._left is None or self._page_size is None:
            return True
        return under_way * self._page_size < self._left

    def take(self, page: Page[T]) -> Sequence[T]:
        """Take the answer to the lowest page that is under way; return the items that it adds."""
        asked = self._next_taken
        self._next_taken += 1
        if page.page != asked and asked == 1 and page.items:
            # Ending here would make a whole account look empty.
            raise PaginationError(f"page 1 was asked for, the answer is page {page.page}")
        if page.page != asked or not page.items:
            self.done = True
            return ()
        if self._page_size is not None and page.page_size != self._page_size:
            raise PaginationError(
                f"page {asked} says pageSize {page.page_size} after {self._page_size}: "
                "items between pages could be lost"
            )
        self._page_size = page.page_size
        self._short = len(page.items) < page.page_size
        ids = frozenset(map(_id, page.items))
        overlap = not ids.isdisjoint(self._known)
        self._first = self._first or ids
        if ids == self._first and self._known and not overlap:
            raise PaginationError(f"page {asked} begins the listing again: it goes in circles")
        fresh: Sequence[T] = page.items
        # Past a short page nothing can have moved on; what was asked for behind it is its only check.
        self._stale = overlap and not self._short
        if overlap or len(ids) < len(page.items):
            fresh = self._unseen(page.items)
            if not fresh and not self._short:
                self._repeats += 1
                if self._repeats > 1:
                    raise PaginationError(
                        f"page {asked} repeats the items of the page before it: the listing does not advance"
                    )
        if fresh:
            self._repeats = 0
        self._known = ids
        if self._short and self._next_asked == self._next_taken:
            self.done = True
        self._window = min(self._window + 1, self._prefetch)
        return self._within_limit(fresh)

    def again(self) -> bool:
        """Ask anew for the pages that are under way if they may be stale; the driver then drops its own."""
        stale, self._stale = self._stale, False
        if stale:
            self._next_asked = self._next_taken
        return stale

    def missing(self) -> None:
        """Take note that the lowest page under way does not exist (404): the listing ended before it."""
        self._next_taken += 1
        self.done = True

    @property
    def may_be_missing(self) -> bool:
        """Tell whether an error answer to the lowest page under way can mean that the listing has ended."""
        return self._next_taken > self._start

    @property
    def past_the_end(self) -> bool:
        """Tell whether a short page came, so that the pages under way are expected to be empty."""
        return self._short

    def _unseen(self, items: Sequence[T]) -> list[T]:
        seen = set(self._known)
        fresh: list[T] = []
        for item in items:
            if item.id not in seen:
                seen.add(item.id)
                fresh.append(item)
        return fresh

    def _within_limit(self, items: Sequence[T]) -> Sequence[T]:
        if self._left is None:
            return items
        items = items[: self._left]
        self._left -= len(items)
        if self._left == 0:
            self.done = True
        return items
