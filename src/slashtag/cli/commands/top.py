"""`slashtag top`: the links with most clicks."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal

from typer import Option

from ... import AsyncSession, DateRange, InvalidRequestError, Query, Statistics, Year
from ..._internal import Progress, last_day, parse_zone
from ...export import Column, Row, Table, ids_of
from ..bar_charts import percent
from ..errors import many
from ..options import Connection, RangeEnd, Timezone, command
from ..output import FormatOption, OutputFile, chosen, print_rows
from ..period import Period
from ..ranking import Ranking
from ..selection import SelectionOrAll

TOP = Table(
    (
        Column("slashtag"),
        Column("clicks", "int"),
        Column("percent", "float"),
        Column("clicks_before", "int"),
        Column("change_percent", "float"),
    )
)


@command
async def top(
    period: Period,
    selection: SelectionOrAll,
    connection: Connection,
    timezone: Timezone = None,
    by: Annotated[
        Literal["clicks", "growth"], Option(help="Most clicks, or most clicks more than in the span before.")
    ] = "clicks",
    limit: Annotated[int, Option(min=1, metavar="N", help="The most links to show.")] = 20,
    form: FormatOption = None,
    output: OutputFile = None,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Show the links with most clicks: their share of all clicks, and the change against the span before.

    The span is the last 30 days unless given. One that is not over is compared with as many days as are over,
    whole months with whole months. Links are counted in groups of 100, and only the groups with most clicks
    one by one. The service counts links on different domains with the same slashtag as one.
    """
    form = chosen(form)
    start, end = period.dates(timezone, default="30d")
    earlier = _before(start, end, datetime.now(parse_zone(timezone)))
    async with connection.session(range_end=range_end) as session:
        now, before = _query(session, start, end, timezone), _query(session, *earlier, timezone)

        async def count(query: Query[Statistics], keys: Sequence[str]) -> int:
            found = await session.stats.collect(query, keys=keys, timezone=timezone)
            report(session.metrics.requests, None)
            return found.total

        with connection.bars() as begin:
            hits = await _hits(session, selection, begin("reading"))
            report = begin("counting")
            ranking = Ranking(partial(count, now), partial(count, before), hits, growth=by == "growth")
            places = await ranking.first(limit)
    rows: list[Row] = []
    for slashtag, clicks, earlier_clicks in places:
        change = percent(clicks - earlier_clicks, earlier_clicks) if earlier_clicks else None
        rows.append((slashtag, clicks, percent(clicks, ranking.total), earlier_clicks, change))
    print_rows(TOP, rows, form, file=output)
    connection.say(
        f"{start} to {end}, compared with {earlier[0]} to {earlier[1]}: {many(ranking.total, 'click')} of "
        f"{many(len(hits), 'link')}; {connection.cost(session)}"
    )


def _before(start: date, end: date, now: datetime) -> tuple[date, date]:
    """Return the span before: whole months before whole months, else as many days or seconds.

    Of a span that is not over, as many days as are, from the start of the span before.
    """
    if isinstance(start, datetime) and isinstance(end, datetime):
        second = timedelta(seconds=1)
        return start - (end - start) - second, start - second
    day = timedelta(days=1)
    first = start - (end - start) - day
    if start.day == 1 and end == last_day((end.year, end.month)):
        months = 12 * (end.year - start.year) + end.month - start.month + 1
        year, month = divmod(12 * start.year + start.month - 1 - months, 12)
        first = date(year, month + 1, 1)
    over = min(end, now.date() - day) - start
    return first, min(first + over, start - day) if timedelta() <= over < end - start else start - day


def _query(session: AsyncSession, start: date, end: date, timezone: Any) -> Query[Statistics]:
    """Return the query of a span; a calendar year takes a twelfth of the requests as a Year."""
    try:
        if (start, end) == (date(start.year, 1, 1), date(start.year, 12, 31)):
            session.stats.plan(Year(start.year), keys=(), timezone=timezone)
            return Year(start.year)
    except InvalidRequestError:
        pass  # the zone has two offsets in this year
    return DateRange(start, end)


async def _hits(session: AsyncSession, selection: SelectionOrAll, progress: Progress) -> dict[str, int]:
    """Return the slashtags of the selected links with the hits of all time."""
    selected = await selection.selector(session, progress)
    if selected["keys"] is not None:
        return dict.fromkeys(selected["keys"], 0)
    tags = selected["tags"]
    ids = None if tags is None else ids_of(tags, await session.tags.list().to_list())
    hits: dict[str, int] = {}
    async for url in selection.links(session, ids, progress):
        hits[url.slashtag] = hits.get(url.slashtag, 0) + url.hits
    return hits
