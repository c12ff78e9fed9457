"""Rules of a listing: which pages it requests, which items each answer adds, and when it ends.

Answers have no total and no end mark. See docs/service.md, List short URLs. Meaning of an answer to page n:

    answer               first time      asked once more      behind the end
    -------------------  --------------  -------------------  -----------------------------------
    full page            next page       next page            read again
    short page           the end         the end              read again
    empty page, or 404   ask once more   the end              nothing
    known items only     ask once more   next page            read again; nothing if they are the
                                                              last of a page, but not of the only one
    an item twice        ask once more   next page            read again
    another number or    ask once more   read again; the end  as known items
    pageSize                             if it is repeated
    400                  error           error                nothing

- A page is short if it holds fewer items than its own pageSize and than were requested. A length that is a
  multiple of 10 looks like a cap: the end is then confirmed by the next page, over another connection unless
  it was requested ahead.
- "Behind the end" are pages requested before the end was known, and the page that confirms it. Other answers
  than nothing are asked once more.
- A listing is complete if as many different items were given as there are records on its pages. A repeated
  item takes the place of another one: records were inserted while we read "-date", or the order of records
  created at the same time differs from page to page.
- "Read again" begins at the start, in smaller pages. So it is done until the listing is complete; it is a
  PaginationError after several readings in a row without progress. Only the pageSize of a whole reading may
  be smaller than requested.
- An insertion moves the last items of a page to the start of the next one, and leaves all ids in descending
  order. Pages requested ahead are then requested again. If nothing else has repeated items, the next reading
  ends once it has given as many items as were missing.
- If pages hold more known items than new ones, or if the items of a late page of "-date" are newer than those
  of page 1, the listing does not advance, which is a PaginationError.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Generic, Literal, Protocol, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from .._errors import BadRequestError, InvalidRequestError, NotFoundError, PaginationError, SlashtagError
from .._records import Page
from .checks import check_int
from .limits import MAX_PAGESIZE


class HasId(Protocol):
    @property
    def id(self) -> int: ...


T = TypeVar("T", bound=HasId)
OrderBy = Literal["date", "-date"]

#: A short page whose length is a multiple of this may be the result of an undocumented cap.
CAP_STEP = 10
#: With so many pages more of known items than of new ones, a listing does not advance.
MOST_KNOWN_PAGES = 8
#: So many readings in a row that leave as many items missing as before are an error.
MOST_READINGS_IN_VAIN = 5
#: Ids of a block of `SeenIds`.
BLOCK = 256
TOO_FAST = (
    "the listing does not advance: records are inserted faster than pages are read, or the service repeats "
    'pages; use orderby="date", which appends new records'
)
REPEATS = "pages repeat items of others: the order of records created at the same time may differ"


class Paging(Struct, frozen=True):
    """Checked options of a listing; see `Resource.list`."""

    orderby: OrderBy | None = "date"
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
        if self.orderby is not None and self.orderby not in get_args(OrderBy):
            raise InvalidRequestError(f"orderby must be 'date' or '-date', not {self.orderby!r}")


class PageCursor(Generic[T]):
    """State of one listing: it is read once, and again while items are missing.

    The caller requests the pages that `next_to_request()` returns, of `requested_size` items, and passes the
    answer for the page `number` to `take()` or its error to `take_error()`. It then drops its requests for
    pages that are no longer in `under_way`, and ends when `done` is True. Nothing beyond the limit is
    requested.
    """

    def __init__(self, options: Paging | None = None) -> None:
        self._options = options or Paging()
        self.done = self._options.limit == 0
        self.requested_size = self._options.pagesize
        self._left = inf if self._options.limit is None else self._options.limit
        self._reading: Reading[T] = Reading(self._options, self.requested_size)
        self._is_read_again = False
        #: Ids of the items given so far: all that the first reading has seen, and new ones of later readings.
        self._given = self._reading.seen  # the same set, so it grows with the first reading
        self._records = 0  # the most of any reading
        self._lacking = inf
        self._in_vain = 0
        #: Whether this reading ends with the last missing item, before its last page.
        self._ends_once_complete = False

    @property
    def number(self) -> int:
        """The number of the next page to take."""
        return self._reading.number

    @property
    def under_way(self) -> set[int]:
        """Pages that were requested and not yet taken."""
        return self._reading.under_way

    @property
    def asks_again(self) -> bool:
        """Whether the next request asks once more for what an answer has told.

        That is a page whose first answer is in doubt, the page behind a short one, which has to be empty,
        unless it was requested ahead, or any page of a listing that is read again.
        """
        reading = self._reading
        return reading.first_answer is not None or reading.confirms_end or self._is_read_again

    def next_to_request(self) -> int | None:
        """Return the next page to request, None while enough pages are under way."""
        return None if self.done else self._reading.next_to_request(self._options.prefetch, self._left)

    def take_error(self, error: SlashtagError) -> None:
        """Process the error for the page `number`; raise it if it cannot mean that the listing has ended."""
        self._reading.take_error(error)
        self._check_end()

    def take(self, page: Page[T]) -> Sequence[T]:
        """Process the answer for the page `number`; return its new items."""
        # The pageSize that the service tells may be larger, but a page has no more than were requested.
        items = self._reading.take(replace(page, page_size=min(page.page_size, self.requested_size)))
        if items and self._is_read_again:
            new = self._given.new({item.id for item in items})
            self._given.add(new)
            items = _choose(items, new)
        items = items if len(items) <= self._left else items[: int(self._left)]
        self._left -= len(items)
        self._check_end()
        return items

    def _check_end(self) -> None:
        """End the listing if it is complete; after a reading that did not complete it, begin another one."""
        reading, given = self._reading, len(self._given)
        self.done = not self._left or (self._ends_once_complete and given >= self._records)
        if self.done or not reading.done:
            return
        self._records = max(self._records, reading.records)
        lacking = inf if reading.problem else self._records - given
        self.done = lacking <= 0
        if self.done:
            return
        self._in_vain = 0 if lacking < self._lacking else self._in_vain + 1
        self._lacking = min(lacking, self._lacking)
        if self._in_vain == MOST_READINGS_IN_VAIN:
            why = reading.problem or REPEATS
            raise PaginationError(f"{given} items were found, but others may be missing: {why}")
        self._ends_once_complete = reading.only_insertions and not reading.problem
        if self._options.start_page == 1:
            # Where the order of equal dates depends on the limits of a page, pages one item shorter may show
            # other items.
            # A whole reading of one page that is too short, twice: the service allows no longer ones.
            is_capped = self._in_vain > 1 and 0 < reading.records < self.requested_size
            self.requested_size = reading.records if is_capped else max(1, reading.told_size - 1)
        self._reading = Reading(self._options, self.requested_size)
        self._is_read_again = True


class Reading(Generic[T]):
    """One reading of a listing from its start page to its end, by the table above.

    `PageCursor` passes members of the same name on to its present reading.
    """

    def __init__(self, options: Paging, requested_size: int) -> None:
        #: The number of the next page to take.
        self.number = options.start_page
        self.under_way: set[int] = set()
        #: What the first answer for that page held, while it is requested once more.
        self.first_answer: Literal["items", "nothing"] | None = None
        #: The items of this reading, and the number of records on its pages.
        self.seen = SeenIds()
        self.records = 0
        #: What is wrong with a page, also with the second answer: the reading ends there.
        self.problem: str | None = None
        #: Whether insertions of new records can explain all repeated items so far: not in a listing that is
        #: read oldest first.
        self.only_insertions = options.orderby != "date"
        #: The pageSize that pages tell: the number of items that a full one has.
        self.told_size = requested_size
        self._most_under_way = 1  # pages; one more with each that is taken, up to `prefetch`
        self._end = inf  # the last page, or the one that confirms it
        self._last: list[int] = []  # the ids of the last page

    @property
    def done(self) -> bool:
        is_over = self.number > self._end and not self.under_way and self.first_answer is None
        return is_over or self.problem is not None

    @property
    def confirms_end(self) -> bool:
        """Whether the next page to take is the one behind a last page."""
        return self.number == self._end and len(self._last) < self.told_size

    def next_to_request(self, prefetch: int, left: float) -> int | None:
        """Return the next page to request; see `PageCursor.next_to_request`."""
        number = self.number
        if number in self.under_way:
            # While a page is being confirmed, only that page is requested.
            is_being_confirmed = self.first_answer is not None or self._end < inf
            ahead = len(self.under_way)
            most = min(self._most_under_way, prefetch)
            if is_being_confirmed or ahead >= most or ahead * self.told_size >= left:
                return None
            number = max(self.under_way) + 1
        self.under_way.add(number)
        return number

    def take_error(self, error: SlashtagError) -> None:
        """Process an error; see `PageCursor.take_error`."""
        # A page behind the end may be refused. Two 404s for the first page are for the path.
        is_refused = isinstance(error, BadRequestError) and self._end < inf
        may_end = isinstance(error, NotFoundError) and (self.records > 0 or not self.first_answer)
        if not is_refused and not may_end:
            raise error
        self._take_nothing()

    def take(self, page: Page[T]) -> Sequence[T]:
        """Process the answer for the next page; return those of its items that are new in this reading."""
        ids = [item.id for item in page.items]
        fresh = self.seen.new({*ids})
        problem = self._problem(page, ids, fresh)
        is_behind = self._end < inf
        if not problem and (not ids or is_behind or page.page != self.number):
            return self._take_nothing()
        is_second = self._note_answer("items")
        if not is_second and (problem or not fresh or len({*ids}) < len(ids)):
            self.first_answer = "items"
            return ()
        if problem:
            self.problem = problem
            self.under_way.clear()
            return ()
        return self._accept(page, ids, fresh)

    def _problem(self, page: Page[T], ids: list[int], fresh: set[int]) -> str | None:
        """Return why the listing must be read again if the next answer for a page is the same."""
        number, is_behind, size = self.number, self._end < inf, page.page_size
        # Of an empty page the service may tell that it has 0 items.
        if self._last and not is_behind and size != self.told_size and (ids or size):
            return f"page {number} has a pageSize of {size}, and those before it {self.told_size}"
        # An insertion moves some of the last items behind the end, but not to a page that confirms it.
        is_last = ids == self._last
        is_last |= self.only_insertions and number > self._end and ids == self._last[-len(ids) :]
        is_all = len(ids) >= len(self.seen)
        # The last page may be given for any behind it, under its own number or the one requested.
        if not ids or (is_last and not is_all and page.page <= number):
            return None
        if page.page != number:
            return f"page {number} was requested, but the answer is page {page.page}"
        if is_behind and is_last:
            return (
                f"page {number} repeats the only page before it: the service may ignore `page`, or repeat "
                "its last page; try a smaller pagesize to find out"
            )
        if is_behind:
            return f"page {number} has items, although the listing seemed to end before it"
        if self._last and self.only_insertions and max(ids) > self._last[0]:
            return TOO_FAST
        return None

    def _accept(self, page: Page[T], ids: list[int], fresh: set[int]) -> Sequence[T]:
        if not self._last:
            self.told_size = page.page_size
        different = len({*ids})
        repeated = different - len(fresh)
        if self.only_insertions:
            self._check_order(ids, repeated)
        self.records += different
        self.seen.add(fresh)
        known = self.records - len(self.seen)
        if known > len(self.seen) + MOST_KNOWN_PAGES * self.told_size:
            raise PaginationError(TOO_FAST)
        if len(ids) < self.told_size:
            is_cap = len(ids) % CAP_STEP == 0  # perhaps: then the next page confirms the end
            self._end = self.number + 1 if is_cap else self.number
        self._last = ids
        self._most_under_way += 1
        self.number += 1
        return _choose(page.items, fresh)

    def _check_order(self, ids: list[int], repeated: int) -> None:
        """Note whether a page continues the one before it as after insertions, if any."""
        if repeated:
            # Pages requested ahead may miss items.
            self.under_way.clear()
            self._most_under_way = 0  # to which `_accept` adds one
        # The repeated items must be the end of the page before, and the ids go on descending.
        is_next = ids[:repeated] == self._last[len(self._last) - repeated :] and repeated < len(ids)
        row = ids if repeated else [*self._last[-1:], *ids]
        self.only_insertions = is_next and all(a > b for a, b in pairwise(row))

    def _note_answer(self, kind: str) -> bool:
        """Record an answer for the next page; return whether it is the second one of its kind."""
        self.under_way.discard(self.number)
        first_answer, self.first_answer = self.first_answer, None
        return first_answer == kind

    def _take_nothing(self) -> Sequence[T]:
        """Process an answer that adds nothing: the page is behind the end, or must be requested again."""
        is_first = self._end == inf
        if not self._note_answer("nothing") and is_first:
            self.first_answer = "nothing"
            return ()
        if is_first:
            # The page after this empty one must confirm that it is not a gap, unless the account is empty.
            self._end = self.number + 1 if self.records else self.number
        self.number += 1
        return ()


def _choose(items: Sequence[T], ids: set[int]) -> Sequence[T]:
    """Return the items with these ids, each once."""
    if len(ids) == len(items):
        return items
    return list({item.id: item for item in items if item.id in ids}.values())


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
        return {id for id in ids if not get(id // BLOCK, 0) >> id % BLOCK & 1}

    def add(self, ids: set[int]) -> None:
        """Add ids that are not in the set."""
        for id in ids:
            self._blocks[id // BLOCK] |= 1 << id % BLOCK
        self._length += len(ids)
