"""Listings of links and tags, and `Resource`, the base class of `Urls` and `Tags`, which returns them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from .._core.call import Call
from .._core.checks import Progress, check_callback, check_int
from .._core.limits import MAX_PAGESIZE
from .._core.paging import HasId, OrderBy, PageCursor, Paging
from .._errors import BadRequestError, NotFoundError
from .._fanout import AsyncReadable, Stream, Tasks
from .._records import Page
from .._sending.sender import Sender

T = TypeVar("T", bound=HasId)


class Resource(Generic[T]):
    """Endpoint for records of one kind, read by page or as a listing."""

    _path: ClassVar[str]
    _page_type: ClassVar[Any]

    def __init__(self, sender: Sender, tasks: Tasks) -> None:
        self._sender = sender
        self._tasks = tasks

    async def page(self, page: int = 1, *, pagesize: int = 50, orderby: OrderBy | None = None) -> Page[T]:
        """Return one page.

        `page` counts from 1; `pagesize` is at most 500, and the service may lower it, see `page_size`;
        `orderby` is "date", "-date" or None for the service's default, latest first. Raises
        InvalidRequestError and errors of requests. See docs/service.md, List short URLs; List tags.
        """
        call = self._call(Paging(orderby, pagesize), check_int("page", page, 1), pagesize)
        return await self._sender.send(call)

    def list(
        self,
        *,
        orderby: OrderBy | None = "date",
        pagesize: int = MAX_PAGESIZE,
        start_page: int = 1,
        prefetch: int = 8,
        progress: Progress | None = None,
    ) -> Listing[T]:
        """List all records, with requests under way for 1 page, then 2, 3, ... up to `prefetch`.

        With `orderby="date"` (oldest first) the listing is complete, and what is added meanwhile is appended;
        in other orders records may be missed while others arrive. None is given twice. Records can be missed
        if others are deleted meanwhile.

        If pages repeat records, the order of those created at the same time may differ from page to page, as
        after a bulk import. With "date" the listing is then read again, and the records that were missing
        come last, or PaginationError is raised. Pages of a few records do not show all of this: take larger
        ones. `to_list(limit)` stops at its limit, whichever came first.

        Answers contain no total. A page shorter than its own pageSize ends the listing; if its length is a
        multiple of 10, only if the next page is empty, since the service may have an undocumented cap. The
        listing can end early if the service filters records after paging, or caps pages at another length.

        `progress` is called with (records so far, None). Raises InvalidRequestError at once; iterating raises
        PaginationError if items could be lost, and errors of requests. See docs/service.md, List short URLs;
        List tags.
        """
        paging = Paging(orderby, pagesize, start_page, prefetch)
        check_callback("progress", progress)
        return Listing(self, paging, progress)

    def _call(self, paging: Paging, page: int, pagesize: int) -> Call[Page[T]]:
        """Return the request for one page."""
        params = [("page", str(page)), ("pagesize", str(pagesize))]
        if paging.orderby is not None:
            params.append(("orderby", paging.orderby))
        return Call(method="GET", path=self._path, params=tuple(params), returns=self._page_type)


class PageStream(Stream[Page[T]]):
    """Iterator over the pages of a listing, in order, with the next pages requested ahead.

    Pages contain only items that no earlier page had. Raises PaginationError and errors of requests.
    See docs/service.md, List short URLs; List tags.
    """

    def __init__(self, listing: Listing[T], paging: Paging) -> None:
        super().__init__(listing._tasks)
        self._listing, self._paging = listing, paging
        self._sender = listing._resource._sender.of_operation()
        self._cursor = PageCursor[T](paging)
        #: The requests for the pages that the cursor has under way.
        self._requests = dict[int, asyncio.Task[Page[T]]]()
        self._given = 0

    async def _next(self) -> Page[T]:
        cursor, requests = self._cursor, self._requests
        while not cursor.done:
            while (number := cursor.next_to_request()) is not None:
                requests[number] = self._tasks.spawn(self._sender.send(self._call(number)))
            task = requests[cursor.number]
            if not task.done():
                # Not awaited directly: a cancelled consumer may continue, so keep the request.
                await asyncio.wait((task,))
            del requests[cursor.number]
            page: Page[T] | None = None
            items: Sequence[T] = ()
            try:
                page = self._outcome(task)
            except (BadRequestError, NotFoundError) as error:
                cursor.take_error(error)
            else:
                items = cursor.take(page)
            for dropped in requests.keys() - cursor.under_way:
                requests.pop(dropped).cancel()
            if page is not None and items:
                self._given += len(items)
                if self._listing._progress is not None:
                    self._listing._progress(self._given, None)
                return Page(page=page.page, page_size=page.page_size, items=list(items))
        raise StopAsyncIteration

    def _call(self, number: int) -> Call[Page[T]]:
        cursor, listing = self._cursor, self._listing
        call = listing._resource._call(self._paging, number, cursor.requested_size)
        again = cursor.is_read_again or listing._made_after is not None
        return replace(call, again=again, made_after=listing._made_after)


class ItemStream(AsyncReadable, AsyncIterator[T]):
    """Iterator over the items of a listing, in order."""

    def __init__(self, pages: PageStream[T]) -> None:
        self._pages = pages
        self._items: Iterator[T] = iter(())

    async def __anext__(self) -> T:
        for item in self._items:
            return item
        self._items = iter((await anext(self._pages)).items)
        return next(self._items)  # no page is empty

    async def aclose(self) -> None:
        self._items = iter(())
        await self._pages.aclose()


class Listing(AsyncReadable, Generic[T]):
    """Records as items (`async for`), as pages (`pages()`) or as a list (`to_list()`).

    Each of these reads the listing from its start. `async with` cancels unfinished requests at the end.
    """

    def __init__(
        self,
        resource: Resource[T],
        paging: Paging,
        progress: Progress | None,
        *,
        made_after: float | None = None,
    ) -> None:
        self._resource, self._paging, self._progress = resource, paging, progress
        self._made_after = made_after
        self._tasks = Tasks(resource._tasks)

    def __aiter__(self) -> ItemStream[T]:
        return ItemStream(self.pages())

    def pages(self) -> PageStream[T]:
        """Iterate over pages instead of items."""
        return PageStream(self, self._paging)

    async def to_list(self, limit: int | None = None) -> list[T]:
        """Return all items, or the first `limit` without requesting pages beyond it."""
        paging = self._paging
        if limit is not None:
            # A later start page must keep its page size, which decides where it begins.
            size = min(paging.pagesize, max(1, limit)) if paging.start_page == 1 else paging.pagesize
            paging = replace(paging, limit=limit, pagesize=size)
        async with PageStream(self, paging) as pages:
            return [item async for page in pages for item in page.items]

    async def aclose(self) -> None:
        # It may be read again.
        tasks, self._tasks = self._tasks, Tasks(self._resource._tasks)
        await tasks.aclose()
