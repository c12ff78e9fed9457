"""Statistics by dimension, and which of them are compared with which of other days."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import NamedTuple

from .. import CountryGeo, DateRange, PeriodStats, Query, RangeStats, Statistics, Year
from .._internal import days, days_apart, many
from .output import MOST_DAYS, labels
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
        self._is_year = isinstance(query, Year)
        #: Clicks of days or hours that none is compared with, as far as clicks were asked for.
        self._unmatched = 0
        #: Whether whole days are counted, also the one that is not over.
        self._has_today = isinstance(query, CountryGeo) and resolved.so_far != resolved.whole
        self._apart = timedelta(days_apart(*dates_of(resolved.whole), *self._earlier))

    def caveats(self, by: str | None) -> Iterator[str]:
        """Yield what has to be known of the two spans."""
        if self._has_today:
            yield "today, which is not over, is compared with a whole day"
        if missing := [name for name in self._uncounted if by in (None, name)]:
            yield f"part of a year has no clicks by {' and '.join(missing)} to compare with"
        lengths = [(last - first).days + 1 for first, last in (self._span, self._earlier)]
        if len({*lengths}) > 1:
            yield "the two spans have {} and {} days".format(*lengths)
        if by in (None, "day", "hour") and self._apart != self._span[0] - self._earlier[0]:
            text = (
                f"days are compared with those {self._apart.days} days earlier, which are the same weekdays"
            )
            yield f"{text}; what then lies outside the other span is left empty"
        if self._unmatched:
            yield f"{many(self._unmatched, 'click')} before are on days or hours that none is compared with"

    @property
    def _uncounted(self) -> list[str]:
        """The dimensions that a year has, and the part of a year that it is compared with has not."""
        is_range = isinstance(self.before.stats, RangeStats) and self._is_year
        return ["timezone", "language"] if is_range else []

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
        found: dict[str, int | None] = {}
        times = set[str]()
        for label in counts:
            # The second of two hours of the same local time has none.
            is_first = label[:16] not in times
            found[label] = self._at_time(dimension, label, earlier) if is_first else None
            times.add(label[:16])
        self._unmatched = sum(earlier.values()) - sum(filter(None, found.values()))
        return found

    def _at_time(self, dimension: str, label: str, earlier: Mapping[str, int]) -> int | None:
        """Return the clicks of the time that a day, hour, week or month is compared with."""
        first, last = self._earlier
        if dimension == "month":
            apart = _month(self._span[0]) - _month(first)
            year, month = divmod(_month(date.fromisoformat(f"{label}-01")) - apart, 12)
            name, is_in = f"{year:04d}-{month + 1:02d}", _month(first) <= 12 * year + month <= _month(last)
        elif dimension == "week":
            mondays = [day - timedelta(day.weekday()) for day in (self._span[0], first)]
            day = date.fromisoformat(label) - (mondays[0] - mondays[1])
            name, is_in = str(day), mondays[1] <= day <= last
        else:
            day = date.fromisoformat(label[:10]) - self._apart
            name, is_in = f"{day}{label[10:16]}", first <= day <= last
        return earlier.get(name, 0) if is_in else None


def dates_of(span: DateRange) -> tuple[date, date]:
    """Return the first and the last day of a span."""
    first, last = (bound.date() if isinstance(bound, datetime) else bound for bound in span.bounds)
    return first, last


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
