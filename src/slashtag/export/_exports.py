"""Links, tags and clicks as rows: which are requested, how, and how it went."""

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import msgspec

from .. import (
    AsyncSession,
    DateRange,
    Failure,
    Keys,
    Listing,
    OnError,
    Progress,
    RangeStats,
    ShortUrl,
    Tag,
    parse_zone,
)
from .._internal import check_selector, in_thread
from ..counts import no_tag_beside
from ..tables import CHUNK, AtomicFile, Column, Row, Table, Writer

By = Literal["slashtag", "tag"]

URLS = Table(
    (
        Column("id", "int"),
        Column("slashtag"),
        Column("short_url"),
        Column("destination"),
        Column("hits", "int"),
        Column("redirect_code", "int"),
        Column("tag_id", "int"),
        Column("created_at", "timestamp"),
        Column("updated_at", "timestamp"),
    )
)
NAMED_URLS = Table((*URLS.columns, Column("tag_name")))
TAGS = Table((Column("id", "int"), Column("name"), Column("description"), Column("created_at", "timestamp")))
#: Returns the row of a link, or of a tag.
url_row: Callable[[ShortUrl], Row] = attrgetter(*URLS.names)
tag_row: Callable[[Tag], Row] = attrgetter(*TAGS.names)
#: Columns that say of which links a row is.
_LINK = Column("slashtag"), Column("id", "int"), Column("destination"), Column("tag")
_WINDOW = Column("window_start", "date"), Column("window_end", "date")
_DIMENSIONS = *_WINDOW, Column("dimension"), Column("label")


def clicks_table(by: By = "slashtag", *, dimensions: bool = False) -> Table:
    """Return the table of clicks of links or of tags, by day, or by dimension and label."""
    of = _LINK if by == "slashtag" else (Column("tag"),)
    what = _DIMENSIONS if dimensions else (Column("date", "date"),)
    return Table((*of, *what, Column("clicks", "int")))


def named_url_row(url: ShortUrl, names: Mapping[int, str]) -> Row:
    """Return the row of a link with the name of its tag, None where it has none."""
    return (*url_row(url), names.get(url.tag_id or 0))


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an export.

    `rows` were written; `reconciles` is False where days, or labels of a dimension, were left out or do not
    add up to the totals; `shared` are slashtags of several links, whose clicks the service counts together,
    in one row; `missing` are slashtags or tags that failed. `session.metrics` has the requests.
    """

    rows: int
    reconciles: bool = True
    shared: list[str] = []
    missing: list[str] = []

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or in doubt."""
        return self.reconciles and not self.missing


async def export_urls(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every link of the account as a row of NAMED_URLS.

    `progress` is called with (links so far, None). The writer is left open. Raises what a listing raises, and
    ExportError. See docs/service.md, List short URLs; List tags.
    """
    names = await session.tags.names()
    return await _write_pages(
        writer, session.urls.list(progress=progress), partial(named_url_row, names=names)
    )


async def export_tags(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every tag of the account as a row of TAGS; otherwise as `export_urls`.

    See docs/service.md, List tags.
    """
    return await _write_pages(writer, session.tags.list(progress=progress), tag_row)


async def _write_pages(writer: Writer, listing: Listing[Any], row_of: Callable[[Any], Row]) -> Summary:
    written = 0
    async with listing.pages() as pages:
        async for page in pages:
            await in_thread(writer.write, list(map(row_of, page.items)))
            written += len(page.items)
    return Summary(rows=written)


async def export_clicks(
    session: AsyncSession,
    query: DateRange,
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

    A range that is not over ends with the present day, as it is so far. `by="tag"` has one series a tag
    instead; `dimensions` has a row for every label of every dimension instead of the days, with the days
    asked for as its window. The table is `clicks_table(by, dimensions=dimensions)`.

    Selected are `keys` (also asynchronous), or `tags`: the links that bear one of them, or with `by="tag"`
    the tags themselves; neither means all links, or all tags, of the account, after which "no tag" has the
    links without one, so that the rows add up to the clicks of the account. Tags are listed first, and all
    links unless `tags` are counted themselves: rows say of which link they are. Where several share a
    slashtag, they have what differs with commas, and no id. Rows come in the order of `keys` or of tags,
    listed links by `hits`, the most first.

    `progress` is called with (steps done, total or None), as by `collect_each`. With `on_error` what failed
    is passed on as a Failure and left out; where nothing was answered the first failure is raised as well.
    Raises TypeError for a wrong selector, ExportError, and what `collect_each` raises. See docs/service.md,
    Statistics for a date or date range.
    """
    zone = parse_zone(timezone)
    query = _until_today(query, zone)
    check_selector(0, keys=keys, tags=tags)
    if by == "tag" and keys is not None:
        raise TypeError("by='tag' goes without keys")
    tags = None if tags is None else list(tags)
    failures, missing = list[Failure](), set[str]()

    def fail(failure: Failure) -> object:
        failures.append(failure)
        missing.update(failure.keys or [failure.tag or ""])
        return on_error and on_error(failure)

    options: dict[str, Any] = {"timezone": zone, "on_error": on_error and fail}
    series = _Series(writer, query.span(zone), dimensions)
    if by == "tag" and tags is None:
        found = await session.stats.by_tag(query, progress=progress, **options)
        for tag, stats in found.items():
            name = tag or no_tag_beside(found)
            if stats.missing:
                missing.add(name)
            await series.add((name,), stats, is_asked=bool(tag))
    else:
        links = await session.urls.list().to_list() if by == "slashtag" else []
        # Tags last: a link may have got one that was created meanwhile.
        names = await session.tags.names(tags or ())
        of_key: dict[str, list[ShortUrl]] = {}
        for link in links:
            of_key.setdefault(link.slashtag or "", []).append(link)
        selected: dict[str, Any] = {"tags": tags}
        if by == "slashtag":
            of = await _select(keys, tags, links, of_key, names)
            selected = {"keys": chain.from_iterable(of.values())}
            # What cannot be requested has no result, and without `on_error` no failure.
            missing.update(of)
        each = session.stats.collect_each(query, ordered=True, progress=progress, **selected, **options)
        async with each:
            async for name, stats in each:
                missing.discard(name)
                same = of_key.get(name, [])
                await series.add(link_cells(name, same, names) if by == "slashtag" else (name,), stats)
    if failures and not series.answered:
        # A file would be replaced by an empty one.
        raise failures[0].error
    await series.flush()
    return Summary(
        rows=series.written,
        reconciles=series.reconciles,
        shared=sorted(series.shared),
        missing=sorted(missing),
    )


async def _select(
    keys: Keys | None,
    tags: list[str] | None,
    links: list[ShortUrl],
    of_key: Mapping[str, list[ShortUrl]],
    names: Mapping[int, str],
) -> dict[str, Iterable[str | ShortUrl]]:
    """Return what is to be requested in its order: of each slashtag all links, or itself if it has none."""
    if keys is None:
        # With clicks beside each other they take fewer requests.
        chosen: list[str | ShortUrl] = [
            link
            for link in sorted(links, key=lambda link: -(link.hits or 0))
            if tags is None or names.get(link.tag_id or 0) in tags
        ]
    else:
        chosen = [key async for key in keys] if isinstance(keys, AsyncIterable) else [*keys]
    of: dict[str, Iterable[str | ShortUrl]] = {}
    for key in chosen:
        name = key if isinstance(key, str) else key.slashtag or ""
        of[name] = of_key.get(name, [key])
    return of


def link_cells(slashtag: str, links: list[ShortUrl], names: Mapping[int, str]) -> Row:
    """Return the cells that say of which links a row is."""
    destinations = dict.fromkeys(link.destination for link in links if link.destination)
    tags = dict.fromkeys(filter(None, (names.get(link.tag_id or 0) for link in links)))
    id = links[0].id if len(links) == 1 else None
    return slashtag, id, ", ".join(destinations) or None, ", ".join(tags) or None


class _Series:
    """Writes the rows of series in batches, and notes how they are."""

    def __init__(self, writer: Writer, window: tuple[date, date], dimensions: bool) -> None:
        self._writer, self._window, self._dimensions = writer, window, dimensions
        self._waiting: list[Row] = []
        self.written = 0
        self.reconciles, self.answered = True, False
        self.shared = set[str]()

    async def add(self, of: Row, stats: RangeStats, *, is_asked: bool = True) -> None:
        """Add the rows of one series, unless requests for it failed; `is_asked`: it has some of its own."""
        self.reconciles &= stats.complete and not (self._dimensions and stats.incomplete_dimensions)
        if stats.missing:
            return
        self.answered |= is_asked or stats.total > 0
        self.shared.update(stats.shared)
        if self._dimensions:
            self._waiting += ((*of, *self._window, *row) for row in stats.rows() if row[0] != "day")
        else:
            self._waiting += ((*of, *counted) for counted in stats.clicks.items())
        if len(self._waiting) >= CHUNK:
            await self.flush()

    async def flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows:
            await in_thread(self._writer.write, rows)
        self.written += len(rows)


def _until_today(query: DateRange, zone: tzinfo) -> DateRange:
    """Return a range without the days after today; raises InvalidRequestError for one that is to come."""
    now = datetime.now(UTC)
    # Once: today must not move at midnight.
    query = query.resolve(zone, now)
    (_, end), today = query.span(zone), now.astimezone(zone).date()
    return DateRange(query.bounds[0], today) if end > today else query


async def begins_anew(session: AsyncSession, path: str | os.PathLike[str]) -> bool:
    """Note in a file how the links of the account are named and tagged.

    Returns whether it noted one before that has another slashtag or tag now, or is gone: what was counted
    then is not as of this moment. See docs/service.md, List short URLs; List tags.
    """
    links, names = await session.urls.list().to_list(), await session.tags.names()
    now = {str(link.id): [link.slashtag, names.get(link.tag_id or 0)] for link in links}
    noted: dict[str, list[str | None]] = {}
    with suppress(OSError, msgspec.MsgspecError):
        noted = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, list[str | None]])
    has_changed = any(now.get(id) != was for id, was in noted.items())
    if now != noted:
        with AtomicFile(path, mode=0o600) as file:
            file.write(msgspec.json.encode(now))
    return has_changed
