"""`slashtag stats`: click statistics of any number of links over any span."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate, takewhile
from operator import itemgetter
from typing import Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

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
from ..._internal import did_you_mean, find_country, is_span, many
from ..._shared_slashtags import Links
from ...export import hourly_clicks, names_of_tags
from ...tables import Column, Row, Table
from ..comparison import Clicks, Comparison, Counted, dates_of, sections_of
from ..dimensions import (
    COMPARED,
    HOURLY,
    OF_DAYS,
    CountedEach,
    Dimensions,
    cell_of,
    column_of,
    count_spans,
    count_tags,
    show_cells,
    spans_of,
    unit_of,
)
from ..output import (
    OutputOptions,
    change,
    draw,
    percent,
    told_change,
    weekday,
)
from ..run import Run, command
from ..selection import (
    COMPARE,
    PeriodArguments,
    ResolvedPeriod,
    Selected,
    SelectionOptions,
    query_of,
    read_by_tag,
)


class SpanGroup(TyperGroup):
    """Commands of which `range` may be left out before days and options: `stats last-month`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Options before the days are those of `range`.
        self.context_settings["ignore_unknown_options"] = True

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names, or `range` where that begins a span."""
        words = list(takewhile(lambda word: not word.startswith("-"), args))
        if any(map(is_span, accumulate(words, "{} {}".format))):
            return super().resolve_command(ctx, ["range", *args])
        if args and args[0] not in self.commands:
            meant = did_you_mean(words[0], self.commands) if words else ""
            # Words before a span are told by the command.
            has_span = any(is_span(" ".join(words[n:])) for n in range(1, len(words)))
            if words and (meant or not has_span):
                try:
                    DateRange.parse(words[0])
                except InvalidRequestError as error:
                    ctx.fail(f"no command{meant}, and {error}")
            args = ["range", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=SpanGroup)

COUNTS = Column("dimension"), Column("label"), Column("clicks", "int")
#: So many weekdays or hours with most clicks are named in the summary.
MOST_BUSY = 3


@dataclass
class StatsOptions(OutputOptions):
    """Options of how statistics are requested and output."""

    by: list[str] | None = Option(
        None,
        metavar="DIMENSION",
        help="Only one dimension, with every label, or two as week,tag. There are device, browser, platform, "
        "country, referrer; tag counts every selected tag alone, and the links without one; of days also "
        "day, weekday, week (named by its Monday), month, and hour or weekday-hour (hour of the week), which "
        "take a request for each hour, of up to 32 days, and batch of links; of a year and of all time also "
        "month, language and timezone; of a country state, city and postalcode. Of two, one is tag; or it is "
        "day, week or month, each of which takes requests of its own, as it does of a country; percent is "
        "then of the clicks of its tag, or of its day, week or month.",
    )
    compare: str | None = COMPARE

    def __post_init__(self) -> None:
        super().__post_init__()
        # Before the days, among which the second dimension stands after `week, tag`.
        self.dimensions = Dimensions.parse(self.by)


@app.command("range")
@command
async def stats_range(
    period: PeriodArguments, selection: SelectionOptions, run: Run, output: StatsOptions
) -> None:
    """Count the clicks of a range of days: by day, device, browser, platform, country and referrer."""
    resolved = period.resolve(selection.timezone, output.compare)
    await _answer(resolved.so_far, resolved.text, selection, run, output, resolved)


@app.command("year")
@command
async def stats_year(
    selection: SelectionOptions,
    run: Run,
    output: StatsOptions,
    year: int = Argument(metavar="YEAR", min=1000, max=9998, help="The year, YYYY."),
) -> None:
    """Count the clicks of a calendar year, by month and by each dimension; unique ones too."""
    resolved = PeriodArguments([f"{year}"]).resolve(selection.timezone, output.compare)
    await _answer(Year(year), resolved.text, selection, run, output, resolved)


@app.command("alltime")
@command
async def stats_alltime(selection: SelectionOptions, run: Run, output: StatsOptions) -> None:
    """Count all clicks up to the present, by month and by each dimension; unique ones too."""
    if output.compare is not None:
        raise InvalidRequestError("--compare goes with days: there is nothing before all time")
    await _answer(AllTime(), "all time", selection, run, output)


@app.command("country")
@command
async def stats_country(
    *,
    words: list[str] | None = Argument(
        None,
        metavar="CODE SPAN|CODE START END",
        help="A country, such as DE or Germany, and days as of `stats range`, or the days first.",
    ),
    selection: SelectionOptions,
    run: Run,
    output: StatsOptions,
) -> None:
    """Count the clicks from one country, by state, city and postal code."""
    country, span = _country_and_span(words or [])
    resolved = PeriodArguments(span).resolve(selection.timezone, output.compare)
    query = CountryGeo(country, *resolved.whole.bounds)
    await _answer(query, f"{query.iso_code}, {resolved.text}", selection, run, output, resolved)


def _country_and_span(words: list[str]) -> tuple[str, list[str]]:
    """Return the country that some words begin or end with, and the others, which are days.

    Where no country is named, what stands beside the days, which `CountryGeo` refuses.
    """
    cuts = [(words[:n], words[n:]) for n in range(len(words), 0, -1)]
    cuts += [(words[n:], words[:n]) for n in range(1, len(words))]
    for of_country, others in cuts:
        if code := find_country(" ".join(of_country)):
            return code, others
    for of_country, others in cuts:
        with suppress(InvalidRequestError):
            DateRange.parse(" ".join(others))
            return " ".join(of_country), others
    raise InvalidRequestError("give a country and days: slashtag stats country GB last-month")


async def _answer(
    query: Query[Statistics],
    text: str,
    selection: SelectionOptions,
    run: Run,
    output: StatsOptions,
    resolved: ResolvedPeriod | None = None,
) -> None:
    """Request the statistics, and those they are compared with; print them and what they cost."""
    dimensions, timezone = output.dimensions, selection.timezone
    by, is_by_tag = dimensions.by, "tag" in dimensions.names
    async with run.session() as session:
        queries = [query]
        if resolved is not None and output.compare is not None:
            queries.append(_query_before(session, query, resolved, timezone))
        # Refuse an impossible query before anything is sent.
        try:
            empty = await session.stats.collect(query, keys=(), timezone=timezone)
        except InvalidRequestError as error:
            if isinstance(query, Year):
                error.add_note(f"`slashtag stats range {query.year}` counts its days in this zone")
            raise
        unit = unit_of(dimensions, query, empty, is_compared=len(queries) > 1)
        for each in queries:
            await session.stats.collect(each, keys=(), timezone=timezone)
            if by in HOURLY and isinstance(each, DateRange):
                await hourly_clicks(session, *each.bounds, keys=(), timezone=timezone)
        if unit is not None and resolved is not None:
            spans_of(resolved.so_far, unit)
        with run.bars() as start_bar:
            progress = start_bar("reading", "links")
            selected = await selection.resolve(run, session, progress, lists_all=is_by_tag)
            of: dict[str, Any] = {"keys": selected.keys, "tags": selected.tags}
            by_tag, links = None, Links()
            if is_by_tag:
                by_tag = await read_by_tag(run, session, selected, progress)
                links = by_tag.links
            elif selected == Selected():
                links = await Links.read(session, progress=progress)
                of["keys"] = links.keys
            for link in links.uncountable:
                run.warn(f"statistics cannot be requested for {link.slashtag!r}", "left out: ")
            progress = start_bar("counting", "tags" if is_by_tag else f"{unit}s" if unit else "requests")
            options: dict[str, Any] = {"timezone": timezone, "progress": progress}
            is_over, counted = resolved is not None and resolved.is_over, list[CountedEach]()
            try:
                for each in queries:
                    if by_tag is not None:
                        label = None if by == "tag" else by
                        counted.append(
                            await count_tags(run, session, each, by_tag, label, is_over=is_over, **options)
                        )
                    elif unit is not None and resolved is not None:
                        counted.append(await count_spans(run, session, each, resolved, unit, **of, **options))
                    else:
                        counted.append(CountedEach(await _count(session, each, by, **of, **options), {}))
            except UnknownTagError:
                # Says which it is, and whether one has a name like it.
                await names_of_tags(session, selection.tag or ())
                raise
    now, comparison = counted[0], None
    if resolved is not None and output.compare is not None:
        comparison = Comparison(counted[1].of_all, resolved, query)
    against = f", compared with {comparison.text}" if comparison is not None else ""
    title = f"{', '.join(dimensions.names) or 'stats'} {text}{against}".replace(" to ", "..")
    busiest = ""
    if dimensions.group is None:
        busiest = _show(now.of_all, by, output, comparison, resolved, title)
    else:
        show_cells(dimensions, counted, query, output, comparison, resolved, title)
        run.say(f"percent: of the clicks of its {dimensions.group}")
    for caveat in dict.fromkeys(caveat for (stats, _), _ in counted for caveat in _caveats(stats, by)):
        run.say(caveat)
    span = None if resolved is None else dates_of(resolved.so_far)
    # A week is from 0, Monday, to 6, Sunday.
    if span is not None and "week" in dimensions.names and (span[0].weekday(), span[1].weekday()) != (0, 6):
        run.say("the span begins or ends within a week: the first or last one is not whole")
    for (stats, _), _ in counted:
        shows_days = isinstance(stats, RangeStats) and by in (None, *OF_DAYS)
        if not stats.reconciles or (shows_days and not stats.complete):
            run.mark_incomplete()
        run.report_cut(stats, by)
    for caveat in comparison.caveats(by) if comparison is not None else ():
        run.say(caveat)
    if busiest:
        run.say(f"busiest: {busiest}")
    total = now.of_all.stats.total
    if comparison is not None:
        before = comparison.before.stats.total
        changed = f", {told_change(total, before)} %" * bool(before)
        against = f"{against}: {many(before, 'click')}{changed}"
    run.say(f"{text} ({selection.zone}): {many(total, 'click')}{against}; {output.written}{run.cost()}")
    # The places of a country are not counted for each tag.
    names = [] if isinstance(query, CountryGeo) else dimensions.names
    if not is_by_tag and (advice := selection.advice_on_each(names)):
        run.say(advice)


def _query_before(
    session: AsyncSession, query: Query[Statistics], resolved: ResolvedPeriod, timezone: str | None
) -> Query[Statistics]:
    """Return what a query is compared with; of a country by whole days."""
    if isinstance(query, CountryGeo):
        return CountryGeo(query.iso_code, *dates_of(resolved.before))
    return query_of(session, resolved.before, timezone) if isinstance(query, Year) else resolved.before


async def _count(session: AsyncSession, query: Query[Statistics], by: str | None, **of: Any) -> Counted:
    """Return statistics, and the clicks of the hours, where these are asked for."""
    if by not in HOURLY or not isinstance(query, DateRange):
        return Counted(await session.stats.collect(query, **of))
    hours = await hourly_clicks(session, *query.bounds, **of)
    counts = {hour.isoformat(timespec="minutes"): clicks for hour, clicks in hours.items()}
    if by == "weekday-hour":
        of_week = Counter[tuple[int, str]]()
        for hour, clicks in hours.items():
            of_week[hour.weekday(), f"{weekday(hour)} {hour:%H}:00"] += clicks
        counts = {label: of_week[n, label] for n, label in sorted(of_week)}
    days_of = dict.fromkeys(sorted({hour.date() for hour in hours}), 0)
    return Counted(RangeStats(total_clicks=sum(hours.values()), clicks=days_of), counts)


def _show(
    now: Counted,
    by: str | None,
    output: StatsOptions,
    comparison: Comparison | None,
    resolved: ResolvedPeriod | None,
    title: str,
) -> str:
    """Print statistics, or with `by` the clicks of its labels; return the busiest weekdays or hours."""
    stats, before = now.stats, None if comparison is None else comparison.before.stats
    sections = sections_of(now, by, comparison, resolved, is_drawn=output.form == "table")
    total: Clicks = (stats.total, None if before is None else before.total)
    # Of how many days a weekday, or an hour of it, has the clicks.
    of_days = Counter(map(weekday, stats.clicks)) if isinstance(stats, RangeStats) else Counter[str]()

    def per_day(label: str, clicks: int) -> float | None:
        # None for a weekday that only the other span has.
        count = of_days[label.partition(" ")[0]]
        return round(clicks / count, 1) if count else None

    def compared(clicks: int, earlier: int | None) -> Row:
        return () if comparison is None else (earlier, change(clicks, earlier))

    has_days = by in ("weekday", "weekday-hour")
    busiest = ""
    if by == "weekday" or by in HOURLY:
        # Weekdays by their clicks a day, as a month has five of some.
        key: Callable[[tuple[str, int]], float] = itemgetter(1)
        if has_days:
            key = lambda item: item[1] / of_days[item[0].partition(" ")[0]]  # noqa: E731
        best = nlargest(MOST_BUSY, ((label, n) for label, (n, _) in sections[by].items() if n), key=key)
        busiest = ", ".join(f"{label} ({n:,})" for label, n in best)
    if output.form == "table":
        _draw(stats, {**sections, "total": {"": total}}, per_day if has_days else None, comparison)
        return busiest
    columns = COMPARED if comparison is not None else ()
    if by is None:
        totals: dict[str, Clicks] = {"total": total}
        for name in ("unique", "repeated") if isinstance(stats, PeriodStats) else ():
            totals[name] = getattr(stats, f"clicks_{name}"), getattr(before, f"clicks_{name}", None)
        of_all = {name: {"": clicks} for name, clicks in totals.items()} | sections
        output.print(
            Table((*COUNTS, *columns), title),
            (
                (dimension, label, clicks, *compared(clicks, earlier))
                for dimension, of in of_all.items()
                for label, (clicks, earlier) in of.items()
            ),
        )
        return busiest
    first = column_of(by), Column("clicks", "int")
    days = (Column("clicks_per_day", "float"),) * has_days
    output.print(
        Table((*first, Column("percent", "float"), *days, *columns), title),
        (
            (
                cell_of(by, label),
                clicks,
                percent(clicks, stats.total),
                *((per_day(label, clicks),) if has_days else ()),
                *compared(clicks, earlier),
            )
            for label, (clicks, earlier) in sections[by].items()
        ),
    )
    return busiest


def _draw(
    stats: Statistics,
    clicks: Mapping[str, Mapping[str, Clicks]],
    per_day: Callable[[str, int], float | None] | None,
    comparison: Comparison | None,
) -> None:
    """Draw the clicks of all dimensions, and in further columns those a day and before."""

    def told_per_day(dimension: str, labels: Iterable[str]) -> str:
        # Each label has a line of its own, and the total has none.
        counts = [per_day(label, clicks[dimension][label][0]) for label in labels if label and per_day]
        return "".join(f"{count:,}" for count in counts if count is not None)

    def added(dimension: str, labels: Iterable[str]) -> Clicks:
        found = [clicks[dimension][label] for label in labels]
        earlier = [n for _, n in found if n is not None]
        return sum(n for n, _ in found), sum(earlier) if len(earlier) == len(found) else None

    def told_before(dimension: str, labels: Iterable[str]) -> str:
        earlier = added(dimension, labels)[1]
        return "" if earlier is None else f"{earlier:,}"

    def told_by_how_much(dimension: str, labels: Iterable[str]) -> str:
        return told_change(*added(dimension, labels))

    more: dict[str, Callable[[str, Iterable[str]], str]] = {}
    if per_day is not None:
        more["a day"] = told_per_day
    if comparison is not None:
        more |= {"before": told_before, "change %": told_by_how_much}
    draw(
        stats,
        {name: {label: n for label, (n, _) in of.items()} for name, of in clicks.items() if name != "total"},
        more,
    )


def _caveats(stats: Statistics, by: str | None) -> Iterator[str]:
    """Yield what is not exact of the figures that are shown, and how."""
    if isinstance(stats, RangeStats) and not stats.days_complete:
        yield "the service left out the days of some windows: the days are incomplete, the total is complete"
    if not stats.reconciles:
        yield "some figures do not add up to the totals that the service gave"
    if by is None and isinstance(stats, PeriodStats) and not stats.unique_is_exact:
        yield "several answers were added up: unique clicks are an upper bound, repeated ones a lower bound"
    if isinstance(stats, GeoStats) and not stats.places_are_exact:
        yield "some answers put places under Other: the named ones are lower bounds, the total is exact"
