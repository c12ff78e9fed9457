"""Clicks by day of each slashtag or tag."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from .. import AsyncSession, DateRange, RangeStats
from .._internal import days
from ._incremental import Incremental, arrow, required

_DAY = timedelta(days=1)
Row = tuple[str, date, int, bool]


class DailyClicks(Incremental):
    """Table of clicks by day of each slashtag or tag, which `column` names.

    The state has the hits of each and its clicks of the last `lookback` days. Slashtags with the same hits as
    before are requested in batches: a batch whose sums equal those of the state is unchanged.
    """

    def __init__(self, name: str, column: str, **settings: Any) -> None:
        texts, dates, numbers, flags = arrow.string(), arrow.date32(), arrow.int64(), arrow.bool_()
        schema = required((column, texts), ("date", dates), ("clicks", numbers), ("final", flags))
        super().__init__(schema, **settings)
        self._name = name
        self._column = column
        #: First day of which the state has the clicks.
        self._known_from = date.max
        if self._through is not None:
            self._known_from = self._through - self.state["lookback"] * _DAY

    async def _rows(
        self, session: AsyncSession, hits: Mapping[str, int | None]
    ) -> AsyncGenerator[Iterator[Row], None]:
        new = [key for key in hits if key not in self._before]
        old = [key for key in hits if key in self._before]
        same = [key for key in old if hits[key] is not None and hits[key] == self._before[key][0]]
        span = DateRange(self._first, self._today)
        different = set(await self._find_different(session, span, same, self._is_known))
        unchanged = set(same) - different
        for key in unchanged:
            yield self._changes(key, self._expected(key), hits[key])
        changed = [key for key in old if key not in unchanged]
        for keys, first in ((new, self.since), (changed, self._first)):
            async with session.stats.collect_each(
                DateRange(first, self._today),
                keys=None if self._column == "tag" else keys,
                tags=keys if self._column == "tag" else None,
                timezone=self.zone,
                progress=self.monitor.progress(self._name),
                on_error=self.monitor.on_error,
            ) as each:
                async for key, stats in each:
                    yield self._changes(key, stats.clicks, hits[key])
        self.state["lookback"] = self.lookback

    def _changes(self, key: str, clicks: dict[date, int], hits: int | None) -> Iterator[Row]:
        """Yield the days that are missing or different at the destination, and record the last ones."""
        last = [clicks.get(self._today - back * _DAY, 0) for back in range(self.lookback, -1, -1)]
        while last and not last[0]:
            del last[0]
        self._after[key] = [hits, *last]
        for day, count in clicks.items():
            row = count, day < self._today
            if row != self._known(key, day):
                yield key, day, *row

    def _known(self, key: str, day: date) -> tuple[int, bool] | None:
        """Return the clicks of a day as the destination has them, and whether the day was over."""
        if self._through is None or not self._known_from <= day <= self._through or key not in self._before:
            return None
        last = self._before[key][1:]
        back = (self._through - day).days + 1
        return last[-back] if back <= len(last) else 0, day < self._through

    def _expected(self, key: str) -> dict[date, int]:
        return {day: (self._known(key, day) or (0, False))[0] for day in days(self._first, self._today)}

    def _is_known(self, batch: list[str], stats: RangeStats) -> bool:
        expected = dict.fromkeys(days(self._first, self._today), 0)
        for key in batch:
            for day, count in self._expected(key).items():
                expected[day] += count
        return stats.clicks == expected and stats.reconciles and stats.days_complete
