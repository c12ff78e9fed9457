"""Answers of the service, where they differ from the public models.

An empty map may be `[]` or null; counts are numbers or strings of digits, and lax decoding accepts both.
See docs/service.md, Statistics records. `to_statistics` converts an answer to a public model, and says
what is inconsistent in it, if anything.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from .._models import GeoStats, PeriodStats, RangeStats, Statistics
from .windows import Window

Nothing = Annotated[list[Any], Meta(max_length=0)]
Counts = dict[str, int] | Nothing | None
Days = dict[date, int] | Nothing | None
Months = dict[int, dict[int, int] | Nothing | None] | Nothing | None


class Answer(Struct, gc=False):
    """Answer of a statistics endpoint."""

    result_type: ClassVar[type[Statistics]]

    def to_statistics(self, window: Window | None) -> tuple[Statistics, str | None]:
        """Return the answer as public statistics, and what is inconsistent in it; `window` has its days."""
        raise NotImplementedError


class RangeAnswer(Answer, gc=False):
    """Answer of statistics for a date or date range."""

    result_type = RangeStats

    total_clicks: int
    device: Counts = None
    browser: Counts = None
    platform: Counts = None
    country: Counts = None
    referrer: Counts = None
    clicks: Days | UnsetType = UNSET

    def to_statistics(self, window: Window | None) -> tuple[RangeStats, str | None]:
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
            outside = [day for day in clicks if day < first or day > last]
            if outside:
                # Another window has counted these days or will. The service may list the next one, or others
                # beside all days of the window, as 0. Otherwise the answer may be about other days.
                is_far = (first - min(outside)).days > 1 or (max(outside) - last).days > 1
                if any(map(clicks.get, outside)):
                    problem = f"clicks on days outside the window {window}"
                elif is_far and len(clicks) - len(outside) <= (last - first).days:
                    problem = f"days outside the window {window}, and not all days in it"
                clicks = {day: n for day, n in clicks.items() if first <= day <= last}
            if problem is None and (counted := sum(clicks.values())) != total:
                problem = f"{total} clicks in all, but {counted} on its days"
        stats = RangeStats(
            total_clicks=total,
            clicks=clicks,
            days_complete=complete,
            reconciles=problem is None,
            device=_counts(self.device),
            browser=_counts(self.browser),
            platform=_counts(self.platform),
            country=_counts(self.country),
            referrer=_counts(self.referrer),
        )
        return stats, problem


class PeriodAnswer(Answer, gc=False):
    """Answer of statistics for a year or for all time."""

    result_type = PeriodStats

    clicks_total: int
    clicks_unique: int
    clicks_repeated: int
    clicks_breakdown: Months = None
    browser: Counts = None
    country: Counts = None
    device: Counts = None
    languages: Counts = None
    platform: Counts = None
    referrer: Counts = None
    timezone: Counts = None

    def to_statistics(self, window: Window | None) -> tuple[PeriodStats, str | None]:
        years: dict[int, Any] = _counts(self.clicks_breakdown)
        breakdown: dict[int, dict[int, int]] = {year: _counts(months) for year, months in years.items()}
        maps: dict[str, Any] = {name: _counts(getattr(self, name)) for name in PeriodStats.DIMENSIONS}
        stats = PeriodStats(
            clicks_total=self.clicks_total,
            clicks_unique=self.clicks_unique,
            clicks_repeated=self.clicks_repeated,
            clicks_breakdown=breakdown,
            **maps,
        )
        counted = sum(sum(months.values()) for months in breakdown.values())
        if counted == self.clicks_total:
            return stats, None
        return stats, f"{self.clicks_total} clicks in all, but {counted} in its months"


class GeoAnswer(Answer, gc=False):
    """Answer of country geo-location statistics."""

    result_type = GeoStats

    state: Counts = None
    city: Counts = None
    postalcode: Counts = None

    def to_statistics(self, window: Window | None) -> tuple[GeoStats, None]:
        state, city, postalcode = map(_counts, (self.state, self.city, self.postalcode))
        return GeoStats(state=state, city=city, postalcode=postalcode), None


def _counts(found: Any) -> dict[Any, int]:
    """Return a map of counts; [], null and a missing member mean an empty one."""
    return cast("dict[Any, int]", found) if isinstance(found, dict) else {}


class RowsUpdated(Struct, gc=False):
    """Answer of an update."""

    rows_updated: int
