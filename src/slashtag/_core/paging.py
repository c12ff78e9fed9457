"""Rules of a listing: which pages it requests, which items each answer adds, and when it ends.

Answers have no total and no end mark. See docs/service.md, List short URLs. What the answer to a page means:

    answer                                           before the end           behind it
    -----------------------------------------------  -----------------------  ----------
    full page                                        go on                    read again
    short page                                       go on, this is the end   read again
    empty page, or 404                               the end                  nothing
    400                                              an error                 nothing
    the page before again                            the end                  nothing
    a full only page again: is `page` ignored?       read again               read again
    another page than requested, another pageSize    read again               read again

- A page is short if it holds fewer items than its own pageSize and than were requested. The end is the last
  page with items. "Behind it" are pages that were requested before the end was known. A length that is a
  multiple of 10 looks like a cap of which the service says nothing: then the next page is requested too.
- Records that come and go move others from page to page, and the order of records created at the same time
  may differ. So no item is given twice, and with "date" a listing is complete if as many different items were
  given as there are records on its pages. In other orders new records push known ones to the next page, and
  hide others: that is not made good.
- "Read again" begins at the start, in shorter pages, and so does a listing that is not complete at its end.
  After several readings in a row that found nothing more it is a PaginationError.
"""

from collections.abc import Sequence
from math import inf
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from .._errors import BadRequestError, InvalidRequestError, NotFoundError, PaginationError, SlashtagError
from .._records import Page
from .checks import check_int
from .limits import MAX_INT, MAX_PAGESIZE


class HasId(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=HasId)
OrderBy = Literal["date", "-date"]

#: A short page whose length is a multiple of this may be the result of an undocumented cap.
CAP_STEP = 10
#: With so many pages more of known items than of new ones, a listing does not advance.
MOST_KNOWN_PAGES = 8
#: So many readings in a row that find nothing more are an error.
MOST_READINGS_IN_VAIN = 5
REPEATS = "pages repeat items of others: the order of records created at the same time may differ"


class Paging(Struct, frozen=True):
    """Checked options of a listing; see `Resource.list`."""

    orderby: OrderBy | None = "date"
    pagesize: int = MAX_PAGESIZE
    start_page: int = 1
    prefetch: int = 8
    limit: int = MAX_INT

    def __post_init__(self) -> None:
        check_int("start_page", self.start_page, 1)
        check_int("pagesize", self.pagesize, 1, MAX_PAGESIZE)
        check_int("prefetch", self.prefetch, 1)
        check_int("limit", self.limit, 0)
        if self.orderby not in (None, "date", "-date"):
            raise InvalidRequestError(f"orderby must be 'date' or '-date', not {self.orderby!r}")


class _Ids:
    """Set of ids of records, as bits: a million take 1 MB where a set takes 59."""

    def __init__(self) -> None:
        self._count = 0
        #: By the number of each block of 256 ids.
        self._blocks: dict[int, int] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, number: int) -> bool:
        """Add an id; return whether it is new."""
        bit, block = 1 << (number & 255), number >> 8
        known = self._blocks.get(block, 0)
        if known & bit:
            return False
        self._blocks[block] = known | bit
        self._count += 1
        return True


class PageCursor(Generic[T]):
    """State of one listing, which is read once, and again while items are missing.

    The caller requests the pages that `next_to_request()` returns, of `requested_size` items, and passes the
    answer for the page `number` to `take()` or its error to `take_error()`. It then drops its requests for
    pages that are no longer in `under_way`, and ends when `done` is True. Nothing beyond the limit is
    requested.
    """

    def __init__(self, options: Paging) -> None:
        self._options = options
        self.done = not options.limit
        self.requested_size = options.pagesize
        #: Whether it, or its end, is requested again.
        self.is_read_again = False
        self._left = options.limit
        self._given = _Ids()
        self._most_records = 0  # of any reading
        self._in_vain = 0
        self._begin()

    def _begin(self) -> None:
        """Begin a reading."""
        #: The number of the next page to take.
        self.number = self._options.start_page
        #: Pages that were requested and not yet taken.
        self.under_way = set[int]()
        self._records = 0  # on the pages of this reading
        self._at_start = len(self._given)
        self._told_size = self.requested_size
        self._most_under_way = 1  # pages; one more with each that is taken, up to `prefetch`
        self._end = inf  # the last page, or one behind it that is requested to be sure
        self._last: list[int] = []  # the ids of the page before

    def next_to_request(self) -> int | None:
        """Return the next page to request, None while enough pages are under way."""
        ahead, most = len(self.under_way), min(self._most_under_way, self._options.prefetch)
        if self.done or ahead >= most or ahead * self._told_size >= self._left:
            return None
        if ahead and self._end < inf:
            return None
        number = self.number + ahead
        self.under_way.add(number)
        return number

    def take_error(self, error: SlashtagError) -> None:
        """Process the error for the page `number`; raise it if it cannot mean that the listing has ended."""
        is_missing = isinstance(error, NotFoundError) and self._records > 0
        if not is_missing and not (isinstance(error, BadRequestError) and self._end < inf):
            raise error
        self._leave()
        self._check_end()

    def take(self, page: Page[T]) -> Sequence[T]:
        """Process the answer for the page `number`; return its items that were not given before."""
        ids = [item.id for item in page.items]
        # The pageSize that the service tells may be larger, but a page has no more than were requested.
        size = min(page.page_size, self.requested_size)
        items: Sequence[T] = ()
        if problem := self._problem(page, size, ids):
            self._read_again(problem)
        elif not ids or ids == self._last:
            self._leave()
        else:
            items = self._accept(page, ids, size)
        self._check_end()
        return items

    def _leave(self) -> None:
        """Go past a page that adds nothing: it is behind the end."""
        self.under_way.discard(self.number)
        self._end = min(self._end, self.number)
        self.number += 1

    def _problem(self, page: Page[T], size: int, ids: list[int]) -> str | None:
        """Return why the listing has to be read again, if it has to; set the `requested_size` for that."""
        number = self.number
        # An empty page may tell that it has 0 items.
        if self._records and size != self._told_size and (ids or size):
            return f"page {number} has a pageSize of {size}, and those before it {self._told_size}"
        if not ids:
            return None
        if ids == self._last:
            # The last page may be given for any behind it. Of the only one, `page` may be ignored.
            is_only_page = number == self._options.start_page + 1 and len(ids) >= size
            return f"page {number} repeats the one before it; the service may ignore `page`" * is_only_page
        if self._end < inf:
            # Those before may be cut at their length.
            self.requested_size = len(self._last) or self.requested_size
            return f"page {number} has items, although the listing seemed to end before it"
        if page.page != number:
            return f"page {number} was requested, but the answer is page {page.page}"
        return None

    def _accept(self, page: Page[T], ids: list[int], size: int) -> Sequence[T]:
        """Go past a page with items, and return the new ones up to the limit."""
        if not self._records:
            self._told_size = size
        self._records += len(ids)
        fresh = [item for item in page.items if self._given.add(item.id)]
        if self._records > 2 * len(self._given) + MOST_KNOWN_PAGES * size:
            raise PaginationError("the listing does not advance: its pages repeat items that others had")
        if len(ids) < size:
            # The length of a cap, perhaps: then the next page shows whether this one is the last.
            self._end = self.number + (len(ids) % CAP_STEP == 0)
        self._last = ids
        self._most_under_way += 1
        self.under_way.discard(self.number)
        self.number += 1
        items = fresh[: self._left]
        self._left -= len(items)
        return items

    def _check_end(self) -> None:
        """End the listing if this reading is over and it is complete, or read it again."""
        if self._left and (self.number <= self._end or self.under_way):
            return
        self._most_records = max(self._most_records, self._records)
        self.done = (
            not self._left or self._options.orderby != "date" or len(self._given) >= self._most_records
        )
        if not self.done:
            self._read_again(REPEATS)

    def _read_again(self, problem: str) -> None:
        """Begin another reading; raise PaginationError if the last ones found nothing more."""
        found = len(self._given)
        self._in_vain = 0 if found > self._at_start else self._in_vain + 1
        if self._in_vain == MOST_READINGS_IN_VAIN:
            raise PaginationError(f"{found} items were found, but others may be missing: {problem}")
        if self._options.start_page > 1:
            self.requested_size = self._options.pagesize
        else:
            # Pages that are one item shorter may show other items, and tell a service that ignores `page`.
            self.requested_size = max(1, min(self.requested_size, self._told_size - 1))
        self.is_read_again = True
        self._begin()
