"""Listings: what `session.urls.list()` and `session.tags.list()` return."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.call import MAX_PAGESIZE, Call, check_int
from .._core.paging import HasId, PageCursor
from .._errors import BadRequestError, InvalidRequestError, NotFoundError
from .._fanout import Stream, Tasks
from .._models import Page
from .._sending.sender import Send

T = TypeVar("T", bound=HasId)

Progress = Callable[[int, int | None], object]
ORDERS = ("date", "-date")


class ListingOptions(Struct, Generic[T], frozen=True):
    """Hold how one listing is read: its endpoint and its options, checked."""

    send: Send
    tasks: Tasks
    path: str
    returns: type[Page[T]]
    orderby: str | None
    pagesize: int
    start_page: int = 1
    prefetch: int = 1
    limit: int | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_int("start_page", self.start_page, 1)
        check_int("pagesize", self.pagesize, 1, MAX_PAGESIZE)
        check_int("prefetch", self.prefetch, 1)
        if self.limit is not None:
            check_int("limit", self.limit, 0)
        if self.orderby is not None and self.orderby not in ORDERS:
            raise InvalidRequestError(f"orderby must be 'date' or '-date', not {self.orderby!r}")

    def call(self, page: int) -> Call[Page[T]]:
        """Give the request for one page (List short URLs, List tags)."""
        params = [("page", str(page)), ("pagesize", str(self.pagesize))]
        if self.orderby is not None:
            params.append(("orderby", self.orderby))
        # Whether a page still holds when a job is run again shows in the page itself.
        return Call(method="GET", path=self.path, params=tuple(params), returns=self.returns, settled_at=-inf)

    def limited(self, limit: int | None) -> ListingOptions[T]:
        """Return the same with a limit; pages are no larger than what it needs."""
        if limit is None:
            return self
        # Where a later page begins is told by the size of pages.
        pagesize = min(self.pagesize, max(1, limit)) if self.start_page == 1 else self.pagesize
        return replace(self, limit=limit, pagesize=pagesize)


class Resource(Generic[T]):
    """Share what the listings of all kinds of records can do."""

    _path: ClassVar[str]
    _page_type: type[Page[T]]

    def __init__(self, send: Send, tasks: Tasks) -> None:
        self._send = send
        self._tasks = tasks

    async def page(self, page: int = 1, *, pagesize: int = 50, orderby: str | None = None) -> Page[T]:
        """Ask for one page.

        `page` counts from 1; `pagesize` is at most 500, and the answer's `page_size` is what the service
        made of it; `orderby` is "date", "-date" or None for the service's default, latest first. Raises
        InvalidRequestError and what a request raises (List short URLs, List tags).
        """
        paging = ListingOptions(self._send, self._tasks, self._path, self._page_type, orderby, pagesize)
        return await self._send(paging.call(check_int("page", page, 1)))

    def list(
        self,
        *,
        orderby: str | None = "date",
        pagesize: int = MAX_PAGESIZE,
        start_page: int = 1,
        prefetch: int = 8,
        progress: Progress | None = None,
    ) -> Listing[T]:
        """List to exhaustion, asking for up to `prefetch` pages ahead.

        With `orderby="date"` (oldest first) records that arrive meanwhile are appended. With "-date" they
        shift the pages: what was there is given whole and once as long as fewer than two pages of them arrive
        between two answers; they themselves are not given. Records deleted meanwhile can hide others in
        either order. The document shows no total: a page shorter than its own pageSize, an empty one, or
        a 404 for a page after the first ends the listing. `progress` is called with (items so far, None).
        Raises InvalidRequestError at once; iterating raises PaginationError and what a request raises
        (List short URLs, List tags).
        """
        return Listing(
            ListingOptions(
                self._send,
                self._tasks,
                self._path,
                self._page_type,
                orderby,
                pagesize,
                start_page,
                prefetch,
                progress=progress,
            )
        )


class PageStream(Stream[Page[T]]):
    """Iterate over the pages of a listing, in order, asking ahead.

    The pages hold the items that are new: an item that the page before held is not given twice. Raises
    PaginationError, and what a request raises (List short URLs, List tags).
    """

    def __init__(self, paging: ListingOptions[T]) -> None:
        super().__init__(paging.tasks)
        self._paging = paging
        self._pager: PageCursor[T] = PageCursor(
            start_page=paging.start_page, prefetch=paging.prefetch, limit=paging.limit
        )
        self._under_way: deque[asyncio.Task[Page[T]]] = deque()
        self._given = 0

    async def _next(self) -> Page[T]:
        pager, under_way = self._pager, self._under_way
        while not pager.done:
            while (page := pager.ask()) is not None:
                under_way.append(self._tasks.spawn(self._paging.send(self._paging.call(page))))
            task = under_way[0]
            if not task.done():
                # Not awaited itself: a cancelled consumer must not cancel the request, it may come back.
                await asyncio.wait((task,))
            under_way.popleft()
            answer = self._answer(task)
            if answer is None:
                continue
            items = pager.take(answer)
            if pager.again():
                self._drop_ahead()
            if items:
                self._given += len(items)
                if self._paging.progress is not None:
                    self._paging.progress(self._given, None)
                return Page(page=answer.page, page_size=answer.page_size, items=list(items))
        raise StopAsyncIteration

    def _drop_ahead(self) -> None:
        while self._under_way:
            self._under_way.popleft().cancel()

    def _answer(self, task: asyncio.Task[Page[T]]) -> Page[T] | None:
        try:
            return self._outcome(task)
        except NotFoundError:
            # The path exists, as a page before was answered: it is this page that does not.
            if not self._pager.may_be_missing:
                raise
        except BadRequestError:
            # Some services refuse pages beyond the end; a page that is expected to be empty may be refused.
            if not self._pager.past_the_end:
                raise
        self._pager.missing()
        return None


class Listing(Stream[T]):
    """Iterate over the items of a listing, in order, asking for pages ahead.

    Read once: as items (`async for`), as pages (`pages()`), or whole (`to_list()`).
    """

    def __init__(self, paging: ListingOptions[T]) -> None:
        super().__init__(paging.tasks)
        self._paging = paging
        self._pages: PageStream[T] | None = None
        self._items: Iterator[T] = iter(())

    async def __anext__(self) -> T:
        # The common step takes no more than this: a page holds hundreds of items.
        for item in self._items:
            return item
        return await super().__anext__()

    async def _next(self) -> T:
        if self._pages is None:
            self._pages = PageStream(self._paging)
        page = await anext(self._pages)
        self._items = iter(page.items)
        return next(self._items)

    def pages(self) -> PageStream[T]:
        """Iterate over pages instead of items."""
        return PageStream(self._paging)

    async def to_list(self, limit: int | None = None) -> list[T]:
        """Read the listing whole, or its first `limit` items, into a list.

        No page that lies beyond the limit is asked for.
        """
        items: list[T] = []
        async with PageStream(self._paging.limited(limit)) as pages:
            async for page in pages:
                items += page.items
        return items

    async def aclose(self) -> None:
        """Cancel what is under way and wait until it has ended; safe to repeat."""
        if self._pages is not None:
            await self._pages.aclose()
        self._items = iter(())
        await super().aclose()
