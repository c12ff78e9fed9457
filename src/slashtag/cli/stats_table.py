"""The rows of `slashtag stats`, as they are written and drawn."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from .. import GeoStats, PeriodStats, RangeStats
from .._internal import many
from ..counts import DAY, Compared, averages, change, compared, count, label_of, percent, rolled
from ..tables import Column, Row
from .asking import By, Counted
from .output import Drawn, draw_bars
from .selection import ResolvedPeriod

COMPARED = Column("compared_with"), Column("clicks_before", "int"), Column("change_percent", "float")
#: The longest range drawn by day; longer ones are drawn by month.
MOST_DAYS = 31


class StatsTable:
    """The rows of an answer, as they are written and drawn."""

    def __init__(
        self, by: By, counted: list[Counted], resolved: ResolvedPeriod | None, *, is_compared: bool
    ) -> None:
        self._by, self._counted, self._resolved, self._is_compared = by, counted, resolved, is_compared
        self._stats = counted[0].total
        #: The dimension whose rows are of several days each, if there is one.
        self._unit = next((name for name in by if name in ("week", "month")), "")
        if resolved is None or (isinstance(self._stats, GeoStats) and not self._unit):
            self._unit = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns: labels, clicks, and what is known of them."""
        if not self._by.names:
            columns = [Column("dimension"), Column("label"), Column("clicks", "int")]
        else:
            labels = [Column(name, "date" if name in ("day", "week") else "text") for name in self._by.names]
            columns = [*labels, Column("clicks", "int"), Column("percent", "float")]
            columns += [Column("days", "int")] * bool(self._unit)
            columns += [Column("clicks_per_day", "float")] * self._has_averages
        return (*columns, *COMPARED) if self._is_compared else tuple(columns)

    @property
    def _has_averages(self) -> bool:
        return self._by == By("", "weekday")

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        if not self._by.names:
            for dimension, rows in self._sections(self._names()).items():
                for row in rows:
                    yield (dimension, *row.labels, row.clicks, *self._of_comparison(row))
            return
        rows, whole, days = self._compared(self._by.label), self._wholes(), self._days()
        a_day = self._averages()
        for row in rows:
            *group, label = row.labels
            cells: list[Any] = [_cell(name, of) for name, of in zip(self._by.names, row.labels, strict=True)]
            cells += [row.clicks, percent(row.clicks, whole[tuple(group)])]
            if self._unit:
                cells.append(days.get(str(row.labels[self._by.names.index(self._unit)])))
            if self._has_averages:
                cells.append(a_day.get(str(label)))
            yield (*cells, *self._of_comparison(row))

    def _of_comparison(self, row: Compared) -> Row:
        if not self._is_compared:
            return ()
        return row.compared_with, row.before, _change(row)

    def _compared(self, label: str) -> list[Compared]:
        """Return the rows of a dimension, rolled up, beside what they are compared with."""
        rows = [
            of.rows if label == self._by.label and self._by.names else count(of.total, label)
            for of in self._counted
        ]
        if self._is_compared and self._resolved is not None:
            return compared(rows[0], rows[1], label, self._resolved.spans)
        return [Compared(labels, n, None, None) for labels, n in rolled(rows[0], label).items()]

    def _names(self) -> list[str]:
        """Return the dimensions that are shown where none is given."""
        names = list(self._stats.DIMENSIONS.values())
        return ["month", *names] if isinstance(self._stats, PeriodStats) else names

    def _sections(self, names: list[str]) -> dict[str, list[Compared]]:
        """Return the rows of all clicks, and those of each dimension."""
        against = self._resolved.spans.before if self._resolved is not None and self._is_compared else None
        totals = {"total": "total"}
        if isinstance(self._stats, PeriodStats):
            totals |= {"unique": "clicks_unique", "repeated": "clicks_repeated"}
        found: dict[str, list[Compared]] = {}
        for name, member in totals.items():
            known = [getattr(of.total, member) for of in self._counted]
            found[name] = [Compared(("",), known[0], known[1] if against else None, against)]
        return found | {name: self._compared(name) for name in names}

    def _wholes(self) -> Counter[tuple[str | None, ...]]:
        """Return the clicks that the percentages of each group are of."""
        if not self._by.group or not self._by.label:
            return Counter({(): self._stats.total})
        wholes = Counter[tuple[str | None, ...]]()
        for (*group, _), n in self._counted[0].rows.items():
            wholes[tuple(group)] += n
        return wholes

    def _days(self) -> Counter[str]:
        """Return of how many days of the span each week or month is: the first and last may be cut."""
        if not self._unit or self._resolved is None:
            return Counter()
        spans = self._resolved.spans
        length = (spans.last - spans.first).days + 1
        return Counter(label_of(str(spans.first + n * DAY), self._unit) for n in range(length))

    def _averages(self) -> dict[str, float]:
        if not self._has_averages or self._resolved is None:
            return {}
        today = None if self._resolved.is_over else self._resolved.spans.last
        found = averages(self._counted[0].rows, "weekday", today)
        return {label: round(n, 1) for label, n in found.items()}

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
        if is_shifted and (not names or names[-1] in ("hour", "day", "week")):
            yield f"days are compared with those {spans.days_apart} days earlier, which are the same weekdays"

    def draw(self) -> None:
        """Draw the rows of one dimension with bars, or the first ones of each."""
        by = self._by.names
        names = by or self._names()
        if not by and isinstance(self._stats, RangeStats) and len(self._stats.clicks) > MOST_DAYS:
            names[0] = "month"
        sections = {name: self._compared(self._by.label if by else name) for name in names}
        a_day, days = self._averages(), self._days()

        def line(name: str, row: Compared) -> Drawn:
            label = row.labels[-1]
            shown = f"({row.compared_with})" if label is None else label
            if label is not None and name in ("day", "week", "hour"):
                shown = f"{label[:10]} {label_of(label[:10], 'weekday')[:3]}{label[10:]}"
            if name == self._unit and label is not None and name == "week" and days[label] < 7:
                shown += f" ({many(days[label], 'day')})"
            cells = [f"{percent(row.clicks, self._stats.total):.1f}"]
            cells += [f"{a_day[label]:,}" if label in a_day else ""] * self._has_averages
            return Drawn(shown, row.clicks, *cells, *self._changes(row))

        drawn = {name: [line(name, row) for row in rows] for name, rows in sections.items()}
        total = self._sections([])["total"][0]
        heads = ["%", *["a day"] * self._has_averages, *["before", "change %"] * self._is_compared]
        blank = [""] * (1 + self._has_averages)
        draw_bars(heads, drawn, Drawn("total", total.clicks, *blank, *self._changes(total)))

    def _changes(self, row: Compared) -> list[str]:
        """Return what a row is compared with and its change, for people."""
        if not self._is_compared:
            return []
        if row.before is None:
            return ["", ""]
        changed = _change(row)
        new = "new" if row.clicks and not row.before else ""
        return [f"{row.before:,}", new if changed is None else f"{changed:+.1f}"]


def _change(row: Compared) -> float | None:
    """Return the change of a row, in percent; none of earlier clicks that are compared with none."""
    return None if row.labels[-1] is None else change(row.clicks, row.before)


def _cell(name: str, label: str | None) -> str | date | None:
    """Return what the column of a dimension has for a label."""
    return date.fromisoformat(label) if label and name in ("day", "week") else label
