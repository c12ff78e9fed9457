"""`slashtag top`: the links with most clicks, found with few requests.

The service counts any 100 links in one request. Groups of links are counted together; the groups with most
clicks are halved until the first places are all held by single links: no link has more clicks than its group.
Where many places are asked for, a table of all links takes fewer requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from heapq import nlargest
from typing import Literal, NamedTuple

from typer import Option

from ... import AsyncSession, DateRange, InvalidRequestError, Query, Statistics, Year
from ..._internal import many
from ..._shared_slashtags import Bounds, Links
from ...tables import Column, Row, Table
from ..output import OutputOptions, percent
from ..run import Run, command
from ..selection import PeriodArguments, SelectionOrAllOptions, note_of_shared

#: Links counted together at first: as many as a request may name (Limits).
GROUP = 100
#: From one place in so many links on all are counted. Measured: with fewer places that takes more requests.
FEW_LINKS = 20
NUMBERS = Column("clicks", "int"), Column("percent", "float"), Column("clicks_before", "int")
#: Bounds of slashtags that links which are not selected have too; empty for others.
AT_MOST = Column("clicks_at_most", "int"), Column("clicks_before_at_most", "int")
TOP = Table((Column("slashtag"), *NUMBERS, Column("change_percent", "float"), *AT_MOST))
#: Columns that are drawn, each from this width of the terminal on.
WIDTHS = {"slashtag": 0, "clicks": 0, "percent": 0, "clicks_before": 80, "change_percent": 60}
CountTogether = Callable[[Sequence[str]], Awaitable[int]]


@command
async def top(
    period: PeriodArguments,
    selection: SelectionOrAllOptions,
    run: Run,
    output: OutputOptions,
    by: Literal["clicks", "growth", "decline"] = Option(
        "clicks", help="Most clicks; or most clicks more, or fewer, than in the span before."
    ),
    limit: int = Option(20, min=1, metavar="N", help="The most links to show."),
) -> None:
    """Show the links with most clicks: their share of all clicks, and the change against the span before.

    The span is the last 30 days unless given. Whole months are compared with whole months; a span that is not
    over, with the span before up to the same day and time of day. Links are counted in groups of 100, and
    only the groups with most clicks one by one. Links whose clicks fell to 0 are listed --by decline. The
    service counts links on different domains with the same slashtag as one. Where links without the --tag
    have a slashtag too, its clicks are at least what is shown, and at most clicks_at_most, which is empty for
    other links; it is ranked by what it has at least.
    """
    timezone = selection.timezone
    resolved = PeriodArguments(period.start or "30d", period.end).resolve(timezone)
    spans = resolved.so_far, resolved.before
    async with run.session() as session:
        with run.bars() as start_bar:
            progress = start_bar("reading", "links")
            selected = await selection.resolve(run, session, progress)
            links = await Links.read(session, selected.keys, selected.tags, progress)
            own = set(links.own)
            slashtags = [slashtag for slashtag, _ in links.hits.most_common() if slashtag in own]
            advance = start_bar("counting", "requests")
            queries = [_query(session, span, timezone) for span in spans]
            # Clicks of every link, where that takes fewer requests.
            tables: dict[Query[Statistics], dict[str, int]] = {}

            def step(*_: object) -> None:
                advance(session.metrics.requests, None)

            async def count(query: Query[Statistics], keys: Sequence[str]) -> int:
                if query in tables:
                    return sum(tables[query][key] for key in keys)
                found = await session.stats.collect(query, keys=links.keys_of(keys), timezone=timezone)
                step()
                return found.total

            is_over = resolved.so_far.bounds == resolved.whole.bounds
            for query in queries if limit * FEW_LINKS >= len(slashtags) and is_over else ():
                if isinstance(query, DateRange):
                    keys = links.keys_of(slashtags)
                    each = session.stats.collect_each(query, keys=keys, timezone=timezone, progress=step)
                    tables[query] = {key: stats.total async for key, stats in each}
            # No link has lost more clicks than it had in the span before.
            now, before = [partial(count, query) for query in queries]
            ranked = (before, now) if by == "decline" else (now, before)
            total, places = await first_places(*ranked, slashtags, limit, by_change=by != "clicks")
            if by == "decline":
                total, places = await now(slashtags), [Place(key, b, a) for key, a, b in places]
            found = [LinkClicks(key, Bounds(n, n), Bounds(m, m)) for key, n, m in places]
            if links.foreign:
                shares, earlier = [
                    await links.shares(session, span, timezone=timezone, progress=step) for span in spans
                ]
                found += [
                    LinkClicks(key, share.total, earlier[key].total, is_shared=True)
                    for key, share in shares.items()
                ]
                of_tags = await session.stats.collect(queries[0], tags=selected.tags, timezone=timezone)
                # Less only if the service contradicts itself, which is counted.
                total = max(of_tags.total, total + sum(each.clicks.least for each in found if each.is_shared))
    found = [each for each in found if each.may_be_ranked(by)]
    found = sorted(found, key=lambda each: each.rank(by), reverse=True)[:limit]
    is_shared = any(each.is_shared for each in found)
    output.print(
        TOP, [each.row(total) for each in found], WIDTHS | ({"clicks_at_most": 0} if is_shared else {})
    )
    run.say(
        f"{resolved.text}, compared with {resolved.text_before}: "
        f"{many(total, 'click')} of {many(len(links.by_slashtag), 'link')}; {run.cost()}"
    )
    if links.uncountable:
        run.warn(f"{many(len(links.uncountable), 'link')} whose slashtag cannot be requested", "left out: ")
    if selection.tag and (shared := links.repeated | links.foreign):
        run.say(note_of_shared(len(shared)))


def _query(session: AsyncSession, span: DateRange, timezone: str | None) -> Query[Statistics]:
    """Return the query of a span; a calendar year takes a twelfth of the requests as a Year."""
    year = span.bounds[0].year
    with suppress(InvalidRequestError):  # the zone has two offsets in this year
        if span.bounds == (date(year, 1, 1), date(year, 12, 31)):
            session.stats.plan(Year(year), keys=(), timezone=timezone)
            return Year(year)
    return span


class LinkClicks(NamedTuple):
    """The clicks of a slashtag in the span and in the one before."""

    slashtag: str
    clicks: Bounds
    before: Bounds
    is_shared: bool = False

    def rank(self, by: str) -> int:
        """Return by how many clicks it is ranked, those that it has at least."""
        if by == "growth":
            return self.clicks.least - self.before.most
        return self.before.least - self.clicks.most if by == "decline" else self.clicks.least

    def may_be_ranked(self, by: str) -> bool:
        """Whether it may have a place."""
        if by == "growth":
            return self.clicks.most > self.before.least
        return self.before.most > self.clicks.least if by == "decline" else self.clicks.most > 0

    def row(self, total: int) -> Row:
        """Return its row of TOP."""
        (clicks, most), (before, most_before) = self.clicks, self.before
        is_known = self.clicks.are_equal and self.before.are_equal
        change = percent(clicks - before, before) if before and is_known else None
        at_most = (most, most_before) if self.is_shared else (None, None)
        return (self.slashtag, clicks, percent(clicks, total), before, change, *at_most)


class Place(NamedTuple):
    """One of the first links: its clicks in the span it is ranked by, and in the other one."""

    slashtag: str
    clicks: int
    others: int


async def first_places(
    count: CountTogether, count_others: CountTogether, keys: Sequence[str], limit: int, *, by_change: bool
) -> tuple[int, list[Place]]:
    """Return the clicks of all links and at most `limit` with most clicks, or with most more than others.

    `count` counts the clicks of some slashtags in one span, `count_others` those in another one. The order of
    `keys` decides only how many requests it takes: few if links with many clicks are adjacent. Links of
    equal clicks come in any order, the same in every run. Raises what counting raises.
    """
    parts = [tuple(keys[n : n + GROUP]) for n in range(0, len(keys), GROUP)]
    # The highest rank that one of a group can have: their clicks together, but of a single link its rank.
    bounds = dict(zip(parts, await asyncio.gather(*map(count, parts)), strict=True))
    total, places = sum(bounds.values()), dict[tuple[str, ...], Place]()

    async def refined(group: tuple[str, ...]) -> dict[tuple[str, ...], int]:
        """Return the bounds of the two halves of a group, or the rank of a single link."""
        if len(group) == 1:
            # Counted anew, as new clicks may have come between two requests.
            clicks, others = await asyncio.gather(count(group), count_others(group))
            places[group] = Place(group[0], clicks, others)
            return {group: clicks - others if by_change else clicks}
        middle = len(group) // 2
        clicks = await count(group[:middle])
        return {group[:middle]: clicks, group[middle:]: max(0, bounds[group] - clicks)}

    while True:
        best = nlargest(limit, bounds, key=lambda group: (bounds[group], group in places))
        best = [group for group in best if bounds[group] > 0]
        unsettled = [group for group in best if group not in places]
        if not unsettled:
            return total, [places[group] for group in best]
        for group, finer in zip(unsettled, await asyncio.gather(*map(refined, unsettled)), strict=True):
            del bounds[group]
            bounds |= finer
