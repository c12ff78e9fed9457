"""The dimensions that clicks are counted by: one, or each tag, day, week or month by the labels of another.

The service counts each dimension alone. A tag has statistics of its own, and so have the days of each week,
which take requests of their own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

from .. import (
    AsyncSession,
    CountryGeo,
    DateRange,
    GeoStats,
    InvalidRequestError,
    PeriodStats,
    Query,
    RangeStats,
    Statistics,
    Year,
)
from .._by_tag import ByTag
from .._internal import days, did_you_mean, many, results_of
from ..tables import Column, Row, Table
from .comparison import Clicks, Comparison, Counted, dates_of, sections_of
from .other_words import meant_by
from .output import OutputOptions, change, label_of, labels, percent, told_change
from .run import Run
from .selection import ResolvedPeriod, report_overlap

#: Dimensions that statistics of one span of days have by day, and those whose labels are spans of days.
OF_DAYS, SPANS = ("day", "weekday", "week", "month"), ("day", "week", "month")
#: What else than its maps statistics are shown by.
MORE: dict[Any, set[str]] = {
    RangeStats: {"weekday", "week", "month", "hour", "weekday-hour"},
    PeriodStats: {"month"},
    GeoStats: {*SPANS},
}
HOURLY = ("hour", "weekday-hour")
#: All that a range of days is counted by.
OF_RANGES = {"tag", *RangeStats.DIMENSIONS.values(), *MORE[RangeStats]}
COMPARED = Column("clicks_before", "int"), Column("change_percent", "float")
#: So many days, weeks or months are requested one by one.
MOST_SPANS = 100


class Dimensions(NamedTuple):
    """What clicks are counted by: the labels of `by`, or each of `group` by these; None for neither."""

    group: str | None = None
    by: str | None = None

    @property
    def names(self) -> list[str]:
        """Those that there are, the group first."""
        return [name for name in self if name is not None]

    @classmethod
    def parse(cls, given: Iterable[str] | None) -> "Dimensions":
        """Return the dimensions of --by, as `week,tag`; raises InvalidRequestError for impossible ones."""
        names = [name for text in given or () for name in re.split(r"[\s,+]+", text.strip())]
        if len(names) < 2:
            return cls(None, *names)
        if "" in names:
            raise InvalidRequestError(f"give two dimensions as --by week,tag, without a blank: {names}")
        # The tag, or else what is longest, so that its rows stand together.
        group = next((name for name in ("tag", *reversed(SPANS)) if name in names), "")
        others = [name for name in names if name != group]
        if not group or len(names) != 2 or len(others) != 1 or (others[0] in SPANS and group != "tag"):
            told = "of two dimensions one is tag, day, week or month, as --by week,tag"
            raise InvalidRequestError(f"--by {','.join(names)}: {told}; the service counts others alone")
        if others[0] == "weekday" and group != "tag":
            raise InvalidRequestError(f"weekdays of each {group} are not counted: --by day has every day")
        return cls(group, others[0])


class CountedEach(NamedTuple):
    """Statistics of all, and the clicks of each tag, or of each span of days, by labels."""

    of_all: Counted
    each: Mapping[str, Counted]


async def count_tags(
    run: Run,
    session: AsyncSession,
    query: Query[Statistics],
    by_tag: ByTag,
    by: str | None,
    *,
    is_over: bool,
    **options: Any,
) -> CountedEach:
    """Count the clicks of each tag and of the links without one; with `by` those of its labels."""

    def counts_of(stats: Statistics) -> Mapping[Any, int]:
        if isinstance(stats, RangeStats) and by in OF_DAYS:
            return stats.clicks
        return {"": stats.total} if by is None else labels(stats, by)

    total, clicks, too_many = await by_tag.count(session, query, by=counts_of, **options)
    report_overlap(run, too_many, is_over=is_over)
    if by is None:
        return CountedEach(Counted(total, {name: counts[""] for name, counts in clicks.items()}), {})
    if isinstance(total, RangeStats) and by in OF_DAYS:
        each = {
            name: Counted(RangeStats(total_clicks=sum(by_day.values()), clicks=by_day))
            for name, by_day in clicks.items()
        }
    else:
        # In the order that labels have of all.
        order = [*dict.fromkeys(label for counts in (counts_of(total), *clicks.values()) for label in counts)]
        each = {
            name: Counted(total, {label: counts[label] for label in order if label in counts})
            for name, counts in clicks.items()
        }
    return CountedEach(Counted(total), each)


def spans_of(span: DateRange, unit: str) -> dict[str, DateRange]:
    """Return the days, weeks or months of a span; raises InvalidRequestError for too many."""
    (start, end), (first, last) = span.bounds, dates_of(span)
    found: dict[str, DateRange] = {}
    for label, group in groupby(days(first, last), lambda day: label_of(day, unit)):
        of_label = list(group)
        begins, ends = of_label[0], of_label[-1]
        found[label] = DateRange(start if begins == first else begins, end if ends == last else ends)
    if len(found) > MOST_SPANS:
        longer = ", or --by month" * (unit != "month")
        told = f"each {unit} takes requests of its own, and these are {len(found):,} {unit}s"
        raise InvalidRequestError(f"{told}, of at most {MOST_SPANS}: give fewer days{longer}")
    return found


async def count_spans(
    run: Run,
    session: AsyncSession,
    query: Query[Statistics],
    resolved: ResolvedPeriod,
    unit: str,
    *,
    progress: Any,
    **of: Any,
) -> CountedEach:
    """Count the days, weeks or months of a span one by one, after the number of requests is printed."""
    spans = spans_of(resolved.so_far, unit)
    queries: dict[str, Query[Statistics]] = dict(spans)
    if isinstance(query, CountryGeo):
        queries = {label: CountryGeo(query.iso_code, *dates_of(each)) for label, each in spans.items()}
    requests = sum([len(session.stats.plan(each, **of)) for each in queries.values()])
    run.say(f"each of {many(len(spans), unit)} is requested by itself: {many(requests, 'request')}")

    async def count(query: Query[Statistics]) -> Statistics:
        return await session.stats.collect(query, **of)

    found = await results_of(count, queries.values(), progress)
    each = dict(zip(queries, map(Counted, found), strict=True))
    total = found[0].merge(found)
    return CountedEach(Counted(total, {label: stats.total for label, (stats, _) in each.items()}), each)


def _cells_of(
    now: CountedEach,
    before: CountedEach | None,
    by: str,
    resolved: ResolvedPeriod | None,
    query: Query[Statistics],
) -> Iterator[tuple[str, str, Clicks]]:
    """Yield each group, each label of it, and their clicks; zeros only of days, weeks and months."""
    nothing = Counted(RangeStats(), {})
    for name, counted in now.each.items():
        comparison = None
        if before is not None and resolved is not None:
            comparison = Comparison(before.each.get(name, nothing), resolved, query)
        sections = sections_of(counted, by, comparison, resolved, is_drawn=False)
        for label, clicks in sections[by].items():
            if by in OF_DAYS or any(clicks):
                yield name, label, clicks


def unit_of(
    dimensions: Dimensions, query: Query[Statistics], empty: Statistics, *, is_compared: bool
) -> str | None:
    """Return of which days, weeks or months each is requested by itself, None for none.

    Raises InvalidRequestError for dimensions that are not counted.
    """
    group, by = dimensions
    known = {"tag", *empty.DIMENSIONS.values(), *MORE[type(empty)]}
    for name in dimensions.names:
        if name not in known:
            told = meant_by(f"--by {name}") or f"there are {', '.join(sorted(known))}"
            if isinstance(query, Year) and name in MORE[RangeStats]:
                told = f"`slashtag stats range {query.year} --by {','.join(dimensions.names)}` counts it"
            raise InvalidRequestError(f"--by {name} is not counted here{did_you_mean(name, known)}; {told}")
    if group == "tag" and (by in HOURLY or isinstance(query, CountryGeo)):
        told = f"--by {by} is not counted for each tag"
        raise InvalidRequestError(f"{told}: give --tag NAME, or --by tag alone")
    if isinstance(query, CountryGeo) and by in SPANS:
        group = by
    if group not in SPANS:
        return None
    if by in HOURLY:
        raise InvalidRequestError(f"{by}s are not counted for each {group}: give --by {by} alone")
    if not isinstance(query, DateRange | CountryGeo):
        what = f"`slashtag stats range {query.year}`" if isinstance(query, Year) else "`slashtag stats 2y`"
        raise InvalidRequestError(f"each {group} is counted of a range of days: {what} with this --by")
    if is_compared:
        told = f"--compare goes without --by {','.join(dimensions.names)} here"
        raise InvalidRequestError(f"{told}: count both spans, and give the two files to `slashtag diff`")
    return group


def show_cells(
    dimensions: Dimensions,
    counted: Sequence[CountedEach],
    query: Query[Statistics],
    output: OutputOptions,
    comparison: Comparison | None,
    resolved: ResolvedPeriod | None,
    title: str,
) -> None:
    """Print the clicks by two dimensions, a row for each label of both, with its share of the group."""
    now, before, is_drawn = counted[0], None, output.form == "table"
    group, by = dimensions.names
    if comparison is not None:
        before = counted[1]
        # What has to be known of the two spans follows from all clicks.
        sections_of(now.of_all, by, comparison, resolved, is_drawn=False)
    columns = *map(column_of, (group, by)), Column("clicks", "int"), Column("percent", "float")
    rows: list[Row] = []
    cells, whole = list(_cells_of(now, before, by, resolved, query)), Counter[str]()
    for name, _, (clicks, _) in cells:
        whole[name] += clicks
    for name, label, (clicks, earlier) in cells:
        row: Row = (cell_of(group, name), cell_of(by, label), clicks, percent(clicks, whole[name]))
        if before is not None:
            row += (earlier, told_change(clicks, earlier) if is_drawn else change(clicks, earlier))
        rows.append(row)
    output.print(Table((*columns, *(COMPARED if before is not None else ())), title), rows)


def column_of(dimension: str) -> Column:
    """Return the column of the labels of a dimension."""
    return Column(dimension.replace("-", "_"), "date" if dimension in ("day", "week") else "text")


def cell_of(dimension: str, label: str) -> str | date:
    """Return what the column of a dimension has for a label."""
    return date.fromisoformat(label) if dimension in ("day", "week") else label
