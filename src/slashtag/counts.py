"""Clicks by label: counted, rolled up from days, compared with other days, and shared out.

Rows are clicks by their labels: one label of one dimension, or two, of which the first is the group, such as
a tag. Days, and hours that begin with their day, are text: `2024-10-14`. What is compared with what:

| by | is compared with |
|---|---|
| day, week, hour | the days that lie `days_apart` before; a label of which one day has none is not compared |
| month, where both spans begin on the same day of a month | the month that lies as many months before |
| month, else | the days at the same place of the other span |
| weekday, country, tag and the like | the same label in the other span |
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from . import DateRange, InvalidRequestError, RangeStats, Statistics

Labels = tuple[str | None, ...]
Rows = dict[tuple[str, ...], int]
DAY = timedelta(days=1)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: What days are rolled up to, and what is compared by time.
ROLLED = ("day", "weekday", "week", "month")
TIMED = ("hour", "day", "week", "month")
#: From a span of so many days on, days are compared with the same weekdays.
FOUR_WEEKS = 28


def no_tag_beside(tags: Container[object]) -> str:
    """Return the label of links without a tag, which no tag has."""
    label = "no tag"
    while label in tags:
        label = f"({label})"
    return label


class Spans(NamedTuple):
    """First and last day of a span and of the one that it is compared with.

    `is_cut` says that the last day is not over, `is_cut_before` that the other one ends at the same time of
    day. Such a day is compared with such a day only.
    """

    first: date
    last: date
    first_before: date
    last_before: date
    is_cut: bool = False
    is_cut_before: bool = False

    @property
    def before(self) -> str:
        """The span that is compared with, as text."""
        return between(self.first_before, self.last_before)

    @property
    def days_apart(self) -> int:
        """How many days before a day the day lies that it is compared with.

        From four weeks on that is the same weekday, as near as possible to the same place of its span, which
        it may lie outside of. In shorter spans it is the day at the same place.
        """
        apart = (self.first - self.first_before).days
        shortest = min(self.last - self.first, self.last_before - self.first_before).days + 1
        return apart if shortest < FOUR_WEEKS else (apart + 3) // 7 * 7


class Period(NamedTuple):
    """A span, what there is of it so far, and what that is compared with."""

    whole: DateRange
    so_far: DateRange
    before: DateRange

    @classmethod
    def at(cls, now: datetime, query: DateRange, compare: str = "previous") -> "Period":
        """Return what a query means at a time in the zone of its days; raises InvalidRequestError.

        Of a span that has begun and is not over, the part that is over can be counted. It is compared with
        what `compare` says (`DateRange.with_previous`).
        """
        zone = now.tzinfo or UTC
        whole = query.resolve(zone, now)
        if (first := dates_of(whole)[0]) > now.date():
            raise InvalidRequestError(f"the span begins on {first}, after today: there are no clicks yet")
        return cls(whole, *whole.with_previous(zone, now, compare))

    @property
    def is_over(self) -> bool:
        """Whether no clicks can come any more."""
        return self.so_far == self.whole

    @property
    def spans(self) -> Spans:
        """The days of both spans."""
        end = self.before.bounds[1]
        is_cut_before = isinstance(end, datetime) and end.time() != time(23, 59, 59)
        return Spans(*dates_of(self.so_far), *dates_of(self.before), not self.is_over, is_cut_before)

    @property
    def days(self) -> str:
        """The days that are counted, as text."""
        return between(*dates_of(self.so_far))


class Compared(NamedTuple):
    """A row beside what it is compared with.

    `before` and `compared_with` are None where there is nothing to compare it with. The last label is None
    in a row of earlier clicks that are compared with none.
    """

    labels: Labels
    clicks: int
    before: int | None
    compared_with: str | None


def between(first: object, last: object) -> str:
    """Return the text of a span."""
    return str(first) if first == last else f"{first}..{last}"


def dates_of(span: DateRange) -> tuple[date, date]:
    """Return the first and the last day of a span."""
    first, last = (bound.date() if isinstance(bound, datetime) else bound for bound in span.bounds)
    return first, last


def count(stats: Statistics | Mapping[str, Statistics], by: str = "") -> Rows:
    """Return the clicks of each label of a dimension; of weeks and the like those of the days.

    The clicks of a month of a year are those of its first day. A mapping has the statistics of each label of
    another dimension, the first of the two. Without `by` all clicks are in one row.
    """
    if isinstance(stats, Mapping):
        return {(group, *of): n for group, each in stats.items() for of, n in count(each, by).items()}
    if not by:
        return {(): stats.total}
    name = "day" if by in ROLLED and isinstance(stats, RangeStats) else by
    first = "-01" if name == "month" else ""
    return {(label + first,): n for dimension, label, n in stats.rows() if dimension == name}


def label_of(label: str, unit: str) -> str:
    """Return the label that a day has in a unit; a week is named by its Monday."""
    if unit == "month":
        return label[:7]
    if unit not in ("weekday", "week"):
        return label
    day = date.fromisoformat(label)
    return WEEKDAYS[day.weekday()] if unit == "weekday" else str(day - day.weekday() * DAY)


def rolled(rows: Mapping[tuple[str, ...], int], unit: str) -> Rows:
    """Add up the days of each weekday, week or month; other rows stay as they are."""
    if unit not in ROLLED:
        return dict(rows)
    found = Counter[tuple[str, ...]]()
    for (*group, label), n in rows.items():
        found[*group, label_of(label, unit)] += n
    if unit == "weekday":
        groups = {labels[:-1]: n for n, labels in reversed([*enumerate(found)])}
        order = sorted(found, key=lambda labels: (groups[labels[:-1]], WEEKDAYS.index(labels[-1])))
        return {labels: found[labels] for labels in order}
    return dict(found)


def compared(now: Rows, before: Rows, by: str, spans: Spans) -> list[Compared]:
    """Return the rows of two spans side by side, rolled up; no clicks of either are lost or doubled.

    Both have days where `by` is a week or the like. Every day, week and month of the span has a row, zeros
    too.
    """
    if by not in TIMED:
        now, before = rolled(now, by), rolled(before, by)
        return [Compared(of, now.get(of, 0), before.get(of, 0), spans.before) for of in now | before]
    sources = _sources(by, spans, (labels[-1] for labels in now))
    clicks, found = rolled(now, by), list[Compared]()
    # Without any clicks each label has a row all the same.
    for group in dict.fromkeys(labels[:-1] for labels in now | before) or [()]:
        left = Counter[str]()
        for labels, n in before.items():
            if labels[:-1] == group:
                # Hours by local time, whatever the offset was.
                left[labels[-1][:16]] += n
        for label, of_label in sources.items():
            known = sum(left.pop(each, 0) for each in of_label) if of_label else None
            names = [*dict.fromkeys(label_of(each, by) for each in of_label)]
            named = names[0] if len(names) == 1 else between(of_label[0], of_label[-1]) if names else None
            found.append(Compared((*group, label), clicks.get((*group, label), 0), known, named))
        rest = rolled({(label,): n for label, n in left.items()}, by)
        found += [Compared((*group, None), 0, n, label) for (label,), n in rest.items() if n]
    return found


def _sources(by: str, spans: Spans, labels: Iterable[str]) -> dict[str, list[str]]:
    """Return the days, or the hour, that each label is compared with; none unless all its days have one."""
    days, days_before = days_of(spans.first, spans.last), days_of(spans.first_before, spans.last_before)
    if by == "month" and spans.first.day == spans.first_before.day:
        months = {label_of(str(day), by): list[str]() for day in days}
        apart = 12 * (spans.first.year - spans.first_before.year) + spans.first.month
        for day in days_before:
            year, month = divmod(12 * day.year + day.month - 1 + apart - spans.first_before.month, 12)
            months.get(f"{year:04d}-{month + 1:02d}", []).append(str(day))
        return months
    apart = (spans.first - spans.first_before).days if by == "month" else spans.days_apart
    of_day: dict[str, str] = {}
    for day in days:
        earlier = day - apart * DAY
        is_cut = spans.is_cut and day == spans.last
        is_like = by == "hour" or is_cut == (spans.is_cut_before and earlier == spans.last_before)
        if is_like and spans.first_before <= earlier <= spans.last_before:
            of_day[str(day)] = str(earlier)
    found: dict[str, list[str]] = {}
    if by == "hour":
        for label in dict.fromkeys(labels):
            hour = [f"{of_day[label[:10]]}{label[10:16]}"] if label[:10] in of_day else []
            # The second of two hours with the same local time has none.
            found[label] = hour if hour not in found.values() else []
        return found
    for day in days:
        found.setdefault(label_of(str(day), by), []).append(of_day.get(str(day), ""))
    return {label: of_label if all(of_label) else [] for label, of_label in found.items()}


def days_of(first: date, last: date) -> list[date]:
    """Return the days from one to another, both included."""
    return [first + n * DAY for n in range((last - first).days + 1)]


def percent(part: int, whole: int) -> float:
    """Return a share in percent, with one decimal."""
    return round(100 * part / whole, 1) if whole else 0.0


def change(clicks: int, before: int | None) -> float | None:
    """Return by how much clicks changed, in percent; None where they were 0 or are not known."""
    return percent(clicks - before, before) if before else None


def comparison(row: Compared) -> tuple[str | None, int | None, float | None]:
    """Return what a row is compared with, its clicks, and the change; what is left over has none."""
    changed = None if row.labels[-1] is None else change(row.clicks, row.before)
    return row.compared_with, row.before, changed


def shares(rows: Mapping[Labels, int], whole: int | None = None) -> dict[Labels, float]:
    """Return the share of each row in the whole, or in the clicks of its group, in percent."""
    sums = Counter[Labels]()
    for labels, n in rows.items():
        sums[labels[:-1]] += n
    return {of: percent(n, sums[of[:-1]] if whole is None else whole) for of, n in rows.items()}


def averages(days: Mapping[tuple[str, ...], int], not_over: date | None) -> dict[str, float]:
    """Return the clicks a day of each weekday, but for the day that is not over."""
    over = {labels: n for labels, n in days.items() if labels[-1] != str(not_over)}
    number = Counter(label_of(labels[-1], "weekday") for labels in over)
    return {labels[-1]: round(n / number[labels[-1]], 1) for labels, n in rolled(over, "weekday").items()}
