"""Base class of incremental tables: the state of the load before, and the search for changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from importlib import import_module
from typing import Any

from .. import AsyncSession, BadRequestError, DateRange, RangeStats
from .._internal import WorkerPool, halves
from ._account import Hits, Monitor

arrow: Any = import_module("pyarrow")

_BATCH = 100
#: Batches of at most so many series are not halved.
_FEW = 3
_WORKERS = 32
_ROWS_PER_TABLE = 20_000


@dataclass
class Incremental:
    """Table of clicks that is brought up to date by each load.

    `state`, which dlt keeps at the destination, has the first day (`since`), the last day (`through`, which
    was not over) and `series`: what the load before saw of each slashtag or tag. Subclasses make the rows.
    """

    schema: Any
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
            self._before = self.state["series"]
            self._through = date.fromisoformat(self.state["through"])
            # Not later than today, or a clock that was set back would make an empty range.
            self._first = max(self.since, min(self._through, self._today) - timedelta(days=self.lookback))
        #: The state after this load.
        self._after: dict[str, Any] = {}

    async def tables(self, listed: Hits, session: AsyncSession) -> AsyncGenerator[Any, None]:
        """Yield Arrow tables of the rows that are new or different; the state is updated at the end."""
        if self.since > self._today:
            return
        rows: list[tuple[Any, ...]] = []
        async with aclosing(self._rows(session, await listed(session))) as parts:
            async for part in parts:
                rows += part
                if len(rows) >= _ROWS_PER_TABLE:
                    yield arrow_table(rows, self.schema)
                    rows = []
        if rows:
            yield arrow_table(rows, self.schema)
        self.state.update(since=self.since.isoformat(), through=self._today.isoformat(), series=self._after)

    def _rows(
        self, session: AsyncSession, hits: Mapping[str, int | None]
    ) -> AsyncGenerator[Iterable[tuple[Any, ...]], None]:
        """Yield the rows that are new or different, series by series, and fill `_after`."""
        raise NotImplementedError

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
            try:
                stats = await session.stats.collect(span, keys=batch, timezone=self.zone)
            except BadRequestError:
                # One slashtag is at fault: requested one by one, it is a failure and the others are answered.
                different.extend(batch)
                return None
            if is_known(batch, stats):
                return None
            if len(batch) <= _FEW:
                different.extend(batch)
                return None
            return [list(half) for half in halves(batch)]

        batches = [keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH)]
        await WorkerPool(batches, compare, _WORKERS).run()
        return different


def arrow_table(rows: Sequence[Sequence[Any]], schema: Any) -> Any:
    """Return rows as an Arrow table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return arrow.table(list(map(list, columns)), schema=schema)


def required(*columns: tuple[str, Any]) -> Any:
    """Return an Arrow schema without nulls."""
    return arrow.schema([arrow.field(name, kind, nullable=False) for name, kind in columns])
