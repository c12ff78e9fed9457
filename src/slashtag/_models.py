"""Records and statistics of the service as immutable values, and the sums of statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
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
        running: Any = _SUMS[cls]()
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


class _MapSum:
    """Running sum of the maps of statistics, or of answers of the service, which have the same members."""

    def __init__(self, names: Iterable[str]) -> None:
        self._maps: dict[str, dict[str, int]] = {name: {} for name in names}

    def add_maps(self, part: Any) -> None:
        """Add the maps; one that is not a dict, as in some answers, counts as empty."""
        for name, into in self._maps.items():
            add_counts(into, counts_of(getattr(part, name)))

    def maps(self) -> dict[str, Any]:
        """Return the maps without labels that have no clicks."""
        return {name: without_zeros(counts) for name, counts in self._maps.items()}


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


class RangeSum(_MapSum):
    """Running sum of RangeStats; the days of the result are in order."""

    def __init__(self) -> None:
        super().__init__(name for name in RangeStats.DIMENSIONS if name != "clicks")
        self.total = 0
        self.days: dict[date, int] = {}
        self.days_complete = True
        self.reconciles = True

    def add(self, part: RangeStats, /) -> None:
        self.add_totals(part)
        add_counts(self.days, part.clicks)
        self.days_complete = self.days_complete and part.days_complete
        self.reconciles = self.reconciles and part.reconciles

    def add_totals(self, part: Any) -> None:
        """Add all but the days."""
        self.total += part.total_clicks
        self.add_maps(part)

    def result(self) -> RangeStats:
        return self.result_with(dict(sorted(self.days.items())))

    def result_with(self, clicks: dict[date, int]) -> RangeStats:
        """Return the sum with these days."""
        return RangeStats(
            total_clicks=self.total,
            clicks=clicks,
            days_complete=self.days_complete,
            reconciles=self.reconciles,
            **self.maps(),
        )


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


class PeriodSum(_MapSum):
    """Running sum of PeriodStats; months without clicks are dropped."""

    def __init__(self) -> None:
        super().__init__(PeriodStats.DIMENSIONS)
        self._total = self._unique = self._repeated = 0
        self._with_clicks = 0
        self._all_exact = True
        self._breakdown: dict[int, dict[int, int]] = {}

    def add(self, part: Any, /) -> None:
        self._total += part.clicks_total
        self._unique += part.clicks_unique
        self._repeated += part.clicks_repeated
        self._with_clicks += part.clicks_total > 0
        # An answer of the service has no such member and is exact.
        self._all_exact = self._all_exact and getattr(part, "unique_is_exact", True)
        self.add_maps(part)
        for year, months in breakdown_of(part).items():
            add_counts(self._breakdown.setdefault(year, {}), months)

    def result(self) -> PeriodStats:
        years = sorted(self._breakdown.items())
        breakdown = {year: without_zeros(dict(sorted(months.items()))) for year, months in years}
        return PeriodStats(
            clicks_total=self._total,
            clicks_unique=self._unique,
            clicks_repeated=self._repeated,
            clicks_breakdown={year: months for year, months in breakdown.items() if months},
            unique_is_exact=self._all_exact and self._with_clicks < 2,
            **self.maps(),
        )


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


class GeoSum(_MapSum):
    """Running sum of GeoStats; `Other` is the last label, and kept if it is 0."""

    def __init__(self) -> None:
        super().__init__(GeoStats.DIMENSIONS)
        self._with_clicks = 0
        self._remainder = False
        self._all_exact = True

    def add(self, part: Any, /) -> None:
        self.add_maps(part)
        maps = [counts_of(getattr(part, name)) for name in self._maps]
        has_clicks = any(any(counts.values()) for counts in maps)
        self._remainder = self._remainder or any(counts.get(OTHER) for counts in maps)
        self._with_clicks += has_clicks
        self._all_exact = self._all_exact and getattr(part, "places_are_exact", True)

    def result(self) -> GeoStats:
        maps = self.maps()
        for name, counts in self._maps.items():
            if OTHER in counts:
                maps[name].pop(OTHER, None)
                maps[name][OTHER] = counts[OTHER]
        is_bound = self._remainder and self._with_clicks > 1
        return GeoStats(**maps, places_are_exact=self._all_exact and not is_bound)


def counts_of(found: Any) -> dict[Any, int]:
    """Return a map of counts; in answers, [], null and a missing member mean an empty one."""
    return cast("dict[Any, int]", found) if isinstance(found, dict) else {}


def breakdown_of(part: Any) -> dict[int, dict[int, int]]:
    """Return year -> month -> clicks of PeriodStats or of an answer."""
    return {year: counts_of(months) for year, months in counts_of(part.clicks_breakdown).items()}


_SUMS: dict[type[Statistics], Callable[[], _MapSum]] = {
    RangeStats: RangeSum,
    PeriodStats: PeriodSum,
    GeoStats: GeoSum,
}
