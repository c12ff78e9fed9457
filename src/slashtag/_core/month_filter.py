"""Months of a range in which a batch can have clicks, according to its all-time statistics.

They only help: months that they show empty are not requested. If they are missing, unusable, older than the
months in question or contradict the answer for a month, every window is requested instead.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

from .queries import AllTime, DateRange
from .windows import DAY, SECOND, RangeEnd, TimeSlice, Window, midnight, range_slice, windows

#: Clicks of all time by year and month in UTC.
Counts = Mapping[int, Mapping[int, int]]


class MonthFilter:
    """Choice of the windows of a DateRange in which a batch is requested, none longer than a month.

    All-time statistics are requested in UTC. A window of another zone may lie in two months of UTC, so it is
    skipped only if both are empty. The current and the previous month are never skipped, as their clicks may
    still arrive. See docs/service.md, Statistics for all time.
    """

    def __init__(self, query: DateRange, zone: tzinfo, now: datetime, range_end: RangeEnd) -> None:
        self._current = now.astimezone(zone).date().replace(day=1)
        self._recent = (self._current - DAY).replace(day=1)
        #: The windows of the range, and the time slice of each.
        self.time_slices: dict[Window, TimeSlice] = {}
        for window in windows(*query.bounds, zone, within_months=True):
            self.time_slices[window] = range_slice(window, range_end)
        #: The time slice of all-time statistics; an answer from before these months had ended is of no use.
        self.all_time_slice = AllTime()._time_slice(timedelta(), (midnight(self._recent) + DAY).timestamp())

    def is_active(self, window: Window, counts: Counts) -> bool:
        """Return whether a batch can have clicks in a window of the range."""
        return window.first >= self._recent or _most(window, counts) > 0

    def contradicts(self, window: Window, clicks: int, counts: Counts) -> bool:
        """Return whether a batch has other clicks in a window than all-time statistics show."""
        if window.first >= self._current:
            return False
        ends = window.start.astimezone(UTC), window.end.astimezone(UTC) + SECOND
        is_month = all(at == midnight(at.replace(day=1)) for at in ends)
        most = _most(window, counts)
        return clicks > most or (is_month and clicks < most)


def _most(window: Window, counts: Counts) -> int:
    """Return the most clicks that a batch can have in a window."""
    months = {(at.year, at.month) for at in (window.start.astimezone(UTC), window.end.astimezone(UTC))}
    return sum(counts.get(year, {}).get(month, 0) for year, month in months)
