"""Whole exports: which links or tags, requested how, written in which rows, and how it went."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from datetime import UTC, datetime, tzinfo
from functools import partial

from msgspec import Struct

from .. import (
    AsyncSession,
    DateRange,
    Day,
    Failure,
    SlashtagError,
)
from .._internal import Key, Keys, OnError, Progress, in_thread, parse_zone, sort_by_activity
from ._selection import By, Sharing, names_of_tags, selection
from ._table import Row, clicks_rows, dimension_rows, named_url_row, tag_row
from ._writers import BATCH, Writer, check_rows


class Summary(Struct, frozen=True, kw_only=True):
    """Result of an export.

    `rows` were written; `failures` went to `on_error`; `reconciles` is False where days were left out or do
    not add up to the totals; `shared` slashtags of the listed links belong to links on other domains too,
    selected or not, whose clicks are in the rows, as the service counts by slashtag. `session.metrics` has
    the requests.
    """

    rows: int
    failures: int = 0
    reconciles: bool = True
    shared: int = 0


class Job:
    """One export: rows that a thread writes in batches, and counts for the summary."""

    def __init__(self, writer: Writer, on_error: OnError | None = None) -> None:
        self._writer = writer
        self._waiting: list[Row] = []
        self._written = 0
        self._tell = on_error
        #: The `on_error` to pass on: None if there is none, so that errors are raised.
        self.on_error: OnError | None = None if on_error is None else self._count
        self._failures = 0
        self._first: SlashtagError | None = None
        self.reconciles = True
        self.sharing = Sharing()

    async def add(self, rows: Iterable[Row]) -> None:
        """Add rows, and write the batches that they complete."""
        for row in rows:
            self._waiting.append(row)
            if len(self._waiting) >= BATCH:
                await self._flush()

    async def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        self._written += len(rows)
        await in_thread(partial(self._writer.write, rows))

    def require(self, answered: bool) -> None:
        """Raise the first failure if nothing was answered: a file would be replaced by an empty one."""
        if self._first is not None and not answered:
            raise self._first

    async def finish(self) -> Summary:
        """Write the rows that are left, and return the summary."""
        if self._waiting:
            await self._flush()
        return Summary(
            rows=self._written,
            failures=self._failures,
            reconciles=self.reconciles,
            shared=self.sharing.count,
        )

    def _count(self, failure: Failure) -> None:
        self._failures += 1
        self._first = self._first or failure.error
        if self._tell is not None:
            self._tell(failure)


async def export_urls(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every link of the account as a row of NAMED_URLS.

    `progress` is called with (links so far, None). The writer is left open. Raises what a listing raises,
    and ExportError (List short URLs; List tags).
    """
    job = Job(writer)
    names: dict[int, str | None] = {}
    async with session.urls.list(progress=progress).pages() as pages:
        async for page in pages:
            unknown = {url.tag_id for url in page.items if url.tag_id is not None} - names.keys()
            if unknown:
                # Also for a tag that was created meanwhile; one that stays unknown is looked for once.
                names |= dict.fromkeys(unknown) | await names_of_tags(session)
            await job.add(named_url_row(url, names) for url in page.items)
    return await job.finish()


async def export_tags(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every tag of the account as a row of TAGS; otherwise as `export_urls` (List tags)."""
    job = Job(writer)
    async with session.tags.list(progress=progress).pages() as pages:
        async for page in pages:
            await job.add(map(tag_row, page.items))
    return await job.finish()


async def export_clicks(
    session: AsyncSession,
    query: DateRange | Day,
    writer: Writer,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    by: By = "slashtag",
    dimensions: bool = False,
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
    on_error: OnError | None = None,
) -> Summary:
    """Write the clicks of a range of days, a row for every slashtag and day, zeros too.

    Rows come in the order of `keys` or of tags. Listed links come by `hits`, the most first, among as many as
    are read ahead (10,000), which takes fewer requests than the order of the listing (see `collect_each`).

    `by="tag"` has one series a tag instead; `dimensions` has a row for every label of every dimension instead
    of the days, with the days asked for as its window. The table is `clicks_table(by)` or
    `dimensions_table(by)`. Selected are `keys` (also asynchronous), or `tags`: the links that bear one of
    them, or with `by="tag"` the tags themselves; neither means all links, or all tags, of the account.

    `progress` is called with (series done, series or None). With `on_error` what failed is told as a Failure
    and left out; where nothing was answered the first failure is raised as well. Raises TypeError for a wrong
    selector, ExportError, and what `collect_each` raises (Statistics for a date or date range).
    """
    zone = parse_zone(timezone)
    # The present day is looked up once: a range that ends with it must not move at midnight.
    now = datetime.now(UTC)
    resolved = query.resolve(zone, now) if isinstance(query, DateRange) else query
    start, end = resolved.span(zone)
    job = Job(writer, on_error)
    are_listed, answered = keys is None, False
    async with selection(session, keys, tags, by, sharing=job.sharing) as (keys, tags):
        if getattr(writer, "most_rows", None) is not None:
            days = (end - start).days + 1
            if isinstance(keys, AsyncIterable):
                keys = _limited(keys, lambda links: check_rows(writer, links * days))
            elif tags is not None:
                tags = dict.fromkeys(tags)
                check_rows(writer, len(tags) * days)
            else:
                keys = list(keys or ())
                check_rows(writer, len({getattr(key, "slashtag", key) for key in keys}) * days)
        if are_listed and isinstance(keys, AsyncIterable):
            keys = sort_by_activity(keys)
        each = session.stats.collect_each(
            resolved,
            keys=keys,
            tags=tags,
            timezone=zone,
            ordered=True,
            progress=progress,
            on_error=job.on_error,
        )
        async with each:
            async for name, stats in each:
                answered = True
                job.reconciles &= stats.reconciles and stats.days_complete
                rows = dimension_rows(stats, start, end, name) if dimensions else clicks_rows(stats, name)
                await job.add(rows)
        job.require(answered)
    return await job.finish()


async def _limited(links: AsyncIterable[Key], check: Callable[[int], object]) -> AsyncGenerator[Key]:
    """Yield links, and call `check` with the number of slashtags so far before each."""
    found: set[str] = set()
    async for link in links:
        found.add(link if isinstance(link, str) else link.slashtag)
        check(len(found))
        yield link
