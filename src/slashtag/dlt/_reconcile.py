"""One loop for loads and audits: what a table holds is compared with what the service counts.

| Months | How they are compared, a hundred links in a request |
|---|---|
| that of yesterday, and today's | their days |
| a first month without its 1st, and those in which the offset of the zone changes | their days |
| all others | all-time statistics have the sum of each month; of those that differ, the days |

| Links, where a hundred of them differ | Which of them may differ |
|---|---|
| as at the last load | those of halves that differ, down to one link |
| with other hits than then | the same; but in the last month all |
| new, renamed or not counted then | all; up to 20 such links are compared one by one |

In the end those that may differ in a month are asked for one by one (packed search), and yielded if their
days or labels differ. An answer with fewer clicks than are held is asked for once more. A comparison needs
no memory: whatever went wrong before is a difference now. What cancels out among a hundred links differs in a
later comparison, whose hundreds are others.
"""

import logging
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, Literal, NamedTuple, TypeVar

from .. import AllTime, AsyncSession, DateRange, Failure, OnError, Progress, RangeStats
from .._internal import WorkerPool
from ._tables import Span
from ._warehouse import Warehouse

T = TypeVar("T")
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
#: Requests that are made at once; the session's own limit is mostly lower.
WORKERS = 64

Names = Sequence[str]
Kind = Literal["as before", "clicked", "unknown"]
Days = Counter[date]
Labels = Counter[tuple[str, str]]


class Found(NamedTuple):
    """A slashtag or tag, and a month, or another span, in which it differs: what is held, and counted.

    Labels are by dimension and label; there are none unless dimensions are compared.
    """

    name: str
    span: Span
    held: Days
    counted: Days
    held_labels: Labels
    labels: Labels

    @property
    def days(self) -> list[date]:
        """The days that differ."""
        return sorted(day for day in self.held | self.counted if self.held[day] != self.counted[day])

    @property
    def differs(self) -> bool:
        """Whether anything does."""
        return bool(self.days) or self.held_labels != self.labels


class Question(NamedTuple):
    """What is asked about many names at once, and the months that the answer is about."""

    query: DateRange | AllTime
    zone: tzinfo
    months: tuple[Span, ...]

    @property
    def span(self) -> Span:
        """The days that the answer is about."""
        return self.months[0][0], self.months[-1][1]

    @property
    def by_day(self) -> bool:
        """Whether the answer has days, not sums of months."""
        return isinstance(self.query, DateRange)

    def unit(self, day: date) -> date:
        """Return what an answer has the clicks of a day by: the day, or the first of its month."""
        return day if self.by_day else day.replace(day=1)

    def counts(self, stats: Any) -> Days | None:
        """Return the clicks of an answer by unit, None if it contradicts itself."""
        if not is_sound(stats):
            return None
        if isinstance(stats, RangeStats):
            return Counter(stats.clicks)
        years = stats.clicks_breakdown.items()
        return Counter({date(year, month, 1): n for year, months in years for month, n in months.items()})

    def differing(self, held: Days, counted: Days | None) -> list[Span]:
        """Return the months in which what is held is not what is counted; all if nothing is known of that."""
        if counted is None:
            return [*self.months]
        units = [unit for unit in held | counted if held[unit] != counted[unit]]
        return [month for month in self.months if any(month[0] <= unit <= month[1] for unit in units)]


class Batch(NamedTuple):
    """Names that are asked about in a request, all of them of a kind."""

    names: Names
    kind: Kind


def is_sound(stats: Any) -> bool:
    """Return whether an answer is whole, and does not contradict itself."""
    return stats.complete and getattr(stats, "days_complete", True)


class Comparison:
    """Comparison of a table of clicks with the service, from the first day of `span` to the last.

    `names` are all slashtags of the account, or tags, those with the most hits first: `unknown` ones were not
    all counted at the last load, `clicked` ones have other hits than then. Rows of other names, or of other
    days (those after `latest`), are differences, except those of `gone` names. `failed` names in the end what
    could not be asked about.
    """

    def __init__(
        self,
        session: AsyncSession,
        warehouse: Warehouse,
        table: str,
        names: Sequence[str],
        span: Span,
        zone: tzinfo,
        latest: date,
        *,
        moved: Set[str] = frozenset(),
        unknown: Collection[str] = (),
        clicked: Collection[str] = (),
        gone: Collection[str] = (),
        dimensions: Sequence[str] = (),
        progress: Progress | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._session, self._warehouse, self._table = session, warehouse, table
        self._names, self._span, self._zone = names, span, zone
        self._of_tags = table == "clicks_by_tag"
        self._gone, self._moved, self._latest, self._dimensions = gone, moved, latest, dimensions
        self._progress, self._on_error = progress, on_error
        self._done, self._total = 0, len(names)
        self.failed: dict[str, None] = {}
        self._batches = self._make_batches({*unknown}, {*clicked})
        self._batch_of = {name: n for n, batch in enumerate(self._batches) for name in batch.names}
        self._months = _months(*span)
        self._questions = self._make_questions()
        #: What is held of each batch, by question and unit; what is asked for in the end; rows out of place.
        self._held: list[list[Days]] = [[Counter() for _ in self._questions] for _ in self._batches]
        self._todo: dict[Span, list[Sequence[str]]] = defaultdict(list)
        self._strays: list[Found] = []

    async def run(self) -> AsyncIterator[Found]:
        """Yield what differs, the newest month first."""
        await self._read()
        for stray in self._strays:
            yield stray
        await WorkerPool(range(len(self._batches)), self._compare, WORKERS).run()
        for month in sorted(self._todo, reverse=True):
            wanted = {name for names in self._todo.pop(month) for name in names}
            self._total += len(wanted)
            for names in _parts([name for name in self._names if name in wanted], MANY):
                async for found in self._each(month, [name for name in names if name not in self.failed]):
                    yield found

    def _make_batches(self, unknown: Collection[str], clicked: Collection[str]) -> list[Batch]:
        of_kind: dict[Kind, list[str]] = {"as before": [], "clicked": [], "unknown": []}
        for name in self._names:
            is_unknown = self._of_tags or name in unknown
            of_kind["unknown" if is_unknown else "clicked" if name in clicked else "as before"].append(name)
        found: list[Batch] = []
        for kind, names in of_kind.items():
            is_alone = self._of_tags or (kind == "unknown" and len(names) <= FEW)
            count = len(names) if is_alone else max(-(-len(names) // HUNDRED), min(len(names), LEAST))
            random.shuffle(names)
            found += [Batch(names[n::count], kind) for n in range(count)]
        return found

    def _make_questions(self) -> list[Question]:
        """Return what is asked about each batch: the days of some months, and the sums of all others."""
        first, last = self._span
        begin = max(first, (last - DAY).replace(day=1))
        found = [self._days_of(month for month in self._months if month[0] >= begin)]
        whole: dict[timedelta, list[Span]] = {}
        for month in self._months:
            offsets = {_offset(self._zone, day) for day in (*days(*month), month[1] + DAY)}
            if month[0] >= begin:
                continue
            if len(offsets) > 1 or month[0].day > 1:
                found.append(self._days_of([month]))
            else:
                whole.setdefault(offsets.pop(), []).append(month)
        found += (Question(AllTime(), timezone(offset), tuple(of)) for offset, of in whole.items())
        return found

    def _days_of(self, months: Iterable[Span]) -> Question:
        months = tuple(months)
        return Question(DateRange(months[0][0], months[-1][1]), self._zone, months)

    async def _read(self) -> None:
        """Read what is held, month by month: sums of each batch, and what is out of place."""
        number = {month: n for n, question in enumerate(self._questions) for month in question.months}
        outside = [(date.min, self._span[0] - DAY), (self._latest + DAY, date.max)]
        for span in (*outside, *self._months):
            sums, strays = Counter[str](), defaultdict[str, Days](Counter)
            for name, day, clicks in await self._warehouse.rows(self._table, span):
                batch = self._batch_of.get(name)
                if batch is not None and span in number:
                    self._held[batch][number[span]][self._questions[number[span]].unit(day)] += clicks
                    sums[name] += clicks
                elif name not in self._gone:
                    strays[name][day] += clicks
            self._strays += (
                Found(name, span, held, Days(), Labels(), Labels()) for name, held in strays.items()
            )
            if span in number and self._has_labels(span):
                await self._read_labels(span, sums)

    async def _read_labels(self, month: Span, sums: Counter[str]) -> None:
        """Find the labels of a month that do not add up to the clicks by day, in each dimension."""
        labels = await self._labels(month)
        for name in {*labels, *sums}.difference(self._gone):
            added = Counter[str]()
            for (dimension, _), clicks in labels[name].items():
                added[dimension] += clicks
            if name not in self._batch_of:
                self._strays.append(Found(name, month, Days(), Days(), labels[name], Labels()))
            elif added != Counter(dict.fromkeys(self._dimensions, sums[name])):
                self._todo[month].append([name])

    async def _compare(self, n: int) -> None:
        """Note which names of a batch may differ, and in which months."""
        names, kind = self._batches[n]
        for question, held in zip(self._questions, self._held[n], strict=True):
            is_last = question is self._questions[0]
            is_known = kind == "unknown" and (not held or self._of_tags)
            if question.by_day and (is_known or (is_last and kind == "clicked")):
                self._note(question.months, names)
            else:
                await self._compare_sums(question, names, kind, held)
        self._held[n] = []
        self._step(len(names))

    async def _compare_sums(self, question: Question, names: Names, kind: Kind, held: Days | None) -> None:
        """Note which names may differ, if their sums do; `held` are these if they are known."""
        counted, asked = await self._ask(question, names)
        if held is None or asked != names:
            held = _sum((await self._days(question.span, asked)).values(), question)
        months = question.differing(held, counted) if asked else []
        if counted is not None and not self._moved.isdisjoint(asked):
            months = question.differing(held + counted, Days())
        if not question.by_day and (left := [name for name in names if name not in asked]):
            # Their days decide.
            for month in question.months:
                await self._compare_sums(self._days_of([month]), left, kind, None)
        if kind == "unknown":
            self._note(months, asked)
        elif not question.by_day:
            for month in months:
                await self._compare_sums(self._days_of([month]), asked, kind, None)
        elif months:
            await self._halve(question, asked, await self._days(question.span, asked), counted)

    async def _halve(
        self, question: Question, names: Names, held: Mapping[str, Days], counted: Days | None
    ) -> None:
        """Note which names differ, given the clicks of each and the sum: what the other half has is known."""
        months = question.differing(_sum((held[name] for name in names), question), counted)
        if not months or len(names) == 1 or counted is None:
            self._note(months, names)
            return
        half, rest = names[: len(names) // 2], names[len(names) // 2 :]
        of_half, asked = await self._ask(question, half)
        await self._halve(question, asked, held, of_half)
        left = None
        if of_half is not None and asked == half:
            left = counted.copy()
            left.subtract(of_half)
        await self._halve(question, rest, held, left)

    def _note(self, months: Iterable[Span], names: Names) -> None:
        for month in months:
            self._todo[month].append(names)

    async def _ask(self, question: Question, names: Names) -> tuple[Days | None, Names]:
        """Return the clicks of names together, by unit, and the names without those that failed.

        What all-time statistics cannot tell is no failure: the days can.
        """
        failed: dict[str, None] = self.failed if question.by_day else {**self.failed}
        while names := [name for name in names if name not in failed]:
            before = len(failed)
            stats = await self._session.stats.collect(
                question.query,
                **self._selected(names),
                timezone=question.zone,
                on_error=self._fail if question.by_day else lambda each: failed.update(_names_of(each)),
            )
            if not stats.missing:
                return question.counts(stats), names
            if len(failed) == before:
                failed.update(dict.fromkeys(names))
        return None, []

    def _selected(self, names: Names) -> dict[str, Any]:
        return {"tags" if self._of_tags else "keys": names}

    def _fail(self, failure: Failure) -> None:
        """Note what failed, and pass it on once."""
        names = _names_of(failure)
        is_new = not names.keys() <= self.failed.keys()
        self.failed |= names
        if is_new and self._on_error is not None:
            self._on_error(failure)

    async def _each(self, month: Span, names: Names) -> AsyncIterator[Found]:
        """Ask for the days of names one by one, and yield those that differ."""
        if not names:
            return
        query, held = DateRange(*month), await self._days(month, names)
        has_labels = self._has_labels(month)
        labels = await self._labels(month, names) if has_labels else defaultdict[str, Labels](Counter)
        each = self._session.stats.collect_each(
            query,
            **self._selected(names),
            timezone=self._zone,
            inferred=len(names) > FEW,
            on_error=self._fail,
        )
        async with each:
            async for name, stats in each:
                if any(clicks > stats.clicks.get(day, 0) for day, clicks in held[name].items()):
                    stats = await self._session.stats.collect(
                        query,
                        **self._selected([name]),
                        timezone=self._zone,
                        fresh=True,
                        on_error=self._fail,
                    )
                if is_sound(stats):
                    counted = +Counter(stats.clicks)
                    now = self._labels_of(stats) if has_labels else Labels()
                    found = Found(name, month, held[name], counted, labels[name], now)
                    if found.differs:
                        yield found
                elif name not in self.failed:
                    self.failed[name] = None
                    log.warning("%s: answers contradict themselves, or lack days", name)
                self._step(1)

    def _has_labels(self, month: Span) -> bool:
        """Whether labels of a month are compared: not where days of it come after those that are compared."""
        return bool(self._dimensions) and (month[1] >= self._latest or month[1] < self._latest.replace(day=1))

    async def _days(self, span: Span, names: Names) -> defaultdict[str, Days]:
        """Return what is held of names by day."""
        found, wanted = defaultdict[str, Days](Counter), {*names}
        for name, day, clicks in await self._warehouse.rows(self._table, span, names):
            if name in wanted:
                found[name][day] += clicks
        return found

    async def _labels(self, month: Span, names: Names | None = None) -> defaultdict[str, Labels]:
        """Return what is held of names, or all, by dimension and label."""
        found = defaultdict[str, Labels](Counter)
        days_of_month = month[0].replace(day=1), month[1]
        for name, _, dimension, label, clicks in await self._warehouse.rows(
            "clicks_by_dimension", days_of_month, names
        ):
            found[name][dimension, label] += clicks
        return found

    def _labels_of(self, stats: RangeStats) -> Labels:
        found: Labels = Counter()
        for dimension in self._dimensions:
            of_labels = getattr(stats, dimension)
            found.update({(dimension, label): clicks for label, clicks in of_labels.items()})
            found[dimension, NO_LABEL] += stats.total - sum(of_labels.values())
        return +found

    def _step(self, done: int) -> None:
        self._done += done
        if self._progress is not None:
            self._progress(self._done, self._total)


def _names_of(failure: Failure) -> dict[str, None]:
    return dict.fromkeys(failure.keys or (str(failure.tag),))


def _offset(zone: tzinfo, day: date) -> timedelta:
    return datetime.combine(day, time(), zone).utcoffset() or timedelta()


def days(first: date, last: date) -> Iterator[date]:
    """Yield every day of a span."""
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))


def _months(first: date, last: date) -> list[Span]:
    """Return the months of a span, the first and the last one as far as they are in it."""
    found: list[Span] = []
    while first <= last:
        after = (first.replace(day=1) + 31 * DAY).replace(day=1)
        found.append((first, min(last, after - DAY)))
        first = after
    return found


def _sum(each: Iterable[Days], question: Question) -> Days:
    found: Days = Counter()
    for held in each:
        for day, clicks in held.items():
            found[question.unit(day)] += clicks
    return found


def _parts(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    return (items[n : n + most] for n in range(0, len(items), most))
