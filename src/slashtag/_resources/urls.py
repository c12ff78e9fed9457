"""The short URLs of the account."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count

from .._core.answers import RowsUpdated
from .._core.call import Call, RedirectCode, check_callback
from .._core.change import Change, Outcome, find_problems
from .._errors import InvalidRequestError, OutcomeUnknownError, SlashtagError
from .._fanout import CAPACITY, Results, Tasks, WorkerPool
from .._records import Page, ShortUrl
from .._sending.sender import Sender
from .listing import Progress, Resource

Before = Callable[[Change], Awaitable[None]]


class Urls(Resource[ShortUrl]):
    """Short URLs of the account."""

    _path = "urls"
    _page_type = Page[ShortUrl]

    def __init__(self, sender: Sender, tasks: Tasks, workers: int) -> None:
        super().__init__(sender, tasks)
        self._workers = workers

    async def find(
        self, keys: Iterable[str], *, progress: Progress | None = None, seen: set[str] | None = None
    ) -> dict[str, ShortUrl | None]:
        """Return the link for each slashtag or short URL, None if the account does not have it.

        Use it to find misspelt slashtags, for which the service counts 0 clicks. Lists links, oldest first,
        until all are found, so a missing one costs the whole listing; `seen` gets the slashtags that were
        read, among which one may be similar. `progress` is called with (links read, None). Raises what a
        listing raises. See docs/service.md, List short URLs.
        """
        if isinstance(keys, str):
            raise TypeError("find takes an iterable of slashtags, not one str")
        found: dict[str, ShortUrl | None] = dict.fromkeys(keys)
        keys_of: dict[str, set[str]] = {}
        for key in found:
            # Short URLs are compared without their scheme, which is often omitted.
            for name in filter(None, (key, _address(key))):
                keys_of.setdefault(name, set()).add(key)
        missing = len(found)
        if not keys_of:
            return found
        async with self.list(progress=progress) as links:
            async for link in links:
                if seen is not None and link.slashtag:
                    seen.add(link.slashtag)
                for name in (link.slashtag or "", _address(link.short_url or "")):
                    for key in keys_of.pop(name, ()):
                        missing -= found[key] is None
                        found[key] = found[key] or link
                if not missing:
                    break
        return found

    async def update(
        self,
        key: str | int,
        *,
        destination: str | None = None,
        slashtag: str | None = None,
        redirect_code: RedirectCode | None = None,
        password: str | None = None,
        domain_id: int | None = None,
    ) -> int:
        """Update one short URL and return the number of rows that the service changed, which may be 0.

        `key` is a slashtag (str) or an id (int); if several links share a slashtag on different domains, the
        id has to be used. Only the members that are given are sent. The document gives defaults for omitted
        members (301, no password, domain 0) without saying whether an omission resets them: to be safe,
        give every member that must keep its value. Raises InvalidRequestError before anything is sent,
        NotFoundError, and OutcomeUnknownError if the answer was lost. A rename by slashtag is not repeated
        after a lost answer, since the old slashtag may no longer exist.
        See docs/service.md, Update a short URL.
        """
        change = Change(key, destination, slashtag, redirect_code, password, domain_id)
        return (await self._sender.send(change.call())).rows_updated

    def update_many(
        self,
        changes: Iterable[Change],
        *,
        repeat_lost: bool = False,
        before: Before | None = None,
        progress: Progress | None = None,
    ) -> Results[Outcome]:
        """Update many short URLs concurrently, each at most once; yield an Outcome as each is known.

        All changes are checked before the first is sent. InvalidRequestError names the first change that
        the service does not allow, that is a likely mistake (a new slashtag with a comma or with blanks at
        its ends), or that conflicts with another: they are sent in no particular order. A failed change is
        yielded as an Outcome and the others continue; authentication errors are raised.

        A change is repeated only if nothing was sent, or after a 429. If its answer was lost, it may have
        been done, and somebody else may have changed the link since: the outcome is "unknown". So it is if no
        row was updated, as the document does not say whether the link had these values already. With
        `repeat_lost` it is repeated as by `update`, but never a rename by slashtag that may have been done.

        `before` is awaited with each change just before its first request, for example to record that it
        may be done from now on; an exception in it ends the iteration. `progress` is called with (changes
        done, total). See `update` for omitted members, and docs/service.md, Update a short URL.
        """
        check_callback("progress", progress)
        changes = list(changes)
        for n, problem in find_problems(enumerate(changes, 1), "change"):
            raise InvalidRequestError(f"change {n} ({changes[n - 1].key!r}): {problem}")
        calls = [(change, change.call(once=not repeat_lost)) for change in changes]
        results: asyncio.Queue[Outcome] = asyncio.Queue(CAPACITY)
        sender, done = self._sender, count(1)

        async def work(item: tuple[Change, Call[RowsUpdated]]) -> None:
            if before is not None:
                await before(item[0])
            await results.put(await _outcome(sender, *item))
            if progress is not None:
                progress(next(done), len(calls))

        pool = WorkerPool(calls, work, self._workers)
        return Results(self._tasks, pool, results)


async def _outcome(sender: Sender, change: Change, call: Call[RowsUpdated]) -> Outcome:
    try:
        rows = (await sender.send(call)).rows_updated
        if rows > 0:
            return Outcome(change, "done", rows_updated=rows)
        told = "the service says that it changed no row: it may have refused, or nothing was to change"
        error = OutcomeUnknownError(told, method=call.method, path=call.path)
        return Outcome(change, "unknown", rows_updated=rows, error=error)
    except OutcomeUnknownError as error:
        return Outcome(change, "unknown", error=error)
    except SlashtagError as error:
        if error.is_fatal:
            raise
        return Outcome(change, "failed", error=error)


def _address(text: str) -> str:
    """Return the host and path of a short URL, or "" for text without a path."""
    host, _, path = text.rpartition("://")[2].partition("/")
    path = path.rstrip("/")
    return f"{host.lower()}/{path}" if path else ""
