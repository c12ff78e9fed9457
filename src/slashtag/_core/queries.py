"""Queries of the statistics endpoints.

A new statistics endpoint needs one more class here: its fields, validation, time slices and type of answer.
How an answer is checked is in answers.py, how results are added in _models.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from .._errors import InvalidRequestError
from .._models import GeoStats, PeriodStats, RangeStats, RunningSum, Span, Statistics
from .._records import PydanticType
from .answers import GeoAnswer, PeriodAnswer, RangeAnswer, StatsAnswer
from .batches import Selector
from .call import Call, check_int
from .spans import is_local, localized, parse_bound, parse_day, parse_span, spans_to_compare
from .windows import Bound, Window, format_offset, midnight, only_offset, segments, windows

R_co = TypeVar("R_co", covariant=True, bound=Statistics)
_Date = date

#: No click is older: link shorteners with statistics did not exist.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
#: Paths in the document's sample requests, where they differ from the stated ones.
SAMPLE_PATHS = {"stats/yearly": "stats", "stats/alltime": "stats"}
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


class TimeSlice(Struct, frozen=True):
    """Period of a query that one request covers; `window` is None for all time."""

    params: tuple[tuple[str, str], ...]
    label: str
    window: Window | None = None
    #: When the slice ends, in epoch seconds; inf: never.
    period_end: float = inf


class Query(PydanticType, Generic[R_co], frozen=True):
    """Base class of all statistics queries; `R_co` is the type of the result."""

    path: ClassVar[str]
    answer_type: ClassVar[type[StatsAnswer]]

    def resolve(self, zone: tzinfo | None, now: datetime) -> Query[R_co]:
        """Return the query without values that depend on the present day, or on the zone if one is given."""
        return self

    def time_slices(self, zone: tzinfo, now: datetime, range_end: str) -> Sequence[TimeSlice]:
        """Split the query by time, according to the zone and the limits of the service."""
        raise NotImplementedError

    def span(self, zone: tzinfo) -> Span | None:
        """Return the first and last date of the result, None for a query without days."""
        return None

    def running_sum(self, span: Span | None) -> RunningSum[R_co]:
        """Return an empty sum, to which the results of all requests are added; see `span`."""
        return cast("RunningSum[R_co]", RunningSum(self.answer_type.result_type, span))

    def call(self, selector: Selector, time_slice: TimeSlice) -> Call[Any]:
        """Return the call for one time slice and one selector."""
        return Call(
            method="GET",
            path=self.path,
            params=selector.params() + time_slice.params,
            returns=self.answer_type,
            label=f"{selector}, {time_slice.label}",
            replayable=True,
            period_end=time_slice.period_end,
        )


def _timezone_param(offset: timedelta) -> tuple[tuple[str, str], ...]:
    # +00:00 is the documented default.
    return (("timezone", format_offset(offset)),) if offset else ()


def _whole_period(
    zone: tzinfo, start: Bound, end: Bound, label: str, *params: tuple[str, str]
) -> Sequence[TimeSlice]:
    """Return the time slice of days that cannot be split; none if the zone skips them."""
    found = windows(start, end, zone)
    if not found:  # Pacific/Apia had no 2011-12-30
        return ()
    offset = only_offset(zone, (window.offset for window in found), label)
    whole = Window(found[0].start, found[-1].end)
    return (TimeSlice((*params, *_timezone_param(offset)), label, whole, whole.ended),)


class DateRange(Query[RangeStats], frozen=True):
    """Statistics of a range of days, or of seconds, of any length.

    `start` and `end` are both included. Dates (`date` or "YYYY-MM-DD") are whole days in the `timezone`
    of the call; datetimes without an offset are local times there. Fractions of a second are dropped.
    `relative` is set instead where the days depend on today (`last`, `parse`). Raises InvalidRequestError.
    See docs/service.md, Statistics for a date or date range.
    """

    path = "stats"
    answer_type = RangeAnswer

    start: date | datetime | str | None = None
    end: date | datetime | str | None = None
    relative: str | None = None

    def __post_init__(self) -> None:
        if self.relative is not None:
            if self.start is not None or self.end is not None:
                raise InvalidRequestError("a range has a start and an end, or is relative to today")
            parse_span(self.relative, EPOCH.date())
            return
        force_setattr(self, "start", parse_bound("start", self.start))
        force_setattr(self, "end", parse_bound("end", self.end))
        start, end = self.bounds
        try:
            is_reversed = start > end
        except TypeError:
            # The date of an instant depends on the zone, so it may seem one day too early.
            is_reversed = (_local_date(start) - _local_date(end)).days > 1
        if is_reversed:
            raise InvalidRequestError(f"the range ends ({end}) before it starts ({start})")

    @classmethod
    def last(cls, days: int) -> DateRange:
        """Return the query for the last `days` days; today, in the `timezone` of the call, is the last."""
        check_int("days", days, 1, 9_999)
        return cls(relative=f"{days}d")

    @classmethod
    def parse(cls, text: str) -> DateRange:
        """Return the query for text such as `last-month`, `last-week`, `30d`, `2024-q3`, `2024-06`, `A..B`.

        What is relative to today is so in the `timezone` of the call, at the time of the call.
        """
        today = EPOCH.date()
        bounds = parse_span(text, today)
        return cls(*bounds) if bounds == parse_span(text, today + 400 * _DAY) else cls(relative=text)

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """Both ends as dates or datetimes; raises InvalidRequestError where they depend on today."""
        if not isinstance(self.start, date) or not isinstance(self.end, date):
            raise InvalidRequestError(
                f"{self.relative!r} is relative to today; resolve(zone, now) gives a range with bounds"
            )
        return self.start, self.end

    def resolve(self, zone: tzinfo | None, now: datetime) -> DateRange:
        """Return the range with bounds that no longer depend on the present day or on the zone.

        Raises InvalidRequestError for datetimes without an offset if the zone is None.
        """
        if self.relative is not None:
            start, end = parse_span(self.relative, now.astimezone(zone or UTC).date())
        elif any(map(is_local, self.bounds)):
            start, end = self.bounds
        else:
            return self
        return DateRange(localized(start, zone), localized(end, zone))

    def with_previous(self, zone: tzinfo, now: datetime) -> tuple[DateRange, DateRange]:
        """Return what can be counted of the range now, and the previous range to compare it with.

        Whole months are compared with as many whole months, other days with as many days, seconds with as
        many seconds. A range that is not over is counted up to now, and compared up to the same day and time
        of the previous one. Raises InvalidRequestError outside the calendar.
        """
        counted, before = spans_to_compare(*self.resolve(zone, now).bounds, now.astimezone(zone))
        return DateRange(*counted), DateRange(*before)

    def time_slices(self, zone: tzinfo, now: datetime, range_end: str) -> Sequence[TimeSlice]:
        # Cached for callers that repeat a range: splitting takes as long as a request.
        split = _fixed_range_slices if isinstance(zone, timezone) else _range_slices
        return split(*self.bounds, zone, range_end)

    def span(self, zone: tzinfo) -> Span:
        start, end = self.bounds
        try:
            return _local_date(start, zone), _local_date(end, zone)
        except OverflowError:
            raise InvalidRequestError(f"{start} to {end} lies outside the calendar of {zone}") from None


def _local_date(bound: Bound, zone: tzinfo | None = None) -> date:
    if not isinstance(bound, datetime):
        return bound
    return (bound.astimezone(zone) if zone is not None else bound).date()


def range_slice(window: Window, range_end: str) -> TimeSlice:
    """Return the time slice of one window of a date range."""
    end = window.end + _SECOND if range_end == "exclusive" else window.end
    span = f"{window.start.isoformat()},{end.isoformat()}"
    label, ended, offset = str(window), window.ended, window.offset
    return TimeSlice((("date_range", span), *_timezone_param(offset)), label, window, ended)


def _range_slices(start: Bound, end: Bound, zone: tzinfo, range_end: str) -> Sequence[TimeSlice]:
    return tuple(range_slice(window, range_end) for window in windows(start, end, zone))


def split_at(time_slice: TimeSlice, now: float, range_end: str) -> tuple[TimeSlice | None, TimeSlice]:
    """Return the days of a time slice that are over by a time (epoch seconds), if any, and the others."""
    window = time_slice.window
    assert window is not None
    zone = window.start.tzinfo
    today = midnight(datetime.fromtimestamp(now, zone).date(), zone or UTC)
    if today <= window.start:
        return None, time_slice
    past, present = Window(window.start, today - _SECOND), Window(today, window.end)
    return range_slice(past, range_end), range_slice(present, range_end)


_fixed_range_slices = lru_cache(maxsize=64)(_range_slices)


class Day(Query[RangeStats], frozen=True):
    """Statistics of one whole day in the `timezone` of the call.

    If the zone changes its offset on that date, it is requested as ranges. Raises InvalidRequestError.
    See docs/service.md, Statistics for a date or date range.
    """

    path = "stats"
    answer_type = RangeAnswer

    date: _Date | str

    def __post_init__(self) -> None:
        force_setattr(self, "date", parse_day("date", self.date))

    def time_slices(self, zone: tzinfo, now: datetime, range_end: str) -> Sequence[TimeSlice]:
        day, _ = self.span(zone)
        found = windows(day, day, zone)
        whole = len(found) == 1 and found[0].end - found[0].start == timedelta(days=1) - _SECOND
        if not whole:
            return [range_slice(window, range_end) for window in found]
        params = (("date", found[0].start.isoformat()), *_timezone_param(found[0].offset))
        return [TimeSlice(params, str(day), found[0], found[0].ended)]

    def span(self, zone: tzinfo) -> Span:
        assert not isinstance(self.date, str)
        return self.date, self.date


class Year(Query[PeriodStats], frozen=True):
    """Statistics of one calendar year in the `timezone` of the call, 4 digits.

    A zone with several offsets within the year raises InvalidRequestError. The request goes to the stated
    path; on a 404 the path of the document's samples is tried once.
    See docs/service.md, Statistics for a year.
    """

    path = "stats/yearly"
    answer_type = PeriodAnswer

    year: int

    def __post_init__(self) -> None:
        # A smaller number is probably a two-digit year.
        check_int("year", self.year, 1000, 9998)

    def time_slices(self, zone: tzinfo, now: datetime, range_end: str) -> Sequence[TimeSlice]:
        first, last = date(self.year, 1, 1), date(self.year, 12, 31)
        return _whole_period(zone, first, last, f"year {self.year}", ("year", f"{self.year:04d}"))


class AllTime(Query[PeriodStats], frozen=True):
    """Statistics of all time up to the present.

    A zone with several offsets since 2000 raises InvalidRequestError. The request goes to the stated path; on
    a 404 the path of the document's samples is tried once. See docs/service.md, Statistics for all time.
    """

    path = "stats/alltime"
    answer_type = PeriodAnswer

    def time_slices(self, zone: tzinfo, now: datetime, range_end: str) -> Sequence[TimeSlice]:
        offsets = (offset for *_, offset in segments(zone, EPOCH, now))
        return [self.time_slice(only_offset(zone, offsets, "all time"))]

    def time_slice(self, offset: timedelta, period_end: float = inf) -> TimeSlice:
        """Return the time slice for one offset; pass `period_end` if only months that have ended matter."""
        return TimeSlice(_timezone_param(offset), "all time", period_end=period_end)


class CountryGeo(Query[GeoStats], frozen=True):
    """Clicks by state, city and postal code of one country (2-letter ISO code); both dates are included.

    A zone with several offsets within the dates raises InvalidRequestError. See docs/service.md, Country
    geo-location statistics.
    """

    path = "stats/country/geo"
    answer_type = GeoAnswer

    iso_code: str
    start: date | str
    end: date | str

    def __post_init__(self) -> None:
        code = self.iso_code
        if not (isinstance(code, str) and len(code) == 2 and code.isascii() and code.isalpha()):
            raise InvalidRequestError(f"iso_code must be a 2-letter ISO country code, not {code!r}")
        force_setattr(self, "iso_code", code.upper())
        start, end = parse_day("start", self.start), parse_day("end", self.end)
        if start > end:
            raise InvalidRequestError(f"the range ends ({end}) before it starts ({start})")
        force_setattr(self, "start", start)
        force_setattr(self, "end", end)

    def time_slices(self, zone: tzinfo, now: datetime, range_end: str) -> Sequence[TimeSlice]:
        assert not isinstance(self.start, str)
        assert not isinstance(self.end, str)
        label = f"{self.iso_code}, {self.start} to {self.end}"
        country = ("iso_code", self.iso_code)
        dates = ("start_date", str(self.start)), ("end_date", str(self.end))
        return _whole_period(zone, self.start, self.end, label, country, *dates)
