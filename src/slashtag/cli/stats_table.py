"""The rows of `slashtag stats`, as they are written and drawn."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from .. import GeoStats, PeriodStats, RangeStats
from .._wording import many
from ..counts import (
    ROLLED,
    Compared,
    Period,
    averages,
    compared,
    comparison,
    count,
    days_of,
    label_of,
    rolled,
    shares,
)
from ..tables import Row
from .asking import Breakdown, Counted

#: The longest range drawn by day; longer ones are drawn by month.
MOST_DAYS = 31
#: Labels drawn of a dimension that is one of several; the others are summed in one row.
MOST_LABELS = 8


class StatsTable:
    """The rows of an answer, and of what it is compared with if two spans are counted; `names`: columns."""

    def __init__(self, by: Breakdown, counted: list[Counted], resolved: Period | None) -> None:
        self._by, self._counted, self._resolved = by, counted, resolved
        self._stats, self._is_compared = counted[0].total, len(counted) > 1
        #: Of how many days of the span each week or month is: the first and last may be cut.
        self._days = Counter[str]()
        #: The clicks a day of each weekday.
        self._averages = dict[str, float]()
        self._unit = next((name for name in by if name in ("week", "month")), "")
        if resolved is not None:
            first, last = resolved.spans[:2]
            if self._unit:
                self._days.update(label_of(str(day), self._unit) for day in days_of(first, last))
            if by == Breakdown("", "weekday"):
                self._averages = averages(counted[0].rows, None if resolved.is_over else last)
        self.names = [*by.names, "clicks", "percent"] if by.names else ["dimension", "label", "clicks"]
        self.names += ["days"] * bool(self._days) + ["clicks_per_day"] * bool(self._averages)
        self.names += ["compared_with", "clicks_before", "change_percent"] * self._is_compared

    def rows(self, *, is_drawn: bool) -> Iterator[Row]:
        """Yield the rows; where all dimensions are drawn, only the first ones of each."""
        if self._by.names:
            rows = self._rows_by(self._by.dimension)
            whole = None if self._by.group else self._stats.total
            of = shares({row.labels: row.clicks for row in rows}, whole)
            for row in rows:
                labels = dict(zip(self._by.names, row.labels, strict=True))
                cells = [_cell(name, label) for name, label in labels.items()]
                days = [self._days.get(labels[self._unit] or "")] if self._days else []
                by_day = [self._averages.get(row.labels[-1] or "")] if self._averages else []
                yield (
                    *cells,
                    row.clicks,
                    of[row.labels],
                    *days,
                    *by_day,
                    *(comparison(row) if self._is_compared else ()),
                )
            return
        for title, rows in self._sections(is_drawn=is_drawn).items():
            most = MOST_LABELS if is_drawn and title not in ROLLED else len(rows)
            if others := rows[most:]:
                clicks = sum(each.clicks for each in others)
                rows[most:] = [Compared((many(len(others), "other"),), clicks, None, None)]
            for row in rows:
                yield title, row.labels[-1], row.clicks, *(comparison(row) if self._is_compared else ())

    def _sections(self, *, is_drawn: bool) -> dict[str, list[Compared]]:
        """Return the rows of all clicks, and of each dimension."""
        names = list(self._stats.DIMENSIONS.values())
        totals = {"total": "total"}
        if isinstance(self._stats, PeriodStats):
            names.insert(0, "month")
            totals |= {"unique": "clicks_unique", "repeated": "clicks_repeated"}
        elif is_drawn and isinstance(self._stats, RangeStats) and len(self._stats.clicks) > MOST_DAYS:
            names[0] = "month"
        found: dict[str, list[Compared]] = {}
        against = self._resolved.spans.before if self._resolved is not None else None
        for name, member in totals.items():
            clicks, before = [getattr(self._counted[n].total, member) for n in (0, -1)]
            found[name] = [Compared(("",), clicks, before, against)]
        return found | {name: self._rows_by(name) for name in names}

    def _rows_by(self, dimension: str) -> list[Compared]:
        """Return the rows of a dimension, rolled up, beside what they are compared with."""
        rows = [of.rows if self._by.names else count(of.total, dimension) for of in self._counted]
        if self._by.group and not any(rows):
            return []  # it is not known of whom each month would have a row
        if self._resolved is None:
            return [Compared(labels, n, None, None) for labels, n in rolled(rows[0], dimension).items()]
        # Compared with nothing, too, each day, week and month has a row.
        return compared(rows[0], rows[1] if self._is_compared else {}, dimension, self._resolved.spans)

    def notes(self) -> Iterator[str]:
        """Yield what has to be known of the figures."""
        if isinstance(self._stats, PeriodStats) and not self._by.names and not self._stats.unique_is_exact:
            yield "several answers were added up: unique clicks are at most, repeated ones at least these"
        if isinstance(self._stats, GeoStats) and not self._stats.places_are_exact:
            yield "some answers put places under Other: the named ones are lower bounds, the total is exact"
        is_cut = self._resolved is not None and not self._resolved.is_over
        if isinstance(self._stats, GeoStats) and self._is_compared and is_cut:
            yield "places are counted by whole days: today, so far, is compared with a whole day"


def _cell(name: str, label: str | None) -> Any:
    """Return what the column of a dimension has for a label."""
    return date.fromisoformat(label) if label and name in ("day", "week") else label
