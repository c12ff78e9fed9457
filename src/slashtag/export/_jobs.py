"""Whole exports: what is asked, in which rows it is written, and what came of it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Literal

from msgspec import Struct

from .._core.call import Failure
from .._core.queries import DateRange, Day
from .._core.split import parse_zone
from .._errors import InvalidRequestError, SlashtagError
from .._fanout import in_thread
from .._models import RangeStats, ShortUrl, Tag
from .._resources.collect import Keys, OnError
from .._resources.listing import Progress
from .._session import AsyncSession
from ._table import Row, clicks_rows, dimension_rows, named_url_row, tag_row, url_row
from ._writers import BATCH, Writer

By = Literal["slashtag", "tag"]


class Summary(Struct, frozen=True, kw_only=True):
    """Tell what came of an export.

    `rows` were written; `requests` asked, of which `replayed` were answered by the journal; `throttled`
    counts 429s; `seconds` is wall time; `learned_rate` as in Metrics; `failures` were told to `on_error`;
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


class Sharing:
    """Find slashtags of selected links that belong to other links too, whether these are selected or not."""

    def __init__(self) -> None:
        self._selected: set[str] = set()
        self._others: set[str] = set()

    def take(self, url: ShortUrl, *, selected: bool) -> bool:
        """Take a link of the listing and return whether it is selected."""
        slashtag = url.slashtag
        if not selected or slashtag in self._selected:
            self._others.add(slashtag)
        else:
            self._selected.add(slashtag)
        return selected

    @property
    def count(self) -> int:
        """Give the number of such slashtags."""
        return len(self._selected & self._others)


class Recorder:
    """Follow an export for its summary."""

    def __init__(self, session: AsyncSession, on_error: OnError | None = None) -> None:
        self._metrics = session.metrics
        self._before = self._counted()
        self._began = time.monotonic()
        self._tell = on_error
        #: What `on_error` is to be: None raises, as without it.
        self.on_error: OnError | None = None if on_error is None else self._count
        self.failures = 0
        self.answered = 0
        self.reconciles = True
        self.sharing = Sharing()
        self._refused = 0
        self._first: SlashtagError | None = None

    def check(self, stats: RangeStats) -> None:
        """Remember whether the days of all statistics so far add up to their totals."""
        self.answered += 1
        self.reconciles &= stats.reconciles and stats.days_complete

    def take_requests(self, done: int) -> None:
        """Tell how many of so many requests that are done were answered."""
        self.answered = done - (self.failures - self._refused)

    def require_answers(self) -> None:
        """Raise the first failure where nothing else came of it: a file would be replaced by nothing."""
        if self._first is not None and not self.answered:
            raise self._first

    def summary(self, rows: int) -> Summary:
        """Tell what came of it until now."""
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
        # Never sent, and so none of the requests that are done.
        self._refused += isinstance(failure.error, InvalidRequestError)
        self._first = self._first or failure.error
        if self._tell is not None:
            self._tell(failure)


class Rows:
    """Collect rows and write them in batches, off the event loop: compressing and disks take their time."""

    def __init__(self, write: Callable[[list[Row]], object], batch: int = BATCH) -> None:
        self._write = write
        self._batch = batch
        self._rows: list[Row] = []
        self.count = 0

    async def add(self, rows: Iterable[Row]) -> None:
        """Take rows, however many, and write the batches that they complete."""
        for row in rows:
            self._rows.append(row)
            if len(self._rows) >= self._batch:
                await self.flush()

    async def flush(self) -> None:
        """Write what is left."""
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
    """Write the clicks of a range of days, a row for every slashtag and day, zeros too, in the order asked.

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


@asynccontextmanager
async def selection(
    session: AsyncSession,
    keys: Keys | None,
    tags: Iterable[str] | None,
    by: By,
    *,
    merged: bool,
    sharing: Sharing | None = None,
) -> AsyncGenerator[tuple[Keys | None, Iterable[str] | None], None]:
    """Fill in what an omitted selector means, and what tags mean where links are asked for.

    The links that are listed for it are told to `sharing`.
    """
    sharing = sharing or Sharing()
    if by not in ("slashtag", "tag"):
        raise TypeError(f"by is 'slashtag' or 'tag', not {by!r}")
    if keys is not None and (tags is not None or by == "tag"):
        raise TypeError("keys= goes with neither tags= nor by='tag'")
    if isinstance(tags, str):
        raise TypeError("tags= takes an iterable of names, not one str: tags=[...]")
    if by == "tag" and tags is None:
        yield None, [tag.name for tag in await session.tags.list().to_list()]
    elif tags is not None and (merged or by == "tag"):
        yield None, tags
    elif tags is not None:
        async with aclosing(links_with_tags(session, tags, sharing)) as links:
            yield links, None
    elif keys is None:
        async with aclosing(_links(session, sharing)) as links:
            yield links, None
    else:
        yield keys, None


async def links_with_tags(
    session: AsyncSession, tags: Iterable[str], sharing: Sharing
) -> AsyncGenerator[ShortUrl, None]:
    """Yield the links of the account that bear one of the tags; an unknown one is an InvalidRequestError."""
    ids = ids_of(tags, await session.tags.list().to_list())
    async with session.urls.list() as urls:
        async for url in urls:
            if sharing.take(url, selected=url.tag_id in ids):
                yield url


async def _links(session: AsyncSession, sharing: Sharing) -> AsyncGenerator[ShortUrl, None]:
    async with session.urls.list() as urls:
        async for url in urls:
            sharing.take(url, selected=True)
            yield url


def ids_of(names: Iterable[str], tags: Iterable[Tag]) -> set[int]:
    """Return the ids of named tags of an account; one that it lacks is an InvalidRequestError."""
    known = {tag.name: tag.id for tag in tags}
    ids: set[int] = set()
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"the account has no tag {name!r}")
        ids.add(known[name])
    return ids
