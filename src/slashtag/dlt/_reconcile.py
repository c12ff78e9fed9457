"""One loop for loads and audits: what a table holds is compared with what the service counts.

The rows of a table belong to names: slashtags, or tags. The loop goes over all names and all months. It
yields the names that differ in a month, with all that is held of them there and all that is counted: a load
replaces their rows, an audit reports them.

1. Names are put into batches, at random: a hundred slashtags, or one tag, each. New names have batches of
   their own, and so have those whose links are listed with other hits than at the last load, as they
   probably differ.
2. One request, of all-time statistics, has the clicks of a batch in each month, all its names together. As
   it has one UTC offset, a zone with daylight saving takes two; and the month of a change is a range of days
   for itself, in two requests, whose sum is compared.
3. In a month in which the clicks of a batch are not the sum of its rows, or the answer contradicts itself,
   the days and labels of each name are counted, the last month first, and those that differ are yielded. A
   name with fewer clicks on a day, or of a label, than are held is counted once more, past caches, before
   that is believed.

Sums do not show everything. A name that a link has left since the last load may have rows of that link, and
one that could not be counted then may have any: they are in no batch, but counted by days in every month.
Names whose labels do not add up to their days are counted so in that month. Rows of a name that its links
have given up are yielded without a request; those of deleted links stay, and are left alone. A name that
fails is left out, and the load says that it is not complete.

There is no memory but the tables: whatever went wrong before is a difference now. What cancels out among the
names of a batch is seen by a later load, which puts them into other batches; what cancels out within a month
of one name never is.
"""

import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, timezone, tzinfo
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from .. import AllTime, AsyncSession, DateRange, Failure, OnError, Progress
from .._internal import run_workers, windows
from ..counts import DAY
from ..tables import chunks
from ._tables import BY_DIMENSION, Span
from ._warehouse import Warehouse

#: Names in a batch, at most.
MOST_NAMES = 100
#: Batches of a small account, so that names whose faults cancel out are not always in the same one.
LEAST_BATCHES = 6
#: Names that are counted by days, and whose rows are replaced, at once.
MOST_AT_ONCE = 5_000
#: Label of clicks for which the service gives none: the labels of a dimension add up to all clicks.
NO_LABEL = "(not given)"

#: Clicks of a name in a month, by cell: table, day (or first of the month), dimension and label.
Clicks = Counter[Any]


class Series(NamedTuple):
    """The names of a table that are listed, those with the most hits first.

    `groups` has those that may be in a batch together; those `apart` are counted by days, in every
    month. Rows of names that are not listed are left alone if they are `kept`.
    """

    table: str
    names: Sequence[str]
    groups: Sequence[Set[str]]
    apart: Set[str]
    kept: Set[str]


class Batch(NamedTuple):
    """Names that are asked about together, and what is held of them all, by month."""

    names: Sequence[str]
    held: Counter[date]


class Found(NamedTuple):
    """A name that differs in a month: all that is held, and counted."""

    name: str
    held: Clicks
    counted: Clicks

    @property
    def cells(self) -> list[Any]:
        """The cells that differ."""
        both = {**self.held, **self.counted}
        return sorted(cell for cell in both if self.held[cell] != self.counted[cell])


@dataclass
class Comparison:
    """Comparison of a table of clicks with the service, from the first day of a month to the present day.

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
        """Yield what differs, with the days of its month: rows of other names, then the last month first."""
        months = [self.first]
        while (after := _end(months[-1]) + DAY) <= self.last:
            months.append(after)
        self._differing = {month: [self.series.apart] for month in months}
        made = [*self._make_batches()]
        async for strays in self._read(months, made):
            yield strays
        questions = defaultdict[tuple[Any, tzinfo], list[date]](list)
        for month in months:
            offset, *more = {each.offset for each in windows(month, _end(month), self.zone)}
            questions[(self._days(month), self.zone) if more else (AllTime(), timezone(offset))].append(month)
        for (query, zone), asked in questions.items():
            # 64 at once: more than a session sends by default, so that no turn is missed.
            await run_workers(made, partial(self._compare, query, zone, asked), 64)
        for done, month in enumerate(reversed(months), 1):
            differing = {*chain(*self._differing.pop(month))} - self.failed
            if names := [name for name in self.series.names if name in differing]:
                cells = await self._cells(month)
                for some in chunks(names, MOST_AT_ONCE):
                    yield self._span(month), await self._ask_each(month, some, cells)
            if self.progress is not None:
                self.progress(done, len(months))

    def _make_batches(self) -> Iterator[Batch]:
        for group in self.series.groups:
            names = sorted(group)
            random.shuffle(names)
            # A request is about one tag.
            most = 1 if self.series.table == "clicks_by_tag" else MOST_NAMES
            count = max(-(-len(names) // most), min(len(names), LEAST_BATCHES))
            yield from (Batch(names[n::count], Counter()) for n in range(count))

    async def _read(
        self, months: Sequence[date], made: Sequence[Batch]
    ) -> AsyncIterator[tuple[Span, list[Found]]]:
        """Add up what is held of each batch. Yield what should not be there."""
        batch_of = {name: batch for batch in made for name in batch.names}
        for month in months:
            cells = await self._cells(month)
            for name in cells.keys() & batch_of.keys():
                sums = Counter[str]()
                for (_, _, *label), clicks in cells[name].items():
                    sums[label[0] if label else ""] += clicks
                batch_of[name].held[month] += sums[""]
                if sums != Counter(dict.fromkeys(("", *self.dimensions), sums[""])):
                    self._differing[month].append({name})
            strays = cells.keys() - self.series.names - self.series.kept
            yield self._span(month), [Found(name, cells[name], Clicks()) for name in strays]

    async def _compare(self, query: Any, zone: tzinfo, months: Sequence[date], batch: Batch) -> None:
        """Note in which months names of a batch may differ."""
        asked = {*batch.names} - self.failed
        stats = await self._collect(query, zone, asked)
        for month in months:
            if isinstance(query, DateRange):
                counted = stats.total
            else:
                counted = stats.clicks_breakdown.get(month.year, {}).get(month.month, 0)
            if not stats.reconciles or counted != batch.held[month]:
                self._differing[month].append(asked)

    async def _ask_each(
        self, month: date, names: Sequence[str], cells: defaultdict[str, Clicks]
    ) -> list[Found]:
        """Ask for the days of each name, and return those that differ."""
        found = list[Found]()
        each = self.session.stats.collect_each(
            self._days(month), **self._selected(names), timezone=self.zone, on_error=self._fail
        )
        async with each:
            async for name, stats in each:
                if cells[name] - self._cells_of(stats, month):
                    stats = await self._collect(self._days(month), self.zone, [name], fresh=True)
                if stats.complete:
                    found.append(Found(name, cells[name], self._cells_of(stats, month)))
                else:
                    self.failed.add(name)
        return [each for each in found if each.held != each.counted]

    async def _collect(self, query: Any, zone: tzinfo, names: Iterable[str], *, fresh: bool = False) -> Any:
        """Return the statistics of names together, without those that fail."""
        return await self.session.stats.collect(
            query, **self._selected(names), timezone=zone, on_error=self._fail, fresh=fresh
        )

    def _selected(self, names: Iterable[str]) -> dict[str, Any]:
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
        """Return the days whose rows belong to a month: the first and the last have all before and after."""
        end = _end(month)
        return date.min if month == self.first else month, date.max if end >= self.last else end

    def _days(self, month: date) -> DateRange:
        return DateRange(month, min(_end(month), self.last))

    def _cells_of(self, stats: Any, month: date) -> Clicks:
        """Return the clicks of an answer, by cell."""
        found = Clicks({(self.series.table, day): clicks for day, clicks in stats.clicks.items() if clicks})
        for dimension in self.dimensions:
            labels = getattr(stats, dimension)
            found.update({(BY_DIMENSION, month, dimension, label): n for label, n in labels.items()})
            found[BY_DIMENSION, month, dimension, NO_LABEL] += stats.total - sum(labels.values())
        return found


def _end(month: date) -> date:
    """Return the last day of a month."""
    return (month + 31 * DAY).replace(day=1) - DAY
