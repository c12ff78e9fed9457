"""Which months of a range are worth asking for, and whether what they brought agrees with that."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo

from .._models import RangeStats
from .payloads import PeriodAnswer
from .queries import DateRange, TimeSlice, range_piece
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
from .tally import breakdown_of

_DAY = timedelta(days=1)


class Guide:
    """Choose the months of one DateRange to ask for, by the all-time breakdowns of what is asked about.

    The current and the previous month are always asked for, as their clicks still arrive. All-time
    statistics are asked under every offset that the zone has in the range: a month is left out only when it
    is zero under all of them.
    """

    def __init__(self, query: DateRange, zone: tzinfo, now: datetime) -> None:
        self._first, self._last = query.span(zone)
        today = now.astimezone(zone).date()
        recent = month_of(today.replace(day=1) - _DAY)
        #: The wall clock's time (seconds) by which, in every zone, all months had ended that an answer may
        #: leave out: an older one must not guide, say that of a journal.
        self.settled_at = (midnight(date(*recent, 1)) + _DAY).timestamp()
        self._span = months(self._first, self._last)
        self.always = frozenset(month for month in self._span if month >= recent)
        # What only the zone can tell is found once, not for each of thousands of answers.
        self._parts = spans(*query.bounds, zone)
        #: Offsets to ask all-time statistics under.
        self.offsets = offsets_of_days(zone, self._first, self._last)
        whole_days = not any(isinstance(bound, datetime) for bound in query.bounds)
        self._known = dict(self._months_of_one_offset(zone)) if whole_days else {}

    def active(self, answers: Iterable[PeriodAnswer]) -> frozenset[Month] | None:
        """Give the months to ask for; None where a breakdown does not add up and cannot guide."""
        found = set(self.always)
        for answer in answers:
            counts = _counts(answer)
            if sum(counts.values()) != answer.clicks_total:
                return None
            found.update(month for month in self._span if counts.get(month))
        return frozenset(found)

    def pieces(self, months: Container[Month], range_end: str) -> list[TimeSlice]:
        """Give what of the range lies in some months, in as few requests."""
        return [range_piece(window, range_end) for window in tiled(self._parts, months)]

    def expected(self, answers: Iterable[PeriodAnswer]) -> dict[Month, int]:
        """Give the clicks of the months that the range covers whole, under one offset, and that are past."""
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
    """Tell whether the days of an answer miss the months that guided it."""
    if not stats.days_complete:
        return False
    counted = by_month(stats.clicks)
    return any(counted.get(month, 0) != clicks for month, clicks in expected.items())


def _counts(answer: PeriodAnswer) -> dict[Month, int]:
    return flattened(breakdown_of(answer))
