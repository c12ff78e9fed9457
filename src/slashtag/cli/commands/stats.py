"""`slashtag stats`: click statistics of any number of links over any span."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import typer
from typer import Argument, Option

from ... import (
    AllTime,
    AsyncSession,
    CountryGeo,
    DateRange,
    GeoStats,
    InvalidRequestError,
    PeriodStats,
    Query,
    RangeStats,
    Statistics,
    UnknownTagError,
    Year,
)
from ..._internal import many
from ..._shared_slashtags import Links, read_names_of_tags
from ...export import hourly_clicks, names_of_tags
from ...tables import Column, Table
from ..output import OutputOptions, draw, labels, percent
from ..run import Run, command
from ..selection import PeriodArguments, Selected, SelectionOptions

app = typer.Typer()

COUNTS = Table((Column("dimension"), Column("label"), Column("clicks", "int")))
#: What else than its maps statistics are shown by.
MORE: dict[Any, set[str]] = {RangeStats: {"week", "month", "hour"}, PeriodStats: {"month"}, GeoStats: set()}


@dataclass
class StatsOptions(OutputOptions):
    """Options of how statistics are requested and output."""

    by: str | None = Option(
        None,
        metavar="DIMENSION",
        help="Only one dimension, with every label: device, browser, platform, country, referrer; tag counts "
        "every selected tag alone; of days also day, week (named by its Monday), month and hour, which takes "
        "a request for each hour, of up to 32 days, and batch of links; of a year and of all time also "
        "month, language and timezone; of a country state, city and postalcode.",
    )


@app.command("range")
@command
async def stats_range(
    period: PeriodArguments, selection: SelectionOptions, run: Run, output: StatsOptions
) -> None:
    """Count the clicks of a range of days: by day, device, browser, platform, country and referrer."""
    resolved = period.resolve(selection.timezone)
    await _answer(resolved.so_far, resolved.text, selection, run, output)


@app.command("year")
@command
async def stats_year(
    selection: SelectionOptions,
    run: Run,
    output: StatsOptions,
    year: int = Argument(metavar="YEAR", min=1000, max=9998, help="The year, YYYY."),
) -> None:
    """Count the clicks of a calendar year, by month and by each dimension; unique ones too."""
    text = PeriodArguments(f"{year}", None).resolve(selection.timezone).text
    await _answer(Year(year), text, selection, run, output)


@app.command("alltime")
@command
async def stats_alltime(selection: SelectionOptions, run: Run, output: StatsOptions) -> None:
    """Count all clicks up to the present, by month and by each dimension; unique ones too."""
    await _answer(AllTime(), "all time", selection, run, output)


@app.command("country")
@command
async def stats_country(
    *,
    country: str = Argument(metavar="CODE", help="2-letter ISO code, such as DE."),
    period: PeriodArguments,
    selection: SelectionOptions,
    run: Run,
    output: StatsOptions,
) -> None:
    """Count the clicks from one country, by state, city and postal code."""
    resolved = period.resolve(selection.timezone)
    query = CountryGeo(country, *resolved.whole.bounds)
    await _answer(query, f"{country.upper()}, {resolved.text}", selection, run, output)


async def _answer(
    query: Query[Statistics], text: str, selection: SelectionOptions, run: Run, output: StatsOptions
) -> None:
    """Request the statistics, print them and what they cost."""
    by, timezone = output.by, selection.timezone
    if by == "tag":
        selection.require_tags(run)
    async with run.session() as session:
        # Refuse an impossible query before anything is sent.
        empty = await session.stats.collect(query, keys=(), timezone=timezone)
        known = {"tag", *empty.DIMENSIONS.values(), *MORE[type(empty)]}
        if by is not None and by not in known:
            raise InvalidRequestError(f"--by {by} is not counted here; there are {', '.join(sorted(known))}")
        if by == "hour" and isinstance(query, DateRange):
            await hourly_clicks(session, *query.bounds, keys=(), timezone=timezone)
        with run.bars() as start_bar:
            progress = start_bar("reading", "links")
            selected = await selection.resolve(run, session, progress)
            of: dict[str, Any] = {"timezone": timezone, "keys": selected.keys, "tags": selected.tags}
            if by == "tag":
                if selected.tags is None:
                    names, unnamed = await read_names_of_tags(session)
                    of["tags"] = names.values()
                    if unnamed:
                        run.warn(f"{many(unnamed, 'tag')} whose name cannot be read", "left out: ")
            elif selected == Selected():
                links = await Links.read(session, progress=progress)
                of["keys"] = links.keys
                for link in links.uncountable:
                    run.warn(f"statistics cannot be requested for {link.slashtag!r}", "left out: ")
            progress = start_bar("counting", "tags" if by == "tag" else "requests")
            try:
                stats, counts = await _count(session, query, by, empty, **of, progress=progress)
            except UnknownTagError:
                # Says which it is, and whether one has a name like it.
                await names_of_tags(session, selection.tag or ())
                raise
    _show(stats, by, counts, output)
    for caveat in _caveats(stats, by):
        run.say(caveat)
    shows_days = isinstance(stats, RangeStats) and by in (None, "day", "week", "month")
    if not stats.reconciles or (shows_days and not stats.complete):
        run.mark_incomplete()
    run.report_cut(stats, by)
    run.say(f"{text}: {many(stats.total, 'click')}; {run.cost()}")


async def _count(
    session: AsyncSession,
    query: Query[Statistics],
    by: str | None,
    empty: Statistics,
    **of: Any,
) -> tuple[Statistics, dict[str, int]]:
    """Return statistics, and the clicks of the labels of one dimension."""
    if by == "tag":
        by_tag = await session.stats.collect_each(query, **of).to_dict()
        most_first = sorted(by_tag, key=lambda name: (-by_tag[name].total, name))
        return empty.merge(by_tag.values()), {name: by_tag[name].total for name in most_first}
    if by == "hour" and isinstance(query, DateRange):
        hours = await hourly_clicks(session, *query.bounds, **of)
        counts = {hour.isoformat(timespec="minutes"): clicks for hour, clicks in hours.items()}
        return RangeStats(total_clicks=sum(hours.values())), counts
    stats = await session.stats.collect(query, **of)
    return stats, labels(stats, by)


def _show(stats: Statistics, by: str | None, counts: dict[str, int], output: StatsOptions) -> None:
    """Print statistics, or with `by` the clicks of its labels."""
    if output.form == "table":
        draw(stats, None if by is None else counts)
    elif by is None:
        totals = {"total": stats.total}
        if isinstance(stats, PeriodStats):
            totals |= {"unique": stats.clicks_unique, "repeated": stats.clicks_repeated}
        output.print(COUNTS, [*((name, "", clicks) for name, clicks in totals.items()), *stats.rows()])
    else:
        is_date = by in ("day", "week")
        first = Column(by, "date" if is_date else "text")
        table = Table((first, Column("clicks", "int"), Column("percent", "float")))
        rows = ((label, n, percent(n, stats.total)) for label, n in counts.items())
        output.print(table, ((date.fromisoformat(row[0]), *row[1:]) for row in rows) if is_date else rows)


def _caveats(stats: Statistics, by: str | None) -> Iterator[str]:
    """Yield what is not exact of the figures that are shown, and how."""
    if isinstance(stats, RangeStats) and not stats.days_complete:
        yield "the service left out the days of some windows: the days are incomplete, the total is complete"
    days = stats.clicks if by == "week" and isinstance(stats, RangeStats) else None
    # A week is from 0, Monday, to 6, Sunday.
    if days and (min(days).weekday(), max(days).weekday()) != (0, 6):
        yield "the span begins or ends within a week: the first or last one is not whole"
    if not stats.reconciles:
        yield "some figures do not add up to the totals that the service gave"
    if by is None and isinstance(stats, PeriodStats) and not stats.unique_is_exact:
        yield "several answers were added up: unique clicks are an upper bound, repeated ones a lower bound"
    if isinstance(stats, GeoStats) and not stats.places_are_exact:
        yield "some answers put places under Other: the named ones are lower bounds, the total is exact"
