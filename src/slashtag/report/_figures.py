"""The report as a value: every figure of it, and what follows from them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Literal

from msgspec import Struct

from .._core.split import Month, month_of, months
from .._models import RangeStats
from ._draw import picture
from ._page import page

#: Up to so many days a series is told by day, above it by week.
DAILY = 92


class TopLink(Struct, frozen=True, kw_only=True):
    """Hold one of the links with most clicks: its clicks in the span, in all and by day."""

    slashtag: str
    short_url: str | None = None
    clicks: int
    days: dict[date, int]

    @property
    def by_week(self) -> bool:
        """Tell whether the series counts weeks instead of days."""
        return len(self.days) > DAILY

    @property
    def series(self) -> dict[date, int]:
        """Give clicks by day, of a long span by week from its Monday; the weeks at its ends may be cut."""
        if not self.by_week:
            return self.days
        weeks: dict[date, int] = {}
        for day, clicks in self.days.items():
            monday = day - timedelta(days=day.weekday())
            weeks[monday] = weeks.get(monday, 0) + clicks
        return weeks


class Report(Struct, frozen=True, kw_only=True):
    """Hold all figures of a report on the clicks from `start` to `end`, both included.

    `links` slashtags were asked about, of which `links_clicked` have clicks (at least so many, where
    `links_clicked_is_exact` is False); `before` clicks fell in the span of as many days before it. `unique`
    clicks are an upper bound unless `unique_is_exact`; `unique_from` says what bounds them: the service's
    own count of unique clicks in whole years, or the clicks themselves. `asked_at` is the time in `zone` at
    which the asking began, `requests` what it cost; `notes` are caveats in words.
    """

    start: date
    end: date
    zone: str = "UTC"
    asked_at: datetime
    requests: int
    selection: str
    links: int
    links_clicked: int
    links_clicked_is_exact: bool = True
    stats: RangeStats
    before: int
    unique: int
    unique_is_exact: bool
    unique_from: Literal["years", "clicks"]
    top: tuple[TopLink, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Give the clicks of the span."""
        return self.stats.total_clicks

    @property
    def days(self) -> int:
        """Give the length of the span in days."""
        return (self.end - self.start).days + 1

    @property
    def before_span(self) -> tuple[date, date]:
        """Give the first and the last day of the span before: as many days."""
        return self.start - timedelta(days=self.days), self.start - timedelta(days=1)

    @property
    def change(self) -> float | None:
        """Give the change against the span before, 0.5 for half as many more; None where that had none."""
        return (self.total - self.before) / self.before if self.before else None

    @property
    def is_complete(self) -> bool:
        """Tell whether the span had ended when it was asked about."""
        return self.asked_at.date() > self.end

    @property
    def busiest(self) -> tuple[date, int] | None:
        """Give the day with most clicks, the first of equals; None where no day has any."""
        day, clicks = max(self.stats.clicks.items(), key=lambda item: (item[1], -item[0].toordinal()))
        return (day, clicks) if clicks else None

    @property
    def month_weekdays(self) -> dict[Month, list[int | None]]:
        """Give the clicks of each (year, month) on its Mondays to Sundays; None where it has none of them."""
        cells: dict[Month, list[int | None]] = {month: [None] * 7 for month in months(self.start, self.end)}
        for day, clicks in self.stats.clicks.items():
            row = cells.get(month_of(day))
            if row is not None:
                row[day.weekday()] = (row[day.weekday()] or 0) + clicks
        return cells

    def to_html(self) -> str:
        """Return the report as one page that needs nothing else: no script, no request.

        Raises ExportError where the extra `report` is not installed.
        """
        return page(self)

    def to_png(self, scale: float = 2) -> bytes:
        """Return the main charts as one picture, 1,200 x `scale` pixels wide.

        Raises ExportError where the extra `report` is not installed.
        """
        return picture(self, scale)
