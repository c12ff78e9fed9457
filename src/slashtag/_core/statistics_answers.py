"""Answers of statistics requests: what contradicts itself in them, and how they become results.

An empty map may be `[]` or null; counts are numbers or strings of digits, and lax decoding accepts both, but
no negative ones. See docs/service.md, Statistics records. `to_statistics` converts an answer to a public
model, and says what is wrong with it, which is told, and not asked again:

    what is wrong                                          the result
    -----------------------------------------------------  --------------------------------------------
    days or months that do not add up to the total         `reconciles` is False
    clicks on days outside the window, or in another year  the same, and these are left out
    a dimension with more clicks than the total            `reconciles` is False
    no map of places at all                                `reconciles` is False

A dimension with fewer clicks than the total, null or left out contradicts nothing: `incomplete_dimensions`
of the result names it. A JSON member that occurs twice has its last value, so that the counts do not add up.
"""

from datetime import date
from math import inf
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, Struct, UnsetType

from .._summed_statistics import GeoStats, PeriodStats, RangeStats, Statistics
from .windows import Window

Nothing = Annotated[list[Any], Meta(max_length=0)]
GivenCount = Annotated[int, Meta(ge=0)]
GivenCounts = dict[str, GivenCount] | Nothing | None
GivenDays = dict[date, GivenCount] | Nothing | None
GivenMonths = dict[int, dict[int, GivenCount] | Nothing | None] | Nothing | None


class StatsAnswer(Struct, gc=False, kw_only=True):
    """Answer of a statistics endpoint."""

    result_type: ClassVar[type[Statistics]]

    def to_statistics(self, window: Window | None) -> tuple[Statistics, str | None]:
        """Return the answer as public statistics, and what is wrong with it, if anything.

        `window` has its days or its months; None: it is about all time.
        """
        total, members, problem = self._read(window)
        for name in self.result_type.SUMS:
            counts: dict[str, int]
            members[name] = counts = getattr(self, name) or {}
            if (counted := sum(counts.values())) > total:
                problem = f"{total} clicks in all, but {counted} by {name}"
        return self.result_type(reconciles=problem is None, **members), problem

    def _read(self, window: Window | None) -> tuple[float, dict[str, Any], str | None]:
        """Return the total, members of the statistics but `SUMS`, and a contradiction between its numbers."""
        raise NotImplementedError


class _LabelAnswer(StatsAnswer, gc=False, kw_only=True):
    """Answer with clicks by device, browser, platform, country and referrer."""

    device: GivenCounts = None
    browser: GivenCounts = None
    platform: GivenCounts = None
    country: GivenCounts = None
    referrer: GivenCounts = None


class RangeAnswer(_LabelAnswer, gc=False):
    """Answer of statistics for a date or date range."""

    result_type = RangeStats

    total_clicks: GivenCount
    clicks: GivenDays | UnsetType = UNSET

    def _read(self, window: Window | None) -> tuple[int, dict[str, Any], str | None]:
        assert window is not None
        total, first, last = self.total_clicks, window.first, window.last
        clicks: dict[date, int] = _counts(self.clicks)
        complete, problem = True, None
        if not clicks and first == last:
            clicks = {first: total}
        elif self.clicks is UNSET:
            # An answer without clicks needs no days.
            complete = not total
        else:
            days = sorted(clicks)
            given = counted = sum(clicks.values())
            if days and not first <= days[0] <= days[-1] <= last:
                # Another window has counted other days, or will.
                clicks = {day: n for day, n in clicks.items() if first <= day <= last}
                counted = sum(clicks.values())
            if not given == counted == total:
                problem = f"{total} clicks in all, but {counted} on the days of {window}"
        return total, {"total_clicks": total, "clicks": clicks, "days_complete": complete}, problem


class PeriodAnswer(_LabelAnswer, gc=False):
    """Answer of statistics for a year or for all time."""

    result_type = PeriodStats

    clicks_total: GivenCount
    clicks_unique: GivenCount
    clicks_repeated: GivenCount
    clicks_breakdown: GivenMonths = None
    languages: GivenCounts = None
    timezone: GivenCounts = None

    def _read(self, window: Window | None) -> tuple[int, dict[str, Any], str | None]:
        given = {year: _counts(months) for year, months in _counts(self.clicks_breakdown).items()}
        breakdown = given if window is None else {(year := window.first.year): given.get(year, {})}
        total, problem = self.clicks_total, None
        if not (counted := _sum(breakdown)) == total == _sum(given):
            problem = f"{total} clicks in all, but {counted} in the months of {window or 'all years'}"
        members = {
            "clicks_total": total,
            "clicks_unique": self.clicks_unique,
            "clicks_repeated": self.clicks_repeated,
            "clicks_breakdown": breakdown,
            "languages": _counts(self.languages),
        }
        return total, members, problem


class GeoAnswer(StatsAnswer, gc=False):
    """Answer of country geo-location statistics."""

    result_type = GeoStats

    state: GivenCounts | UnsetType = UNSET
    city: GivenCounts | UnsetType = UNSET
    postalcode: GivenCounts | UnsetType = UNSET

    def _read(self, window: Window | None) -> tuple[float, dict[str, Any], str | None]:
        has_places = not (UNSET is self.state is self.city is self.postalcode)
        return inf, {}, None if has_places else "it has no places"  # nor does it tell a total


def _counts(found: Any) -> dict[Any, Any]:
    """Return a map of counts; [], null and a missing member mean an empty one."""
    return found or {}


def _sum(breakdown: dict[int, dict[int, int]]) -> int:
    return sum(sum(months.values()) for months in breakdown.values())
