"""`slashtag top`: the links with most clicks, found with few requests.

The service counts any 100 links in one request. Groups of links are counted together; the groups with most
clicks are halved until the first places are all held by single links: no link has more clicks than its group.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from datetime import date, datetime, time, timedelta
from functools import partial
from heapq import nlargest
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct
from typer import Option

from ... import AsyncSession, DateRange, InvalidRequestError, Progress, Query, Statistics, Year
from ..._internal import halves, last_day, many, months, parse_zone
from ...export import Column, Row, Table
from ..drawing import percent
from ..options import Timezone
from ..output import Output
from ..period import Period
from ..run import Run, command
from ..selection import SelectionOrAll, note_of_shared

#: Links counted together at first: as many as a request may name (Limits).
GROUP = 100
TOP = Table(
    (
        Column("slashtag"),
        Column("clicks", "int"),
        Column("percent", "float"),
        Column("clicks_before", "int"),
        Column("change_percent", "float"),
    )
)
#: Columns that are drawn, each from this width of the terminal on.
SHOWN = dict.fromkeys(TOP.names, 0) | {"clicks_before": 80, "change_percent": 60}
Count = Callable[[Sequence[str]], Awaitable[int]]


@command
async def top(
    period: Period,
    selection: SelectionOrAll,
    run: Run,
    output: Output,
    timezone: Timezone = None,
    by: Annotated[
        Literal["clicks", "growth"], Option(help="Most clicks, or most clicks more than in the span before.")
    ] = "clicks",
    limit: Annotated[int, Option(min=1, metavar="N", help="The most links to show.")] = 20,
) -> None:
    """Show the links with most clicks: their share of all clicks, and the change against the span before.

    The span is the last 30 days unless given. Whole months are compared with whole months; a span that is not
    over, with the span before up to the same day and time of day. Links are counted in groups of 100, and
    only the groups with most clicks one by one. The service counts links on different domains with the same
    slashtag as one.
    """
    rows = list[Row]()
    start, end = period.dates(timezone, default="30d")
    earlier = _before(start, end, datetime.now(parse_zone(timezone)))

    async with run.session() as session:
        now, before = _query(session, start, end, timezone), _query(session, *earlier, timezone)

        async def count(query: Query[Statistics], keys: Sequence[str]) -> int:
            found = await session.stats.collect(query, keys=keys, timezone=timezone)
            report(session.metrics.requests, None)
            return found.total

        with run.bars() as begin:
            slashtags = await _slashtags(run, session, selection, begin("reading", "links"))
            report = begin("counting", "requests")
            total, places = await first_places(
                partial(count, now), partial(count, before), slashtags, limit, growth=by == "growth"
            )
    for slashtag, clicks, earlier_clicks in places:
        change = percent(clicks - earlier_clicks, earlier_clicks) if earlier_clicks else None
        rows.append((slashtag, clicks, percent(clicks, total), earlier_clicks, change))
    output.print(TOP, rows, SHOWN)
    run.say(
        f"{start} to {end}, compared with {earlier[0]} to {earlier[1]}: "
        f"{many(total, 'click')} of {many(len(slashtags), 'link')}; {run.cost()}"
    )
    if selection.tag and selection.sharing.count:
        run.say(note_of_shared(selection.sharing.count))


def _before(start: date, end: date, now: datetime) -> tuple[date, date]:
    """Return the span before: whole months before whole months, else as many days or seconds.

    Before a span that is not over, from the start of the span before to the same day and time of day as now.
    """
    if isinstance(start, datetime) and isinstance(end, datetime):
        second = timedelta(seconds=1)
        return start - (end - start) - second, start - second
    day = timedelta(days=1)
    first = start - (end - start) - day
    if start.day == 1 and end == last_day((end.year, end.month)):
        number = 12 * start.year + start.month - 1 - len(months(start, end))
        first = date(number // 12, number % 12 + 1, 1)
    if not start <= now.date() <= end:
        return first, start - day
    since = datetime.combine(start, time(), now.tzinfo)
    shift = timedelta(start.toordinal() - first.toordinal())
    until = min(now.replace(second=0, microsecond=0) - shift, since - timedelta(minutes=1))
    return datetime.combine(first, time(), now.tzinfo), until


def _query(session: AsyncSession, start: date, end: date, timezone: Any) -> Query[Statistics]:
    """Return the query of a span; a calendar year takes a twelfth of the requests as a Year."""
    try:
        if (start, end) == (date(start.year, 1, 1), date(start.year, 12, 31)):
            session.stats.plan(Year(start.year), keys=(), timezone=timezone)
            return Year(start.year)
    except InvalidRequestError:
        pass  # the zone has two offsets in this year
    return DateRange(start, end)


async def _slashtags(
    run: Run, session: AsyncSession, selection: SelectionOrAll, progress: Progress
) -> list[str]:
    """Return the slashtags of the selected links, those with most hits of all time first."""
    async with selection.chosen(run, session, progress=progress) as (keys, _):
        if not isinstance(keys, AsyncIterable):
            return list(dict.fromkeys(map(str, keys or ())))
        hits: Counter[str] = Counter()
        async for url in keys:
            hits[url.slashtag] += url.hits
        return [slashtag for slashtag, _ in hits.most_common()]


class Place(NamedTuple):
    """One of the links with most clicks: its clicks in the span and in the one before."""

    slashtag: str
    clicks: int
    before: int


class _Group(Struct, frozen=True, eq=False):
    """Links that were counted together, or a single link with its place."""

    keys: Sequence[str]
    #: The highest rank that one of its links can have: their clicks together; with a place, the rank.
    bound: int
    #: Whether the clicks were counted, not found by subtraction: new clicks may come between two requests.
    is_counted: bool = True
    place: Place | None = None


async def first_places(
    count: Count, count_before: Count, keys: Sequence[str], limit: int, *, growth: bool
) -> tuple[int, list[Place]]:
    """Return the clicks of all links and at most `limit` with most clicks, or `growth` of clicks.

    `count` and `count_before` count the clicks of some slashtags in the span and in the one before. The order
    of `keys` decides only how many requests it takes: few if links with many clicks are adjacent. Links of
    equal clicks come in any order, the same in every run. Raises what counting raises.
    """

    async def refined(group: _Group) -> list[_Group]:
        """Return the two halves of a group, or a single link with its place."""
        keys = group.keys
        if len(keys) == 1:
            clicks = group.bound if group.is_counted else await count(keys)
            before = await count_before(keys)
            rank = clicks - before if growth else clicks
            return [_Group(keys, rank, place=Place(keys[0], clicks, before))]
        first, second = halves(keys)
        clicks = await count(first)
        return [_Group(first, clicks), _Group(second, max(0, group.bound - clicks), is_counted=False)]

    parts = [keys[n : n + GROUP] for n in range(0, len(keys), GROUP)]
    counts = await asyncio.gather(*map(count, parts))
    groups = list(map(_Group, parts, counts))
    while True:
        best = nlargest(limit, groups, key=lambda group: (group.bound, group.place is not None))
        best = [group for group in best if group.bound > 0]
        # Not a set, whose order would be another in every run.
        unsettled = dict.fromkeys(group for group in best if group.place is None)
        if not unsettled:
            return sum(counts), [group.place for group in best if group.place is not None]
        finer = await asyncio.gather(*map(refined, unsettled))
        groups = [*(group for group in groups if group not in unsettled), *chain.from_iterable(finer)]
