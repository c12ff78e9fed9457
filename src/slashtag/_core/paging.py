"""Rules of a listing: which pages it requests, which items each answer adds, and when it ends.

Answers have no total and no end mark. See docs/service.md, List short URLs. Meaning of an answer to page n:

    answer               first time             asked once more          behind the end
    -------------------  ---------------------  -----------------------  ---------------------------------
    full page            next page              next page                not the end: read again
    short page           the end; where its     as the first time        not the end: read again
                         length looks like a
                         cap, once the next
                         page holds nothing
    empty page, or 404   ask once more          the end, once the next   nothing
                                                page holds nothing too
    known items only     ask once more          next page; under         nothing; error if there was
                                                another number: the end  only one page
    an item twice        ask once more          next page                not the end: read again
    another number       ask once more          error                    not the end: read again
    another pageSize     ask once more          read again               not the end: read again
    400                  error                  error                    nothing

- A page is short if it holds fewer items than its own pageSize and than were requested. A length that is a
  multiple of 10 looks like a cap on the length of pages. It is one if page 1 was not the end, and has the
  same length when read again; each shorter page is then confirmed by the next page.
- "Behind the end" are pages requested before the end was known, and the page that confirms it.
- A listing is complete if as many different items were given as there are records on its pages. A repeated
  item takes the place of another one: records were inserted while we read "-date", or the order of records
  created at the same time differs from page to page. The listing is then read again from its start, in
  pages of other sizes, until it is complete. Without progress in several readings it is an error.
- After an insertion, pages requested ahead may miss items, and are requested again. If all repeated items can
  be the result of insertions, the next reading ends once it has given as many items as were missing.
- If pages hold more known items than new ones, or if the items of a late page of "-date" are newer than those
  of page 1, the listing does not advance, which is an error.
- Errors are PaginationErrors, except a 400 and a 404 of the first page, which are raised as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Generic, Literal, Protocol, TypeVar, get_args

from msgspec import Struct

from .._errors import BadRequestError, InvalidRequestError, NotFoundError, PaginationError, SlashtagError
from .._models import Page
from .call import MAX_PAGESIZE, check_int
from .seen_ids import SeenIds


class HasId(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=HasId)
Order = Literal["date", "-date"]

#: A short page whose length is a multiple of this may be the result of an undocumented cap.
CAP_STEP = 10
#: With so many pages more of known items than of new ones, a listing does not advance.
MOST_KNOWN_PAGES = 8
TOO_FAST = (
    "the listing does not advance: records are inserted faster than pages are read, or the service repeats "
    'pages; use orderby="date", which appends new records'
)
#: So many readings in a row that leave as many items missing as before are an error.
MOST_READINGS_IN_VAIN = 5


class Paging(Struct, frozen=True):
    """Checked options of a listing; see `Resource.list`."""

    orderby: Order | None = "date"
    pagesize: int = MAX_PAGESIZE
    start_page: int = 1
    prefetch: int = 8
    limit: int | None = None

    def __post_init__(self) -> None:
        check_int("start_page", self.start_page, 1)
        check_int("pagesize", self.pagesize, 1, MAX_PAGESIZE)
        check_int("prefetch", self.prefetch, 1)
        if self.limit is not None:
            check_int("limit", self.limit, 0)
        if self.orderby is not None and self.orderby not in get_args(Order):
            raise InvalidRequestError(f"orderby must be 'date' or '-date', not {self.orderby!r}")


class PageCursor(Generic[T]):
    """State of one listing: it is read once, and again while items are missing.

    The caller requests the pages that `ask()` returns, of `pagesize` items, and passes the answer for `page`
    to `take()` or its error to `missing()`. It then drops its requests for pages that are no longer in
    `under_way`, and ends when `done` is True. Nothing beyond the limit is requested.
    """

    def __init__(self, options: Paging | None = None) -> None:
        self._options = options or Paging()
        self.done = self._options.limit == 0
        self.pagesize = self._options.pagesize
        self._left = inf if self._options.limit is None else self._options.limit
        self._reading: Reading[T] = self._begin(None)
        self._given = self._reading.seen
        self._first_id: int | None = None  # of this reading
        # The largest number of records in any reading, and how many are missing.
        self._records = 0.0
        self._lacking = inf
        self._ends_early = False
        self._in_vain = 0

    @property
    def page(self) -> int:
        """The next page to take."""
        return self._reading.page

    @property
    def under_way(self) -> set[int]:
        """Pages that were requested and not yet taken."""
        return self._reading.under_way

    @property
    def again(self) -> bool:
        """Whether `page` was answered before, and the answer is in doubt."""
        is_repeated = self._given is not self._reading.seen and self.pagesize == self._options.pagesize
        return self._reading.again or is_repeated

    def ask(self) -> int | None:
        """Return the next page to request, None while enough pages are under way."""
        return None if self.done else self._reading.ask(self._options.prefetch, self._left)

    def missing(self, error: SlashtagError) -> None:
        """Process the error for `page`, or raise it if it cannot mean that the listing has ended."""
        self._reading.missing(error)
        self._check_end()

    def take(self, page: Page[T]) -> Sequence[T]:
        """Process the answer to `page`; return its new items."""
        items = self._reading.take(page)
        if items and self._options.orderby != "date":
            self._check_order([item.id for item in items])
        if items and self._given is not self._reading.seen:
            new = self._given.new({item.id for item in items})
            self._given.add(new)
            items = _choose(items, new)
        items = items if len(items) <= self._left else items[: int(self._left)]
        self._left -= len(items)
        self._check_end()
        return items

    def _begin(self, cap: int | None) -> Reading[T]:
        options = self._options
        return Reading(options.start_page, self.pagesize, shifts=options.orderby != "date", cap=cap)

    def _check_end(self) -> None:
        """End the listing if it is complete; after a reading that did not complete it, begin another one."""
        reading = self._reading
        self.done = not self._left or (self._ends_early and len(self._given) >= self._records)
        if self.done or not reading.done:
            return
        if reading.records < inf:
            self._records = max(self._records, reading.records)
        lacking = max(self._records, reading.records) - len(self._given)
        self.done = lacking <= 0
        if self.done:
            return
        self._in_vain = 0 if lacking < self._lacking else self._in_vain + 1
        self._lacking = min(lacking, self._lacking)
        if self._in_vain == MOST_READINGS_IN_VAIN:
            raise PaginationError(
                f"{len(self._given)} items were found, but others are missing, also when the pages are read "
                "again: some repeat items of others, are too short or empty; the order of records created at "
                "the same time may differ from page to page"
            )
        self._ends_early = reading.shifts
        if self._options.start_page == 1:
            # Where the order of equal dates depends on the limits of a page, others may show other items.
            self.pagesize = max(1, self.pagesize - 1)
        self._reading, self._first_id = self._begin(reading.cap), None

    def _check_order(self, ids: list[int]) -> None:
        """Raise PaginationError if a late page has only records that are newer than those of page 1."""
        if self._first_id is None:
            self._first_id = ids[0]
        is_newer = ids[-1] > self._first_id and all(map(int.__gt__, ids, ids[1:]))
        if is_newer and self.page > self._options.start_page + MOST_KNOWN_PAGES:
            raise PaginationError(TOO_FAST)


class Reading(Generic[T]):
    """One reading of a listing from its start page to its end, by the table above."""

    def __init__(self, start_page: int, pagesize: int, *, shifts: bool, cap: int | None) -> None:
        self.page = start_page
        self.under_way: set[int] = set()
        self.again = False
        #: The items of this reading, and the number of records on its pages; inf: it ended too early.
        self.seen = SeenIds()
        self.records = 0.0
        #: Whether all repeated items can be the result of insertions.
        self.shifts = shifts
        #: The length of page 1, once that was short in two readings, but not the end.
        self.cap = cap
        self._pagesize = pagesize
        self._page_size: int | None = None  # that of the answers
        self._window = 1
        self._end = inf  # the last page, or the one that confirms it

    @property
    def done(self) -> bool:
        return self.page > self._end and not self.under_way

    def ask(self, prefetch: int, left: float) -> int | None:
        """Return the next page to request; see `PageCursor.ask`."""
        number = self.page
        if number in self.under_way:
            # While a page is being confirmed, only that page is requested.
            doubt, ahead = self.again or self._end < inf, len(self.under_way)
            if doubt or ahead >= min(self._window, prefetch) or ahead * (self._page_size or 0) >= left:
                return None
            number = max(self.under_way) + 1
        self.under_way.add(number)
        return number

    def missing(self, error: SlashtagError) -> None:
        """Process an error; see `PageCursor.missing`."""
        # A page behind the end may be refused. Two 404s for the first page are for the path.
        is_refused = isinstance(error, BadRequestError) and self._end < inf
        may_end = isinstance(error, NotFoundError) and (self.records > 0 or not self.again)
        if not is_refused and not may_end:
            raise error
        self._nothing(self._answered())

    def take(self, page: Page[T]) -> Sequence[T]:
        """Process the answer to `page`; return those of its items that are new in this reading."""
        again, is_behind = self._answered(), self._end < inf
        ids = [item.id for item in page.items]
        unique = {*ids}
        fresh = self.seen.new(unique)
        if (is_behind and fresh) or (again and not is_behind and self._is_resized(page)):
            return self._end_too_early()
        if not ids or (is_behind and len(ids) < len(self.seen)):
            return self._nothing(again)
        if not self.records and len(ids) != self.cap:
            self.cap = None
        problem = self._problem(page, repeats=not fresh)
        if problem and again:
            raise PaginationError(problem)
        if not again and (problem or not fresh or len(unique) < len(ids) or self._is_resized(page)):
            self.again = True
            return ()
        if page.page != self.page:
            return self._nothing(again)
        if self.shifts and len(fresh) < len(unique):
            # Pages requested ahead may miss items.
            self.under_way.clear()
            self._window = 0
            self.shifts = fresh == {*ids[len(ids) - len(fresh) :]}
        return self._accept(page, len(unique), fresh)

    def _accept(self, page: Page[T], length: int, fresh: set[int]) -> Sequence[T]:
        self._page_size = size = min(page.page_size, self._pagesize)
        self.records += length
        self.seen.add(fresh)
        if self.records > 2 * len(self.seen) + MOST_KNOWN_PAGES * size:
            raise PaginationError(TOO_FAST)
        if len(page.items) < (size if self.cap is None else self.cap):
            self._end = self.page + (self.cap is not None or length % CAP_STEP == 0)
        self._window += 1
        self.page += 1
        return _choose(page.items, fresh)

    def _answered(self) -> bool:
        """Record an answer to `page`; return whether it is the second one."""
        self.under_way.discard(self.page)
        again, self.again = self.again, False
        return again

    def _nothing(self, again: bool) -> Sequence[T]:
        """Process an answer without items: the page is behind the end, or must be requested again."""
        if self._end == inf:
            self.again = not again
            if not again:
                return ()
            # A page behind it must confirm that this is not a gap.
            self._end = self.page + (self.records > 0)
        self.page += 1
        return ()

    def _end_too_early(self) -> Sequence[T]:
        """End this reading at a page with new items behind the apparent end, or of another size."""
        if self.cap is None and self.records < (self._page_size or 0):
            self.cap = int(self.records)
        self.records, self.shifts, self._end = inf, False, 0
        self.under_way.clear()
        return ()

    def _problem(self, page: Page[T], *, repeats: bool) -> str | None:
        """Return what makes an answer to `page` an error if it is the same once more."""
        is_all = repeats and len(page.items) >= len(self.seen)
        if page.page != self.page and (not repeats or is_all or page.page > self.page):
            return f"page {self.page} was requested twice, but the answer is page {page.page}"
        if self._end < inf and is_all:
            return (
                f"page {self.page} repeats the only page before it: the service may ignore `page`, or repeat "
                "its last page; try a smaller pagesize to find out"
            )
        return None

    def _is_resized(self, page: Page[T]) -> bool:
        """Return whether a page has another pageSize than those before it, or is longer than their cap."""
        size, length = min(page.page_size, self._pagesize), len(page.items)
        changed = self._page_size not in (None, size) and (size > 0 or length > 0)
        return changed or (self.cap is not None and length > self.cap)


def _choose(items: Sequence[T], ids: set[int]) -> Sequence[T]:
    """Return the items with these ids, each once."""
    if len(ids) == len(items):
        return items
    return list({item.id: item for item in items if item.id in ids}.values())
