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


class GeoAnswer(Struct, gc=False):
    """Answer of country geo-location statistics."""

    state: Counts = None
    city: Counts = None
    postalcode: Counts = None


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
            elif total:
                self.reconciles = False
                return f"{total} clicks in all, but none on its days"
            return None
        counted = 0
        outside = False
        for day, n in clicks.items():
            if day < first or day > last:
                if not n:
                    continue
                outside = True
            into[day] = into.get(day, 0) + n
            counted += n
        if counted == total and not outside:
            return None
        self.reconciles = False
        if outside:
            return f"clicks on days outside the window {window}"
        return f"{total} clicks in all, but {counted} on its days"

    def result(self) -> RangeStats:
        if self._span is None:
            return super().result()
        clicks = dict.fromkeys(days(*self._span), 0)
        length = len(clicks)
        clicks.update(self.days)
        return self.result_with(clicks if len(clicks) == length else dict(sorted(clicks.items())))


class PeriodTally(PeriodSum):
    """Sum of answers about years or about all time."""

    def __init__(self, span: None = None) -> None:
        super().__init__()

    def add_answer(self, answer: PeriodAnswer, window: None) -> str | None:
        self.add(answer)
        counted = sum(sum(months.values()) for months in breakdown_of(answer).values())
        if counted != answer.clicks_total:
            return f"{answer.clicks_total} clicks in all, but {counted} in its months"
        return None


class GeoTally(GeoSum):
    """Sum of answers about one country."""

    def __init__(self, span: None = None) -> None:
        super().__init__()

    def add_answer(self, answer: GeoAnswer, window: None) -> str | None:
        self.add(answer)
        return None
