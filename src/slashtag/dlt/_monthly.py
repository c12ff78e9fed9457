"""Clicks by month and label of each slashtag."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import date
from typing import Any

from .. import AsyncSession, DateRange, RangeStats
from .._internal import last_day, months
from ._incremental import Incremental, arrow, required


class MonthlyDimensions(Incremental):
    """Table of clicks by month, dimension and label; the state has the total clicks of the last months.

    The rows of a month are replaced where its total has changed.
    """

    def __init__(self, dimensions: tuple[str, ...], **settings: Any) -> None:
        texts = arrow.string()
        super().__init__(
            required(
                ("slashtag", texts),
                ("month", arrow.date32()),
                ("dimension", texts),
                ("label", texts),
                ("clicks", arrow.int64()),
            ),
            **settings,
        )
        self._dimensions = dimensions
        if not set(dimensions) <= set(self.state.get("dimensions", ())):
            # The rows of a new dimension are missing in all months.
            self._before, self._first = {}, self.since

    async def _rows(
        self, session: AsyncSession, hits: Mapping[str, int | None]
    ) -> AsyncGenerator[Iterable[tuple[Any, ...]], None]:
        failed: set[str] = set()
        new = [key for key in hits if key not in self._before]
        old = [key for key in hits if key in self._before]
        recent = months(min(self._first, self._today), self._today)
        for month in months(self.since, self._today):
            start = date(*month, 1)
            name = f"{start:%Y-%m}"
            span = DateRange(max(start, self.since), min(last_day(month), self._today))
            keys = new
            if month in recent:
                expected = {key: self._before[key].get(name, 0) for key in old}

                def is_known(batch: list[str], stats: RangeStats, n: Mapping[str, int] = expected) -> bool:
                    return stats.total_clicks == sum(n[key] for key in batch)

                keys = new + await self._find_different(session, span, old, is_known)
                for key in set(old).difference(keys):
                    self._record(key, name, expected[key])
            missing = set(keys)
            async with session.stats.collect_each(
                span,
                keys=keys,
                timezone=self.zone,
                progress=self.monitor.progress(f"clicks_by_dimension {name}"),
                on_error=self.monitor.on_error,
            ) as each:
                async for key, stats in each:
                    missing.discard(key)
                    if month in recent:
                        self._record(key, name, stats.total_clicks)
                    yield [
                        (key, start, dimension, label, clicks)
                        for dimension, label, clicks in stats.rows()
                        if dimension in self._dimensions
                    ]
            failed |= missing
        # The next load requests all months of series that failed.
        self._after = {key: self._after.get(key, {}) for key in hits if key not in failed}
        self.state["dimensions"] = list(self._dimensions)

    def _record(self, key: str, month: str, clicks: int) -> None:
        if clicks:
            self._after.setdefault(key, {})[month] = clicks
