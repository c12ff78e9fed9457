"""One loop for loads and audits: what a table holds is compared with what the service counts.

| Months | How they are compared, a hundred links in a request |
|---|---|
| that of yesterday, and today's | their days |
| a first month without its 1st, and those in which the offset of the zone changes | their days |
| all others | all-time statistics have the sum of each month; of those that differ, the days |

| Links, where a hundred of them differ | Which of them may differ |
|---|---|
| as at the last load | those of halves that differ, down to one link |
| with other hits than then | the same; but in the last months all |
| new, renamed or not counted then | all; up to 20 such links, and tags, are compared one by one |

In the end those that may differ in a month are asked for one by one (packed search), and yielded if their
days or labels differ. An answer with fewer clicks than are held is asked for once more. A comparison needs
no memory: whatever went wrong before is a difference now. What cancels out among a hundred links differs in a
later comparison, whose hundreds are others.
"""

import logging
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, NamedTuple

from .. import AllTime, AsyncSession, DateRange, Failure, OnError, Progress
from .._internal import run_workers
from ._tables import Span
from ._warehouse import Warehouse

log = logging.getLogger("slashtag")
DAY = timedelta(days=1)
#: Links in a request.
HUNDRED = 100
#: Requests for a small account, so that links whose faults cancel out are not always in the same one.
LEAST = 4
#: So many unknown links are compared one by one, and so many links are asked for without inferring.
FEW = 20
#: Links that are asked for one by one, and whose rows are read, at once.
MANY = 5_000
#: Label of clicks for which the service gives none: the labels of a dimension add up to all clicks.
NO_LABEL = "(not given)"

Names = Sequence[str]
#: What a row has between its name and its clicks: (day,) or (first day of the month, dimension, label).
Cell = tuple[Any, ...]
#: Clicks by cell, by day, or by the first day of months.
Clicks = Counter[Any]


class Series(NamedTuple):
    """The names of a table, those with the most hits first, and what is known of them.

    `unknown` ones were not all counted at the last load, `clicked` ones have other hits than then, and
    `moved` ones other links, so that days may differ where sums do not. Rows of `gone` names are not
    compared; those of all other names are differences.
    """

    table: str
    names: Names
    unknown: Set[str] = frozenset()
    clicked: Set[str] = frozenset()
    moved: Set[str] = frozenset()
    gone: Set[str] = frozenset()


class Found(NamedTuple):
    """A name, and a month or another span, in which it differs: all that is held, and counted."""

    table: str
    name: str
    span: Span
    held: Clicks
    counted: Clicks

    @property
    def cells(self) -> list[Cell]:
        """The cells that differ."""
        return _unlike(self.held, self.counted)


class Question(NamedTuple):
    """What is asked about many names at once, and the months that the answer is about."""

    query: DateRange | AllTime
    zone: tzinfo
    months: Sequence[Span]

    @property
    def by_day(self) -> bool:
        """Whether the answer has days, not sums of months."""
        return isinstance(self.query, DateRange)

    @property
    def span(self) -> Span:
        """The days that the answer is about."""
        return self.months[0][0], self.months[-1][1]

    def sum(self, held: Iterable[Clicks]) -> Clicks:
        """Add up clicks by cell, as the answer has them: by day, or by the first day of each month."""
        found = Clicks()
        for cells in held:
            for (day, *label), clicks in cells.items():
                if not label:
                    found[day if self.by_day else day.replace(day=1)] += clicks
        return found

    def counts(self, stats: Any) -> Clicks | None:
        """Return the clicks of an answer; None if it contradicts itself."""
        if not _is_sound(stats):
            return None
        if self.by_day:
            return Clicks(stats.clicks)
        years = stats.clicks_breakdown.items()
        return Clicks({date(year, month, 1): n for year, months in years for month, n in months.items()})

    def differing(self, held: Clicks, counted: Clicks | None) -> Sequence[Span]:
        """Return the months in which what is held is not what is counted; all if that is not known."""
        if counted is None:
            return self.months
        days = _unlike(held, counted)
        return [month for month in self.months if any(month[0] <= day <= month[1] for day in days)]


class Comparison:
    """Comparison of a table of clicks with the service, from the first day of `span` to the last.

    Rows of other days than those up to `latest` are differences too. `failed` names in the end what could
    not be asked about. Labels of `dimensions` are compared in months that are compared up to `latest`.
    """

    def __init__(
        self,
        session: AsyncSession,
        warehouse: Warehouse,
        series: Series,
        span: Span,
        latest: date,
        zone: tzinfo,
        dimensions: Sequence[str],
        progress: Progress | None,
        on_error: OnError | None,
    ) -> None:
        self._session, self._warehouse, self._series = session, warehouse, series
        self._span, self._latest, self._zone, self._dimensions = span, latest, zone, dimensions
        self._progress, self._on_error = progress, on_error
        self.failed: set[str] = set()
        self._done, self._total, self._mistaken = 0, len(series.names), 0
        self._months = _months(*span)
        self._questions = self._make_questions()
        self._batches = self._make_batches()
        self._todo: dict[Span, set[str]] = defaultdict(set)

    async def run(self) -> AsyncIterator[Found]:
        """Yield what differs, the newest month first."""
        for stray in await self._read():
            yield stray
        await run_workers(enumerate(self._batches), self._compare, 64)
        if self._mistaken:
            log.info("%d sums of months are not those of their days, which count", self._mistaken)
        self._total += sum(map(len, self._todo.values()))
        for month in sorted(self._todo, reverse=True):
            wanted = self._todo.pop(month) - self.failed
            names = [name for name in self._series.names if name in wanted]
            for n in range(0, len(names), MANY):
                async for found in self._each(month, names[n : n + MANY]):
                    yield found

    def _make_questions(self) -> list[Question]:
        """Return what is asked about each batch: the days of some months, first the last ones, and sums."""
        last_months = [month for month in self._months if month[1] >= self._span[1] - DAY]
        found = [self._days_of(last_months)]
        whole: dict[timedelta, list[Span]] = defaultdict(list)
        for first, last in self._months[: -len(last_months)]:
            days = range(first.toordinal(), last.toordinal() + 2)
            midnights = [datetime.combine(date.fromordinal(day), time(), self._zone) for day in days]
            offsets = {midnight.utcoffset() or timedelta() for midnight in midnights}
            if len(offsets) > 1 or first.day > 1:
                found.append(self._days_of([(first, last)]))
            else:
                whole[offsets.pop()].append((first, last))
        return [*found, *(Question(AllTime(), timezone(offset), of) for offset, of in whole.items())]

    def _days_of(self, months: Sequence[Span]) -> Question:
        return Question(DateRange(months[0][0], months[-1][1]), self._zone, months)

    def _make_batches(self) -> list[list[str]]:
        """Return the names that are asked about together, all of a batch as well known as each other."""
        (table, all_names, unknown, clicked, *_), found = self._series, list[list[str]]()
        for kind in (unknown, clicked - unknown, {*all_names} - unknown - clicked):
            names = [name for name in all_names if name in kind]
            is_alone = table == "clicks_by_tag" or (kind is unknown and len(names) <= FEW)
            count = len(names) if is_alone else max(-(-len(names) // HUNDRED), min(len(names), LEAST))
            random.shuffle(names)
            found += (names[n::count] for n in range(count))
        return found

    async def _read(self) -> list[Found]:
        """Read what is held, month by month: the sums of each batch. Return what should not be there."""
        series = self._series
        batch_of = {name: n for n, names in enumerate(self._batches) for name in names}
        question_of = {month: n for n, question in enumerate(self._questions) for month in question.months}
        self._held = {
            (n, q): Clicks() for n in range(len(self._batches)) for q in range(len(self._questions))
        }
        strays: list[Found] = []
        outside = (date.min, self._span[0] - DAY), (self._latest + DAY, date.max)
        for month in (*outside, *self._months):
            has_labels = self._has_labels(month)
            for name, held in (await self._cells(month, None, labels=has_labels)).items():
                if name in batch_of and month in question_of:
                    question = question_of[month]
                    self._held[batch_of[name], question].update(self._questions[question].sum([held]))
                    if has_labels and not self._adds_up(held):
                        self._todo[month].add(name)
                elif name not in series.gone:
                    strays.append(Found(series.table, name, month, held, Clicks()))
        return strays

    async def _compare(self, batch: tuple[int, list[str]]) -> None:
        """Note which names of a batch may differ, and in which months."""
        n, names = batch
        is_unknown, is_clicked = names[0] in self._series.unknown, names[0] in self._series.clicked
        for q, question in enumerate(self._questions):
            held = self._held.pop((n, q))
            if question.by_day and ((is_unknown and not held) or (is_clicked and q == 0)):
                self._note(question.months, names)  # they surely differ
            else:
                await self._compare_sums(question, names, held, halve=not is_unknown)
        self._step(len(names))

    async def _compare_sums(
        self, question: Question, names: Names, held: Clicks | None = None, *, halve: bool
    ) -> None:
        """Note which names may differ, if their sums do; what is held of them is read if it is not known."""
        counted, asked = await self._ask(question, names)
        if held is None or asked != names:
            held = question.sum((await self._cells(question.span, asked)).values())
        is_moved = not self._series.moved.isdisjoint(asked)
        months = question.differing(held, None if is_moved else counted)
        if not halve:
            self._note(months, asked)
        elif question.by_day and months:
            await self._halve(question, asked, await self._cells(question.span, asked), counted)
        elif not question.by_day:
            for month in months:
                await self._compare_sums(self._days_of([month]), asked, halve=True)
            self._mistaken += sum(self._todo[month].isdisjoint(asked) for month in months)

    async def _halve(
        self, question: Question, names: Names, cells: Mapping[str, Clicks], counted: Clicks | None
    ) -> None:
        """Note which names differ, given what is held of each and their sum: one half tells the other."""
        months = question.differing(question.sum(cells[name] for name in names), counted)
        if not months or len(names) == 1 or counted is None:
            self._note(months, names)
            return
        half, rest = names[: len(names) // 2], names[len(names) // 2 :]
        of_half, asked = await self._ask(question, half)
        await self._halve(question, asked, cells, of_half)
        of_rest = None
        if of_half is not None and asked == half:
            of_rest = counted.copy()
            of_rest.subtract(of_half)
        await self._halve(question, rest, cells, of_rest)

    def _note(self, months: Iterable[Span], names: Names) -> None:
        for month in months:
            self._todo[month].update(names)

    async def _ask(self, question: Question, names: Names) -> tuple[Clicks | None, Names]:
        """Return the clicks of names together (None: not known), and these names without those that failed.

        That there are no all-time statistics is no failure: days are asked for then.
        """
        while names := [name for name in names if name not in self.failed]:
            stats = await self._collect(question, names, self._fail if question.by_day else lambda _: None)
            if not stats.missing or not question.by_day:
                return question.counts(stats), names
            if self.failed.isdisjoint(names):
                self.failed.update(names)
        return None, ()

    async def _collect(self, question: Question, names: Names, on_error: OnError, **options: Any) -> Any:
        """Return the statistics of names together."""
        return await self._session.stats.collect(
            question.query, **self._selected(names), timezone=question.zone, on_error=on_error, **options
        )

    def _selected(self, names: Names) -> dict[str, Any]:
        return {"tags" if self._series.table == "clicks_by_tag" else "keys": names}

    def _fail(self, failure: Failure) -> None:
        """Note what failed, and pass it on once."""
        if not _names_of(failure) <= self.failed and self._on_error is not None:
            self._on_error(failure)
        self.failed |= _names_of(failure)

    async def _each(self, month: Span, names: Names) -> AsyncIterator[Found]:
        """Ask for the days of names one by one, and yield those that differ."""
        question, has_labels = self._days_of([month]), self._has_labels(month)
        cells = await self._cells(month, names, labels=has_labels)
        dimensions = self._dimensions if has_labels else ()
        each = self._session.stats.collect_each(
            question.query,
            **self._selected(names),
            timezone=self._zone,
            inferred=len(names) > FEW,
            on_error=self._fail,
        )
        async with each:
            async for name, answer in each:
                stats: Any = answer
                held = question.sum([cells[name]])
                if any(clicks > stats.clicks.get(day, 0) for day, clicks in held.items()):
                    stats = await self._collect(question, [name], self._fail, fresh=True)
                if _is_sound(stats):
                    counted = _cells_of(stats, month[0].replace(day=1), dimensions)
                    found = Found(self._series.table, name, month, cells[name], counted)
                    if found.cells:
                        yield found
                elif name not in self.failed:
                    self.failed.add(name)
                    log.warning("%s: answers contradict themselves, or lack days", name)
                self._step(1)

    async def _cells(
        self, span: Span, names: Names | None = None, *, labels: bool = False
    ) -> defaultdict[str, Clicks]:
        """Return what is held of each name."""
        found = defaultdict[str, Clicks](Clicks)
        rows = await self._warehouse.rows(self._series.table, span, names)
        if labels:
            month = span[0].replace(day=1), span[1]
            rows += await self._warehouse.rows("clicks_by_dimension", month, names)
        for name, *cell, clicks in rows:
            found[name][tuple(cell)] += clicks
        return found

    def _has_labels(self, month: Span) -> bool:
        """Whether labels of a month are compared: not where later days of it are held too."""
        is_whole = month[1] >= self._latest or month[1] < self._latest.replace(day=1)
        return bool(self._dimensions) and is_whole and month in self._months

    def _adds_up(self, held: Clicks) -> bool:
        """Whether the labels of each dimension, and of no other, have the clicks of the days."""
        sums = Counter[str]()
        for (_, *label), clicks in held.items():
            sums[label[0] if label else ""] += clicks
        return sums == Counter(dict.fromkeys(("", *self._dimensions), sums[""]))

    def _step(self, done: int) -> None:
        self._done += done
        if self._progress is not None:
            self._progress(self._done, self._total)


def _cells_of(stats: Any, month: date, dimensions: Sequence[str]) -> Clicks:
    """Return the clicks of an answer by cell."""
    found = Clicks({(day,): clicks for day, clicks in stats.clicks.items() if clicks})
    for dimension in dimensions:
        labels = getattr(stats, dimension)
        found.update({(month, dimension, label): clicks for label, clicks in labels.items()})
        found[month, dimension, NO_LABEL] += stats.total - sum(labels.values())
    return found


def _names_of(failure: Failure) -> set[str]:
    return {*failure.keys, *filter(None, [failure.tag])}


def _is_sound(stats: Any) -> bool:
    """Return whether an answer is whole, and does not contradict itself."""
    return stats.complete and getattr(stats, "days_complete", True)


def _unlike(one: Clicks, other: Clicks) -> list[Any]:
    return sorted(key for key in {**one, **other} if one[key] != other[key])


def _months(first: date, last: date) -> list[Span]:
    """Return the months of a span, the first and the last one as far as they are in it."""
    found: list[Span] = []
    while first <= last:
        after = (first.replace(day=1) + 31 * DAY).replace(day=1)
        found.append((first, min(last, after - DAY)))
        first = after
    return found
