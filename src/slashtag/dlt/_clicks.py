"""Tables of clicks that each load brings up to date, by day or by month and label."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, ClassVar

from msgspec import json

from .. import AsyncSession, BadRequestError, DateRange, RangeStats
from .._internal import WorkerPool, days, halves, last_day, months
from ._account import Listed, Monitor, arrow

_BATCH = 100
#: Batches of at most so many series are not halved.
_FEW = 3
_WORKERS = 32
_ROWS_PER_TABLE = 20_000
_DAY = timedelta(days=1)
Rows = Iterable[tuple[Any, ...]]
Listing = Callable[[AsyncSession], Awaitable[Listed]]


@dataclass
class Incremental:
    """Table of clicks that is brought up to date by each load.

    `key` names its first columns, of which the first is "slashtag" or "tag". `state`, which dlt keeps at the
    destination, has the first day (`since`), the last day (`through`, which was not over) and `series`: what
    the load before saw of each slashtag or tag. A series that failed, or whose answer contradicts itself, is
    left out, so that the next load requests all its days again.
    """

    #: Columns after those of the key.
    values: ClassVar[tuple[str, ...]]

    name: str
    key: tuple[str, ...]
    state: MutableMapping[str, Any]
    since: date
    lookback: int
    zone: tzinfo
    monitor: Monitor

    def __post_init__(self) -> None:
        self._today = datetime.now(UTC).astimezone(self.zone).date()
        self._before: dict[str, Any] = {}
        self._through: date | None = None
        #: First day to request of a series that the load before had.
        self._first = self.since
        if "since" in self.state and self.state["since"] <= self.since.isoformat():
            self._before = json.decode(self.state["series"])
            self._through = date.fromisoformat(self.state["through"])
            # Not later than today, or a clock that was set back would make an empty range.
            self._first = max(self.since, min(self._through, self._today) - self.lookback * _DAY)
        #: The series of the state after this load.
        self._after: dict[str, Any] = {}

    async def tables(self, listing: Listing, session: AsyncSession) -> AsyncGenerator[Any, None]:
        """Yield Arrow tables of the rows that are new or different; the state is updated at the end."""
        if self.since > self._today:
            return
        rows: list[tuple[Any, ...]] = []
        async with aclosing(self._rows(session, (await listing(session)).hits)) as parts:
            async for part in parts:
                rows += part
                if len(rows) >= _ROWS_PER_TABLE:
                    yield self._table(rows)
                    rows = []
        if rows:
            yield self._table(rows)
        # As one str: dlt copies its state several times.
        series = json.encode(self._after).decode()
        self.state.update(since=self.since.isoformat(), through=self._today.isoformat(), series=series)

    def _table(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        return arrow.table(list(zip(*rows, strict=True)), names=[*self.key, *self.values])

    def _rows(self, session: AsyncSession, hits: Mapping[str, int | None]) -> AsyncGenerator[Rows, None]:
        """Yield the rows that are new or different, series by series, and fill `_after`."""
        raise NotImplementedError

    def _collect_each(self, session: AsyncSession, span: DateRange, keys: list[str], name: str) -> Any:
        return session.stats.collect_each(
            span,
            keys=keys if self.key[0] == "slashtag" else None,
            tags=keys if self.key[0] == "tag" else None,
            timezone=self.zone,
            progress=self.monitor.progress and partial(self.monitor.progress, name),
            on_error=self.monitor.on_error,
        )

    async def _find_different(
        self,
        session: AsyncSession,
        span: DateRange,
        keys: list[str],
        is_known: Callable[[list[str], RangeStats], bool],
    ) -> list[str]:
        """Return the slashtags whose statistics may not be those of the load before.

        They are requested in batches, and a batch whose sum `is_known` rejects is halved.
        """
        different: list[str] = []

        async def compare(batch: list[str]) -> Iterable[list[str]] | None:
            # One slashtag is at fault: requested one by one, it is a failure and the others are answered.
            with suppress(BadRequestError):
                if is_known(batch, await session.stats.collect(span, keys=batch, timezone=self.zone)):
                    return None
                if len(batch) > _FEW:
                    return [list(half) for half in halves(batch)]
            different.extend(batch)
            return None

        batches = [keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH)]
        await WorkerPool(batches, compare, _WORKERS).run()
        return different


class DailyClicks(Incremental):
    """Table of clicks by day of each slashtag or tag.

    The state has the hits of each and its clicks of the last `lookback` days. Slashtags with the same hits as
    before are requested in batches: a batch whose sums equal those of the state is unchanged.
    """

    values = ("clicks", "final")

    async def _rows(
        self, session: AsyncSession, hits: Mapping[str, int | None]
    ) -> AsyncGenerator[Rows, None]:
        new = [key for key in hits if key not in self._before]
        old = [key for key in hits if key in self._before]
        same = [key for key in old if hits[key] is not None and hits[key] == self._before[key][0]]
        span = DateRange(self._first, self._today)
        different = await self._find_different(session, span, same, self._is_known)
        unchanged = set(same).difference(different)
        for key in unchanged:
            yield self._changes(key, self._expected(key), hits[key])
        changed = [key for key in old if key not in unchanged]
        for keys, first in ((new, self.since), (changed, self._first)):
            span = DateRange(first, self._today)
            async with self._collect_each(session, span, keys, self.name) as each:
                async for key, stats in each:
                    yield self._changes(key, stats.clicks, hits[key])
                    if not (stats.reconciles and stats.days_complete):
                        del self._after[key]
        self.state["lookback"] = self.lookback

    def _changes(
        self, key: str, clicks: Mapping[date, int], hits: int | None
    ) -> Iterable[tuple[str, date, int, bool]]:
        """Return the days that are missing or different at the destination, and record the last ones."""
        last = [clicks.get(self._today - back * _DAY, 0) for back in range(self.lookback, -1, -1)]
        while last and not last[0]:
            del last[0]
        self._after[key] = [hits, *last]
        known = self._known(key)
        rows = ((day, (count, day < self._today)) for day, count in clicks.items())
        return ((key, day, *row) for day, row in rows if row != known.get(day))

    def _known(self, key: str) -> dict[date, tuple[int, bool]]:
        """Return the last days as the destination has them: clicks, and whether the day was over."""
        if self._through is None or key not in self._before:
            return {}
        last = self._before[key][1:]
        last = [0] * (self.state["lookback"] + 1 - len(last)) + last
        known = days(self._through - self.state["lookback"] * _DAY, self._through)
        return {day: (count, day < self._through) for day, count in zip(known, last, strict=True)}

    def _expected(self, key: str) -> dict[date, int]:
        known = self._known(key)
        return {day: known.get(day, (0, False))[0] for day in days(self._first, self._today)}

    def _is_known(self, batch: list[str], stats: RangeStats) -> bool:
        expected = dict.fromkeys(days(self._first, self._today), 0)
        for key in batch:
            for day, count in self._expected(key).items():
                expected[day] += count
        return stats.clicks == expected and stats.reconciles and stats.days_complete


@dataclass
class MonthlyDimensions(Incremental):
    """Table of clicks by month, dimension and label; the state has the total clicks of the last months.

    The rows of a month are replaced where its total has changed.
    """

    values = ("clicks",)
    dimensions: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not set(self.dimensions) <= set(self.state.get("dimensions", ())):
            # The rows of a new dimension are missing in all months.
            self._before, self._first = {}, self.since

    async def _rows(
        self, session: AsyncSession, hits: Mapping[str, int | None]
    ) -> AsyncGenerator[Rows, None]:
        failed: set[str] = set()
        new = [key for key in hits if key not in self._before]
        old = [key for key in hits if key in self._before]
        after: dict[str, dict[str, int]] = {key: {} for key in hits}
        recent = months(min(self._first, self._today), self._today)
        for month in months(self.since, self._today):
            start = date(*month, 1)
            name = f"{start:%Y-%m}"
            span = DateRange(max(start, self.since), min(last_day(month), self._today))
            keys = new
            if month in recent:
                expected = {key: self._before[key].get(name, 0) for key in old}

                def is_known(batch: list[str], stats: RangeStats, n: Mapping[str, int] = expected) -> bool:
                    return stats.reconciles and stats.total_clicks == sum(n[key] for key in batch)

                keys = new + await self._find_different(session, span, old, is_known)
                for key in set(old).difference(keys):
                    after[key][name] = expected[key]
            missing = set(keys)
            async with self._collect_each(session, span, keys, f"{self.name} {name}") as each:
                async for key, stats in each:
                    if stats.reconciles:
                        missing.discard(key)
                    if month in recent and stats.total_clicks:
                        after[key][name] = stats.total_clicks
                    yield [
                        (key, start, dimension, label, clicks)
                        for dimension, label, clicks in stats.rows()
                        if dimension in self.dimensions
                    ]
            failed |= missing
        self._after = {key: totals for key, totals in after.items() if key not in failed}
        self.state["dimensions"] = list(self.dimensions)
