"""Tables of clicks that each load brings up to date, by day or by month and label."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Literal

from msgspec import Struct, ValidationError, json
from msgspec.structs import replace

from .. import (
    AsyncSession,
    BadRequestError,
    ConfigurationError,
    DateRange,
    RangeStats,
    SlashtagError,
)
from .._internal import WorkerPool, days, parse_zone
from ._account import Listed, Monitor, Series, arrow

_BATCH = 100
#: Batches of at most so many series are not halved.
_FEW = 3
_WORKERS = 32
_ROWS_PER_TABLE = 20_000
_DAY = timedelta(days=1)
Rows = Iterable[tuple[Any, ...]]
Listing = Callable[[AsyncSession], Awaitable[Listed]]


class Record(Struct, frozen=True):
    """What the destination holds of a table, as JSON in dlt's state.

    That is the days from `since` to `through`, which was not over, of each slashtag or tag in `series`; these
    have their clicks from `recorded` on. One that failed, or whose answer contradicts itself, is left out, so
    that the next load requests all its days again.
    """

    timezone: str
    base_url: str
    since: date
    recorded: date
    through: date
    dimensions: tuple[str, ...]
    series: dict[str, Series]
    version: Literal[1] = 1


@dataclass
class Incremental:
    """Table of clicks that is brought up to date by each load.

    `key` names its first columns, of which the first is "slashtag" or "tag". `state`, which dlt keeps at the
    destination, has a Record. Raises ConfigurationError if the record is not one of this table.
    """

    #: Columns after those of the key.
    values: ClassVar[tuple[str, ...]]

    name: str
    key: tuple[str, ...]
    state: MutableMapping[str, Any]
    since: date
    lookback: int
    timezone: str
    base_url: str
    monitor: Monitor
    dimensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._zone = parse_zone(self.timezone)
        self._held: Record | None = None
        if "record" not in self.state:
            return
        try:
            self._held = json.decode(self.state["record"], type=Record)
        except ValidationError:
            problem = f"the destination has {self.name} of another version: use another dataset, or drop it"
            raise ConfigurationError(problem) from None
        for name in ("timezone", "base_url"):
            held, given = getattr(self._held, name), getattr(self, name)
            if held != given:
                problem = f"the destination holds clicks of {name} {held}, not {given}: use another dataset"
                raise ConfigurationError(problem)

    async def tables(self, listing: Listing, session: AsyncSession) -> AsyncGenerator[Any, None]:
        """Yield Arrow tables of the rows that are new or different; the state is updated at the end."""
        listed = await listing(session)
        self._begin(listed)
        if self.since > self._today:
            return
        rows: list[tuple[Any, ...]] = []
        async with aclosing(self._rows(session)) as parts:
            async for part in parts:
                rows += part
                if len(rows) >= _ROWS_PER_TABLE:
                    yield self._table(rows)
                    rows = []
        if rows:
            yield self._table(rows)
        # What a cache has answered is older than the listing.
        answered = min(listed.now.timestamp(), session.metrics.oldest_answer)
        record = Record(
            timezone=self.timezone,
            base_url=self.base_url,
            since=self.since,
            recorded=self._today - self.lookback * _DAY,
            through=datetime.fromtimestamp(answered, self._zone).date(),
            dimensions=self.dimensions,
            series=self._after,
        )
        # As one str: dlt copies its state several times.
        self.state["record"] = json.encode(record).decode()

    def _begin(self, listed: Listed) -> None:
        """Decide which series are continued, and from which day on."""
        self._listed = listed.series
        self._today = listed.now.astimezone(self._zone).date()
        self._first = self.since
        #: Series of the load before whose links are the same, and those of this load.
        self._before: dict[str, Series] = {}
        self._after: dict[str, Series] = {}
        held = self._held
        # Earlier days or other dimensions are missing, or days were over by a clock that was ahead.
        if (
            held is None
            or held.since > self.since
            or held.through > self._today + _DAY
            or not set(self.dimensions) <= set(held.dimensions)
        ):
            return
        self.since = held.since
        self._first = max(self.since, min(held.through, self._today) - self.lookback * _DAY)
        self._before = {
            key: held.series[key]
            for key, series in self._listed.items()
            if key in held.series and held.series[key].ids == series.ids
        }

    def _table(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        return arrow.table(list(zip(*rows, strict=True)), names=[*self.key, *self.values])

    def _rows(self, session: AsyncSession) -> AsyncGenerator[Rows, None]:
        """Yield the rows that are new or different, series by series, and fill `_after`."""
        raise NotImplementedError

    def _recorded(self, stats: RangeStats) -> dict[date, int]:
        """Return the clicks that a record would have of an answer."""
        raise NotImplementedError

    def _collect_each(self, session: AsyncSession, span: DateRange, keys: list[str], name: str) -> Any:
        return session.stats.collect_each(
            span,
            keys=keys if self.key[0] == "slashtag" else None,
            tags=keys if self.key[0] == "tag" else None,
            timezone=self._zone,
            progress=self.monitor.progress and partial(self.monitor.progress, name),
            on_error=self.monitor.on_error,
        )

    async def _find_different(
        self, session: AsyncSession, span: DateRange, known: Mapping[str, Mapping[date, int]]
    ) -> list[str]:
        """Return the slashtags whose clicks may not be the `known` ones of the load before.

        They are requested in batches, and a batch whose sum is another is halved. Those of a batch
        that fails may be different: requested one by one, the one at fault is a failure.
        """
        different: list[str] = []

        async def compare(batch: list[str]) -> Iterable[list[str]] | None:
            try:
                stats = await session.stats.collect(span, keys=batch, timezone=self._zone)
                expected: Counter[date] = Counter()
                for key in batch:
                    expected.update(known[key])
                if stats.reconciles and stats.days_complete and expected == Counter(self._recorded(stats)):
                    return None
                if len(batch) > _FEW:
                    return [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
            except SlashtagError as error:
                if error.is_fatal or not (self.monitor.on_error or isinstance(error, BadRequestError)):
                    raise
            different.extend(batch)
            return None

        keys = list(known)
        batches = [keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH)]
        await WorkerPool(batches, compare, _WORKERS).run()
        return different


class DailyClicks(Incremental):
    """Table of clicks by day of each slashtag or tag.

    Slashtags with the same hits as before are requested in batches.
    """

    values = ("clicks", "final")

    async def _rows(self, session: AsyncSession) -> AsyncGenerator[Rows, None]:
        before, listed = self._before, self._listed
        present = list(days(self._first, self._today))
        unchanged = {
            key: {day: last.clicks.get(day, 0) for day in present}
            for key, last in before.items()
            if last.hits is not None and last.hits == listed[key].hits
        }
        for key in await self._find_different(session, DateRange(self._first, self._today), unchanged):
            del unchanged[key]
        for key, clicks in unchanged.items():
            yield self._changes(key, clicks)
        new = [key for key in listed if key not in before]
        changed = [key for key in before if key not in unchanged]
        for keys, first in ((new, self.since), (changed, self._first)):
            span = DateRange(first, self._today)
            async with self._collect_each(session, span, keys, self.name) as each:
                async for key, stats in each:
                    yield self._changes(key, stats.clicks)
                    if not (stats.reconciles and stats.days_complete):
                        del self._after[key]

    def _changes(self, key: str, clicks: Mapping[date, int]) -> Iterable[tuple[str, date, int, bool]]:
        """Return the days that are missing or different at the destination, and record the last ones."""
        recorded = self._today - self.lookback * _DAY
        last = {day: count for day, count in clicks.items() if count and day >= recorded}
        self._after[key] = replace(self._listed[key], clicks=last)
        held, known = self._held, {}
        if held is not None and key in self._before:
            counts = self._before[key].clicks
            known = {
                day: (counts.get(day, 0), day < held.through) for day in days(held.recorded, held.through)
            }
        rows = ((day, (count, day < self._today)) for day, count in clicks.items())
        return ((key, day, *row) for day, row in rows if row != known.get(day))

    def _recorded(self, stats: RangeStats) -> dict[date, int]:
        return stats.clicks


class MonthlyDimensions(Incremental):
    """Table of clicks by month, dimension and label; the record has the total clicks of the last months.

    The rows of a month are replaced where its total has changed.
    """

    values = ("clicks", "deleted")

    async def _rows(self, session: AsyncSession) -> AsyncGenerator[Rows, None]:
        new = [key for key in self._listed if key not in self._before]
        failed: set[str] = set()
        totals: dict[str, dict[date, int]] = {key: {} for key in self._listed}
        recent = min(self._first, self._today).replace(day=1)
        for start, group in groupby(days(self.since, self._today), lambda day: day.replace(day=1)):
            month = list(group)
            span, keys, is_recent = DateRange(month[0], month[-1]), new, start >= recent
            if is_recent:
                known = {key: {start: series.clicks.get(start, 0)} for key, series in self._before.items()}
                different = await self._find_different(session, span, known)
                for key in known.keys() - different:
                    totals[key] |= known[key]
                keys = new + different
            missing = set(keys)
            async with self._collect_each(session, span, keys, f"{self.name} {start:%Y-%m}") as each:
                async for key, stats in each:
                    if stats.reconciles:
                        missing.discard(key)
                    if is_recent:
                        totals[key] |= self._recorded(stats)
                    yield self._labels(key, start, stats)
            failed |= missing
        for key in totals.keys() - failed:
            clicks = {start: count for start, count in totals[key].items() if count}
            self._after[key] = replace(self._listed[key], clicks=clicks)

    def _recorded(self, stats: RangeStats) -> dict[date, int]:
        return {day.replace(day=1): stats.total_clicks for day in stats.clicks}

    def _labels(self, key: str, month: date, stats: RangeStats) -> Rows:
        """Return the rows of a month, or one that deletes those that another load may have brought."""
        rows = [
            (key, month, dimension, label, clicks, False)
            for dimension, label, clicks in stats.rows()
            if dimension in self.dimensions
        ]
        return rows or ([(key, month, "", "", 0, True)] if "record" in self.state else [])
