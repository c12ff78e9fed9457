"""Statistics by dimension, and which of them are compared with which of other days."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import NamedTuple

from .. import CountryGeo, DateRange, PeriodStats, Query, RangeStats, Statistics, Year
from .._internal import days, days_apart, last_day, many
from .output import MOST_DAYS, WEEKDAYS, labels, weekday
from .selection import ResolvedPeriod


class Counted(NamedTuple):
    """Statistics, and the clicks of what they have not themselves: tags, hours, hours of the week."""

    stats: Statistics
    special: dict[str, int] | None = None

    def by(self, dimension: str) -> dict[str, int]:
        """Return the clicks of every label of a dimension."""
        return labels(self.stats, dimension) if self.special is None else self.special


class Comparison:
    """What statistics are compared with: times with times, labels with the same labels."""

    def __init__(self, before: Counted, resolved: ResolvedPeriod, query: Query[Statistics]) -> None:
        self.before = before
        self.text = resolved.text_before
        self._span, self._earlier = dates_of(resolved.so_far), dates_of(resolved.before)
        self._lengths = unlike_lengths(resolved)
        self._is_year = isinstance(query, Year)
        #: Clicks of days or hours that none is compared with, as far as clicks were asked for.
        self._unmatched = 0
        #: Whether the last day is not over, and is compared with as much of a day.
        self._is_cut = resolved.so_far != resolved.whole
        #: Whether that day, which is not over, is compared with a whole one.
        self._has_today = isinstance(query, CountryGeo) and self._is_cut
        #: Months of which unlike numbers of days are compared, in words.
        self._differing: list[str] = []
        self._apart = timedelta(days_apart(*dates_of(resolved.whole), *self._earlier))

    def caveats(self, by: str | None) -> Iterator[str]:
        """Yield what has to be known of the two spans."""
        if self._has_today:
            yield "today, which is not over, is compared with a whole day"
        if missing := [name for name in self._uncounted if by in (None, name)]:
            yield f"part of a year has no clicks by {' and '.join(missing)} to compare with"
        if self._lengths:
            yield self._lengths
        if by in (None, "day", "hour", "week") and self._apart != self._span[0] - self._earlier[0]:
            text = (
                f"days are compared with those {self._apart.days} days earlier, which are the same weekdays"
            )
            yield f"{text}; what then lies outside the other span is left empty"
        elif by == "week" and self._apart.days % 7:
            yield f"the days of each week are compared with those {self._apart.days} days earlier"
        yield from self._differing
        if by in ("weekday", "weekday-hour") and (uneven := self._uneven_weekdays()):
            yield f"the spans have some weekdays more often: {uneven}"
        if self._unmatched:
            yield f"{many(self._unmatched, 'click')} before are on days or hours that none is compared with"

    @property
    def _uncounted(self) -> list[str]:
        """The dimensions that a year has, and the part of a year that it is compared with has not."""
        is_range = isinstance(self.before.stats, RangeStats) and self._is_year
        return ["timezone", "language"] if is_range else []

    def _uneven_weekdays(self) -> str:
        """Return in words which weekdays the two spans have not equally often."""
        now, before = (Counter(map(weekday, days(*span))) for span in (self._span, self._earlier))
        uneven = [name for name in WEEKDAYS if now[name] != before[name]]
        return ", ".join(f"{name} {now[name]} times and {before[name]} before" for name in uneven)

    def of(self, dimension: str, counts: Mapping[str, int]) -> dict[str, int | None]:
        """Return the clicks of each label before, None for times that have none; labels that are gone too."""
        if dimension in self._uncounted:
            return dict.fromkeys(counts)
        earlier = self.before.by(dimension)
        if dimension == "hour":
            # By local time, whatever the offset was.
            local = Counter[str]()
            for label, clicks in earlier.items():
                local[label[:16]] += clicks
            earlier = dict(local)
        if dimension not in ("day", "hour", "week", "month"):
            return {label: earlier.get(label, 0) for label in dict.fromkeys((*counts, *earlier))}
        if dimension == "month":
            found = {label: self._in_month(label, earlier) for label in counts}
        elif dimension == "week":
            found = {label: self._in_week(label) for label in counts}
        else:
            # The second of two hours of the same local time has none.
            first_of = {label[:16]: label for label in reversed([*counts])}
            found = {
                label: self._at_time(label, earlier) if first_of[label[:16]] == label else None
                for label in counts
            }
        self._unmatched = sum(earlier.values()) - sum(filter(None, found.values()))
        return found

    def _at_time(self, label: str, earlier: Mapping[str, int]) -> int | None:
        """Return the clicks of the time that a day or an hour is compared with."""
        day = self._day_before(date.fromisoformat(label[:10]), is_hour=len(label) > 10)
        return None if day is None else earlier.get(f"{day}{label[10:16]}", 0)

    def _day_before(self, day: date, *, is_hour: bool = False) -> date | None:
        """Return the day that another is compared with.

        None where that lies outside the other span, or is a whole day and this one is not over.
        """
        earlier = day - self._apart
        is_like = is_hour or not self._is_cut or day < self._span[1] or earlier == self._earlier[1]
        return earlier if is_like and self._earlier[0] <= earlier <= self._earlier[1] else None

    def _in_week(self, label: str) -> int | None:
        """Return the clicks of the days that those of a week are compared with; None unless all have one."""
        monday, by_day = date.fromisoformat(label), self.before.by("day")
        week = days(max(monday, self._span[0]), min(monday + timedelta(6), self._span[1]))
        compared = [self._day_before(day) for day in week]
        return None if None in compared else sum(by_day.get(str(day), 0) for day in compared)

    def _in_month(self, label: str, earlier: Mapping[str, int]) -> int | None:
        """Return the clicks of the month that another is compared with.

        Of a part of a month those of the same days of the other one, as far as that has them.
        """
        apart = _month(self._span[0]) - _month(self._earlier[0])
        year, number = divmod(_month(date.fromisoformat(f"{label}-01")) - apart, 12)
        name = f"{year:04d}-{number + 1:02d}"
        now, before = _days_in(label, self._span), _days_in(name, self._earlier)
        if not now or not before:
            return None
        are_whole = now == _days_in(label) and before == _days_in(name)
        if are_whole or not isinstance(self.before.stats, RangeStats):
            return earlier.get(name, 0)
        numbers = {day.day for day in now}
        same = [day for day in before if day.day in numbers]
        if len(same) != len(now):
            told = f"with {same[0]}..{same[-1].day:02d}" if same else "with no day"
            self._differing.append(f"{now[0]}..{now[-1].day:02d} is compared {told}")
        self._has_today |= self._is_cut and self._span[1] in now and self._earlier[1] not in same
        return sum(self.before.stats.clicks.get(day, 0) for day in same)


def _days_in(month: str, span: tuple[date, date] = (date.min, date.max)) -> list[date]:
    """Return the days of a month, YYYY-MM, that lie in a span."""
    first = date.fromisoformat(f"{month}-01")
    return list(days(max(first, span[0]), min(last_day(first), span[1])))


def dates_of(span: DateRange) -> tuple[date, date]:
    """Return the first and the last day of a span."""
    first, last = (bound.date() if isinstance(bound, datetime) else bound for bound in span.bounds)
    return first, last


def unlike_lengths(resolved: ResolvedPeriod) -> str:
    """Return in words how many days two spans have that are compared; empty where they have equally many."""
    lengths = [(last - first).days + 1 for first, last in map(dates_of, (resolved.so_far, resolved.before))]
    return "the two spans have {} and {} days".format(*lengths) if len({*lengths}) > 1 else ""


def _month(day: date) -> int:
    return 12 * day.year + day.month - 1


#: The clicks of a label, and those it is compared with: None if there is no such label, or no comparison.
Clicks = tuple[int, int | None]


def sections_of(
    now: Counted,
    by: str | None,
    comparison: Comparison | None,
    resolved: ResolvedPeriod | None,
    *,
    is_drawn: bool,
) -> dict[str, dict[str, Clicks]]:
    """Return the clicks of the labels of one dimension, or of all."""
    stats = now.stats
    names = [by] if by is not None else list(stats.DIMENSIONS.values())
    if by is None and isinstance(stats, PeriodStats):
        names.insert(0, "month")
    elif by is None and is_drawn and isinstance(stats, RangeStats) and len(stats.clicks) > MOST_DAYS:
        names[0] = "month"
    found: dict[str, dict[str, Clicks]] = {}
    for name in names:
        counts = now.by(name)
        if comparison is None:
            found[name] = {label: (clicks, None) for label, clicks in counts.items()}
            continue
        if name == "month" and resolved is not None:
            # A year has no months without clicks, which may have had some before.
            months = [f"{day:%Y-%m}" for day in days(*dates_of(resolved.so_far)) if day.day == 1]
            counts = dict.fromkeys(months, 0) | counts
        before = comparison.of(name, counts)
        found[name] = {label: (counts.get(label, 0), earlier) for label, earlier in before.items()}
    return found
