"""Whole exports: which links or tags, requested how, written in which rows, and how it went."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Literal

from msgspec import Struct

from .. import (
    AsyncSession,
    DateRange,
    Day,
    Failure,
    InvalidRequestError,
    Keys,
    OnError,
    Progress,
    parse_zone,
)
from .._internal import in_thread, optional
from ._selection import Links, names_of_tags
from ._table import Row, clicks_rows, dimension_rows, named_url_row, tag_row
from ._writers import BATCH, Writer

By = Literal["slashtag", "tag"]


class Summary(Struct, frozen=True, kw_only=True):
    """Result of an export.

    `rows` were written; `failures` went to `on_error`; `reconciles` is False where days, or labels of a
    dimension, were left out or do not add up to the totals; `shared` slashtags of the listed links belong to
    links on other domains too, selected or not, whose clicks are in the rows, as the service counts by
    slashtag. `session.metrics` has the requests.
    """

    rows: int
    failures: int = 0
    reconciles: bool = True
    shared: int = 0


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
    names = await optional(session, "names of tags", names_of_tags) or {}
    written = 0
    async with session.urls.list(progress=progress).pages() as pages:
        async for page in pages:
            written += await _write(writer, [named_url_row(url, names) for url in page.items])
    return Summary(rows=written)


async def export_tags(session: AsyncSession, writer: Writer, *, progress: Progress | None = None) -> Summary:
    """Write every tag of the account as a row of TAGS; otherwise as `export_urls` (List tags)."""
    written = 0
    async with session.tags.list(progress=progress).pages() as pages:
        async for page in pages:
            written += await _write(writer, list(map(tag_row, page.items)))
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
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
    on_error: OnError | None = None,
) -> Summary:
    """Write the clicks of a range of days, a row for every slashtag and day, zeros too.

    A range that is not over ends with the present day, as it is so far.
    Rows come in the order of `keys` or of tags. Listed links come by `hits`, the most first, which takes
    fewer requests than the order of the listing (see `collect_each`); if an earlier run had them in another
    order, in that.

    `by="tag"` has one series a tag instead; `dimensions` has a row for every label of every dimension instead
    of the days, with the days asked for as its window. The table is `clicks_table(by)` or
    `dimensions_table(by)`. Selected are `keys` (also asynchronous), or `tags`: the links that bear one of
    them, or with `by="tag"` the tags themselves; neither means all links, or all tags, of the account.

    `progress` is called with (series done, series or None). With `on_error` what failed is passed on as a
    Failure and left out; where nothing was answered the first failure is raised as well. Raises TypeError for
    a wrong selector, ExportError, and what `collect_each` raises (Statistics for a date or date range).
    """
    zone = parse_zone(timezone)
    # Once: a range that ends with the present day must not move at midnight.
    query = _begun(query, timezone)
    start, end = query.span(zone)
    if by not in ("slashtag", "tag") or (by == "tag" and keys is not None):
        raise TypeError(f"by is 'slashtag', or 'tag' without keys, not {by!r}")
    ordered: bool | Literal["hits"] = True
    shared = 0
    if by == "tag":
        tags = (await names_of_tags(session)).values() if tags is None else tags
    elif keys is None:
        links, ordered = await Links.read(session, tags=tags), "hits"
        keys, tags = [*links.keys, *links.refused], None
        shared = len(links.repeated | links.foreign)
    written, waiting, failures = 0, list[Row](), list[Failure]()
    answered, reconciles = False, True

    def fail(failure: Failure) -> object:
        failures.append(failure)
        return None if on_error is None else on_error(failure)

    each = session.stats.collect_each(
        query,
        keys=keys,
        tags=tags,
        timezone=zone,
        ordered=ordered,
        progress=progress,
        on_error=None if on_error is None else fail,
    )
    async with each:
        async for name, stats in each:
            answered = True
            reconciles &= stats.complete and not (dimensions and stats.incomplete_dimensions)
            waiting += dimension_rows(stats, start, end, name) if dimensions else clicks_rows(stats, name)
            if len(waiting) >= BATCH:
                written, waiting = written + await _write(writer, waiting), []
    if failures and not answered:
        # A file would be replaced by an empty one.
        raise failures[0].error
    written += await _write(writer, waiting)
    return Summary(rows=written, failures=len(failures), reconciles=reconciles, shared=shared)


def _begun(query: DateRange | Day, timezone: str | tzinfo | None) -> DateRange | Day:
    """Return a range as it is today, without the days that have not begun.

    Raises InvalidRequestError if none has.
    """
    zone, now = parse_zone(timezone), datetime.now(UTC)
    if isinstance(query, DateRange):
        query = query.resolve(None if timezone is None else zone, now)
    (start, end), today = query.span(zone), now.astimezone(zone).date()
    if start > today:
        raise InvalidRequestError(f"{start} is after today, {today}: there are no clicks yet")
    return DateRange(query.bounds[0], today) if isinstance(query, DateRange) and end > today else query
