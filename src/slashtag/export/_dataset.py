"""Clicks by day kept up to date in a Parquet dataset of months: whole months are written anew."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from .._core.queries import DateRange
from .._core.split import Month, last_day, month_of, months
from .._errors import ExportError
from .._journal import in_thread
from .._resources.asking import Keys, OnError
from .._resources.listing import Progress
from .._session import AsyncSession
from ._file import TableFile
from ._jobs import Recorder, Rows, Summary, selection
from ._table import Column, Row, clicks_table
from ._update import Days
from ._writers import ParquetWriter, Sink, load_arrow

TABLE = clicks_table("slashtag").with_columns(Column("partial", "flag"))
_ROW_GROUP = 20_000
_BATCH = 1_000
_THROUGH, _ZONE, _FAILURES = "slashtag.through", "slashtag.timezone", "slashtag.failures"


async def update_parquet(
    session: AsyncSession,
    query: DateRange,
    folder: str | os.PathLike[str],
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    lookback: int = 3,
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
    on_error: OnError | None = None,
) -> Summary:
    """Bring a Parquet dataset of clicks, `month=YYYY-MM/clicks.parquet`, up to date.

    Columns are slashtag, date, clicks and partial, which marks the present day; readers that know hive
    partitions add the month. Whole months are asked for and their files replaced, each at once: from the
    month of the last date there, less `lookback` days in which clicks may still arrive, or from the first
    month of the range that is missing, unfinished or was written with failures, to the end of the range,
    today at the latest. Earlier months stay as they are: a slashtag that is new is not added to them.
    Selectors, `progress` and `on_error` as `export_clicks`; needs the extra `parquet`. Raises ExportError
    where a file cannot be written or read, or holds days of another timezone
    (Statistics for a date or date range).
    """
    days = Days(query, timezone, lookback)
    recorder = Recorder(session, on_error)
    dataset = _Dataset(Path(folder), days)
    due = await in_thread(dataset.due)
    if not due:
        return recorder.summary(0)
    out = Rows(dataset.write)
    try:
        await in_thread(partial(dataset.begin, due))
        sharing = recorder.sharing
        async with selection(session, keys, tags, "slashtag", merged=False, sharing=sharing) as (chosen, _):
            await days.collect(session, date(*due[0], 1), chosen, out, recorder, progress)
        recorder.require_answers()
        await out.flush()
        await in_thread(partial(dataset.finish, recorder.failures))
    except BaseException:
        dataset.abandon()
        raise
    return recorder.summary(out.count)


class _Dataset:
    """Keep the folder; its methods run in threads, one at a time."""

    def __init__(self, folder: Path, days: Days) -> None:
        self._folder = folder
        self._days = days
        self._files: dict[Month, TableFile] = {}
        self._writers: dict[Month, ParquetWriter] = {}
        self._made: list[Path] = []

    def due(self) -> list[Month]:
        """Give the months to write, which follow each other."""
        days = self._days
        if days.first > days.last:
            return []
        asked = months(days.first, days.last)
        found = {month: through for month in asked if (through := self._through(month)) is not None}
        unfinished = [month for month in asked if found.get(month) != last_day(month)]
        if found:
            unfinished.append(month_of(max(found.values()) - days.lookback))
        start = min(unfinished, default=asked[-1])
        return [month for month in asked if month >= start]

    def _path(self, month: Month) -> Path:
        return self._folder / f"month={month[0]:04d}-{month[1]:02d}" / "clicks.parquet"

    def _through(self, month: Month) -> date | None:
        """Give the last date of a month's file; None where it is missing or lacks a slashtag."""
        path = self._path(month)
        if not path.exists():
            return None
        arrow, parquet = load_arrow()
        try:
            notes: dict[bytes, bytes] = parquet.read_metadata(path).metadata or {}
            told: dict[str, str] = {name.decode(): text.decode() for name, text in notes.items()}
            zone, failures = told[_ZONE], int(told[_FAILURES])
            through = date.fromisoformat(told[_THROUGH])
        except (OSError, arrow.ArrowException, KeyError, ValueError):
            raise ExportError(f"{path} is not a file of such a dataset; it was left as it is") from None
        if zone != str(self._days.zone):
            raise ExportError(f"{path} holds days of the timezone {zone}, not {self._days.zone}")
        return None if failures else through

    def begin(self, due: Iterable[Month]) -> None:
        """Begin a file for each month."""
        for month in due:
            path = self._path(month)
            try:
                for parent in (self._folder, path.parent):
                    if not parent.is_dir():
                        parent.mkdir()
                        self._made.append(parent)
            except OSError as error:
                raise ExportError(f"{path.parent} cannot be made: {error.strerror}") from None
            self._files[month] = TableFile(path, TABLE, make=partial(self._make, month))

    def _make(self, month: Month, file: Sink) -> ParquetWriter:
        writer = ParquetWriter(file, TABLE, row_group=_ROW_GROUP, batch=_BATCH)
        self._writers[month] = writer
        return writer

    def write(self, rows: list[Row]) -> None:
        """Write rows, each to the file of its month."""
        by_month: dict[Month, list[Row]] = {}
        for row in rows:
            day: Any = row[1]
            by_month.setdefault(month_of(day), []).append(row)
        for month, part in by_month.items():
            if month in self._files:
                self._files[month].write(part)

    def finish(self, failures: int) -> None:
        """Give the files their names, oldest first."""
        for month, file in self._files.items():
            through = min(last_day(month), self._days.last)
            notes = {_THROUGH: str(through), _ZONE: str(self._days.zone), _FAILURES: str(failures)}
            self._writers[month].note(notes)
            file.close()
        self._made.clear()

    def abandon(self) -> None:
        """Leave no trace of months that are not whole."""
        for file in self._files.values():
            file.abandon()
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()
