"""The rows of `slashtag stats`, as they are written and drawn."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from .. import GeoStats, PeriodStats, RangeStats
from ..counts import DAY, ROLLED, Compared, averages, change, compared, count, label_of, percent, rolled
from .asking import By, Counted
from .selection import ResolvedPeriod

#: The longest range drawn by day; longer ones are drawn by month.
MOST_DAYS = 31
#: Labels drawn of a dimension that is one of several; the others are summed in one row.
MOST_LABELS = 8
#: What a row has of a comparison.
COMPARED = ("compared_with", "clicks_before", "change_percent")


class StatsTable:
    """The rows of an answer, and of what it is compared with if two spans are counted."""

    def __init__(self, by: By, counted: list[Counted], resolved: ResolvedPeriod | None) -> None:
        self._by, self._counted, self._resolved = by, counted, resolved
        self._stats = counted[0].total
        self._is_compared = len(counted) > 1
        #: Of how many days of the span each week or month is: the first and last may be cut.
        self._days = Counter[str]()
        #: The clicks a day of each weekday.
        self._averages = dict[str, float]()
        #: The clicks that the percentages are of, by group.
        self._wholes = Counter[tuple[str | None, ...]]({(): self._stats.total})
        if len(by.names) > 1:
            for labels, n in counted[0].rows.items():
                self._wholes[labels[:-1]] += n
        self._unit = next((name for name in by if name in ("week", "month")), "")
        if resolved is not None:
            first, last = resolved.spans[:2]
            days = [str(first + n * DAY) for n in range((last - first).days + 1)]
            self._days.update(label_of(day, self._unit) for day in days)
            if by == By("", "weekday"):
                self._averages = averages(counted[0].rows, "weekday", None if resolved.is_over else last)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self._record("", Compared(("",) * max(1, len(self._by.names)), 0, None, None))]

    @property
    def widths(self) -> dict[str, int]:
        """The columns that are drawn, each with the width of a terminal that has room for it."""
        return {
            name: {"compared_with": 120, "clicks_before": 60, "days": 60}.get(name, 0) for name in self.names
        }

    def rows(self, *, is_drawn: bool) -> Iterator[tuple[Any, ...]]:
        """Yield the rows; where all dimensions are drawn, only the first ones of each."""
        for title, rows in self._sections(is_drawn=is_drawn).items():
            is_cut = is_drawn and not self._by.names and title not in ROLLED
            most = MOST_LABELS if is_cut else len(rows)
            for row in rows[:most]:
                yield tuple(self._record(title, row).values())
            if others := rows[most:]:
                label, clicks = f"{len(others)} others", sum(row.clicks for row in others)
                yield tuple(self._record(title, Compared((label,), clicks, None, None)).values())

    def _sections(self, *, is_drawn: bool) -> dict[str, list[Compared]]:
        """Return the rows of what is asked for; by default those of all clicks, and of each dimension."""
        if self._by.names:
            return {"": self._rows_by(self._by.label)}
        names = list(self._stats.DIMENSIONS.values())
        totals = {"total": "total"}
        if isinstance(self._stats, PeriodStats):
            names.insert(0, "month")
            totals |= {"unique": "clicks_unique", "repeated": "clicks_repeated"}
        elif is_drawn and isinstance(self._stats, RangeStats) and len(self._stats.clicks) > MOST_DAYS:
            names[0] = "month"
        found: dict[str, list[Compared]] = {}
        for name, member in totals.items():
            clicks, before = [getattr(self._counted[n].total, member) for n in (0, -1)]
            against = (
                self._resolved.spans.before if self._resolved is not None and self._is_compared else None
            )
            found[name] = [Compared(("",), clicks, before if against else None, against)]
        return found | {name: self._rows_by(name) for name in names}

    def _rows_by(self, label: str) -> list[Compared]:
        """Return the rows of a dimension, rolled up, beside what they are compared with."""
        rows = [of.rows if self._by.names else count(of.total, label) for of in self._counted]
        if self._is_compared and self._resolved is not None:
            return compared(rows[0], rows[1], label, self._resolved.spans)
        return [Compared(labels, n, None, None) for labels, n in rolled(rows[0], label).items()]

    def _record(self, title: str, row: Compared) -> dict[str, Any]:
        """Return the cells of a row by the names of their columns."""
        if not self._by.names:
            found: dict[str, Any] = {"dimension": title, "label": row.labels[-1], "clicks": row.clicks}
        else:
            labels = dict(zip(self._by.names, row.labels, strict=True))
            found = {name: _cell(name, label) for name, label in labels.items()}
            found["clicks"] = row.clicks
            found["percent"] = percent(row.clicks, self._wholes[row.labels[:-1]])
            if self._unit and self._days:
                found["days"] = self._days.get(labels[self._unit] or "")
            if self._averages:
                average = self._averages.get(row.labels[-1] or "")
                found["clicks_per_day"] = None if average is None else round(average, 1)
        if self._is_compared:
            # Of earlier clicks that are compared with none there is no change.
            by_how_much = None if row.labels[-1] is None else change(row.clicks, row.before)
            found |= zip(COMPARED, (row.compared_with, row.before, by_how_much), strict=True)
        return found

    def notes(self) -> Iterator[str]:
        """Yield what has to be known of the figures."""
        if isinstance(self._stats, PeriodStats) and not self._by.names and not self._stats.unique_is_exact:
            yield "several answers were added up: unique clicks are at most, repeated ones at least these"
        if isinstance(self._stats, GeoStats) and not self._stats.places_are_exact:
            yield "some answers put places under Other: the named ones are lower bounds, the total is exact"
        if not self._is_compared or self._resolved is None:
            return
        spans, names = self._resolved.spans, self._by.names
        lengths = [(spans.last - spans.first).days + 1, (spans.last_before - spans.first_before).days + 1]
        if lengths[0] != lengths[1]:
            yield "the two spans have {} and {} days".format(*lengths)
        is_shifted = spans.days_apart != (spans.first - spans.first_before).days
        has_days = names[-1] in ("hour", "day", "week") if names else isinstance(self._stats, RangeStats)
        if is_shifted and has_days:
            yield f"days are compared with those {spans.days_apart} days earlier, which are the same weekdays"


def _cell(name: str, label: str | None) -> str | date | None:
    """Return what the column of a dimension has for a label."""
    return date.fromisoformat(label) if label and name in ("day", "week") else label
