"""Clicks by day kept up to date in an SQLite file: each run asks only for the days that are new or young."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import TypeVar

from .._core.call import check_int
from .._core.queries import DateRange
from .._core.split import parse_zone
from .._errors import ExportError, InvalidRequestError
from .._fanout import in_thread
from .._models import ShortUrl
from .._resources.collect import Keys, OnError
from .._resources.listing import Progress
from .._session import AsyncSession
from ._jobs import Recorder, Rows, Summary, selection
from ._table import Row
from ._target import checked_path

T = TypeVar("T")

_DAY = timedelta(days=1)
_LOOKED_UP = 1_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS clicks (
    slashtag TEXT NOT NULL,
    date TEXT NOT NULL,
    clicks INTEGER NOT NULL,
    partial INTEGER NOT NULL,
    PRIMARY KEY (slashtag, date)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_UPSERT = """
INSERT INTO clicks VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
SET clicks = excluded.clicks, partial = excluded.partial
WHERE clicks IS NOT excluded.clicks OR partial IS NOT excluded.partial
"""
_COVERED = """
SELECT min(date), max(date), count(*), min(CASE WHEN partial THEN date END)
FROM clicks WHERE slashtag = ? AND date BETWEEN ? AND ?
"""


class Days:
    """Hold the days that an update is about: whole ones, none after the present one."""

    def __init__(self, query: DateRange, timezone: str | tzinfo | None, lookback: int) -> None:
        self.zone = parse_zone(timezone)
        now = datetime.now(UTC)
        self.today = now.astimezone(self.zone).date()
        query = query.resolve(self.zone, now)
        if any(isinstance(bound, datetime) for bound in query.bounds):
            raise InvalidRequestError("an update takes whole days, not date-times")
        self.first, last = query.span(self.zone)
        self.last = min(last, self.today)
        self.lookback = timedelta(days=check_int("lookback", lookback, 0, 36_600))

    async def collect(
        self,
        session: AsyncSession,
        groups: Mapping[date, list[str]],
        out: Rows,
        recorder: Recorder,
        progress: Progress | None,
        answered: Callable[[str, date, Collection[date]], object] | None = None,
    ) -> None:
        """Add a row for each slashtag and day from the first day of its group on.

        Whether it was the present day comes last in a row. `answered` is called with each slashtag, the first
        day of its group and the days that are told of it, before these are added.
        """
        total, done = sum(map(len, groups.values())), 0
        for start, group in sorted(groups.items()):
            each = session.stats.collect_each(
                DateRange(start, self.last),
                keys=_stream(group),
                timezone=self.zone,
                progress=None if progress is None else _shifted(progress, done, total),
                on_error=recorder.on_error,
            )
            async with each:
                async for slashtag, stats in each:
                    recorder.check(stats)
                    if answered is not None:
                        answered(slashtag, start, stats.clicks.keys())
                    await out.add((slashtag, day, n, day >= self.today) for day, n in stats.clicks.items())
            done += len(group)
        await out.flush()


async def update_sqlite(
    session: AsyncSession,
    query: DateRange,
    path: str | os.PathLike[str],
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    lookback: int = 3,
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
    on_error: OnError | None = None,
) -> Summary:
    """Bring the table `clicks` (slashtag, date, clicks, partial) of an SQLite file up to date.

    Each slashtag is asked for from its last date in the file, less `lookback` days in which clicks may
    still arrive, to the end of the range, today at the latest; from the first day of the range that was not
    over when it was asked for, if that is earlier; from the start of the range where the file lacks one of
    its days. `partial` marks a day that was not over, as the present one is. A batch of rows is one
    transaction; rows that did not change are not touched, and `rows` counts the others. Selectors, `progress`
    and `on_error` as `export_clicks`. `path` is that of a file, as `:memory:` is. Raises ExportError where
    the file cannot be written, is no such database, or holds days of another timezone
    (Statistics for a date or date range).
    """
    days = Days(query, timezone, lookback)
    recorder = Recorder(session, on_error)
    store = _Store(path, days)
    try:
        await in_thread(store.open)
        sharing = recorder.sharing
        async with selection(session, keys, tags, "slashtag", merged=False, sharing=sharing) as (chosen, _):
            groups = await _groups(store, chosen) if chosen is not None else {}
        out = Rows(store.upsert)
        await days.collect(session, groups, out, recorder, progress)
    finally:
        await in_thread(store.close)
    return recorder.summary(store.changed)


async def _groups(store: _Store, keys: Keys) -> dict[date, list[str]]:
    """Group slashtags by the first day that each is to be asked for."""
    groups: dict[date, dict[str, None]] = {}
    async with aclosing(slashtags(keys)) as names:
        async for batch in names:
            for name, start in zip(batch, await in_thread(partial(store.starts, batch)), strict=True):
                if start is not None:
                    groups.setdefault(start, {})[name] = None
    return {start: list(group) for start, group in groups.items()}


async def slashtags(keys: Keys) -> AsyncGenerator[list[str], None]:
    """Yield the slashtags of an iterable of any kind, many at a time."""
    batch: list[str] = []
    async for key in each_of(keys):
        batch.append(key if isinstance(key, str) else key.slashtag)
        if len(batch) >= _LOOKED_UP:
            yield batch
            batch = []
    if batch:
        yield batch


def each_of(keys: Keys) -> AsyncIterable[str | ShortUrl]:
    """Return an iterable of slashtags or links of any kind as an asynchronous one."""
    return keys if isinstance(keys, AsyncIterable) else _stream(keys)


async def _stream(items: Iterable[T]) -> AsyncGenerator[T, None]:
    # What cannot be asked for is then told as a failure instead of refused at once.
    for item in items:
        yield item


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda n, _: progress(done + n, total)


class _Store:
    """Keep the file; its methods run in threads, one at a time."""

    def __init__(self, path: str | os.PathLike[str], days: Days) -> None:
        # Absolute, as ":memory:" is no file to SQLite.
        self._path = checked_path(path).absolute()
        self._days = days
        self._file: sqlite3.Connection | None = None
        self.changed = 0

    def open(self) -> None:
        """Open or create the file."""
        self._guard(self._open)

    def _open(self) -> None:
        self._file = file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        file.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            file.execute(statement)
        zone = str(self._days.zone)
        file.execute("INSERT OR IGNORE INTO about VALUES ('timezone', ?)", (zone,))
        (known,) = file.execute("SELECT value FROM about WHERE name = 'timezone'").fetchone()
        file.execute("COMMIT")
        if known != zone:
            raise ExportError(f"{self._path} holds days of the timezone {known}, not {zone}")

    def starts(self, names: Sequence[str]) -> list[date | None]:
        """Give the first day that each slashtag is to be asked for, None where there is none."""
        return self._guard(lambda: [self._start(name) for name in names])

    def _start(self, name: str) -> date | None:
        assert self._file is not None
        first, last = self._days.first, self._days.last
        if first > last:
            return None
        row = self._file.execute(_COVERED, (name, first.isoformat(), last.isoformat())).fetchone()
        if not row[2]:
            return first
        begin, end = date.fromisoformat(row[0]), date.fromisoformat(row[1])
        if begin != first or row[2] != (end - begin).days + 1:
            return first
        young = end if row[3] is None else date.fromisoformat(row[3])
        return max(first, min(end - self._days.lookback, young))

    def upsert(self, rows: list[Row]) -> None:
        """Write a batch of rows."""
        self._guard(partial(self._upsert, rows))

    def _upsert(self, rows: list[Row]) -> None:
        file = self._file
        assert file is not None
        before = file.total_changes
        file.execute("BEGIN IMMEDIATE")
        try:
            file.executemany(_UPSERT, ((name, str(day), n, young) for name, day, n, young in rows))
            file.execute("COMMIT")
        except BaseException:
            if file.in_transaction:
                file.execute("ROLLBACK")
            raise
        self.changed += file.total_changes - before

    def _guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, OverflowError) as error:
            raise ExportError(f"{self._path} cannot be updated: {error}") from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
