"""Guide: which months of a range can have clicks by all-time statistics, and whether the days agree."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo

from .._models import RangeStats, breakdown_of
from .payloads import PeriodAnswer
from .queries import DateRange, TimeSlice, range_slice
from .split import (
    Month,
    by_month,
    flattened,
    last_day,
    midnight,
    month_of,
    months,
    offsets_of_days,
    spans,
    tiled,
)

_DAY = timedelta(days=1)


class Guide:
    """Months of one DateRange to ask for, given all-time breakdowns of the same selector.

    The current and the previous month are always asked for, as their clicks still arrive. All-time
    statistics are asked under every offset that the zone has in the range: a month is left out only when it
    is zero under all of them. Whether a service reads `timezone` there is not shown (Statistics for all
    time): where the zone is ahead of UTC, the month after one with clicks is asked for too, where it is
    behind, the month before.
    """

    def __init__(self, query: DateRange, zone: tzinfo, now: datetime) -> None:
        self._first, self._last = query.span(zone)
        today = now.astimezone(zone).date()
        recent = month_of(today.replace(day=1) - _DAY)
        #: The wall clock's time (seconds) by which, in every zone, all months had ended that may be left out:
        #: an answer fetched earlier, say one in a journal, must not guide.
        self.settled_at = (midnight(date(*recent, 1)) + _DAY).timestamp()
        self._span = months(self._first, self._last)
        self.always = frozenset(month for month in self._span if month >= recent)
        # Found once, not for each of thousands of answers.
        self._parts = spans(*query.bounds, zone)
        #: Offsets to ask all-time statistics under.
        self.offsets = offsets_of_days(zone, self._first, self._last)
        whole_days = not any(isinstance(bound, datetime) for bound in query.bounds)
        self._known = dict(self._months_of_one_offset(zone)) if whole_days else {}
        self._shifts = {1 for offset in self.offsets if offset > timedelta()}
        self._shifts |= {-1 for offset in self.offsets if offset < timedelta()}

    def active(self, answers: Iterable[PeriodAnswer]) -> frozenset[Month] | None:
        """Return the months to ask for; None where a breakdown does not add up and cannot guide."""
        found: set[Month] = set()
        for answer in answers:
            counts = _counts(answer)
            if sum(counts.values()) != answer.clicks_total:
                return None
            found.update(month for month, n in counts.items() if n)
        found.update([_shifted(month, by) for month in found for by in self._shifts])
        return self.always | found.intersection(self._span)

    def time_slices(self, months: Container[Month], range_end: str) -> list[TimeSlice]:
        """Split what of the range lies in some months, into as few requests as can be."""
        return [range_slice(window, range_end) for window in tiled(self._parts, months)]

    def expected(self, answers: Iterable[PeriodAnswer]) -> dict[Month, int]:
        """Return the clicks of the months that are past, whole in the range and under one offset."""
        by_offset = {offset: _counts(answer) for offset, answer in zip(self.offsets, answers, strict=True)}
        return {month: by_offset[offset].get(month, 0) for month, offset in self._known.items()}

    def _months_of_one_offset(self, zone: tzinfo) -> Iterator[tuple[Month, timedelta]]:
        for month in self._span:
            first, last = date(*month, 1), last_day(month)
            if month in self.always or first < self._first or last > self._last:
                continue
            under = offsets_of_days(zone, first, last)
            if len(under) == 1:
                yield month, under[0]


def contradicts(stats: RangeStats, expected: Mapping[Month, int]) -> bool:
    """Return whether the days of a result differ from the months that guided it."""
    if not stats.days_complete:
        return False
    counted = by_month(stats.clicks)
    return any(counted.get(month, 0) != clicks for month, clicks in expected.items())


def _shifted(month: Month, by: int) -> Month:
    year, n = divmod(month[0] * 12 + month[1] - 1 + by, 12)
    return year, n + 1


def _counts(answer: PeriodAnswer) -> dict[Month, int]:
    return flattened(breakdown_of(answer))
