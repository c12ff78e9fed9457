"""The span of a report in a zone, and what all-time months can say about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise

from .._core.queries import DateRange
from .._core.split import Month, by_month, format_offset, last_day, month_of, months, offsets_of_days
from .._errors import InvalidRequestError
from .._models import RangeStats

_DAY = timedelta(days=1)


class Span:
    """Hold the days of a report and of the span before it, in a zone.

    All-time statistics are asked under one offset, the largest that the zone has in both spans: their
    months then begin no later than the zone's, and end at most a day before them.
    """

    def __init__(self, start: date | str, end: date | str, zone: tzinfo, now: datetime) -> None:
        first, last = DateRange(start, end).bounds
        if isinstance(first, datetime) or isinstance(last, datetime):
            raise InvalidRequestError("a report covers whole days: give dates, not date-times")
        self.first: date = first
        self.last: date = last
        try:
            self.before_first: date = first - (last - first) - _DAY
            self.before_last: date = first - _DAY
            found = offsets_of_days(zone, self.before_first, self.last)
        except OverflowError:
            raise InvalidRequestError(f"{start} to {end} lies outside the calendar") from None
        self.offset = max(found)
        self.one_offset = len(found) == 1
        self._slack = timedelta() if self.one_offset else _DAY
        today = now.astimezone(zone).date()
        self.has_ended = self.last < today
        # As for every guided question: clicks of the current and the previous month still arrive.
        self._recent = month_of(today.replace(day=1) - _DAY)

    @property
    def question(self) -> DateRange:
        """Give the question for the span."""
        return DateRange(self.first, self.last)

    @property
    def fixed(self) -> timezone:
        """Give the zone that all-time statistics are asked in."""
        return timezone(self.offset)

    @property
    def question_before(self) -> DateRange:
        """Give the question for the span before."""
        return DateRange(self.before_first, self.before_last)

    def touched(self, first: date | None = None, last: date | None = None) -> list[Month]:
        """List the all-time months that clicks of some days (None: of the span) are counted in."""
        return months(first or self.first, (last or self.last) + self._slack)

    def inside(self) -> list[Month]:
        """List the all-time months that lie within the span."""
        return whole_months(self.first + self._slack, self.last)

    def inside_before(self) -> list[Month]:
        """List the months of the span before that all-time statistics count exactly as its days would."""
        if not self.one_offset or self.is_recent(month_of(self.before_last)):
            return []
        return whole_months(self.before_first, self.before_last)

    def is_recent(self, month: Month) -> bool:
        """Tell whether clicks of a month still arrive, so that a zero means nothing."""
        return month >= self._recent

    def bounds(self, ever: Mapping[Month, int]) -> dict[Month, int]:
        """Give those of all-time months that bear on the span, zeros left out."""
        return {month: ever[month] for month in self.touched() if ever.get(month)}

    def edges(self) -> list[DateRange]:
        """Give the days of the span that lie in no all-time month within it."""
        return edges(self.first, self.last, self.inside())

    def lags(self, stats: RangeStats, ever: Mapping[Month, int]) -> bool:
        """Tell whether days hold more clicks than the all-time months that they lie in."""
        if stats.total > sum(self.bounds(ever).values()):
            return True
        return self.one_offset and any(n > ever.get(month, 0) for month, n in by_month(stats.clicks).items())

    def contradicted(self, stats: RangeStats, ever: Mapping[Month, int]) -> bool:
        """Tell whether days differ from the all-time months that end where they end."""
        if not (self.one_offset and stats.days_complete and stats.reconciles):
            return False
        counted = by_month(stats.clicks)
        past = [month for month in self.inside() if not self.is_recent(month)]
        return any(counted.get(month, 0) != ever.get(month, 0) for month in past)

    def years(self, zone: tzinfo) -> dict[int, str] | None:
        """Give the calendar years of the span and the offset to ask for each under.

        None where they say little: the span covers less than half of them, or one begins under another
        offset than it ends under.
        """
        years = range(self.first.year, self.last.year + 1)
        days = (date(years[-1], 12, 31) - date(years[0], 1, 1)).days + 1
        if 2 * ((self.last - self.first).days + 1) < days or years[-1] > 9998:
            return None
        starts = [
            datetime(year, 1, 1, tzinfo=zone).utcoffset() or timedelta() for year in (*years, years[-1] + 1)
        ]
        if any(a != b for a, b in pairwise(starts)):
            return None
        return {year: format_offset(starts[0]) for year in years}

    @property
    def is_whole_year(self) -> bool:
        """Tell whether the span is one calendar year."""
        return (self.first, self.last) == (date(self.last.year, 1, 1), date(self.last.year, 12, 31))


def whole_months(first: date, last: date) -> list[Month]:
    """List the months that lie within two dates and the days between them."""
    return [month for month in months(first, last) if date(*month, 1) >= first and last_day(month) <= last]


def edges(first: date, last: date, whole: list[Month]) -> list[DateRange]:
    """Give the days from one date to another that lie in none of these months, which are neighbours."""
    if not whole:
        return [DateRange(first, last)]
    begins, ends = date(*whole[0], 1), last_day(whole[-1])
    found = [(first, begins - _DAY)] if first < begins else []
    return [DateRange(*days) for days in (*found, *([(ends + _DAY, last)] if ends < last else []))]
