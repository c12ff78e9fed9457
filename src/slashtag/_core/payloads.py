"""Answers of the service, where they differ from the public models, and their running sums.

An empty map may be `[]` or null; counts are numbers or strings of digits, and lax decoding accepts both.
See docs/service.md, Statistics records. `add_answer` of a sum returns a warning message, or None if the
answer is consistent.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from .._models import GeoSum, PeriodSum, RangeStats, RangeSum, breakdown_of
from .windows import Window, days

Nothing = Annotated[list[Any], Meta(max_length=0)]
Counts = dict[str, int] | Nothing | None
Days = dict[date, int] | Nothing | None
Months = dict[int, dict[int, int] | Nothing | None] | Nothing | None


class RangeAnswer(Struct, gc=False):
    """Answer of statistics for a date or date range."""

    total_clicks: int
    device: Counts = None
    browser: Counts = None
    platform: Counts = None
    country: Counts = None
    referrer: Counts = None
    clicks: Days | UnsetType = UNSET

    def problem(self, window: Window) -> str | None:
        """Return how the days contradict the total or the window, None if they do not."""
        total, clicks = self.total_clicks, self.clicks
        first, last = window.first, window.last
        if not isinstance(clicks, dict) or not clicks:
            contradicts = total and clicks is not UNSET and first != last
            return f"{total} clicks in all, but none on its days" if contradicts else None
        # The service may list a day beside the window as 0.
        if (min(clicks) < first or max(clicks) > last) and any(
            n for day, n in clicks.items() if day < first or day > last
        ):
            return f"clicks on days outside the window {window}"
        counted = sum(clicks.values())
        return None if counted == total else f"{total} clicks in all, but {counted} on its days"


class PeriodAnswer(Struct, gc=False):
    """Answer of statistics for a year or for all time."""

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

    def problem(self, year: int | None) -> str | None:
        """Return how the months contradict the total or the year, None if they do not; None: all time."""
        months = {each: sum(counts.values()) for each, counts in breakdown_of(self).items()}
        if year is not None and any(n for each, n in months.items() if each != year):
            return f"clicks in months of other years than {year}"
        total, counted = self.clicks_total, sum(months.values())
        return None if counted == total else f"{total} clicks in all, but {counted} in its months"


class GeoAnswer(Struct, gc=False):
    """Answer of country geo-location statistics."""

    state: Counts = None
    city: Counts = None
    postalcode: Counts = None

    def problem(self, _: None) -> str | None:
        """Return None: an answer about a country has nothing to compare."""
        return None


class RowsUpdated(Struct, gc=False):
    """Answer of an update."""

    rows_updated: int


class RangeTally(RangeSum):
    """Sum of answers about date ranges; the result holds every day of the span, both ends included."""

    def __init__(self, span: tuple[date, date] | None) -> None:
        super().__init__()
        self._span = span

    def add_answer(self, answer: RangeAnswer, window: Window) -> str | None:
        self.add_totals(answer)
        first, last = window.first, window.last
        total, clicks, into = answer.total_clicks, answer.clicks, self.days
        if not isinstance(clicks, dict) or not clicks:
            if first == last:
                into[first] = into.get(first, 0) + total
            elif clicks is UNSET and total:
                # An answer without clicks needs no `clicks`: it has no days to list.
                self.days_complete = False
        else:
            for day, n in clicks.items():
                # Days outside belong to another window, which has counted them or will.
                if first <= day <= last:
                    into[day] = into.get(day, 0) + n
        problem = answer.problem(window)
        if problem:
            self.reconciles = False
        return problem

    def result(self) -> RangeStats:
        if self._span is None:
            return super().result()
        clicks = dict.fromkeys(days(*self._span), 0)
        length = len(clicks)
        clicks.update(self.days)
        return self.result_with(clicks if len(clicks) == length else dict(sorted(clicks.items())))


class PeriodTally(PeriodSum):
    """Sum of answers about years or about all time."""

    def __init__(self, span: tuple[date, date] | None = None) -> None:
        super().__init__()
        self._year = span[0].year if span else None

    def add_answer(self, answer: PeriodAnswer, window: None) -> str | None:
        self.add(answer)
        problem = answer.problem(self._year)
        if problem and self._year is not None:
            self._breakdown = {self._year: self._breakdown.get(self._year, {})}
        return problem


class GeoTally(GeoSum):
    """Sum of answers about one country."""

    def __init__(self, span: None = None) -> None:
        super().__init__()

    def add_answer(self, answer: GeoAnswer, window: None) -> str | None:
        self.add(answer)
        return None
