"""One loop for loads and audits: what a table holds is compared with what the service counts.

| Months | What is asked about a hundred links at once |
|---|---|
| that of yesterday, and today's | their days |
| a first month without its 1st, and those in which the offset of the zone changes | their days |
| all others | the sum of each month, by all-time statistics |

In a month in which a hundred differ they are asked for one by one (packed search), and those whose days or
labels differ are yielded. So are, without such a question, new and renamed links, and those with other hits
than at the last load, in the last months. An answer with fewer clicks than are held is asked for once more.
A comparison needs no memory: whatever went wrong before is a difference now. What cancels out among a hundred
links differs in a later comparison, whose hundreds are others.
"""

import logging
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, timedelta, timezone, tzinfo
from functools import partial
from typing import Any, NamedTuple

from .. import AllTime, AsyncSession, DateRange, Failure, OnError, Progress
from .._internal import run_workers, windows
from ._tables import BY_DIMENSION, Span
from ._warehouse import Warehouse

log = logging.getLogger("slashtag")
DAY = timedelta(days=1)
#: Links in a request; and of those of which some surely differ, as all are asked for one by one then.
HUNDRED, FEW = 100, 25
#: Requests for a small account, so that links whose faults cancel out are not always in the same one.
LEAST = 6
#: Links that are asked for one by one, and whose rows are read, at once.
MANY = 5_000
#: Label of clicks for which the service gives none: the labels of a dimension add up to all clicks.
NO_LABEL = "(not given)"

Names = Sequence[str]
#: Clicks by table and what a row has between its name and its clicks, which is a day, or the first one of a
#: month, a dimension and a label; or sums by day, or by the first day of months.
Clicks = Counter[Any]


class Series(NamedTuple):
    """The names of a table, those with the most hits first, and what is known of them.

    `changed` ones have no rows yet, as they are those of other links than at the last load; `clicked` ones,
    those among them, have other hits than then, and `moved` ones may have other days where sums are equal.
    Rows of `gone` names are not compared; those of all other names are differences.
    """

    table: str
    names: Names
    changed: Set[str] = frozenset()
    clicked: Set[str] = frozenset()
    moved: Set[str] = frozenset()
    gone: Set[str] = frozenset()


class Found(NamedTuple):
    """A name that differs in a month: all that is held, and counted."""

    name: str
    held: Clicks
    counted: Clicks

    @property
    def cells(self) -> list[Any]:
        """The cells that differ."""
        return _unlike(self.held, self.counted)


class Question(NamedTuple):
    """What is asked about many names at once, and the months that the answer is about."""

    query: DateRange | AllTime
    zone: tzinfo
    months: Sequence[date]

    @property
    def by_day(self) -> bool:
        """Whether the answer has days, not sums of months."""
        return isinstance(self.query, DateRange)


@dataclass
class Comparison:
    """Comparison of a table of clicks with the service, from the first day to the last.

    `failed` names in the end what could not be asked about. Labels of `dimensions` are compared beside days.
    """

    session: AsyncSession
    warehouse: Warehouse
    series: Series
    first: date
    last: date
    zone: tzinfo
    dimensions: Sequence[str]
    progress: Progress | None
    on_error: OnError | None
    failed: set[str] = field(default_factory=set[str])

    async def run(self) -> AsyncIterator[tuple[Span, list[Found]]]:
        """Yield what differs in each month, the last ones first.

        The spans of the first and the last month have all days before and after: no row of these is right.
        """
        self._months = _months(self.first, self.last)
        questions, batches = self._make_questions(), self._make_batches()
        done = 0
        for question in questions:
            self._todo = {month: {*self.series.moved} for month in question.months}
            held = [Clicks() for _ in batches]
            async for strays in self._read(question, batches, held):
                yield strays
            await run_workers(zip(batches, held, strict=True), partial(self._compare, question), 64)
            for month in reversed(question.months):
                todo = self._todo.pop(month) - self.failed
                names = [name for name in self.series.names if name in todo]
                cells = await self._cells(month) if names else defaultdict[str, Clicks](Clicks)
                for n in range(0, len(names), MANY):
                    yield self._span(month), await self._ask_each(month, names[n : n + MANY], cells)
                done += 1
                if self.progress is not None:
                    self.progress(done, len(self._months))

    def _make_questions(self) -> list[Question]:
        """Return what is asked about each batch: the days of some months, first the last ones, and sums."""
        days, sums = [list[date]()], defaultdict[timedelta, list[date]](list)
        for month in self._months:
            offsets = {each.offset for each in windows(month, _after(month) - DAY, self.zone)}
            if _after(month) >= self.last:
                days[0].append(month)
            elif len(offsets) > 1 or month < self.first:
                days.append([month])
            else:
                sums[offsets.pop()].append(month)
        all_time = (Question(AllTime(), timezone(offset), months) for offset, months in sums.items())
        return [*map(self._days_of, days), *all_time]

    def _days_of(self, months: Sequence[date]) -> Question:
        query = DateRange(max(months[0], self.first), min(_after(months[-1]) - DAY, self.last))
        return Question(query, self.zone, months)

    def _make_batches(self) -> list[Names]:
        """Return the names that are asked about together, all of a batch as well known as each other."""
        (table, all_names, changed, clicked, moved, _), found = self.series, list[Names]()
        quiet = {*all_names} - changed - clicked
        for kind, size in ((changed, FEW), (clicked - changed, FEW), (quiet, HUNDRED)):
            names = [name for name in all_names if name in kind - moved]
            random.shuffle(names)
            count = max(-(-len(names) // size), min(len(names), LEAST))
            count = len(names) if table == "clicks_by_tag" else count
            found += (names[n::count] for n in range(count))
        return found

    async def _read(
        self, question: Question, batches: Sequence[Names], sums: Sequence[Clicks]
    ) -> AsyncIterator[tuple[Span, list[Found]]]:
        """Add up what is held of each batch. Yield what should not be there."""
        sum_of = {name: held for names, held in zip(batches, sums, strict=True) for name in names}
        expected = {*self.series.names} | self.series.gone
        for month in question.months:
            cells = await self._cells(month)
            for name in cells.keys() & sum_of.keys() - self.failed:
                sum_of[name].update(self._sum(question, cells[name]))
                if not self._adds_up(cells[name]):
                    self._todo[month].add(name)
            yield self._span(month), [Found(name, cells[name], Clicks()) for name in cells.keys() - expected]

    async def _compare(self, question: Question, batch: tuple[Names, Clicks]) -> None:
        """Note in which months the names of a batch may differ; in all, if one of them fails."""
        (names, held), months = batch, question.months
        is_recent = question.months[-1] == self._months[-1]
        differs = is_recent and names[0] in self.series.clicked
        asked = [name for name in names if name not in self.failed]
        if asked and not differs:
            stats = await self._collect(question, asked)
            if stats.complete:
                months = [*{*map(self._month_of, _unlike(held, _counts(question, stats)))}]
        for month in months:
            self._todo[month].update(asked)

    async def _ask_each(self, month: date, names: Names, cells: defaultdict[str, Clicks]) -> list[Found]:
        """Ask for the days of names one by one, and return those that differ."""
        question, found = self._days_of([month]), list[Found]()
        each = self.session.stats.collect_each(
            question.query, **self._selected(names), timezone=self.zone, on_error=self._fail
        )
        async with each:
            async for name, answer in each:
                stats: Any = answer
                held = self._sum(question, cells[name])
                if any(clicks > stats.clicks.get(day, 0) for day, clicks in held.items()):
                    stats = await self._collect(question, [name], fresh=True)
                if stats.complete:
                    one = Found(name, cells[name], self._cells_of(stats, month))
                    found += [one] * bool(one.cells)
                elif name not in self.failed:
                    self.failed.add(name)
                    log.warning("%s: answers contradict themselves, or lack days", name)
        return found

    async def _collect(self, question: Question, names: Names, *, fresh: bool = False) -> Any:
        """Return the statistics of names together, without those that fail."""
        return await self.session.stats.collect(
            question.query,
            **self._selected(names),
            timezone=question.zone,
            on_error=self._fail,
            fresh=fresh,
        )

    def _selected(self, names: Names) -> dict[str, Any]:
        return {"tags" if self.series.table == "clicks_by_tag" else "keys": names}

    def _fail(self, failure: Failure) -> None:
        self.failed.update(failure.keys, filter(None, [failure.tag]))
        if self.on_error is not None:
            self.on_error(failure)

    async def _cells(self, month: date) -> defaultdict[str, Clicks]:
        """Return what is held of each name."""
        found = defaultdict[str, Clicks](Clicks)
        for table in (self.series.table, BY_DIMENSION)[: 1 + bool(self.dimensions)]:
            for name, *cell, clicks in await self.warehouse.rows(table, self._span(month)):
                found[name][table, *cell] += clicks
        return found

    def _span(self, month: date) -> Span:
        """Return the days whose rows belong to a month."""
        return (
            date.min if month == self._months[0] else month,
            date.max if month == self._months[-1] else _after(month) - DAY,
        )

    def _month_of(self, day: date) -> date:
        """Return the month to which the rows of a day belong."""
        return min(max(day.replace(day=1), self._months[0]), self._months[-1])

    def _sum(self, question: Question, cells: Clicks) -> Clicks:
        """Add up the days of what is held, as an answer has them: by day, or by month."""
        found = Clicks()
        for (table, day, *_), clicks in cells.items():
            if table == self.series.table:
                found[day if question.by_day else self._month_of(day)] += clicks
        return found

    def _cells_of(self, stats: Any, month: date) -> Clicks:
        """Return the clicks of an answer, by cell."""
        found = Clicks({(self.series.table, day): clicks for day, clicks in stats.clicks.items() if clicks})
        for dimension in self.dimensions:
            labels = getattr(stats, dimension)
            found.update({(BY_DIMENSION, month, dimension, label): n for label, n in labels.items()})
            found[BY_DIMENSION, month, dimension, NO_LABEL] += stats.total - sum(labels.values())
        return found

    def _adds_up(self, held: Clicks) -> bool:
        """Whether the labels of each dimension, and of no other, have the clicks of the days."""
        sums = Counter[str]()
        for (_, _, *label), clicks in held.items():
            sums[label[0] if label else ""] += clicks
        return sums == Counter(dict.fromkeys(("", *self.dimensions), sums[""]))


def _counts(question: Question, stats: Any) -> Clicks:
    """Return the clicks of an answer, by day or by month."""
    if question.by_day:
        return Clicks(stats.clicks)
    years = stats.clicks_breakdown
    return Clicks({month: years.get(month.year, {}).get(month.month, 0) for month in question.months})


def _unlike(one: Clicks, other: Clicks) -> list[Any]:
    return sorted(key for key in {**one, **other} if one[key] != other[key])


def _after(month: date) -> date:
    """Return the first day of the next month."""
    return (month + 31 * DAY).replace(day=1)


def _months(first: date, last: date) -> list[date]:
    """Return the first days of the months from one day to another."""
    months = [first.replace(day=1)]
    while (after := _after(months[-1])) <= last:
        months.append(after)
    return months
