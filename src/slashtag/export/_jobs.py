"""Whole exports: which links or tags, requested how, written in which rows, and how it went."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Iterable
from datetime import UTC, datetime, tzinfo
from functools import partial

from msgspec import Struct

from .. import (
    AsyncSession,
    DateRange,
    Day,
    Failure,
    InvalidRequestError,
    RangeStats,
    SlashtagError,
)
from .._internal import Keys, OnError, Progress, in_thread, parse_zone, sort_by_activity
from ._selection import By, Sharing, selection
from ._table import Row, clicks_rows, dimension_rows, named_url_row, tag_row, url_row
from ._writers import BATCH, Writer


class Summary(Struct, frozen=True, kw_only=True):
    """Result of an export.

    `rows` were written; of `requests` the journal answered `replayed`; `throttled`
    counts 429s; `seconds` is wall time; `learned_rate` as in Metrics; `failures` went to `on_error`;
    `reconciles` is False where the service's days did not add up to its totals, or were left out; `shared`
    slashtags of the listed links belong to other links too, on other domains: as the service counts by
    slashtag, their rows hold the clicks of all of these, selected or not.
    """

    rows: int
    requests: int
    replayed: int
    throttled: int
    seconds: float
    learned_rate: float | None
    failures: int = 0
    reconciles: bool = True
    shared: int = 0


class Recorder:
    """Counts of an export, for its summary."""

    def __init__(self, session: AsyncSession, on_error: OnError | None = None) -> None:
        self._metrics = session.metrics
        self._before = self._counted()
        self._began = time.monotonic()
        self._tell = on_error
        #: The `on_error` to pass on: None if there is none, so that errors are raised.
        self.on_error: OnError | None = None if on_error is None else self._count
        self.failures = 0
        self.answered = 0
        self.reconciles = True
        self.sharing = Sharing()
        self._refused = 0
        self._first: SlashtagError | None = None

    def check(self, stats: RangeStats) -> None:
        """Record whether the days of all statistics so far add up to their totals."""
        self.answered += 1
        self.reconciles &= stats.reconciles and stats.days_complete

    def take_requests(self, done: int) -> None:
        """Set how many requests were answered, of so many that are done."""
        self.answered = done - (self.failures - self._refused)

    def require_answers(self) -> None:
        """Raise the first failure if nothing was answered: a file would be replaced by an empty one."""
        if self._first is not None and not self.answered:
            raise self._first

    def summary(self, rows: int) -> Summary:
        """Return the summary so far."""
        requests, replayed, throttled = (
            now - before for now, before in zip(self._counted(), self._before, strict=True)
        )
        return Summary(
            rows=rows,
            requests=requests,
            replayed=replayed,
            throttled=throttled,
            seconds=time.monotonic() - self._began,
            learned_rate=self._metrics.learned_rate,
            failures=self.failures,
            reconciles=self.reconciles,
            shared=self.sharing.count,
        )

    def _counted(self) -> tuple[int, int, int]:
        return self._metrics.requests, self._metrics.replayed, self._metrics.throttled

    def _count(self, failure: Failure) -> None:
        self.failures += 1
        # It was never sent, so it is none of the requests that are done.
        self._refused += isinstance(failure.error, InvalidRequestError)
        self._first = self._first or failure.error
        if self._tell is not None:
            self._tell(failure)


class Rows:
    """Rows that are written in batches by a thread, as compressing and disks take their time."""

    def __init__(self, write: Callable[[list[Row]], object], batch: int = BATCH) -> None:
        self._write = write
        self._batch = batch
        self._rows: list[Row] = []
        self.count = 0

    async def add(self, rows: Iterable[Row]) -> None:
        """Add rows, and write the batches that they complete."""
        for row in rows:
            self._rows.append(row)
            if len(self._rows) >= self._batch:
                await self.flush()

    async def flush(self) -> None:
        """Write the rows that are left."""
        if self._rows:
            rows, self._rows = self._rows, []
            self.count += len(rows)
            await in_thread(partial(self._write, rows))


async def export_urls(
    session: AsyncSession, writer: Writer, *, with_tag_names: bool = False, progress: Progress | None = None
) -> Summary:
    """Write every link of the account as a row of URLS, with tag names of NAMED_URLS.

    `progress` is called with (links so far, None). The writer is left open. Raises what a listing raises,
    and ExportError (List short URLs).
    """
    recorder, out = Recorder(session), Rows(writer.write)
    names = await _tag_names(session) if with_tag_names else {}
    async with session.urls.list(progress=progress).pages() as pages:
        async for page in pages:
            if not with_tag_names:
                await out.add(map(url_row, page.items))
                continue
            if any(url.tag_id is not None and url.tag_id not in names for url in page.items):
                # A tag that was created meanwhile; one that stays unknown is not looked for again.
                unknown = {url.tag_id for url in page.items if url.tag_id is not None}
                names = {**dict.fromkeys(unknown), **names, **await _tag_names(session)}
            await out.add([named_url_row(url, names) for url in page.items])
    await out.flush()
    return recorder.summary(out.count)


async def _tag_names(session: AsyncSession) -> dict[int, str | None]:
    return {tag.id: tag.name for tag in await session.tags.list().to_list()}


async def export_tags(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every tag of the account as a row of TAGS; otherwise as `export_urls` (List tags)."""
    recorder, out = Recorder(session), Rows(writer.write)
    async with session.tags.list(progress=progress).pages() as pages:
        async for page in pages:
            await out.add(map(tag_row, page.items))
    await out.flush()
    return recorder.summary(out.count)


async def export_clicks(
    session: AsyncSession,
    query: DateRange | Day,
    writer: Writer,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    by: By = "slashtag",
    merged: bool = False,
    dimensions: bool = False,
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
    on_error: OnError | None = None,
) -> Summary:
    """Write the clicks of a range of days, a row for every slashtag and day, zeros too.

    Rows come in the order of `keys` or of tags. Listed links come by `hits`, the most first, among as many as
    are read ahead (10,000), which takes fewer requests than the order of the listing (see `collect_each`).

    `by="tag"` has one series a tag instead, `merged` one over all that is selected; `dimensions` has a row
    for every label of every dimension instead of the days, with the days asked for as its window. The table
    is `clicks_table(by)` or `dimensions_table(by)`, with None for `by` where merged. Selected are `keys`
    (also asynchronous), or `tags`: the links that bear one of them, or with `by="tag"` and where merged the
    tags themselves; neither means all links, or all tags, of the account.

    `progress` is called with (series done, series or None), where merged with (requests done, requests or
    None). With `on_error` what failed is told as a Failure and left out; where nothing was answered the
    first failure is raised as well. Raises TypeError for a wrong selector, ExportError, and what `collect`
    and `collect_each` raise (Statistics for a date or date range).
    """
    zone = parse_zone(timezone)
    # The present day is looked up once: a range that ends with it must not move at midnight.
    now = datetime.now(UTC)
    resolved = query.resolve(zone, now) if isinstance(query, DateRange) else query
    start, end = resolved.span(zone)
    recorder, out = Recorder(session, on_error), Rows(writer.write)

    def rows_of(stats: RangeStats, *of: str) -> Iterable[Row]:
        recorder.check(stats)
        return dimension_rows(stats, start, end, *of) if dimensions else clicks_rows(stats, *of)

    # One sum counts each slashtag once.
    sharing = None if merged else recorder.sharing
    are_listed = keys is None
    async with selection(session, keys, tags, by, merged=merged, sharing=sharing) as (keys, tags):
        if merged:
            done = 0

            def count(so_far: int, total: int | None) -> None:
                nonlocal done
                done = so_far
                if progress is not None:
                    progress(so_far, total)

            stats = await session.stats.collect(
                resolved, keys=keys, tags=tags, timezone=zone, progress=count, on_error=recorder.on_error
            )
            recorder.take_requests(done)
            recorder.require_answers()
            await out.add(rows_of(stats))
        else:
            if are_listed and isinstance(keys, AsyncIterable):
                keys = sort_by_activity(keys)
            each = session.stats.collect_each(
                resolved,
                keys=keys,
                tags=tags,
                timezone=zone,
                ordered=True,
                progress=progress,
                on_error=recorder.on_error,
            )
            async with each:
                async for name, stats in each:
                    await out.add(rows_of(stats, name))
            recorder.require_answers()
    await out.flush()
    return recorder.summary(out.count)
