"""Clicks by day of each slashtag or tag: which days to request, and which rows have changed.

A load requests each series from `lookback` days before the last day of the load before, and new ones from the
beginning. Links whose `hits` are as they were are requested in batches: a batch whose days add up to what
is known has not changed. One that has is halved until the series that differ are found.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, MutableMapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from importlib import import_module
from typing import Any

from .. import AsyncSession, BadRequestError, DateRange
from .._internal import WorkerPool, days, halves
from ._account import Hits
from ._monitor import Monitor

arrow: Any = import_module("pyarrow")

_BATCH = 100
#: Batches that are requested before their rows are passed on.
_BATCHES = 50
#: A batch of so few series is not halved.
_FEW = 3
_WORKERS = 32
_ROWS = 50_000
_DAY = timedelta(days=1)


class DailyClicks:
    """The clicks of one table, from what `state` has of the load before; the state is brought up to date.

    It holds the first day, the last one (`through`, which was not over), and for each series its hits and its
    clicks of the last days.
    """

    def __init__(
        self,
        name: str,
        column: str,
        state: MutableMapping[str, Any],
        since: date,
        lookback: int,
        zone: tzinfo,
        monitor: Monitor,
    ) -> None:
        self._name = name
        self._column = column
        self._state = state
        self._since = since
        self._lookback = lookback
        self._zone = zone
        self._monitor = monitor
        self._today = datetime.now(UTC).astimezone(self._zone).date()
        began = state.get("since")
        known = began is not None and date.fromisoformat(began) <= since
        self._through: date | None = date.fromisoformat(state["through"]) if known else None
        self._before: dict[str, list[Any]] = state["series"] if known else {}
        self._same_lookback = state.get("lookback") == lookback
        #: The state after this load.
        self._series: dict[str, list[Any]] = {}

    async def tables(self, listed: Hits, session: AsyncSession) -> AsyncGenerator[Any, None]:
        """Yield the rows that are new or different; the state is updated at the end."""
        if self._since > self._today:
            return
        hits = await listed(session)
        new = [key for key in hits if key not in self._before]
        same = [key for key in hits if self._is_unchanged(key, hits[key])]
        changed = [key for key in hits if key in self._before and not self._is_unchanged(key, hits[key])]
        rows = _Rows(self._column)
        for at in range(0, len(same), _BATCH * _BATCHES):
            part = same[at : at + _BATCH * _BATCHES]
            different = await self._find_different(session, part)
            changed += different
            for key in set(part).difference(different):
                rows.add(key, self._changes(key, self._expected(key), hits[key]))
                if rows.is_full:
                    yield rows.table()
        for keys, first in ((new, self._since), (changed, self._first)):
            async with session.stats.collect_each(
                DateRange(first, self._today),
                keys=None if self._column == "tag" else keys,
                tags=keys if self._column == "tag" else None,
                timezone=self._zone,
                progress=self._monitor.progress(self._name),
                on_error=self._monitor.on_error,
            ) as each:
                async for key, stats in each:
                    rows.add(key, self._changes(key, stats.clicks, hits[key]))
                    if rows.is_full:
                        yield rows.table()
        if len(rows):
            yield rows.table()
        self._state.update(
            since=self._since.isoformat(),
            through=self._today.isoformat(),
            lookback=self._lookback,
            series=self._series,
        )

    @property
    def _first(self) -> date:
        """First day to request of a series that the load before had."""
        if self._through is None:
            return self._since
        # A clock that was set back must not make an empty range.
        return max(self._since, min(self._through, self._today) - self._lookback * _DAY)

    def _is_unchanged(self, key: str, hits: int | None) -> bool:
        before = self._before.get(key)
        return self._same_lookback and before is not None and hits is not None and before[0] == hits

    def _known(self, key: str, day: date) -> tuple[int, bool] | None:
        """Return the clicks of a day as the destination has them, and whether the day was over."""
        before = self._before.get(key)
        if before is None or self._through is None or not self._first <= day <= self._through:
            return None
        back = (self._through - day).days + 1
        if not self._same_lookback:
            return None
        return before[-back] if back < len(before) else 0, day < self._through

    def _expected(self, key: str) -> dict[date, int]:
        return {day: (self._known(key, day) or (0, False))[0] for day in days(self._first, self._today)}

    def _changes(
        self, key: str, clicks: dict[date, int], hits: int | None
    ) -> Iterator[tuple[date, int, bool]]:
        """Yield the days that the destination lacks or has otherwise, and record the last ones."""
        last = [clicks.get(self._today - back * _DAY, 0) for back in range(self._lookback, -1, -1)]
        while last and not last[0]:
            del last[0]
        self._series[key] = [hits, *last]
        for day, count in clicks.items():
            row = count, day < self._today
            if row != self._known(key, day):
                yield day, *row

    async def _find_different(self, session: AsyncSession, keys: list[str]) -> list[str]:
        """Return the series whose days may not be what is known."""
        different: list[str] = []
        span = DateRange(self._first, self._today)

        async def compare(batch: list[str]) -> Iterable[list[str]] | None:
            try:
                stats = await session.stats.collect(span, keys=batch, timezone=self._zone)
            except BadRequestError:
                # One at fault; requested alone it is a failure, and the others are answered.
                different.extend(batch)
                return None
            expected = dict.fromkeys(days(self._first, self._today), 0)
            for key in batch:
                for day, count in self._expected(key).items():
                    expected[day] += count
            if stats.clicks == expected and stats.reconciles and stats.days_complete:
                return None
            if len(batch) <= _FEW:
                different.extend(batch)
                return None
            return [list(half) for half in halves(batch)]

        batches = [keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH)]
        await WorkerPool(batches, compare, _WORKERS).run()
        return different


class _Rows:
    """Rows of a table of clicks by day, as columns."""

    def __init__(self, column: str) -> None:
        self._schema = arrow.schema(
            [
                arrow.field(column, arrow.string(), nullable=False),
                arrow.field("date", arrow.date32(), nullable=False),
                arrow.field("clicks", arrow.int64(), nullable=False),
                arrow.field("final", arrow.bool_(), nullable=False),
            ]
        )
        self._columns: tuple[list[Any], ...] = ([], [], [], [])

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def is_full(self) -> bool:
        """Whether it is time to pass the rows on."""
        return len(self) >= _ROWS

    def add(self, key: str, rows: Iterable[tuple[date, int, bool]]) -> None:
        """Add rows of one series."""
        names, dates, clicks, final = self._columns
        for day, count, is_final in rows:
            names.append(key)
            dates.append(day)
            clicks.append(count)
            final.append(is_final)

    def table(self) -> Any:
        """Return the rows so far, and begin anew."""
        columns, self._columns = self._columns, ([], [], [], [])
        return arrow.table(list(columns), schema=self._schema)
