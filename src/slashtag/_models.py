"""Records and statistics of the service as immutable values, and the sums of statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from ._records import ArrowStream, Record, to_arrow
from ._show import page_html, short_repr, stats_html

T = TypeVar("T")
K = TypeVar("K")

OTHER = "Other"


class ShortUrl(Record, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One short URL of the account.

    `hits` is the click counter; `redirect_code` an HTTP status; timestamps have no zone, as the service
    documents none; `tag_id` is None if the link has no tag. See docs/service.md, Short URL.
    """

    id: int
    destination: str | None = None
    hits: int = 0
    redirect_code: int | None = None
    short_url: str | None = None
    slashtag: str
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tag_id: int | None = None


class Tag(Record, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One tag of the account; `name` is unique. See docs/service.md, Tag."""

    id: int
    name: str
    description: str | None = None
    created_at: datetime | None = None


class Page(Record, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """One page of a listing: its number, the pageSize that the service used, its items."""

    page: int
    page_size: int
    items: list[T]

    def _repr_html_(self) -> str:
        return page_html(self.page, self.items)


def add_counts(into: dict[K, int], counts: Mapping[K, int]) -> None:
    """Add the counts of one map to a running sum, in place."""
    get = into.get
    for label, n in counts.items():
        into[label] = get(label, 0) + n


def without_zeros(counts: dict[K, int]) -> dict[K, int]:
    """Drop the labels whose count is zero, so that results do not depend on how a query was split."""
    return {label: n for label, n in counts.items() if n}


def days(first: date, last: date) -> Iterator[date]:
    """Yield every date from `first` to `last`, both included."""
    for n in range((last - first).days + 1):
        yield first + timedelta(days=n)


def _dimensions(*members: str) -> dict[str, str]:
    """Return the dimension in tidy rows of each map: its name, in the singular."""
    return {name: {"clicks": "day", "languages": "language"}.get(name, name) for name in members}


class Statistics(Record, frozen=True, kw_only=True):
    """Base class of all statistics, which can be added up and converted to tidy rows."""

    DIMENSIONS: ClassVar[dict[str, str]] = {}

    @property
    def total(self) -> int:
        """The number of clicks."""
        raise NotImplementedError

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Add up any number of statistics; no parts give empty statistics."""
        running = _SUMS[cls]()
        for part in parts:
            running.add(part)
        return cast("Self", running.result())

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return self.merge((self, other))

    def __radd__(self, other: object) -> Self:
        # sum() begins with 0.
        if other == 0:
            return self
        return NotImplemented

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Yield tidy rows (dimension, label, clicks): days in order, other labels by clicks, `Other` last."""
        for name, dimension in self.DIMENSIONS.items():
            counts: dict[Any, int] = getattr(self, name)
            # Sorted, so that rows do not depend on the order of answers.
            pairs = sorted(counts.items())
            if dimension != "day":
                pairs.sort(key=lambda pair: (pair[0] == OTHER, -pair[1]))
            for label, clicks in pairs:
                yield dimension, str(label), clicks

    def to_arrow(self) -> ArrowStream:
        """Return the rows as an Arrow table, with columns dimension, label and clicks; extra `arrow`.

        Raises ExportError for a count that int64 cannot hold.
        """
        return to_arrow({"dimension": str, "label": str, "clicks": int}, self.rows())

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return stats_html(self, self.total, self.rows())


class _Sum:
    """Running sum of statistics of one kind: flags hold if all parts have them; zero labels are dropped."""

    _maps: tuple[str, ...]
    _numbers: tuple[str, ...] = ()
    _flags: tuple[str, ...]

    def __init__(self, span: tuple[date, date] | None = None) -> None:
        self._span = span
        self._counts: dict[str, dict[str, int]] = {name: {} for name in self._maps}
        self._totals = dict.fromkeys(self._numbers, 0)
        self._all = dict.fromkeys(self._flags, True)

    def add(self, part: Any, /) -> None:
        for name, into in self._counts.items():
            add_counts(into, getattr(part, name))
        for name in self._numbers:
            self._totals[name] += getattr(part, name)
        for name in self._flags:
            self._all[name] &= getattr(part, name)

    def _members(self) -> dict[str, Any]:
        """Return the members of the sum: numbers, flags and maps of labels."""
        labels = {name: without_zeros(counts) for name, counts in self._counts.items()}
        return {**self._totals, **self._all, **labels}


class _LabelStats(Statistics, frozen=True, kw_only=True):
    """Base class of statistics with clicks by device, browser, platform, country and referrer."""

    device: dict[str, int] = {}
    browser: dict[str, int] = {}
    platform: dict[str, int] = {}
    country: dict[str, int] = {}
    referrer: dict[str, int] = {}


class RangeStats(_LabelStats, frozen=True, kw_only=True):
    """Statistics of a day or of a range of days.

    `clicks` has every day of the range, including zeros; the other maps have only labels with clicks.
    `days_complete` is False if the service omitted the days of a window longer than one day; `reconciles` is
    False if a window's days did not add up to its total, or were outside it: those are left out. See
    docs/service.md, Statistics for a date or date range.
    """

    DIMENSIONS: ClassVar[dict[str, str]] = _dimensions(
        "clicks", "device", "browser", "platform", "country", "referrer"
    )

    total_clicks: int = 0
    clicks: dict[date, int] = {}
    days_complete: bool = True
    reconciles: bool = True

    @property
    def total(self) -> int:
        return self.total_clicks


class RangeSum(_Sum):
    """Running sum of RangeStats; the result has every day of the span, both ends included, in order."""

    _maps = tuple(name for name in RangeStats.DIMENSIONS if name != "clicks")
    _numbers = ("total_clicks",)
    _flags = ("days_complete", "reconciles")

    def __init__(self, span: tuple[date, date] | None = None) -> None:
        super().__init__(span)
        self._days: dict[date, int] = {}

    def add(self, part: RangeStats, /) -> None:
        super().add(part)
        add_counts(self._days, part.clicks)

    def result(self) -> RangeStats:
        clicks = {} if self._span is None else dict.fromkeys(days(*self._span), 0)
        length = len(clicks)
        clicks.update(self._days)
        clicks = clicks if len(clicks) == length else dict(sorted(clicks.items()))
        return RangeStats(clicks=clicks, **self._members())


class PeriodStats(_LabelStats, frozen=True, kw_only=True):
    """Statistics of a year or of all time.

    `clicks_breakdown` maps year -> month (1 to 12) -> clicks. If several answers have clicks,
    `clicks_unique` is an upper bound, `clicks_repeated` a lower one, and `unique_is_exact` is False.
    See docs/service.md, Statistics for a year; Statistics for all time.
    """

    DIMENSIONS: ClassVar[dict[str, str]] = _dimensions(
        "browser", "country", "device", "languages", "platform", "referrer", "timezone"
    )

    clicks_total: int = 0
    clicks_unique: int = 0
    clicks_repeated: int = 0
    clicks_breakdown: dict[int, dict[int, int]] = {}
    languages: dict[str, int] = {}
    timezone: dict[str, int] = {}
    unique_is_exact: bool = True

    @property
    def total(self) -> int:
        return self.clicks_total

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Yield tidy rows (dimension, label, clicks), months (`YYYY-MM`) first."""
        for year, months in sorted(self.clicks_breakdown.items()):
            for month, clicks in sorted(months.items()):
                yield "month", f"{year:04d}-{month:02d}", clicks
        yield from super().rows()


class PeriodSum(_Sum):
    """Running sum of PeriodStats; months without clicks are dropped."""

    _maps = tuple(PeriodStats.DIMENSIONS)
    _numbers = ("clicks_total", "clicks_unique", "clicks_repeated")
    _flags = ("unique_is_exact",)

    def __init__(self, span: None = None) -> None:
        super().__init__(span)
        self._with_clicks = 0
        self._breakdown: dict[int, dict[int, int]] = {}

    def add(self, part: PeriodStats, /) -> None:
        super().add(part)
        self._with_clicks += part.clicks_total > 0
        for year, months in part.clicks_breakdown.items():
            add_counts(self._breakdown.setdefault(year, {}), months)

    def result(self) -> PeriodStats:
        years = sorted(self._breakdown.items())
        breakdown = {year: without_zeros(dict(sorted(months.items()))) for year, months in years}
        members = self._members()
        members["unique_is_exact"] &= self._with_clicks < 2
        members["clicks_breakdown"] = {year: months for year, months in breakdown.items() if months}
        return PeriodStats(**members)


class GeoStats(Statistics, frozen=True, kw_only=True):
    """Clicks of one country by state, city and postal code.

    Each map ends with `Other`, the places that the service does not name. If several answers have clicks, and
    one of them such a remainder, named places are lower bounds and `places_are_exact` is False.
    See docs/service.md, Country geo-location statistics.
    """

    DIMENSIONS: ClassVar[dict[str, str]] = _dimensions("state", "city", "postalcode")

    state: dict[str, int] = {}
    city: dict[str, int] = {}
    postalcode: dict[str, int] = {}
    places_are_exact: bool = True

    @property
    def total(self) -> int:
        return sum(self.state.values())


class GeoSum(_Sum):
    """Running sum of GeoStats; `Other` is the last label, and kept if it is 0."""

    _maps = tuple(GeoStats.DIMENSIONS)
    _flags = ("places_are_exact",)

    def __init__(self, span: None = None) -> None:
        super().__init__(span)
        self._with_clicks = 0
        self._remainder = False

    def add(self, part: GeoStats, /) -> None:
        super().add(part)
        maps = [part.state, part.city, part.postalcode]
        self._with_clicks += any(any(counts.values()) for counts in maps)
        self._remainder = self._remainder or any(counts.get(OTHER) for counts in maps)

    def result(self) -> GeoStats:
        members = self._members()
        for name, counts in self._counts.items():
            if OTHER in counts:
                members[name].pop(OTHER, None)
                members[name][OTHER] = counts[OTHER]
        members["places_are_exact"] &= not (self._remainder and self._with_clicks > 1)
        return GeoStats(**members)


_SUMS: dict[type[Statistics], Any] = {RangeStats: RangeSum, PeriodStats: PeriodSum, GeoStats: GeoSum}
