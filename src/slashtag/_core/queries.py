"""Queries of the statistics endpoints, and plans: which requests one takes, as a value that can be split.

A new statistics endpoint needs one more class here: its fields, validation, time slices and type of answer.
statistics_answers.py says how an answer is checked, _summed_statistics.py how results are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo
from itertools import islice, pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .._errors import InvalidRequestError
from .._summed_statistics import GeoStats, PeriodStats, RangeStats, RunningSum, Span, Statistics
from .._wording import many
from .batches import Selector
from .call import Call
from .checks import check_int
from .countries import check_country
from .dates import PREVIOUS, parse_day, parse_end, parse_span, spans_to_compare
from .statistics_answers import GeoAnswer, PeriodAnswer, RangeAnswer, StatsAnswer
from .windows import Bound, RangeEnd, TimeSlice, Zone, parse_zone, range_slices, whole_period

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
        window = time_slice.window
        return Call(
            method="GET",
            path=self._path,
            params=selector.params() + time_slice.params,
            returns=self._answer_type,
            period_end=None if window is None else window.end,
            link_ids=selector.link_ids,
        )


class _Days(Query[RangeStats], frozen=True):
    """Query for whole days, or for seconds, from the first to the second of its `bounds`."""

    _path = "stats"
    _answer_type = RangeAnswer

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """Both ends as dates or datetimes; raises InvalidRequestError where they depend on today."""
        raise NotImplementedError

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        return range_slices(*self.bounds, zone, range_end)

    def span(self, zone: tzinfo) -> Span:
        first, last = [
            bound.astimezone(zone).date() if isinstance(bound, datetime) else bound for bound in self.bounds
        ]
        return first, last


class DateRange(_Days, frozen=True):
    """Statistics of a range of days, or of seconds, of any length.

    `start` and `end` are both included. Dates (`date` or "YYYY-MM-DD") are whole days in the `timezone`
    of the call; datetimes have an offset, and fractions of a second are dropped. Other text that `parse`
    reads, such as "30d", stands for the first of its days as `start`, for the last as `end`. Raises
    InvalidRequestError. See docs/service.md, Statistics for a date or date range.
    """

    start: Bound | str
    end: Bound | str

    def __post_init__(self) -> None:
        start, end = parse_end("start", self.start, 0), parse_end("end", self.end, 1)
        force_setattr(self, "start", start)
        force_setattr(self, "end", end)
        # Whether an instant is before a date depends on the zone.
        if type(start) is type(end) and isinstance(start, date) and start > end:  # type: ignore[operator]
            raise InvalidRequestError(f"the range ends ({end}) before it starts ({start})")

    @classmethod
    def last(cls, days: int) -> DateRange:
        """Return the query for the last `days` days; today, in the `timezone` of the call, is the last."""
        check_int("days", days, 1, 9_999)
        return cls.parse(f"{days}d")

    @classmethod
    def parse(cls, text: str) -> DateRange:
        """Return the query for text such as `last-month`, `30d`, `2024-q3`, `2024-06`, `A..B`.

        What is relative to today is so in the `timezone` of the call, at the time of the call.
        """
        first, dots, last = text.partition("..")
        if ":" in text and not dots:
            raise InvalidRequestError(f"{text!r} is one instant; give two, joined by ..")
        return cls(first, last if dots else first)

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        if isinstance(self.start, str) or isinstance(self.end, str):
            raise InvalidRequestError(
                f"{self} is relative to today; resolve(zone, now) gives a range with bounds"
            )
        return self.start, self.end

    def resolve(self, zone: tzinfo, now: datetime) -> DateRange:
        """Return the range with bounds that no longer depend on the present day."""
        if isinstance(self.start, date) and isinstance(self.end, date):
            return self
        return DateRange(*parse_span(f"{self.start}..{self.end}", now.astimezone(zone).date()))

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


class Day(_Days, frozen=True):
    """Statistics of one whole day in the `timezone` of the call.

    It is requested as a range of one day. Raises InvalidRequestError.
    See docs/service.md, Statistics for a date or date range.
    """

    date: _Date | str

    def __post_init__(self) -> None:
        force_setattr(self, "date", parse_day("date", self.date))

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        return DateRange(self.date, self.date).bounds


class Year(Query[PeriodStats], frozen=True):
    """Statistics of one calendar year in the `timezone` of the call, 4 digits.

    A zone with several offsets within the year raises InvalidRequestError. The request goes to the stated
    path; on a 404 the path of the document's samples is tried once.
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
    start: date | str
    end: date | str

    def __post_init__(self) -> None:
        force_setattr(self, "iso_code", check_country(self.iso_code))
        force_setattr(self, "start", parse_day("start", self.start))
        force_setattr(self, "end", parse_day("end", self.end))
        DateRange(self.start, self.end)  # refuses an end before the start

    def _time_slices(self, zone: tzinfo, now: datetime, range_end: RangeEnd) -> Sequence[TimeSlice]:
        label = f"{self.iso_code}, {self.start} to {self.end}"
        country = ("iso_code", self.iso_code)
        dates = ("start_date", str(self.start)), ("end_date", str(self.end))
        return whole_period(zone, *DateRange(self.start, self.end).bounds, label, country, *dates)


class Plan(Struct, Generic[R_co], frozen=True):
    """Requests of a query: each selector with each time slice, restricted to the range [start, stop).

    `len(plan)` is the number of requests if none is halved or retried. `span` is the first and the last date
    of the result's days, None for a query without days. `missing` is added to that of the result: slashtags
    that cannot be requested.
    """

    # A member with an underscore is not for users of the library; its own modules use it.

    query: Query[R_co]
    _selectors: tuple[Selector, ...]
    _time_slices: tuple[TimeSlice, ...]
    span: Span | None
    _start: int
    _stop: int
    missing: int = 0

    def __len__(self) -> int:
        return self._stop - self._start

    def __repr__(self) -> str:
        return f"<Plan of {many(len(self), 'request')}: {self.query!r}>"

    def _requests(self) -> Iterator[tuple[Selector, TimeSlice]]:
        """Return the selector and the time slice of each request, grouped by selector."""
        return islice(product(self._selectors, self._time_slices), self._start, self._stop)

    def _only(self, selector: Selector, time_slices: Iterable[TimeSlice] | None = None) -> Plan[R_co]:
        """Return the plan for one selector, and some time slices or all."""
        slices = self._time_slices if time_slices is None else tuple(time_slices)
        return replace(
            self, _selectors=(selector,), _time_slices=slices, _start=0, _stop=len(slices), missing=0
        )

    def split(self, n: int) -> list[Plan[R_co]]:
        """Split into `n` plans of about equal length whose results add up to the result of this plan."""
        check_int("n", n, 1)
        cuts = [self._start + len(self) * i // n for i in range(n + 1)]
        parts = [self._part(start, stop) for start, stop in pairwise(cuts)]
        return [replace(parts[0], missing=self.missing), *parts[1:]]

    def _part(self, start: int, stop: int) -> Plan[R_co]:
        """Return the plan for some of the requests, with only the selectors that it needs."""
        width = max(1, len(self._time_slices))
        selectors, skipped = self._selectors[start // width : -(-stop // width)], start // width * width
        return replace(self, _selectors=selectors, _start=start - skipped, _stop=stop - skipped, missing=0)

    def _empty_sum(self) -> RunningSum[R_co]:
        """Return a sum to which the results of all requests are added."""
        return cast("RunningSum[R_co]", RunningSum(self.query._answer_type.result_type, self.span))


def check_query(query: object) -> None:
    """Raise InvalidRequestError for what is no query."""
    if not isinstance(query, Query):
        kinds = "DateRange, Day, Year, AllTime or CountryGeo"
        raise InvalidRequestError(f"a query is a {kinds}, not {query!r}")


def make_plan(
    query: Query[R_co],
    selectors: Iterable[Selector],
    timezone: Zone,
    now: datetime,
    range_end: RangeEnd,
) -> Plan[R_co]:
    """Resolve a query, split it along time, and combine each time slice with each selector."""
    zone = parse_zone(timezone)
    query = query.resolve(zone, now)
    selectors = tuple(selectors)
    slices = tuple(query._time_slices(zone, now, range_end))
    return Plan(query, selectors, slices, query.span(zone), 0, len(selectors) * len(slices))
