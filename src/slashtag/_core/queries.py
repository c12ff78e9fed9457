"""Queries of the statistics endpoints.

A new statistics endpoint needs one more class here: its fields, validation, time slices and type of answer.
statistics_answers.py says how an answer is checked, _summed_statistics.py how results are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .._errors import InvalidRequestError
from .._summed_statistics import GeoStats, PeriodStats, RangeStats, Span, Statistics
from .batches import Selector
from .call import Call
from .checks import check_int
from .countries import check_country
from .dates import (
    PREVIOUS,
    date_of,
    parse_bound,
    parse_day,
    parse_span,
    spans_to_compare,
)
from .statistics_answers import GeoAnswer, PeriodAnswer, RangeAnswer, StatsAnswer
from .windows import DAY, Bound, RangeEnd, TimeSlice, range_slices, whole_period

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: The type of the result; what all have in common where a query or a plan is named without it.
    R_co = TypeVarWithDefault("R_co", covariant=True, bound=Statistics, default=Statistics)
else:
    R_co = TypeVar("R_co", covariant=True)
_Date = date

#: No click is older: link shorteners with statistics did not exist.
OLDEST_CLICK = datetime(2000, 1, 1, tzinfo=UTC)


class Query(Struct, Generic[R_co], frozen=True):
    """Base class of all statistics queries; `R_co` is the type of the result."""

    _path: ClassVar[str]
    _answer_type: ClassVar[type[StatsAnswer]]

    def resolve(self, zone: tzinfo, now: datetime) -> Query[R_co]:
        """Return the query with bounds that do not depend on today."""
        return self

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        """Split the query by time, according to the zone and the limits of the service."""
        raise NotImplementedError

    def span(self, zone: tzinfo) -> Span | None:
        """Return the first and last date of the result, None for a query without days."""
        return None

    def _call(self, selector: Selector, time_slice: TimeSlice) -> Call[Any]:
        """Return the call for one time slice and one selector."""
        return Call(
            method="GET",
            path=self._path,
            params=selector.params() + time_slice.params,
            returns=self._answer_type,
            label=f"{selector}, {time_slice.label}",
            replayable=True,
            period_end=time_slice.period_end,
            link_ids=selector.link_ids,
        )


class DateRange(Query[RangeStats], frozen=True):
    """Statistics of a range of days, or of seconds, of any length.

    `start` and `end` are both included. Dates (`date` or "YYYY-MM-DD") are whole days in the `timezone`
    of the call; datetimes have an offset, and fractions of a second are dropped.
    `relative` is set instead where the days depend on today (`last`, `parse`). Raises InvalidRequestError.
    See docs/service.md, Statistics for a date or date range.
    """

    _path = "stats"
    _answer_type = RangeAnswer

    if TYPE_CHECKING:
        # What it holds, and what it is made of: both ends, or neither.
        start: Bound | None
        end: Bound | None

        @overload
        def __init__(self, start: Bound | str, end: Bound | str) -> None: ...
        @overload
        def __init__(self, *, relative: str) -> None: ...
        def __init__(self, start: Any = None, end: Any = None, relative: Any = None) -> None: ...
    else:
        start: date | datetime | str | None = None
        end: date | datetime | str | None = None
    relative: str | None = None

    def __post_init__(self) -> None:
        if self.relative is not None:
            if self.start is not None or self.end is not None:
                raise InvalidRequestError("a range has a start and an end, or is relative to today")
            parse_span(self.relative, OLDEST_CLICK.date())
            return
        force_setattr(self, "start", parse_bound("start", self.start))
        force_setattr(self, "end", parse_bound("end", self.end))
        start, end = self.bounds
        # Whether an instant is before a date depends on the zone.
        with suppress(TypeError):
            if start > end:
                raise InvalidRequestError(f"the range ends ({end}) before it starts ({start})")

    @classmethod
    def last(cls, days: int) -> DateRange:
        """Return the query for the last `days` days; today, in the `timezone` of the call, is the last."""
        check_int("days", days, 1, 9_999)
        return cls(relative=f"{days}d")

    @classmethod
    def parse(cls, text: str) -> DateRange:
        """Return the query for text such as `last-month`, `30d`, `2024-q3`, `2024-06`, `A..B`.

        What is relative to today is so in the `timezone` of the call, at the time of the call.
        """
        today = OLDEST_CLICK.date()
        bounds = parse_span(text, today)
        return cls(*bounds) if bounds == parse_span(text, today + 400 * DAY) else cls(relative=text)

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """Both ends as dates or datetimes; raises InvalidRequestError where they depend on today."""
        if not isinstance(self.start, date) or not isinstance(self.end, date):
            raise InvalidRequestError(
                f"{self.relative!r} is relative to today; resolve(zone, now) gives a range with bounds"
            )
        return self.start, self.end

    def resolve(self, zone: tzinfo, now: datetime) -> DateRange:
        """Return the range with bounds that no longer depend on the present day."""
        if self.relative is None:
            return self
        return DateRange(*parse_span(self.relative, now.astimezone(zone).date()))

    def with_previous(
        self, zone: tzinfo, now: datetime, compare: str = PREVIOUS
    ) -> tuple[DateRange, DateRange]:
        """Return what can be counted of the range now, and the range to compare it with.

        That is by default the previous one: for whole months as many whole months, for other days as many
        days. `compare="last-year"` gives the same months a year earlier, of other days the same weekdays 52
        weeks earlier (more weeks if there are more days). Any other text is a range as `parse` reads it. A
        range that is not over is counted up to now, and compared up to the same day and time of the other
        one. Raises InvalidRequestError for parts of days, the range itself, and outside the calendar.
        """
        counted, before = spans_to_compare(*self.resolve(zone, now).bounds, now.astimezone(zone), compare)
        return DateRange(*counted), DateRange(*before)

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        return range_slices(*self.bounds, zone, range_end)

    def span(self, zone: tzinfo) -> Span:
        start, end = self.bounds
        return date_of(start, zone), date_of(end, zone)


class Day(Query[RangeStats], frozen=True):
    """Statistics of one whole day in the `timezone` of the call.

    It is requested as a range of one day. Raises InvalidRequestError.
    See docs/service.md, Statistics for a date or date range.
    """

    _path = "stats"
    _answer_type = RangeAnswer

    if TYPE_CHECKING:
        date: _Date

        def __init__(self, date: _Date | str) -> None: ...
    else:
        date: _Date | str

    def __post_init__(self) -> None:
        force_setattr(self, "date", parse_day("date", self.date))

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        return range_slices(self.date, self.date, zone, range_end)

    def span(self, zone: tzinfo) -> Span:
        return self.date, self.date


class Year(Query[PeriodStats], frozen=True):
    """Statistics of one calendar year in the `timezone` of the call, 4 digits.

    A zone with several offsets within the year raises InvalidRequestError. The request goes to the stated
    _path; on a 404 the path of the document's samples is tried once.
    See docs/service.md, Statistics for a year.
    """

    _path = "stats/yearly"
    _answer_type = PeriodAnswer

    year: int

    def __post_init__(self) -> None:
        # A smaller number is probably a two-digit year.
        check_int("year", self.year, 1000, 9998)

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        first, last = date(self.year, 1, 1), date(self.year, 12, 31)
        return whole_period(zone, first, last, f"year {self.year}", ("year", f"{self.year:04d}"))


class AllTime(Query[PeriodStats], frozen=True):
    """Statistics of all time up to the present.

    A zone with several offsets since 2000 raises InvalidRequestError. The request goes to the stated path; on
    a 404 the path of the document's samples is tried once. See docs/service.md, Statistics for all time.
    """

    _path = "stats/alltime"
    _answer_type = PeriodAnswer

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        return [replace(each, window=None) for each in whole_period(zone, OLDEST_CLICK, now, "all time")]


class CountryGeo(Query[GeoStats], frozen=True):
    """Clicks by state, city and postal code of one country; both dates are included.

    `iso_code` is one of ISO 3166, in any case: others, such as UK, raise InvalidRequestError, as the service
    would count nothing; so does a zone with several offsets within the dates. See docs/service.md, Country
    geo-location statistics.
    """

    _path = "stats/country/geo"
    _answer_type = GeoAnswer

    iso_code: str
    if TYPE_CHECKING:
        start: date
        end: date

        def __init__(self, iso_code: str, start: date | str, end: date | str) -> None: ...
    else:
        start: date | str
        end: date | str

    def __post_init__(self) -> None:
        force_setattr(self, "iso_code", check_country(self.iso_code))
        start, end = parse_day("start", self.start), parse_day("end", self.end)
        if start > end:
            raise InvalidRequestError(f"the range ends ({end}) before it starts ({start})")
        force_setattr(self, "start", start)
        force_setattr(self, "end", end)

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        label = f"{self.iso_code}, {self.start} to {self.end}"
        country = ("iso_code", self.iso_code)
        dates = ("start_date", str(self.start)), ("end_date", str(self.end))
        return whole_period(zone, self.start, self.end, label, country, *dates)


def check_query(query: object) -> None:
    """Raise InvalidRequestError for what is no query."""
    if not isinstance(query, Query):
        kinds = "DateRange, Day, Year, AllTime or CountryGeo"
        raise InvalidRequestError(f"a query is a {kinds}, not {query!r}")
