"""`slashtag stats`: click statistics of any number of links over any span."""

from dataclasses import dataclass
from typing import Any

from typer import Option

from ... import AllTime, DateRange, GeoStats, InvalidRequestError, Query, RangeStats
from ..._wording import many
from ...counts import change
from ...export import hourly_clicks
from ..asking import OF_YEARS, Breakdown, Question, queries_of
from ..output import OutputOptions, table_of
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, Selected, SelectionOptions, in_words, warn_of_shared
from ..stats_table import StatsTable


@dataclass
class StatsOptions(OutputOptions):
    """Options of how statistics are counted and output."""

    by: str | None = Option(
        None,
        metavar="A[,B]",
        help=f"{', '.join(RangeStats.SUMS)}, tag, day, weekday, week, month or hour; of years and alltime "
        f"{', '.join(OF_YEARS)}; of a country {', '.join(GeoStats.SUMS)}. Two as week,tag: one of them is "
        "tag, day, week or month.",
    )
    compare: str | None = COMPARE
    country: str | None = Option(
        None, metavar="CC", help="Only clicks from this country, by state, city and postal code."
    )


@command
async def stats(period: PeriodArguments, selection: SelectionOptions, run: Run, output: StatsOptions) -> None:
    """Count the clicks of a span, or of alltime: in all, by day and by each dimension, or --by some.

    With --compare each row says what it is compared with; what is left over has a row without a label.
    """
    zone, country, compare = selection.timezone, output.country, output.compare
    is_alltime = period.words == ["alltime"]
    by = Breakdown.parse(output.by, "alltime" if is_alltime else "a country" if country else "days")
    if is_alltime and (compare or country):
        raise InvalidRequestError("--compare and --country go with days, not with alltime")
    if compare and by.group not in ("", "tag"):
        raise InvalidRequestError("--compare goes with one dimension, or with tag and another")
    resolved = None if is_alltime else period.resolve(zone, compare)
    days = "alltime" if resolved is None else resolved.days
    against = resolved.spans.before if resolved is not None and compare else ""
    async with run.session() as session:
        queries: list[Query[Any]] = [AllTime()]
        if resolved is not None:
            spans = [resolved.so_far, resolved.before][: 1 + bool(compare)]
            queries = queries_of(session, spans, zone, by, country)
        for query in queries:
            # What cannot be asked is refused before anything is sent.
            session.stats.plan(query, keys=(), timezone=zone)
            if by.dimension == "hour" and isinstance(query, DateRange):
                await hourly_clicks(session, *query.bounds, keys=(), timezone=zone)
        with run.bars() as start_bar:
            reading = start_bar("reading", "links")
            selected = await selection.resolve(run, session, reading)
            if selection.all_links and "tag" not in by:
                # Once, however many questions follow.
                selected = Selected(listed=await session.urls.list(progress=reading).to_list())
            question = Question(session, by, selected, selection, start_bar("counting", "requests"))
            counted = [await question.answer(query) for query in queries]
        if not (selection.untagged and by.dimension != "hour"):
            warn_of_shared(run, selected.shared)
        for found, _ in counted:
            run.note_statistics(found, by.names)
        said = selection.told
        if country:
            said["selected"] = f"{said['selected']} from {country.upper()}".strip()
        about = run.about(session, span=days, compared_with=against, **said)
    table = StatsTable(by, counted, resolved)
    rows = table.rows(is_drawn=output.form == "table")
    drawn = [name for name in table.names if name != "compared_with"]
    written = output.print(table_of(table.names), rows, drawn, about)
    for note in table.notes():
        run.say(note)
    total, before = counted[0].total.total, counted[-1].total.total
    told = "alltime" if resolved is None else f"{country or ''} {in_words(resolved, zone)}".strip()
    told += f": {many(total, 'click')}"
    if against:
        changed = change(total, before)
        told += f", compared with {against}: {many(before, 'click')}"
        told += "" if changed is None else f", {changed:+.1f} %"
    run.say(f"{told}; {written}{run.cost()}")
