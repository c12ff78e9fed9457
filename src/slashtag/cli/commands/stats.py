"""`slashtag stats`: click statistics of any number of links over any span."""

from dataclasses import dataclass
from typing import Any

from typer import Option

from ... import AllTime, AsyncSession, DateRange, InvalidRequestError, Query, Year
from ..._wording import many
from ...counts import percent
from ..asking import OF_YEARS, By, Question, check, query_of
from ..output import OutputOptions, table_of
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, ResolvedPeriod, Selected, SelectionOptions, note_of_shared
from ..stats_table import StatsTable


@dataclass
class StatsOptions(OutputOptions):
    """Options of how statistics are counted and output."""

    by: str | None = Option(
        None,
        metavar="A[,B]",
        help="device, browser, platform, country, referrer, tag, day, weekday, week, month or hour; of years "
        "and alltime language, timezone; of a country state, city, postalcode. Two as week,tag: one of them "
        "is tag, day, week or month.",
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
    zone, words = selection.timezone, period.words or []
    _refuse_old_forms(words)
    is_alltime = words == ["alltime"]
    country = output.country
    by = By.parse(output.by, alltime=is_alltime, country=country is not None)
    resolved = None
    if not is_alltime:
        resolved = period.resolve(zone, output.compare)
    elif output.compare or country:
        raise InvalidRequestError("--compare and --country go with days, not with alltime")
    if output.compare and by.group not in ("", "tag"):
        told = f"--compare goes without --by {','.join(by.names)}"
        raise InvalidRequestError(f"{told}: count both spans, and give the two files to `slashtag diff`")
    unit = "tags" if "tag" in by else f"{by.group}s" if by.group else "requests"
    async with run.session() as session:
        queries = _queries(session, resolved, by, country, zone, is_compared=output.compare is not None)
        for query in queries:
            await check(session, query, zone, by)
        with run.bars() as start_bar:
            reading = start_bar("reading", "links")
            selected = await selection.resolve(run, session, reading)
            if selection.all_links and "tag" not in by:
                # Once, however many questions follow.
                selected = Selected(listed=await session.urls.list(progress=reading).to_list())
            question = Question(session, run, by, selected, selection, start_bar("counting", unit))
            counted = [await question.answer(query) for query in queries]
        if selected.shared and not (selection.untagged and by.label != "hour"):
            run.warn(note_of_shared(selected.shared), "shared: ")
        for stats, _ in counted:
            run.note_statistics(stats, by.names)
        text, days = ("all time", "alltime") if resolved is None else (resolved.text, resolved.days)
        against = resolved.spans.before if resolved is not None and output.compare else ""
        about = run.about(session, span=days, timezone=zone or "+00:00", compared_with=against)
    table = StatsTable(by, counted, resolved)
    what = ", ".join(filter(None, [country, *by.names])) or "stats"
    title = f"{what} {days}" + f", compared with {against}" * bool(against)
    rows = table.rows(is_drawn=output.form == "table")
    output.print(table_of(table.names, title), rows, table.widths, about)
    for note in table.notes():
        run.say(note)
    total = counted[0].total.total
    if against and resolved is not None:
        before = counted[1].total.total
        changed = f", {percent(total - before, before):+.1f} %" * bool(before)
        against = f", compared with {resolved.text_before}: {many(before, 'click')}{changed}"
    text = f"{country}, {text}" if country else text
    run.say(f"{text} ({selection.zone}): {many(total, 'click')}{against}; {output.written}{run.cost()}")
    if output.file is not None:
        run.say(str(about))
    if not selection.untagged and (advice := _advice(selected, by)):
        run.say(advice)


def _queries(
    session: AsyncSession,
    resolved: ResolvedPeriod | None,
    by: By,
    country: str | None,
    zone: str | None,
    *,
    is_compared: bool,
) -> list[Query[Any]]:
    """Return the query of a span, and of the one it is compared with; both of the same kind."""
    if resolved is None:
        return [AllTime()]
    spans = [resolved.so_far, resolved.before][: 1 + is_compared]
    found: list[Query[Any]] = [query_of(session, span, zone, by, country) for span in spans]
    if any(isinstance(each, DateRange) for each in found):
        found = [*spans]
    if by.label in OF_YEARS and not all(isinstance(each, Year) for each in found):
        raise InvalidRequestError(f"--by {by.label}: give alltime or a whole year, in a zone of one offset")
    return found


def _refuse_old_forms(words: list[str]) -> None:
    """Raise InvalidRequestError for words that were commands, and say what to type."""
    first, *others = words or [""]
    span = "..".join(others) or "last-month"
    if first in ("range", "year"):
        raise InvalidRequestError(f"give only the days: slashtag stats {span}")
    if first == "country":
        span = "..".join(others[1:]) or "last-month"
        code = others[0] if others else "GB"
        raise InvalidRequestError(f"give the country as an option: slashtag stats {span} --country {code}")


def _advice(selected: Selected, by: By) -> str:
    """Return how to count each of several tags or links, which were counted together."""
    if selected.tags and len(selected.tags) > 1 and "tag" not in by:
        told = f"--by {','.join([*by.names[-1:], 'tag'])} counts each"
        return f"the {len(selected.tags)} tags are counted together; {told}"
    if selected.keys and len(selected.keys) > 1 and "tag" not in by:
        return f"the {len(selected.keys):,} links are counted together; `slashtag top` counts each"
    return ""
