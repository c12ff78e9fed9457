"""Clicks by month and label: months that may have changed since the load before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, MutableMapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from importlib import import_module
from typing import Any

from .. import AsyncSession, BadRequestError, DateRange
from .._internal import WorkerPool, halves, last_day, months
from ._account import Hits
from ._monitor import Monitor

arrow: Any = import_module("pyarrow")

_BATCH, _FEW, _WORKERS, _ROWS = 100, 3, 32, 20_000
_SCHEMA = arrow.schema(
    [
        arrow.field("slashtag", arrow.string(), nullable=False),
        arrow.field("month", arrow.date32(), nullable=False),
        arrow.field("dimension", arrow.string(), nullable=False),
        arrow.field("label", arrow.string(), nullable=False),
        arrow.field("clicks", arrow.int64(), nullable=False),
    ]
)


class MonthlyDimensions:
    """Clicks by label of each slashtag and month; `state` holds the totals of its last months."""

    def __init__(
        self,
        state: MutableMapping[str, Any],
        since: date,
        lookback: int,
        zone: tzinfo,
        dimensions: tuple[str, ...],
        monitor: Monitor,
    ) -> None:
        self._state = state
        self._since = since
        self._zone = zone
        self._dimensions = dimensions
        self._monitor = monitor
        self._today = datetime.now(UTC).astimezone(self._zone).date()
        began = state.get("since")
        known = began is not None and date.fromisoformat(began) <= since
        # Other dimensions than before are requested for all months.
        known = known and set(dimensions) <= set(state.get("dimensions", ()))
        self._before: dict[str, dict[str, int]] = state["series"] if known else {}
        self._first = since
        if known:
            self._first = max(since, date.fromisoformat(state["through"]) - timedelta(days=lookback))

    async def tables(self, listed: Hits, session: AsyncSession) -> AsyncGenerator[Any, None]:
        """Yield the rows of months that are new or different; the state is updated at the end."""
        if self._since > self._today:
            return
        hits = await listed(session)
        series: dict[str, dict[str, int]] = {key: {} for key in hits}
        failed: set[str] = set()
        recent = months(min(self._first, self._today), self._today)
        for month in months(self._since, self._today):
            start = max(date(*month, 1), self._since)
            span = DateRange(start, min(last_day(month), self._today))
            name = start.strftime("%Y-%m")
            keys = [key for key in hits if key not in self._before]
            if month in recent:
                known = [key for key in hits if key in self._before]
                keys += await self._find_different(session, span, name, known)
            for key in set(hits).difference(keys) if month in recent else ():
                series[key][name] = self._before[key].get(name, 0)
            rows: list[tuple[Any, ...]] = []
            answered: set[str] = set()
            async with session.stats.collect_each(
                span,
                keys=keys,
                timezone=self._zone,
                progress=self._monitor.progress(f"clicks_by_dimension {name}"),
                on_error=self._monitor.on_error,
            ) as each:
                async for key, stats in each:
                    answered.add(key)
                    series[key][name] = stats.total_clicks
                    rows += [
                        (key, date(*month, 1), dimension, label, clicks)
                        for dimension, label, clicks in stats.rows()
                        if dimension in self._dimensions
                    ]
                    if len(rows) >= _ROWS:
                        yield _table(rows)
                        rows = []
            if rows:
                yield _table(rows)
            failed.update(set(keys) - answered)
        kept = {f"{year}-{month:02d}" for year, month in recent}
        self._state.update(
            since=self._since.isoformat(),
            through=self._today.isoformat(),
            dimensions=list(self._dimensions),
            series={
                key: {name: n for name, n in totals.items() if name in kept and n}
                for key, totals in series.items()
                if key not in failed
            },
        )

    async def _find_different(
        self, session: AsyncSession, span: DateRange, name: str, keys: list[str]
    ) -> list[str]:
        """Return the slashtags whose total of a month may not be what is known."""
        different: list[str] = []

        async def compare(batch: list[str]) -> Iterable[list[str]] | None:
            try:
                stats = await session.stats.collect(span, keys=batch, timezone=self._zone)
            except BadRequestError:
                different.extend(batch)
                return None
            if stats.total_clicks == sum(self._before[key].get(name, 0) for key in batch):
                return None
            if len(batch) <= _FEW:
                different.extend(batch)
                return None
            return [list(half) for half in halves(batch)]

        batches = [keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH)]
        await WorkerPool(batches, compare, _WORKERS).run()
        return different


def _table(rows: list[tuple[Any, ...]]) -> Any:
    return arrow.table([list(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)
