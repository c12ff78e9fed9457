"""Months of a range in which a batch can have clicks, according to its all-time statistics.

They only help: months that they show empty are not requested. If they are missing, unusable, older than the
months in question or contradict the answer for a month, every window is requested instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta, tzinfo

from .._models import PeriodStats
from .queries import AllTime, DateRange, TimeSlice, range_slice
from .windows import (
    Month,
    Window,
    flattened,
    last_day,
    midnight,
    month_of,
    months,
    offsets_of_days,
    split_by_utc_offset,
    windows_of_month,
)

_DAY = timedelta(days=1)

#: Clicks of all time by month in UTC.
Counts = Mapping[Month, int]


class MonthFilter:
    """Choice of the months of a DateRange in which a batch is requested.

    All-time statistics are requested in UTC. A month of another zone also has hours of the month before or
    after in UTC, so it is skipped only if that is empty too. The current and the previous month are never
    skipped, as their clicks may still arrive. See docs/service.md, Statistics for all time.
    """

    def __init__(self, query: DateRange, zone: tzinfo, now: datetime, range_end: str) -> None:
        first, last = query.span(zone)
        today = now.astimezone(zone).date()
        recent = month_of(today.replace(day=1) - _DAY)
        self._current = month_of(today)
        #: The months of the range, and the time slices of each.
        self.time_slices: dict[Month, list[TimeSlice]] = {}
        # Split once: this scans the whole range for changes of the offset.
        parts = split_by_utc_offset(*query.bounds, zone)
        for month in months(first, last):
            windows = windows_of_month(parts, month)
            self.time_slices[month] = [range_slice(window, range_end) for window in windows]
        self._always = {month for month in self.time_slices if month >= recent}
        offsets = offsets_of_days(zone, first, last)
        self._is_utc = offsets == [timedelta()]
        is_ahead, is_behind = max(offsets) > timedelta(), min(offsets) < timedelta()
        self._nearby = [0, *[-1] * is_ahead, *[1] * is_behind]
        #: The time slice of all-time statistics; an answer from before these months had ended is of no use.
        self.all_time = AllTime().time_slice(timedelta(), (midnight(date(*recent, 1)) + _DAY).timestamp())

    def counts(self, answer: PeriodStats) -> Counts:
        """Return the clicks by month; raise ValueError if they do not add up to the total."""
        counts = flattened(answer.clicks_breakdown)
        if sum(counts.values()) != answer.clicks_total or any(count < 0 for count in counts.values()):
            raise ValueError("the months do not add up to the total")
        return counts

    def is_active(self, month: Month, counts: Counts) -> bool:
        """Return whether a batch can have clicks in a month of the range."""
        return month in self._always or self._most(month, counts) > 0

    def contradicts(self, window: Window, clicks: int, counts: Counts) -> bool:
        """Return whether a batch has other clicks in a window than all-time statistics show."""
        month = month_of(window.first)
        if month >= self._current:
            return False
        whole = (window.first, window.last) == (date(*month, 1), last_day(month))
        most = self._most(month, counts)
        return clicks > most or (whole and self._is_utc and clicks < most)

    def _most(self, month: Month, counts: Counts) -> int:
        """Return the most clicks that a batch can have in a month."""
        number = month[0] * 12 + month[1] - 1
        return sum(counts.get(((number + n) // 12, (number + n) % 12 + 1), 0) for n in self._nearby)
