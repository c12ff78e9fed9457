"""The records and statistics of the service as frozen values, and how statistics add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, ClassVar, Generic, Self, TypeVar

from msgspec import Struct

T = TypeVar("T")
K = TypeVar("K")

OTHER = "Other"


class ShortUrl(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Hold one short URL of the account.

    `hits` is the click counter; `redirect_code` an HTTP status; timestamps bear no zone, as the service
    shows none; `tag_id` is None where the link has no tag (Short URL).
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


class Tag(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Hold one tag of the account; `name` is unique (Tag)."""

    id: int
    name: str
    description: str | None = None
    created_at: datetime | None = None


class Page(Struct, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """Hold one page of a listing: its number, the pageSize that the service used, its items."""

    page: int
    page_size: int
    items: list[T]


def add_counts(into: dict[K, int], counts: Mapping[K, int]) -> None:
    """Add the counts of one map to a running sum, in place."""
    get = into.get
    for label, n in counts.items():
        into[label] = get(label, 0) + n


def without_zeros(counts: dict[K, int]) -> dict[K, int]:
    """Drop the labels whose count is zero, so that an answer does not depend on how it was split."""
    return {label: n for label, n in counts.items() if n}


def _rank(counts: Mapping[str, int]) -> Callable[[str], tuple[bool, int, str]]:
    return lambda label: (label == OTHER, -counts[label], label)


class Statistics(Struct, frozen=True, kw_only=True):
    """Share what all statistics can do: add up and turn into tidy rows."""

    DIMENSIONS: ClassVar[dict[str, str]] = {}

    @property
    def total(self) -> int:
        """Tell the number of clicks."""
        raise NotImplementedError

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Add up any number of statistics; no parts give empty statistics."""
        parts = list(parts)
        sums: dict[str, Any] = {}
        for name in cls.DIMENSIONS:
            into: dict[Any, int] = {}
            sums[name] = into
            for part in parts:
                add_counts(into, getattr(part, name))
            if OTHER in into:
                # The service ends each map of places with it.
                into[OTHER] = into.pop(OTHER)
            if name == "clicks":
                # Days stay in order, in whatever order parts are added.
                sums[name] = dict(sorted(into.items()))
        return cls(**sums, **cls._merged(parts))

    @classmethod
    def _merged(cls, parts: Sequence[Any]) -> dict[str, Any]:
        """Give the members of a merge that are not maps of counts."""
        raise NotImplementedError

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
            # By a rule, not as answers happened to come in: the same clicks give the same rows.
            for label in sorted(counts) if dimension == "day" else sorted(counts, key=_rank(counts)):
                yield dimension, str(label), counts[label]


class RangeStats(Statistics, frozen=True, kw_only=True):
    """Hold the statistics of a day or of a range of days.

    `clicks` holds every day of the range, zeros too; the other maps hold only labels with clicks.
    `days_complete` is False where the service left out the days of a window longer than one day;
    `reconciles` is False where a window's days did not add up to its total or lay outside it
    (Statistics for a date or date range).
    """

    DIMENSIONS: ClassVar[dict[str, str]] = {
        "clicks": "day",
        "device": "device",
        "browser": "browser",
        "platform": "platform",
        "country": "country",
        "referrer": "referrer",
    }

    total_clicks: int = 0
    clicks: dict[date, int] = {}
    device: dict[str, int] = {}
    browser: dict[str, int] = {}
    platform: dict[str, int] = {}
    country: dict[str, int] = {}
    referrer: dict[str, int] = {}
    days_complete: bool = True
    reconciles: bool = True

    @property
    def total(self) -> int:
        return self.total_clicks

    @classmethod
    def _merged(cls, parts: Sequence[Any]) -> dict[str, Any]:
        return {
            "total_clicks": sum(part.total_clicks for part in parts),
            "days_complete": all(part.days_complete for part in parts),
            "reconciles": all(part.reconciles for part in parts),
        }


class PeriodStats(Statistics, frozen=True, kw_only=True):
    """Hold the statistics of a year or of all time.

    `clicks_breakdown` maps year -> month (1 to 12) -> clicks. Of more than one response with clicks
    `clicks_unique` is an upper bound and `clicks_repeated` a lower one: `unique_is_exact` is then False
    (Statistics for a year, for all time).
    """

    DIMENSIONS: ClassVar[dict[str, str]] = {
        "browser": "browser",
        "country": "country",
        "device": "device",
        "languages": "language",
        "platform": "platform",
        "referrer": "referrer",
        "timezone": "timezone",
    }

    clicks_total: int = 0
    clicks_unique: int = 0
    clicks_repeated: int = 0
    clicks_breakdown: dict[int, dict[int, int]] = {}
    browser: dict[str, int] = {}
    country: dict[str, int] = {}
    device: dict[str, int] = {}
    languages: dict[str, int] = {}
    platform: dict[str, int] = {}
    referrer: dict[str, int] = {}
    timezone: dict[str, int] = {}
    unique_is_exact: bool = True

    @property
    def total(self) -> int:
        return self.clicks_total

    @classmethod
    def _merged(cls, parts: Sequence[Any]) -> dict[str, Any]:
        breakdown: dict[int, dict[int, int]] = {}
        for part in parts:
            for year, months in part.clicks_breakdown.items():
                add_counts(breakdown.setdefault(year, {}), months)
        clicked = [part for part in parts if part.clicks_total]
        return {
            "clicks_total": sum(part.clicks_total for part in parts),
            "clicks_unique": sum(part.clicks_unique for part in parts),
            "clicks_repeated": sum(part.clicks_repeated for part in parts),
            "clicks_breakdown": breakdown,
            "unique_is_exact": len(clicked) < 2 and all(part.unique_is_exact for part in parts),
        }

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Yield tidy rows (dimension, label, clicks), months (`YYYY-MM`) first."""
        for year, months in sorted(self.clicks_breakdown.items()):
            for month, clicks in sorted(months.items()):
                yield "month", f"{year:04d}-{month:02d}", clicks
        yield from super().rows()


class GeoStats(Statistics, frozen=True, kw_only=True):
    """Hold the clicks of one country by state, city and postal code.

    Each map ends with `Other`, the remainder that the service does not name. Of more than one response
    with such a remainder the named places are lower bounds: `places_are_exact` is then False
    (Country geo-location statistics).
    """

    DIMENSIONS: ClassVar[dict[str, str]] = {"state": "state", "city": "city", "postalcode": "postalcode"}

    state: dict[str, int] = {}
    city: dict[str, int] = {}
    postalcode: dict[str, int] = {}
    places_are_exact: bool = True

    @property
    def total(self) -> int:
        return sum(self.state.values())

    @classmethod
    def _merged(cls, parts: Sequence[Any]) -> dict[str, Any]:
        clicked = [part for part in parts if any(clicks for _, _, clicks in part.rows())]
        remainder = any(getattr(part, name).get(OTHER) for part in clicked for name in cls.DIMENSIONS)
        return {
            "places_are_exact": all(part.places_are_exact for part in parts)
            and not (remainder and len(clicked) > 1)
        }
