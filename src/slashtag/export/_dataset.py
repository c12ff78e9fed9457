"""Clicks by day kept up to date in a Parquet dataset of months: the file of a month is written anew."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from datetime import date, timedelta, tzinfo
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from .._core.queries import DateRange
from .._core.split import Month, days, last_day, month_of, months
from .._errors import ExportError
from .._fanout import in_thread
from .._resources.collect import Keys, OnError
from .._resources.listing import Progress
from .._session import AsyncSession
from ._file import TableFile
from ._jobs import Recorder, Rows, Summary, selection
from ._table import Column, Row, clicks_table
from ._target import checked_path
from ._update import Days, each_of
from ._writers import ParquetWriter, Sink, load_arrow

TABLE = clicks_table("slashtag").with_columns(Column("partial", "flag"))
_DAY = timedelta(days=1)
_ROW_GROUP = 20_000
_BATCH = 1_000
_ZONE, _FAILURES = "slashtag.timezone", "slashtag.failures"
_TYPES = ("string", "date32[day]", "int64", "bool")


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

    Columns are slashtag, date, clicks and partial, which marks a day that was not over, as the present one
    is; readers that know hive partitions add the month. Each slashtag is asked for by whole months: from the
    month of its last date there, less `lookback` days in which clicks may still arrive, or from the first
    month of the range of which the dataset lacks one of its days or holds one that was not over, to the end
    of the range, today at the latest. A link that was created later than a month, as the listing tells, is
    not lacked in its file, unless that was written with failures.

    The files of these months are replaced, each at once. Rows that they held and that were not asked for, or
    whose slashtag failed, are kept; `rows` counts the others.

    Selectors, `progress` and `on_error` as `export_clicks`; needs the extra `parquet`. Raises ExportError
    where a file cannot be written or read, or holds days of another timezone
    (Statistics for a date or date range).
    """
    asked = Days(query, timezone, lookback)
    recorder = Recorder(session, on_error)
    dataset = _Dataset(checked_path(folder), asked)
    if asked.first > asked.last:
        return recorder.summary(0)
    out = Rows(dataset.write)
    try:
        await in_thread(dataset.open)
        sharing = recorder.sharing
        async with selection(session, keys, tags, "slashtag", merged=False, sharing=sharing) as (chosen, _):
            since = await _since(chosen) if chosen is not None else {}
        groups = await in_thread(partial(dataset.begin, since))
        await asked.collect(session, groups, out, recorder, progress, dataset.answered)
        await in_thread(partial(dataset.finish, recorder.failures))
    except BaseException:
        dataset.abandon()
        raise
    return recorder.summary(out.count)


async def _since(keys: Keys) -> dict[str, date]:
    """Give for each slashtag a day before which it cannot have had clicks, as far as that is told."""
    since: dict[str, date] = {}
    async for key in each_of(keys):
        if isinstance(key, str):
            since[key] = date.min
        else:
            created = key.created_at
            # A day early: it may be another day in the timezone of the days.
            day = date.min if created is None else created.date() - _DAY
            since[key.slashtag] = min(day, since.get(key.slashtag, date.max))
    return since


class _Dataset:
    """Keep the folder; its methods run in threads, one at a time."""

    def __init__(self, folder: Path, asked: Days) -> None:
        self._folder = folder
        self._asked = asked
        self._months = months(asked.first, asked.last)
        self._files: dict[Month, TableFile] = {}
        self._writers: dict[Month, ParquetWriter] = {}
        self._made: list[Path] = []
        self._written: set[Month] = set()
        #: The first day of what each slashtag that was answered was asked for.
        self._answered: dict[str, date] = {}
        #: Days of these that the answer lacked: hardly ever any.
        self._untold: dict[str, set[date]] = {}

    def _path(self, month: Month) -> Path:
        return self._folder / f"month={month[0]:04d}-{month[1]:02d}" / "clicks.parquet"

    @contextmanager
    def _reading(self, month: Month) -> Generator[Any, None, None]:
        """Open the file of a month; give None where there is none."""
        path = self._path(month)
        if not path.exists():
            yield None
            return
        arrow, parquet = load_arrow()
        try:
            with parquet.ParquetFile(path) as file:
                schema: Any = file.schema_arrow
                notes: dict[bytes, bytes] = file.metadata.metadata or {}
                zone = notes[_ZONE.encode()].decode()
                if tuple(schema.names) != TABLE.names or tuple(map(str, schema.types)) != _TYPES:
                    raise KeyError(*schema.names)
                if zone != str(self._asked.zone):
                    raise ExportError(f"{path} holds days of the timezone {zone}, not {self._asked.zone}")
                yield file
        except (OSError, arrow.ArrowException, KeyError, ValueError):
            raise ExportError(f"{path} is not a file of such a dataset; it was left as it is") from None

    # --- what is to be asked ------------------------------------------------------------------------

    def open(self) -> None:
        """Check the files that are there, and begin the last one, which is always due."""
        for month in self._months:
            with self._reading(month):
                pass
        self._begin(self._months[-1])

    def begin(self, since: Mapping[str, date]) -> dict[date, list[str]]:
        """Begin the files of all months that are due; group the slashtags by the first day to ask for."""
        groups: dict[date, list[str]] = {}
        for name, month in self._starts(since).items():
            groups.setdefault(date(*month, 1), []).append(name)
        missing = (month for month in self._months if not self._path(month).exists())
        first = min((*map(month_of, groups), next(missing, self._months[-1])))
        for month in self._months:
            if month >= first and month not in self._files:
                self._begin(month)
        return groups

    def _starts(self, since: Mapping[str, date]) -> dict[str, Month]:
        """Give the first month to ask for of each slashtag."""
        starts: dict[str, Month] = {}
        #: The last date that is held of each slashtag whose months were whole so far.
        whole: dict[str, date | None] = dict.fromkeys(since)
        for month in self._months:
            end = last_day(month)
            held, settled = self._held(month)
            still: dict[str, date | None] = {}
            for name, newest in whole.items():
                over, last = held.get(name, (0, newest))
                if over == end.day or (settled and name not in held and since[name] > end):
                    still[name] = last
                else:
                    starts[name] = min(month, self._back(last, month))
            whole = still
        return starts | {name: self._back(newest, self._months[-1]) for name, newest in whole.items()}

    def _back(self, newest: date | None, month: Month) -> Month:
        """Give the month of the lookback before the last date that is held, `month` where none is."""
        return month if newest is None else max(self._months[0], month_of(newest - self._asked.lookback))

    def _held(self, month: Month) -> tuple[dict[str, tuple[int, date]], bool]:
        """Count the days that were over of each slashtag of a file, and tell its last date.

        Tell, too, whether there is a file, written without failures.
        """
        arrow, _ = load_arrow()
        held: dict[str, tuple[int, date]] = {}
        with self._reading(month) as file:
            if file is None:
                return held, False
            # Hardly any two are different, however many slashtags there are.
            same: dict[tuple[int, date], tuple[int, date]] = {}
            for batch in file.iter_batches(_ROW_GROUP, columns=["slashtag", "date", "partial"]):
                by_name = arrow.Table.from_batches([batch]).group_by("slashtag")
                found = by_name.aggregate([("date", "count"), ("date", "max"), ("partial", "sum")])
                columns = ("slashtag", "date_count", "date_max", "partial_sum")
                for name, n, last, young in zip(*(found[c].to_pylist() for c in columns), strict=True):
                    before = held.get(name, (0, last))
                    now = before[0] + n - young, max(before[1], last)
                    held[name] = same.setdefault(now, now)
            return held, int(file.metadata.metadata[_FAILURES.encode()]) == 0

    # --- what is written ----------------------------------------------------------------------------

    def _begin(self, month: Month) -> None:
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

    def answered(self, name: str, start: date, told: Collection[date]) -> None:
        """Take note of what the rows of a slashtag replace."""
        last = self._asked.last
        self._answered[name] = start
        if len(told) <= (last - start).days:
            self._untold[name] = set(days(start, last)).difference(told)

    def write(self, rows: list[Row]) -> None:
        """Write rows, each to the file of its month."""
        by_month: dict[Month, list[Row]] = {}
        for row in rows:
            day: Any = row[1]
            by_month.setdefault(month_of(day), []).append(row)
        for month, part in by_month.items():
            if month in self._files:
                self._files[month].write(part)
                self._written.add(month)

    def finish(self, failures: int) -> None:
        """Give the files their names, oldest first, with the rows that they keep."""
        for month, file in sorted(self._files.items(), key=itemgetter(0)):
            if month not in self._written and self._path(month).exists():
                file.abandon()
                continue
            self._keep(month)
            self._writers[month].note({_ZONE: str(self._asked.zone), _FAILURES: str(failures)})
            file.close()
        self._made.clear()

    def _keep(self, month: Month) -> None:
        """Copy the rows of the file that is there and that nothing replaces."""
        arrow, _ = load_arrow()
        with self._reading(month) as file:
            for batch in () if file is None else file.iter_batches(_ROW_GROUP):
                if self._answered.keys().isdisjoint(batch.column(0).unique().to_pylist()):
                    self._writers[month].pass_on(batch)
                    continue
                names, dates = batch.column(0).to_pylist(), batch.column(1).to_pylist()
                kept = [not self._is_replaced(name, day) for name, day in zip(names, dates, strict=True)]
                if any(kept):
                    self._writers[month].pass_on(batch.filter(arrow.array(kept)))

    def _is_replaced(self, name: str, day: date) -> bool:
        start = self._answered.get(name)
        return (
            start is not None and start <= day <= self._asked.last and day not in self._untold.get(name, ())
        )

    def abandon(self) -> None:
        """Leave no trace of months that are not whole."""
        for file in self._files.values():
            file.abandon()
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()
