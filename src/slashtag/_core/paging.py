"""Rules of a listing: which pages it requests, which items each answer adds, and when it ends.

Answers have no total and no end mark. See docs/service.md, List short URLs. Meaning of an answer to page n:

    answer                first time               asked once more            behind the end
    --------------------  -----------------------  -------------------------  ------------------------
    full page             next page                next page                  not the end: request the
                                                                              page that seemed to be
                                                                              the end again
    short page            the end; where its       as the first time          as a full page
                          length looks like a
                          cap, once the next
                          page holds nothing
    empty page            ask once more            the end; of another        nothing
                                                   pageSize: as there
    404                   ask once more            the end; of page 1: raise  nothing
    under another number  ask once more            the end if it repeats      nothing if it repeats
                                                   items, and page 1 is not   items, else as a full page
                                                   all there was; else error
    repeats items only    ask once more            "date": error;             nothing; error if page 1
                                                   "-date": next page         is all there was
    ends at an earlier    "-date": ask once more   "-date": next page, which   as a page that repeats
    item than a page                               has to repeat items         items only
    before
    holds an item twice   ask once more            as if it held it once      as the page it is
    another pageSize      ask once more            go on in that size from    as a full page
                                                   the last item, or error
    400                   error                    error                      nothing

- A page is short if it holds fewer items than its own pageSize and than were requested. A length that is a
  multiple of 10 looks like a cap on the length of pages. Once a short page was not the end, the longest page
  counts as full, and every short page has to be confirmed by the next page.
- "Behind the end" are pages requested before the end was known, and the page that confirms a short page.
- A page after the first that is empty twice is the end only if the page behind it, which is requested unless
  it is under way, is empty too. An empty page before one with items is an error.
- Errors are PaginationErrors, except a 400 and a 404 of the first page, which are raised as they are. A page
  behind the end that repeats page 1 is asked for once more before it is an error.
- A repeated item means that records were inserted while we read. Pages requested ahead may predate that and
  miss an item: they are requested again, and the window starts anew with one page.
- If records are inserted faster than pages are read, the listing no longer advances, which is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from .._errors import BadRequestError, NotFoundError, PaginationError, SlashtagError
from .._models import Page
from .call import MAX_PAGESIZE
from .given_items import GivenItems, HasId

T = TypeVar("T", bound=HasId)

#: A short page whose length is a multiple of this may be the result of an undocumented cap.
CAP_STEP = 10
#: So many pages in a row that do not advance mean that insertions are faster than reading.
MOST_WITHOUT_ADVANCE = 8


class PageCursor(Generic[T]):
    """State of one listing; the rules are those of the table above.

    The caller requests the pages that `ask()` returns, and passes the answer for `page` to `take()` or its
    error to `missing()`. It then drops its requests for pages that are no longer in `under_way`, and ends
    when `done` is True. The window of pages under way grows by one for every page taken, up to `prefetch`.
    Nothing beyond `limit` items is requested. `pagesize` is the one requested. `latest_first` says that
    insertions shift the pages.
    """

    def __init__(
        self,
        *,
        start_page: int = 1,
        pagesize: int = MAX_PAGESIZE,
        prefetch: int = 8,
        limit: int | None = None,
        latest_first: bool = False,
    ) -> None:
        #: The next page to take.
        self.page = start_page
        #: Pages that were requested and not yet taken.
        self.under_way: set[int] = set()
        #: True while `page` is requested again to confirm its first answer.
        self.again = False
        self.done = limit == 0
        self._start = start_page
        self._pagesize = pagesize
        self._prefetch = prefetch
        self._latest_first = latest_first
        self._window = 1
        self._left = limit
        self._given = GivenItems(prefetch + 2)
        # The size of pages.
        self._page_size: int | None = None
        self._longest = 0
        self._capped = False  # a short page was not the end
        self._even = True  # all pages so far were exactly as long as their pageSize
        # The end.
        self._last: int | None = None  # the number of the page that seems to be the last
        self._confirmed = False  # the page after it was requested twice and was empty
        self._needed: int | None = None  # a page that must have items, as a later one does
        self._ask_behind = False  # the page after it must confirm that
        # Continuity.
        self._reread = False  # the next page has to repeat items
        self._end_id: int | None = None  # the last item of the page before
        self._deepest: int | None = None  # the yielded item farthest from the start of the listing
        self._without_advance = 0

    def ask(self) -> int | None:
        """Return the next page to request, None while enough pages are under way."""
        if self.done:
            return None
        number = self.page
        if number in self.under_way:
            # While a page is being confirmed, only that page is requested.
            doubt = self._last is not None or self.again or self._reread or self.page == self._needed
            ahead = len(self.under_way)
            beyond_limit = self._left is not None and ahead * (self._page_size or 0) >= self._left
            if doubt or beyond_limit or ahead >= self._window:
                return None
            number = max(self.under_way) + 1
        self.under_way.add(number)
        return number

    def missing(self, error: SlashtagError) -> None:
        """Process the error for `page`, or raise it if it cannot mean that the listing has ended."""
        # A page behind the end may be refused. Two 404s for the first page are for the path.
        is_refused = isinstance(error, BadRequestError) and self._last is not None
        may_end = isinstance(error, NotFoundError) and (self.page > self._start or not self.again)
        if not is_refused and not may_end:
            raise error
        self._nothing(self._begin())

    def take(self, page: Page[T]) -> Sequence[T]:
        """Process the answer to `page`; return its new items."""
        again = self._begin()
        size = min(page.page_size, self._pagesize)
        resized = self._page_size is not None and size != self._page_size
        if not page.items:
            if again and resized and size > 0 and self._even:
                # With another page size, this page may be beyond the end.
                return self._resize(size)
            return self._nothing(again)
        ids = [item.id for item in page.items]
        repeats, fresh = self._given.compare(page.items, ids)
        if self._last is not None and not self._goes_on(fresh, again):
            return ()
        if page.page != self.page:
            if again and (fresh or page.page > self.page or not self._several()):
                raise PaginationError(
                    f"page {self.page} was requested twice, but the answer is page {page.page}"
                )
            return self._nothing(again)
        if resized:
            return self._resize(size) if again else self._once_more()
        same = not fresh and ids[-1] == self._end_id
        falls = self._latest_first and _falls(ids)
        overtaken = falls and self._deepest is not None and ids[-1] > self._deepest
        behind = self._goes_back(ids, fresh, overtaken)
        # Whether the page is behind the page before.
        advances = ids[-1] < self._end_id if falls and self._end_id is not None else bool(fresh)
        if not again and (len(set(ids)) < len(ids) or (not self._reread and (same or behind))):
            # A repeated page or item in place of another one would lose items.
            return self._once_more()
        if self._reread:
            if not (repeats or overtaken):
                raise PaginationError(
                    f"page {self.page} does not continue the previous page: items could be lost"
                )
            self._reread = False
            # It did not grow: the service caps its pages.
            self._capped |= self.page == self._needed and not fresh and len(ids) < size
        elif repeats or not advances:
            if not fresh and not self._latest_first:
                if again:
                    raise PaginationError(
                        f"page {self.page} has only items of previous pages: the listing does not advance"
                    )
                return self._once_more()
            self.under_way.clear()
            self._window = 0
        # The page after one that ends at an earlier item has to repeat the items behind that.
        self._reread = behind
        if not behind:
            self._deepest = ids[-1]
        self._without_advance = 0 if advances else self._without_advance + 1
        return self._accept(size, ids, fresh)

    def _begin(self) -> bool:
        """Record an answer to `page`; return whether it is the second one."""
        self.under_way.discard(self.page)
        again, self.again = self.again, False
        return again

    def _once_more(self) -> Sequence[T]:
        self.again = True
        return ()

    def _accept(self, size: int, ids: list[int], fresh: Sequence[T]) -> Sequence[T]:
        if self._without_advance > MOST_WITHOUT_ADVANCE:
            raise PaginationError(
                f"page {self.page} does not advance: records are inserted faster than pages are read; "
                'use orderby="date", which appends them'
            )
        self._end_id = ids[-1]
        self._given.add([item.id for item in fresh])
        self._page_size = size
        self._longest = max(self._longest, len(ids))
        self._even &= len(ids) == size
        full = min(self._longest, size) if self._capped else size
        if len(ids) < full:
            self._last = self.page
            self._ask_behind = self._capped or len(ids) % CAP_STEP == 0
        self._window = min(self._window + 1, self._prefetch)
        self._advance()
        if self._left is not None:
            fresh = fresh[: self._left]
            self._left -= len(fresh)
            self.done |= self._left == 0
        return fresh

    def _advance(self) -> None:
        self.page += 1
        self.done = self._last is not None and not self._ask_behind and not self.under_way

    def _nothing(self, again: bool) -> Sequence[T]:
        """Process an answer without items: the page is behind the end, or must be requested again."""
        if self._last is not None:
            self._ask_behind = False
        elif not again:
            return self._once_more()
        elif self.page == self._needed or self._reread:
            raise PaginationError(
                f"page {self.page} is empty, also on a second request, but the listing goes on: "
                "items could be lost"
            )
        else:
            self._last = self.page - 1
            self._confirmed = True
            # A page behind it must confirm that this is not a gap.
            self._ask_behind = self.page > self._start
        self._advance()
        return ()

    def _goes_on(self, fresh: Sequence[T], again: bool) -> bool:
        """Process a page behind the apparent end; return whether the listing continues with it."""
        assert self._last is not None
        if not fresh:
            if self._confirmed or self._several():
                self._nothing(again)
            elif not again:
                self._once_more()
            else:
                raise PaginationError(
                    f"page {self.page} repeats the only page before it: the service may ignore `page`, or "
                    "repeat its last page; try a smaller pagesize to find out"
                )
            return False
        last, self._last, self._ask_behind = self._last, None, False
        if self._capped and not self._confirmed:
            return True
        # A short page was capped, or has grown since. An empty page was an error, or has items now.
        self._needed = last + 1 if self._confirmed else last
        self._restart(self._needed, reread=not self._confirmed)
        self._confirmed = False
        return False

    def _resize(self, size: int) -> Sequence[T]:
        """Continue with another page size, from the page that contains the last yielded item."""
        assert self._page_size is not None
        if not self._even or self._reread or size < 1:
            raise PaginationError(
                f"the pageSize of page {self.page} is {size} after {self._page_size}: items could be lost"
            )
        self._restart(((self.page - 1) * self._page_size - 1) // size + 1, reread=True)
        self._page_size = self._longest = size
        return ()

    def _restart(self, page: int, *, reread: bool) -> None:
        """Continue at an earlier page, and request all pages from there again."""
        self.page = page
        self.under_way.clear()
        self._reread = reread

    def _several(self) -> bool:
        """Return True if pages had different items, so the service does not ignore `page`."""
        return self._given.pages > 1

    def _goes_back(self, ids: list[int], fresh: Sequence[T], overtaken: bool) -> bool:
        """Return whether a page ends before the item farthest from the start: the next page repeats items."""
        if not self._latest_first or len(ids) == 1 or ids[-1] == self._deepest:
            return False
        return overtaken or not fresh or fresh[-1].id != ids[-1]


def _falls(ids: list[int]) -> bool:
    """Return whether ids fall within a page, which shows the order of insertion."""
    return len(ids) > 1 and all(map(int.__gt__, ids, ids[1:]))
