"""`slashtag stats`: click statistics of any number of links over any span."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import typer
from typer import Argument, Option

from ... import (
    AllTime,
    CountryGeo,
    DateRange,
    Day,
    GeoStats,
    PeriodStats,
    Query,
    RangeStats,
    Statistics,
    Year,
)
from ..._internal import many
from ...export import Column, Row, Table
from ..drawing import draw, draw_labels, months_of, percent, ranked
from ..dryrun import print_plan
from ..options import Connection, DryRun, RangeEnd, Timezone, command
from ..output import FormatOption, OutputFile, chosen, print_rows
from ..period import Period
from ..selection import Selection, names_of_tags

app = typer.Typer(help="Click statistics, exact for any number of links and days.", no_args_is_help=True)

# fmt: off
Dimension = Literal[
    "tag", "day", "month", "device", "browser", "platform", "country", "referrer", "language", "timezone",
    "state", "city", "postalcode",
]
# fmt: on
COUNTS = Table((Column("dimension"), Column("label"), Column("clicks", "int")))


@dataclass(frozen=True)
class Presentation:
    """Options of how statistics are requested and shown."""

    timezone: Timezone = None
    by: Annotated[
        Dimension | None,
        Option(
            metavar="DIMENSION",
            help=f"Only one dimension, with every label: {', '.join(get_args(Dimension))}. tag counts every "
            "selected tag alone.",
        ),
    ] = None
    form: FormatOption = None
    output: OutputFile = None
    dry_run: DryRun = False

    def __post_init__(self) -> None:
        if self.dry_run and self.form not in (None, "table"):
            raise typer.BadParameter("--dry-run prints its plan in words: leave --format out")
        if self.dry_run and self.by == "tag":
            raise typer.BadParameter("--dry-run goes without --by tag")


@app.command("range")
@command
async def stats_range(
    period: Period,
    selection: Selection,
    connection: Connection,
    shown: Presentation,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Count the clicks of a range of days: by day, device, browser, platform, country and referrer."""
    start, end = period.dates(shown.timezone)
    await _answer(DateRange(start, end), f"{start} to {end}", selection, connection, shown, range_end)


@app.command("day")
@command
async def stats_day(
    day: Annotated[str, Argument(metavar="DATE", help="The day: YYYY-MM-DD, today or yesterday.")],
    selection: Selection,
    connection: Connection,
    shown: Presentation,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Count the clicks of one day, with the same dimensions as `range`."""
    start, end = Period(day).dates(shown.timezone)
    if start != end:
        raise typer.BadParameter(f"{day} is more than one day: ask with `stats range`")
    await _answer(Day(start), str(start), selection, connection, shown, range_end)


@app.command("year")
@command
async def stats_year(
    year: Annotated[int, Argument(metavar="YEAR", min=1000, max=9998, help="The year, YYYY.")],
    selection: Selection,
    connection: Connection,
    shown: Presentation,
) -> None:
    """Count the clicks of a calendar year, by month and by each dimension; unique ones too."""
    await _answer(Year(year), str(year), selection, connection, shown)


@app.command("alltime")
@command
async def stats_alltime(selection: Selection, connection: Connection, shown: Presentation) -> None:
    """Count all clicks up to the present, by month and by each dimension; unique ones too."""
    await _answer(AllTime(), "all time", selection, connection, shown)


@app.command("country")
@command
async def stats_country(
    country: Annotated[str, Argument(metavar="CODE", help="2-letter ISO code, such as DE.")],
    period: Period,
    selection: Selection,
    connection: Connection,
    shown: Presentation,
) -> None:
    """Count the clicks from one country, by state, city and postal code."""
    start, end = period.dates(shown.timezone)
    span = f"{country.upper()}, {start} to {end}"
    await _answer(CountryGeo(country, start, end), span, selection, connection, shown)


async def _answer(
    query: Query[Statistics],
    span: str,
    selection: Selection,
    connection: Connection,
    shown: Presentation,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Request the statistics, print them and what they cost."""
    form, by, timezone = chosen(shown.form), shown.by, shown.timezone
    kind: type[Any] = GeoStats if isinstance(query, CountryGeo) else RangeStats
    if isinstance(query, Year | AllTime):
        kind = PeriodStats
    known = {"tag", *kind.DIMENSIONS.values(), *(["month"] if kind is not GeoStats else [])}
    if by is not None and by not in known:
        raise typer.BadParameter(f"--by {by} is not counted here; there are {', '.join(sorted(known))}")
    if by == "tag":
        selection.require_tags("--by tag")
    by_tag: dict[str, Any] = {}
    async with connection.session(range_end=range_end) as session:
        # Refuse an impossible query before the links of the account are listed.
        session.stats.plan(query, keys=(), timezone=timezone)
        with connection.bars() as begin:
            if by == "tag":
                names = selection.tag or (await names_of_tags(session)).values()
                each = session.stats.collect_each(
                    query, tags=names, timezone=timezone, progress=begin("counting")
                )
                by_tag = {name: found async for name, found in each}
                stats = kind.merge(by_tag.values())
            else:
                selected = await selection.selector(session, begin("checking"), dry_run=shown.dry_run)
                if selection.every:
                    # Batches are requested while the listing is read.
                    selected["keys"] = selection.links(session)
                if shown.dry_run:
                    if selection.every:
                        selected["keys"] = [link async for link in selected["keys"]]
                    plan = session.stats.plan(query, **selected, timezone=timezone)
                    print_plan(session, plan, connection.rate)
                    return
                stats = await session.stats.collect(
                    query, **selected, timezone=timezone, progress=begin("counting")
                )
    if by is None:
        if form == "table" and shown.output is None:
            draw(stats)
        else:
            print_rows(COUNTS, [*_totals(stats), *stats.rows()], form, file=shown.output)
    else:
        counts = {label: clicks for dimension, label, clicks in stats.rows() if dimension == by}
        if by == "tag":
            counts = dict(ranked({name: found.total for name, found in by_tag.items()}))
        elif by == "month" and isinstance(stats, RangeStats):
            counts = months_of(stats.clicks)
        if form == "table" and shown.output is None:
            draw_labels(counts, stats.total)
        else:
            table = Table((Column(by), Column("clicks", "int"), Column("percent", "float")))
            rows = [(label, clicks, percent(clicks, stats.total)) for label, clicks in counts.items()]
            print_rows(table, rows, form, file=shown.output)
    for caveat in _caveats(stats, by):
        connection.say(caveat)
    connection.say(f"{span}: {many(stats.total, 'click')}; {connection.cost(session)}")


def _totals(stats: Statistics) -> Iterator[Row]:
    yield "total", "", stats.total
    if isinstance(stats, PeriodStats):
        yield "unique", "", stats.clicks_unique
        yield "repeated", "", stats.clicks_repeated


def _caveats(stats: Statistics, by: Dimension | None) -> Iterator[str]:
    """Yield what is not exact of the figures that are shown, and how."""
    if isinstance(stats, RangeStats) and not stats.days_complete:
        yield "the service left out the days of some windows: the days are incomplete, the total is complete"
    if isinstance(stats, RangeStats) and not stats.reconciles:
        yield "the days of some windows do not add up to the total that the service gave for them"
    if by is None and isinstance(stats, PeriodStats) and not stats.unique_is_exact:
        yield "several answers were added up: unique clicks are an upper bound, repeated ones a lower bound"
    if isinstance(stats, GeoStats) and not stats.places_are_exact:
        yield "some answers put places under Other: the named ones are lower bounds, the total is exact"
