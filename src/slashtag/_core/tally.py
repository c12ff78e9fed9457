"""Running sums over answers: one dict addition a label, no public value built before the end."""

from __future__ import annotations

from datetime import date
from typing import Any, Generic, Protocol, TypeVar

from msgspec import UNSET

from .._models import OTHER, GeoStats, PeriodStats, RangeStats, Statistics, add_counts, without_zeros
from .payloads import Counts, GeoAnswer, PeriodAnswer, RangeAnswer
from .split import Window, days

R_co = TypeVar("R_co", covariant=True, bound=Statistics)
A_contra = TypeVar("A_contra", contravariant=True)


class Tally(Protocol, Generic[A_contra, R_co]):
    """Fold answers into a sum; `add` returns a text where an answer contradicts itself."""

    def add(self, answer: A_contra, window: Window | None) -> str | None: ...

    def result(self) -> R_co: ...


def _add(into: dict[str, int], counts: dict[str, int] | list[Any] | None) -> None:
    if isinstance(counts, dict):
        add_counts(into, counts)


class RangeTally:
    """Sum answers of date ranges; the result holds every day of the span, both ends included."""

    def __init__(self, span: tuple[date, date] | None) -> None:
        self._span = span
        self._total = 0
        self._days: dict[date, int] = {}
        self._maps: tuple[dict[str, int], ...] = ({}, {}, {}, {}, {})
        self._days_complete = True
        self._reconciles = True

    def add(self, answer: RangeAnswer, window: Window | None) -> str | None:
        total = answer.total_clicks
        self._total += total
        device, browser, platform, country, referrer = self._maps
        _add(device, answer.device)
        _add(browser, answer.browser)
        _add(platform, answer.platform)
        _add(country, answer.country)
        _add(referrer, answer.referrer)
        return self._add_days(answer, window, total) if window is not None else None

    def _add_days(self, answer: RangeAnswer, window: Window, total: int) -> str | None:
        first, last = window.first, window.last
        told = answer.clicks
        into = self._days
        if not isinstance(told, dict) or not told:
            if first == last:
                into[first] = into.get(first, 0) + total
            elif told is UNSET and total:
                # No click, no day to tell: an answer without `clicks` loses nothing then.
                self._days_complete = False
            elif total:
                self._reconciles = False
                return f"{total} clicks in all, but none on its days"
            return None
        counted = 0
        outside = False
        for day, n in told.items():
            into[day] = into.get(day, 0) + n
            counted += n
            if (day < first or day > last) and n:
                outside = True
        if counted == total and not outside:
            return None
        self._reconciles = False
        if outside:
            return f"clicks on days outside the window {window}"
        return f"{total} clicks in all, but {counted} on its days"

    def result(self) -> RangeStats:
        clicks = dict.fromkeys(days(*self._span), 0) if self._span else {}
        # Days are told in any order by a split question: an ordered result does not show how it was split.
        for day, n in sorted(self._days.items()):
            if n or day in clicks:
                clicks[day] = n
        device, browser, platform, country, referrer = map(without_zeros, self._maps)
        return RangeStats(
            total_clicks=self._total,
            clicks=clicks,
            device=device,
            browser=browser,
            platform=platform,
            country=country,
            referrer=referrer,
            days_complete=self._days_complete,
            reconciles=self._reconciles,
        )


class PeriodTally:
    """Sum answers of years or of all time."""

    def __init__(self) -> None:
        self._total = self._unique = self._repeated = self._clicked = 0
        self._breakdown: dict[int, dict[int, int]] = {}
        self._maps: dict[str, dict[str, int]] = {name: {} for name in PeriodStats.DIMENSIONS}

    def add(self, answer: PeriodAnswer, window: Window | None) -> str | None:
        self._total += answer.clicks_total
        self._unique += answer.clicks_unique
        self._repeated += answer.clicks_repeated
        self._clicked += answer.clicks_total > 0
        for name, counts in self._maps.items():
            _add(counts, getattr(answer, name))
        counted = 0
        for year, months in breakdown_of(answer).items():
            add_counts(self._breakdown.setdefault(year, {}), months)
            counted += sum(months.values())
        if counted != answer.clicks_total:
            return f"{answer.clicks_total} clicks in all, but {counted} in its months"
        return None

    def result(self) -> PeriodStats:
        years = sorted(self._breakdown.items())
        breakdown = {year: without_zeros(dict(sorted(months.items()))) for year, months in years}
        return PeriodStats(
            clicks_total=self._total,
            clicks_unique=self._unique,
            clicks_repeated=self._repeated,
            clicks_breakdown={year: months for year, months in breakdown.items() if months},
            unique_is_exact=self._clicked < 2,
            **{name: without_zeros(counts) for name, counts in self._maps.items()},
        )


def breakdown_of(answer: PeriodAnswer) -> dict[int, dict[int, int]]:
    """Give year -> month -> clicks of an answer; arrays in place of empty maps are empty."""
    told = answer.clicks_breakdown
    if not isinstance(told, dict):
        return {}
    return {year: months for year, months in told.items() if isinstance(months, dict)}


class GeoTally:
    """Sum answers of one country."""

    def __init__(self) -> None:
        self._maps: dict[str, dict[str, int]] = {name: {} for name in GeoStats.DIMENSIONS}
        self._clicked = 0
        self._remainder = False

    def add(self, answer: GeoAnswer, window: Window | None) -> str | None:
        clicked = False
        for name, into in self._maps.items():
            counts: Counts = getattr(answer, name)
            if isinstance(counts, dict):
                add_counts(into, counts)
                clicked = clicked or any(counts.values())
                self._remainder = self._remainder or bool(counts.get(OTHER))
        self._clicked += clicked
        return None

    def result(self) -> GeoStats:
        maps: dict[str, dict[str, int]] = {}
        for name, counts in self._maps.items():
            rest = counts.get(OTHER)
            maps[name] = without_zeros({label: n for label, n in counts.items() if label != OTHER})
            if rest is not None:
                maps[name][OTHER] = rest
        return GeoStats(**maps, places_are_exact=not (self._remainder and self._clicked > 1))
