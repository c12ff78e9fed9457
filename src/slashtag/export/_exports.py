"""Links, tags and clicks as rows: which are requested, how, and how it went."""

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field

from .. import (
    AsyncSession,
    DateRange,
    Day,
    Failure,
    InvalidRequestError,
    Keys,
    Listing,
    OnError,
    Progress,
    RangeStats,
    ShortUrl,
    Tag,
    parse_zone,
)
from .._by_tag import ByTag, links_of_tags
from .._internal import in_thread
from .._shared_slashtags import Links, names_of_tags
from ..tables import BATCH, Column, Row, Table, Writer
from ._columns import LinkColumns, with_columns

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


def clicks_table(by: str, columns: Sequence[str] = (), title: str = "") -> Table:
    """Return the table of clicks by day; `by` names the first column, "slashtag" or "tag".

    `columns` are some of LINK_COLUMNS, which come after it.
    """
    table = Table((Column(by), Column("date", "date"), Column("clicks", "int")), title)
    return with_columns(table, columns)


def dimensions_table(by: str, columns: Sequence[str] = (), title: str = "") -> Table:
    """Return the table of clicks by dimension and label; otherwise as `clicks_table`."""
    window = Column("window_start", "date"), Column("window_end", "date")
    table = Table((Column(by), *window, Column("dimension"), Column("label"), Column("clicks", "int")), title)
    return with_columns(table, columns)


def named_url_row(url: ShortUrl, names: Mapping[int, str | None]) -> Row:
    """Return the row of a link with the name of its tag, None where it has none."""
    return (*url_row(url), names.get(url.tag_id) if url.tag_id is not None else None)


def clicks_rows(stats: RangeStats, of: str) -> Iterator[Row]:
    """Yield a row for every day of the range, zeros too; `of` is the slashtag or tag."""
    for day, clicks in stats.clicks.items():
        yield of, day, clicks


def dimension_rows(stats: RangeStats, start: date, end: date, of: str) -> Iterator[Row]:
    """Yield a row for every label of every dimension but the days."""
    for dimension, label, clicks in stats.rows():
        if dimension != "day":
            yield of, start, end, dimension, label, clicks


class Summary(Struct, frozen=True, kw_only=True):
    """Result of an export.

    `rows` were written; `reconciles` is False where days, or labels of a dimension, were left out or do not
    add up to the totals, and where a tag was left out whose name could not be read; `shared` slashtags of the
    listed links belong to links on other domains too, selected or not. Those of `bounded`, which links
    without the tags have too, are ambiguous: their rows have only the clicks that the selected links have at
    least. `missing` are slashtags or tags that failed. `session.metrics` has the requests.
    """

    rows: int
    reconciles: bool = True
    shared: int = 0
    bounded: int = 0
    missing: list[str] = []


async def _write(writer: Writer, rows: list[Row]) -> int:
    """Write rows in a thread, and return their number."""
    if rows:
        await in_thread(partial(writer.write, rows))
    return len(rows)


async def export_urls(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every link of the account as a row of NAMED_URLS.

    `progress` is called with (links so far, None). The writer is left open. Without names, and with a
    warning, if tags cannot be listed. Raises what a listing raises, and ExportError (List short URLs; List
    tags).
    """
    names = await session._optional("names of tags", names_of_tags) or {}
    return await _write_pages(
        writer, session.urls.list(progress=progress), partial(named_url_row, names=names)
    )


async def export_tags(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every tag of the account as a row of TAGS; otherwise as `export_urls` (List tags)."""
    return await _write_pages(writer, session.tags.list(progress=progress), tag_row)


async def _write_pages(writer: Writer, listing: Listing[Any], row_of: Callable[[Any], Row]) -> Summary:
    written = 0
    async with listing.pages() as pages:
        async for page in pages:
            written += await _write(writer, list(map(row_of, page.items)))
    return Summary(rows=written)


async def export_clicks(
    session: AsyncSession,
    query: DateRange | Day,
    writer: Writer,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    by: By = "slashtag",
    dimensions: bool = False,
    columns: Sequence[str] = (),
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
    on_error: OnError | None = None,
) -> Summary:
    """Write the clicks of a range of days, a row for every slashtag and day, zeros too.

    A range that is not over ends with the present day, as it is so far.

    A slashtag that links without the `tags` have too gets the clicks that the totals of the tags leave for
    it, by day or label; where that is no single number, what it has at least. Its rows come last.

    Rows come in the order of `keys` or of tags. Listed links come by `hits`, the most first, which takes
    fewer requests than the order of the listing (see `collect_each`); if an earlier run had them in another
    order, in that.

    `by="tag"` has one series a tag instead; `dimensions` has a row for every label of every dimension instead
    of the days, with the days asked for as its window. `columns`, of LINK_COLUMNS, say of which link a row
    is: then links that are given by slashtag are looked up. The table is `clicks_table(by, columns)` or
    `dimensions_table(by, columns)`. Selected are `keys` (also asynchronous), or `tags`: the links that bear
    one of them, or with `by="tag"` the tags themselves; neither means all links, or all tags, of the account,
    after which "no tag" has the links without one, so that the rows add up to the clicks of the account.

    `progress` is called with (series done, series or None). With `on_error` what failed is passed on as a
    Failure and left out; where nothing was answered the first failure is raised as well. Raises TypeError for
    a wrong selector, ExportError, and what `collect_each` raises (Statistics for a date or date range).
    """
    zone = parse_zone(timezone)
    query, (start, end) = _until_today(query, zone, is_given=timezone is not None)
    if by not in ("slashtag", "tag") or (by == "tag" and keys is not None):
        raise TypeError(f"by is 'slashtag', or 'tag' without keys, not {by!r}")
    if columns and by == "tag":
        raise InvalidRequestError(f"{', '.join(columns)}: of links, and each row is about the links of a tag")
    clicks_table(by, columns)  # refuses other columns
    selected = await _select(session, keys, tags, by, columns)
    cells = await LinkColumns.read(session, columns, selected.of_slashtag)
    rows = _SeriesWriter(writer, start, end, dimensions, cells)
    answered, total, failures = False, RangeStats(), list[Failure]()

    def fail(failure: Failure) -> object:
        failures.append(failure)
        return None if on_error is None else on_error(failure)

    options: dict[str, Any] = {"timezone": zone, "on_error": None if on_error is None else fail}
    links, by_tag = selected.links, selected.by_tag
    each = session.stats.collect_each(
        query, keys=selected.keys, tags=selected.tags, ordered=selected.order, progress=progress, **options
    )
    async with each:
        async for name, stats in each:
            answered = True
            await rows.add(name, stats)
            if by_tag is not None:
                total += stats
    shares = await links.shares(session, query, **options) if links.foreign else {}
    for name, share in shares.items():
        answered = True
        await rows.add(name, share.least)
    bounded = sum(not share.total.are_equal for share in shares.values())
    if by_tag is not None and by_tag.no_tag is not None:
        stats = await by_tag.without_tag(session, query, None if failures else total, **options)
        answered |= stats.total > 0
        await rows.add(by_tag.no_tag, stats)
        rows.reconciles &= not by_tag.unnamed and all(link.tag_id for link in by_tag.links.uncountable)
    if failures and not answered:
        # A file would be replaced by an empty one.
        raise failures[0].error
    await rows.flush()
    missing = sorted({name for failure in failures for name in failure.keys or (failure.tag or "",)})
    shared = len(links.repeated | links.foreign)
    return Summary(
        rows=rows.written, reconciles=rows.reconciles, shared=shared, bounded=bounded, missing=missing
    )


class _Selection(Struct, frozen=True, kw_only=True):
    """What `collect_each` is to request: `keys` or `tags`, in which order.

    `links` are those that were listed for this, none for given selectors; `of_slashtag` are those that the
    columns describe; `by_tag` is set where all tags are selected.
    """

    keys: Keys | None = None
    tags: Iterable[str] | None = None
    order: Literal[True, "hits"] = True
    links: Links = field(default_factory=Links)
    of_slashtag: dict[str, list[ShortUrl]] = {}
    by_tag: ByTag | None = None


async def _select(
    session: AsyncSession, keys: Keys | None, tags: Iterable[str] | None, by: By, columns: Sequence[str]
) -> _Selection:
    """List the links or tags that are not given, and those that columns need."""
    if by == "tag":
        # Which links a tag has says whether an earlier answer of a job still holds.
        if tags is None:
            by_tag = await ByTag.read(session)
            return _Selection(tags=by_tag.links_of, by_tag=by_tag)
        return _Selection(tags=await links_of_tags(session, tags))
    if keys is None:
        links = await Links.read(session, tags=tags)
        # Uncountable ones too: collect_each reports them.
        keys = [*links.keys_of(links.own), *links.uncountable]
        return _Selection(keys=keys, order="hits", links=links, of_slashtag=links.by_slashtag)
    # Tags beside keys are refused by collect_each.
    if not columns:
        return _Selection(keys=keys, tags=tags)
    keys = [key async for key in keys] if isinstance(keys, AsyncIterable) else [*keys]
    return _Selection(keys=keys, tags=tags, of_slashtag=(await Links.sharing(session, keys)).by_slashtag)


class _SeriesWriter(Struct):
    """Writes the rows of series in batches; `reconciles` as of Summary."""

    writer: Writer
    start: date
    end: date
    dimensions: bool
    columns: LinkColumns
    written: int = 0
    reconciles: bool = True
    waiting: list[Row] = []

    async def add(self, name: str, stats: RangeStats) -> None:
        self.reconciles &= stats.complete and not (self.dimensions and stats.incomplete_dimensions)
        if self.dimensions:
            rows = dimension_rows(stats, self.start, self.end, name)
        else:
            rows = clicks_rows(stats, name)
        cells = self.columns.cells(name)
        self.waiting += ((of, *cells, *counts) for of, *counts in rows) if cells else rows
        if len(self.waiting) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        rows, self.waiting = self.waiting, []
        self.written += await _write(self.writer, rows)


def _until_today(
    query: DateRange | Day, zone: tzinfo, *, is_given: bool
) -> tuple[DateRange | Day, tuple[date, date]]:
    """Return a range without the days after today, and its first and last day; raises InvalidRequestError."""
    now = datetime.now(UTC)
    if isinstance(query, DateRange):
        # Once: today must not move at midnight. Without a timezone, datetimes need an offset.
        query = query.resolve(zone if is_given else None, now)
    (start, end), today = query.span(zone), now.astimezone(zone).date()
    if start > today:
        raise InvalidRequestError(f"{start} is after today, {today}: there are no clicks yet")
    if isinstance(query, DateRange) and end > today:
        query, end = DateRange(query.bounds[0], today), today
    return query, (start, end)
