"""Guide: months of a range that can have clicks, according to all-time statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo

from .._models import breakdown_of
from .halving import subtract
from .payloads import PeriodAnswer, RangeAnswer
from .queries import AllTime, DateRange, TimeSlice, range_slice
from .windows import (
    Month,
    Window,
    cut_into_windows,
    flattened,
    last_day,
    midnight,
    month_of,
    months,
    offsets_of_days,
    split_by_utc_offset,
)

_DAY = timedelta(days=1)

#: Clicks by month, of all time, under each offset of a guide.
Counts = Sequence[Mapping[Month, int]]


class Guide:
    """Selection of the months of a DateRange to request, by all-time statistics of the same selector.

    The current and the previous month are always requested, as their clicks still arrive. All-time
    statistics are requested under every offset of the zone in the range; a month is skipped only if it is
    zero under all of them. The document does not show whether `timezone` has an effect on them. Until an
    answer has shown that it does, the month after one with clicks is requested too if the zone is ahead of
    UTC, and the month before if it is behind. See docs/service.md, Statistics for all time.
    """

    def __init__(self, query: DateRange, zone: tzinfo, now: datetime) -> None:
        self._first, self._last = query.span(zone)
        today = now.astimezone(zone).date()
        recent = month_of(today.replace(day=1) - _DAY)
        #: The wall clock's time (seconds) by which all months that may be skipped had ended in every zone:
        #: answers fetched earlier, for example from a journal, are not used.
        self.settled_at = (midnight(date(*recent, 1)) + _DAY).timestamp()
        self.months = months(self._first, self._last)
        self.always = frozenset(month for month in self.months if month >= recent)
        # Computed once, because it is needed for thousands of answers.
        self._parts = split_by_utc_offset(*query.bounds, zone)
        #: Offsets under which all-time statistics are requested.
        self.offsets = offsets_of_days(zone, self._first, self._last)
        #: The time slice for each of them.
        self.all_time = [AllTime().time_slice(offset, self.settled_at) for offset in self.offsets]
        self._shifts = {1 for offset in self.offsets if offset > timedelta()}
        self._shifts |= {-1 for offset in self.offsets if offset < timedelta()}
        #: The time slice for +00:00, if needed to find out whether `timezone` has an effect.
        self.in_utc = None
        if self._shifts and len(self.offsets) == 1:
            self.in_utc = AllTime().time_slice(timedelta(), self.settled_at)
        whole_days = not any(isinstance(bound, datetime) for bound in query.bounds)
        self._known = dict(self._months_of_one_offset(zone)) if whole_days else {}

    def counts(self, answers: Sequence[PeriodAnswer]) -> Counts | None:
        """Return the clicks of months that have ended, or None if a breakdown does not add up."""
        found: list[Mapping[Month, int]] = []
        for answer in answers:
            counts = flattened(breakdown_of(answer))
            if sum(counts.values()) != answer.clicks_total or any(n < 0 for n in counts.values()):
                return None
            found.append({month: n for month, n in counts.items() if n and month not in self.always})
        return found

    def clicks(self, counts: Counts) -> list[int]:
        """Return the clicks of each month of the range that has ended, the maximum over all offsets."""
        past = (month for month in self.months if month not in self.always)
        return [max(of_offset.get(month, 0) for of_offset in counts) for month in past]

    @staticmethod
    def beyond(whole: Counts, part: Counts) -> Counts | None:
        """Return the counts of `whole` minus `part`; None if one would be negative."""
        found: list[Mapping[Month, int]] = []
        for a, b in zip(whole, part, strict=True):
            rest = subtract(a, b)
            if rest is None:
                return None
            found.append(rest)
        return found

    def active(self, counts: Counts, *, zone_is_read: bool) -> frozenset[Month]:
        """Return the months to request."""
        found = {month for of_offset in counts for month in of_offset}
        if not zone_is_read:
            found.update([_shifted(month, by) for month in found for by in self._shifts])
        return self.always | found.intersection(self.months)

    def time_slices(self, active: frozenset[Month], range_end: str) -> list[TimeSlice]:
        """Return time slices for these months of the range, at least one per month."""
        slices: list[TimeSlice] = []
        for month in self.months:
            if month in active:
                slices += [
                    range_slice(window, range_end) for window in cut_into_windows(self._parts, (month,))
                ]
        return slices

    def contradicts(self, answer: RangeAnswer, window: Window, counts: Counts) -> bool:
        """Return whether the answer for one month differs from the all-time statistics.

        Compares only past months that are completely in the range and have one offset.
        """
        month = month_of(window.first)
        offset = self._known.get(month)
        if offset is None or (window.first, window.last) != (date(*month, 1), last_day(month)):
            return False
        return counts[self.offsets.index(offset)].get(month, 0) != answer.total_clicks

    def _months_of_one_offset(self, zone: tzinfo) -> Iterator[tuple[Month, timedelta]]:
        for month in self.months:
            first, last = date(*month, 1), last_day(month)
            if month in self.always or first < self._first or last > self._last:
                continue
            under = offsets_of_days(zone, first, last)
            if len(under) == 1:
                yield month, under[0]


def shows_zone(counts: Counts) -> bool:
    """Return whether months differ between offsets, which shows that `timezone` has an effect."""
    return any(of_offset != counts[0] for of_offset in counts)


def _shifted(month: Month, by: int) -> Month:
    year, n = divmod(month[0] * 12 + month[1] - 1 + by, 12)
    return year, n + 1
