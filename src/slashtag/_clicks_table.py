"""Clicks of many slashtags or tags as one table."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import chain
from typing import Any

from ._arrow import Kind, arrow_columns
from ._errors import ExportError
from ._summed_statistics import PeriodStats, RangeStats, Statistics
from ._wording import many

_KINDS: dict[str, Kind] = {"date": "date", "month": "date", "clicks": "int"}


class ClicksTable:
    """Clicks of each slashtag or tag by day, month or label, sorted by slashtag or tag.

    polars, pandas, DuckDB and pyarrow take it as it is (`__arrow_c_stream__`), if pyarrow is installed.
    `names` are those of its columns: `slashtag` or `tag`; `date`, `month` (its first day), or `dimension` and
    `label`; `clicks`. `missing` counts failed requests and slashtags that cannot be requested, which have no
    rows; `incomplete` names slashtags or tags whose own statistics lack something or contradict themselves;
    `shared` names slashtags that several links have, whose clicks are those of all of these.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.missing = 0
        self.incomplete: list[str] = []
        self.shared: list[str] = []
        #: Of each slashtag or tag: what stands between its name and the clicks of each row, and the clicks.
        self._parts: list[tuple[str, list[tuple[Any, ...]], tuple[int, ...]]] = []

    def _add(self, key: str, stats: Statistics, dates: Mapping[date, int]) -> None:
        """Add the rows of one result; of `dates` those that it does not have itself."""
        is_whole = stats.complete
        if "label" in self.names:
            rows = [row for row in stats.rows() if row.clicks and row.dimension not in ("day", "month")]
            labels: list[tuple[Any, ...]] = [(row.dimension, row.label) for row in rows]
            counts = tuple([row.clicks for row in rows])
            is_whole &= not stats.incomplete_dimensions
        else:
            clicks = {**dates, **_by_date(stats)}
            labels, counts = [(day,) for day in clicks], tuple(clicks.values())
            if self._parts and self._parts[-1][1] == labels:
                labels = self._parts[-1][1]  # one list for all, of many links
        self._parts.append((key, labels, counts))
        self.shared += stats.shared
        if not is_whole:
            self.incomplete.append(key)

    def _finish(self, missing: int) -> None:
        self.missing = missing
        self.incomplete.sort()
        self.shared.sort()
        self._parts.sort(key=lambda part: part[0])

    @property
    def complete(self) -> bool:
        """Whether nothing that was asked for is missing, and no answer contradicts itself."""
        return not self.missing and not self.incomplete

    def rows(self) -> Iterator[Any]:
        """Yield a named tuple for each row; its members are `names`."""
        row: Any = namedtuple("ClicksRow", self.names)  # type: ignore[misc]
        for key, labels, counts in self._parts:
            for label, clicks in zip(labels, counts, strict=True):
                yield row._make((key, *label, clicks))

    def to_arrow(self, *, partial: bool = False) -> Any:
        """Return a pyarrow.Table of strings, dates (date32) and int64.

        Raises ExportError if the table is not `complete`, unless `partial` is True: data frames have no place
        to say so; without pyarrow; and for a count that int64 cannot hold.
        """
        if not (self.complete or partial):
            lacking = f"{many(self.missing, 'request')}, {many(len(self.incomplete), 'result')}"
            raise ExportError(f"not complete ({lacking}): to_arrow(partial=True) gives what there is")
        keys = [key for key, labels, _ in self._parts for _ in labels]
        labels = chain.from_iterable(labels for _, labels, _ in self._parts)
        clicks = list(chain.from_iterable(counts for *_, counts in self._parts))
        kinds: dict[str, Kind] = {name: _KINDS.get(name, "text") for name in self.names}
        return arrow_columns(kinds, [keys, *zip(*labels, strict=True), clicks] if keys else [])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _by_date(stats: Statistics) -> Mapping[date, int]:
    """Return the clicks of each day, or of each month by its first day."""
    if isinstance(stats, PeriodStats):
        years = stats.clicks_breakdown.items()
        return {date(year, month, 1): n for year, months in years for month, n in months.items()}
    assert isinstance(stats, RangeStats)
    return stats.clicks
