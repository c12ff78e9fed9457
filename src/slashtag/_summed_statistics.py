"""Statistics of the service as immutable values, and how they are added up: `RunningSum`."""

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from msgspec.structs import asdict

from ._records import Record
from ._wording import many

K = TypeVar("K")
S = TypeVar("S", bound="Statistics")
Span = tuple[date, date]
OTHER = "Other"


class StatsRow(NamedTuple):
    """Clicks of one label of a dimension: a day (`2024-01-31`), a month (`2024-01`), a country."""

    dimension: str
    label: str
    clicks: int


def add_counts(into: dict[K, int], counts: Mapping[K, int]) -> None:
    """Add the counts of one map to a running sum, in place."""
    if not into:
        into.update(counts)
        return
    for label, n in counts.items():
        try:  # most labels are there: faster than `get`
            into[label] += n
        except KeyError:
            into[label] = n


def without_zeros(counts: dict[K, int]) -> dict[K, int]:
    """Drop labels without clicks but `Other`, so that results do not depend on how a query was split."""
    return counts if all(counts.values()) else {k: n for k, n in counts.items() if n or k == OTHER}


@lru_cache(maxsize=8)
def _zeros(first: date, last: date) -> dict[date, int]:
    """Return no clicks for every day from the first to the last."""
    return dict.fromkeys(map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1)), 0)


class Statistics(Record, frozen=True, kw_only=True):
    """Base class of all statistics, which can be added up and converted to tidy rows.

    `missing` is the number of requests whose clicks are not counted, because they failed, and of slashtags
    that cannot be requested. `reconciles` is False if an answer contradicted itself. Whether a dimension has
    all clicks is told by `incomplete_dimensions`. `shared` names the slashtags that several of the links
    given have, on different domains: the service counts them together, and here they are counted once.
    """

    #: The dimension in tidy rows of each map: its name, in the singular.
    DIMENSIONS: ClassVar[dict[str, str]] = {}
    #: The dimensions whose counts should add up to the total.
    SUMS: ClassVar[tuple[str, ...]] = ()

    missing: int = 0
    reconciles: bool = True
    shared: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing that was asked for is missing, and no answer contradicts itself."""
        return not self.missing and self.reconciles

    @property
    def incomplete_dimensions(self) -> tuple[str, ...]:
        """The maps whose counts do not add up to the total: an answer left them out, or only has a part."""
        total = self.total
        return tuple([name for name in self.SUMS if sum(getattr(self, name).values()) != total])

    @property
    def total(self) -> int:
        """The number of clicks."""
        raise NotImplementedError

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Add up any number of statistics; no parts give empty statistics."""
        running = RunningSum(cls)
        # The maps of the first are used for the sum: those of the parts belong to others.
        running.add(cls())
        for part in parts:
            running.add(part)
        return running.result()

    @classmethod
    def _finish(cls, members: dict[str, Any], *, several: bool) -> None:
        """Complete the members of a sum, in place; `several` parts have clicks."""

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return self.merge((self, other))

    def __radd__(self, other: object) -> Self:
        # sum() begins with 0.
        if other == 0:
            return self
        return NotImplemented

    def rows(self) -> Iterator[StatsRow]:
        """Yield tidy rows (dimension, label, clicks): days in order, other labels by clicks, `Other` last.

        An incomplete result has a last row ("missing", "3 requests", 0).
        """
        for name, dimension in self.DIMENSIONS.items():
            counts: dict[Any, int] = getattr(self, name)
            # Sorted, so that rows do not depend on the order of answers.
            pairs = sorted(counts.items())
            if dimension != "day":
                pairs.sort(key=lambda pair: (pair[0] == OTHER, -pair[1]))
            for label, clicks in pairs:
                yield StatsRow(dimension, str(label), clicks)
        if self.missing:
            yield StatsRow("missing", many(self.missing, "request"), 0)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"complete": self.complete}

    def __repr__(self) -> str:
        # Numbers and flags first, then the start of each map.
        names = sorted(self.__struct_fields__, key=lambda name: isinstance(getattr(self, name), dict))
        shown = (f"{name}={reprlib.repr(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(shown)})"


class LabelStats(Statistics, frozen=True, kw_only=True):
    """Statistics with clicks by device, browser, platform, country and referrer, of days or of a period."""

    SUMS: ClassVar[tuple[str, ...]] = ("device", "browser", "platform", "country", "referrer")

    device: dict[str, int] = {}
    browser: dict[str, int] = {}
    platform: dict[str, int] = {}
    country: dict[str, int] = {}
    referrer: dict[str, int] = {}


class RangeStats(LabelStats, frozen=True, kw_only=True):
    """Statistics of a day or of a range of days.

    `clicks` has every day of the range, including zeros; the other maps have only labels with clicks.
    `days_complete` is False if the service omitted the days of a window longer than one day. Days outside the
    window of an answer are left out, and it does not reconcile. See docs/service.md, Statistics for a date or
    date range.
    """

    DIMENSIONS: ClassVar[dict[str, str]] = {"clicks": "day"} | {name: name for name in LabelStats.SUMS}

    total_clicks: int = 0
    clicks: dict[date, int] = {}
    days_complete: bool = True

    @property
    def complete(self) -> bool:
        return super().complete and self.days_complete

    @property
    def total(self) -> int:
        return self.total_clicks


class PeriodStats(LabelStats, frozen=True, kw_only=True):
    """Statistics of a year or of all time.

    `clicks_breakdown` maps year -> month (1 to 12) -> clicks. If several answers have clicks,
    `clicks_unique` is an upper bound, `clicks_repeated` a lower one, and `unique_is_exact` is False.
    See docs/service.md, Statistics for a year; Statistics for all time.
    """

    # Without `languages`, which are empty in the document's examples, although there are clicks.
    SUMS: ClassVar[tuple[str, ...]] = (*LabelStats.SUMS, "timezone")
    DIMENSIONS: ClassVar[dict[str, str]] = {name: name for name in SUMS} | {"languages": "language"}

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

    def rows(self) -> Iterator[StatsRow]:
        """Yield tidy rows (dimension, label, clicks), months (`YYYY-MM`) first."""
        for year, months in sorted(self.clicks_breakdown.items()):
            for month, clicks in sorted(months.items()):
                yield StatsRow("month", f"{year:04d}-{month:02d}", clicks)
        yield from super().rows()

    @classmethod
    def _finish(cls, members: dict[str, Any], *, several: bool) -> None:
        years = sorted(members["clicks_breakdown"].items())
        found = [(year, without_zeros(dict(sorted(months.items())))) for year, months in years]
        members["clicks_breakdown"] = {year: months for year, months in found if months}
        members["unique_is_exact"] &= not several


class GeoStats(Statistics, frozen=True, kw_only=True):
    """Clicks of one country by state, city and postal code.

    `Other` are the places that the service does not name. If several answers have clicks, and one of them
    such a remainder, named places are lower bounds and `places_are_exact` is False.
    See docs/service.md, Country geo-location statistics.
    """

    SUMS: ClassVar[tuple[str, ...]] = ("state", "city", "postalcode")
    DIMENSIONS: ClassVar[dict[str, str]] = {name: name for name in SUMS}

    state: dict[str, int] = {}
    city: dict[str, int] = {}
    postalcode: dict[str, int] = {}
    places_are_exact: bool = True

    @property
    def total(self) -> int:
        """The number of clicks: of the map that has most, as the service may leave out others."""
        most: int = max(sum(getattr(self, name).values()) for name in self.SUMS)
        return most

    @classmethod
    def _finish(cls, members: dict[str, Any], *, several: bool) -> None:
        has_remainder = any(members[name].get(OTHER) for name in cls.SUMS)
        members["places_are_exact"] &= not (several and has_remainder)


@lru_cache
def _numbers_and_flags(kind: type[Statistics]) -> tuple[list[str], list[str]]:
    """Return the names of the members of statistics that are numbers, and of those that are flags."""
    members = asdict(kind()).items()
    return [k for k, v in members if type(v) is int], [k for k, v in members if type(v) is bool]


class RunningSum(Generic[S]):
    """Running sum of statistics of one class; keeps none of its parts.

    Numbers and maps are added up, flags hold if all parts have them, labels without clicks are dropped. With
    a `span` (first and last date), RangeStats have every day of it, in order.
    """

    def __init__(self, kind: type[S], span: Span | None = None) -> None:
        self._kind, self._span = kind, span
        self._numbers, self._flags = _numbers_and_flags(kind)
        self._members = asdict(kind())
        self._shared: set[str] = set(self._members.pop("shared"))
        self._parts = self._with_clicks = 0

    def add(self, part: S, /) -> None:
        """Add statistics of this class."""
        members, parts = self._members, self._parts
        for name in self._kind.DIMENSIONS:
            counts = getattr(part, name)
            if parts == 1:
                # Not before there is another part: to copy a map takes as long as to add it.
                members[name] = dict(members[name])
            if parts:
                add_counts(members[name], counts)
            else:
                members[name] = counts
        for year, months in getattr(part, "clicks_breakdown", {}).items():
            add_counts(members["clicks_breakdown"].setdefault(year, {}), months)
        for name in self._numbers:
            members[name] += getattr(part, name)
        for name in self._flags:
            if not getattr(part, name):
                members[name] = False
        if part.shared:
            self._shared.update(part.shared)
        self._parts += 1
        self._with_clicks += part.total > 0

    def note(self, *, missing: int = 0, shared: Iterable[str] = ()) -> None:
        """Count requests that are missing, and name shared slashtags."""
        self._members["missing"] += missing
        self._shared.update(shared)

    def result(self) -> S:
        """Return the sum, to which nothing is added any more."""
        kind, members = self._kind, self._members
        for name in kind.DIMENSIONS:
            counts = members[name]
            if name != "clicks":
                members[name] = without_zeros(counts)
            elif self._span is None:
                members[name] = dict(sorted(counts.items()))
            else:
                members[name] = _zeros(*self._span) | counts
        kind._finish(members, several=self._with_clicks > 1)
        # Sorted, so that results do not depend on the order of answers.
        return kind(**members, shared=tuple(sorted(self._shared)))
