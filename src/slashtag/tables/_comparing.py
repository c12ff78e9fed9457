"""Differences of two tables, which foot: what changed, was added and is gone adds up to both sums."""

import logging
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import Any, Literal

import msgspec

from .. import InvalidRequestError
from ._reading import TIMES, LoadedTable, load_table

#: Columns that name a row where it has no id: what clicks are counted by.
KEYS = (
    *("slashtag", "tag", "date", "hour", "day", "weekday", "week", "month"),
    *("window_start", "window_end", "dimension", "label", "compared_with"),
    *("device", "browser", "platform", "country", "referrer", "language", "timezone"),
    *("state", "city", "postalcode"),
)
#: Columns of a listing that change by themselves: neither compared nor sent back.
VOLATILE = ("hits", "updated_at")
#: What follows from the clicks of other rows or columns, which is not compared either.
_DERIVED = ("percent", "change_percent", "clicks_per_day", "difference")
#: Both files by what names a row. On disk, as files have millions of rows.
_TABLES = """
    PRAGMA journal_mode=OFF;
    PRAGMA cache_size=-50000;
    CREATE TABLE old (key BLOB UNIQUE, cells BLOB);
    CREATE TABLE new (key BLOB UNIQUE, cells BLOB);
    CREATE VIEW difference AS
        SELECT 'gone' AS change, key, old.cells AS old, NULL AS new, old.rowid AS place
        FROM old LEFT JOIN new USING (key) WHERE new.cells IS NULL
        UNION ALL
        SELECT iif(old.cells IS NULL, 'added', 'changed'), key, old.cells, new.cells, new.rowid
        FROM new LEFT JOIN old USING (key) WHERE old.cells IS NOT new.cells;
    BEGIN;
"""

_decode = msgspec.json.Decoder(list[Any]).decode

log = logging.getLogger("slashtag")


class RowDifference(msgspec.Struct, frozen=True):
    """Row that only one file has, or a column in which a row differs.

    `key` is its id, `name` the slashtag of a link or the name of a tag; a row without an id has a `key` only.
    Of a row that is added or gone there is one for each column of clicks, or a single one without a column.
    At the end, "sum" has all clicks of both files, by dimension if there are several. Clicks are numbers, and
    `difference` says by how much they changed.
    """

    change: Literal["added", "gone", "changed", "sum"]
    key: str
    name: str
    column: str = ""
    old: str | int | None = None
    new: str | int | None = None
    difference: int | None = None


class Comparison:
    """The differences of two files, in the order of their rows, and then the sums.

    `count` has how many rows were added, gone and changed, `rows` how many the old and the new file have, and
    `clicks` their sums, by column and dimension.
    """

    def __init__(self, file: sqlite3.Connection, old: LoadedTable, new: LoadedTable) -> None:
        _check_alike(old, new)
        common = [name for name in old.columns if name in new.columns]
        self._keys = _keys_of(common)
        if not self._keys:
            raise InvalidRequestError(f"{old.where} has no column that names a row: {', '.join(old.columns)}")
        self._columns = [name for name in common if name not in (*self._keys, *VOLATILE, *_DERIVED)]
        self._counts = [name for name in self._columns if name.startswith("clicks")]
        self._file = file
        file.executescript(_TABLES)
        before, days = self._read(old, "INSERT INTO old VALUES (?, ?)")
        after, other_days = self._read(new, "INSERT INTO new VALUES (?, ?)")
        if days and other_days and not (old.about and new.about):
            spans = (f"{min(each)} to {max(each)}" for each in (days, other_days))
            _check_same("days", old, next(spans), new, next(spans))
        self.count = Counter[str](change for (change,) in file.execute("SELECT change FROM difference"))
        self.rows = before[""], after[""]
        self.clicks = {name: (before[name], after[name]) for name in {**before, **after} if name}

    def _read(self, table: LoadedTable, insert: str) -> tuple[Counter[str], set[str]]:
        """Return the sum of each column of clicks, the number of rows as that of "", and the days."""
        sums, days, key = Counter[str](), set[str](), list[str]()
        has_dimensions = "dimension" in self._keys
        times = TIMES.intersection(self._keys)

        def rows() -> Iterator[tuple[bytes, bytes]]:
            for line, row in table.rows({*self._keys, *self._columns}):
                where = f"{table.where}, line {line}"
                values = {name: _value(name, text, where) for name, text in row.items()}
                key[:] = (values[name] for name in self._keys)
                sums[""] += 1
                for name in self._counts:
                    # Each dimension has all clicks.
                    of = f"{name} by {values['dimension']}" if has_dimensions else name
                    sums[of] += values[name] or 0
                days.update(filter(None, (values[name] for name in times)))  # none of what is left over
                cells = [values[name] for name in self._columns]
                yield msgspec.json.encode(key), msgspec.json.encode(cells)

        try:
            self._file.executemany(insert, rows())
        except sqlite3.IntegrityError:
            raise InvalidRequestError(f"{table.where}: several rows of {', '.join(key)}") from None
        return sums, days

    def __iter__(self) -> Iterator[RowDifference]:
        found = self._file.execute("SELECT * FROM difference ORDER BY change <> 'gone', place")
        for change, key, *cells, _ in found:
            old, new = (dict(zip(self._columns, _decode(each or b"[]"), strict=False)) for each in cells)
            columns = self._counts or [""]
            if change == "changed":
                columns = [name for name in self._columns if old[name] != new[name]]
            named = new or old
            name = named.get("slashtag") or named.get("name") or ""
            for column in columns:
                was, now = old.get(column), new.get(column)
                by = (now or 0) - (was or 0) if column in self._counts else None
                yield RowDifference(change, ", ".join(_decode(key)), name, column, was, now, by)
        for column, (before, after) in self.clicks.items():
            yield RowDifference("sum", "", "", column, before, after, after - before)


@contextmanager
def compare_files(
    old: str | os.PathLike[str], new: str | os.PathLike[str]
) -> Generator[Comparison, None, None]:
    """Compare two listings or two exports in a `with` block.

    Rows are the same if they have the same id, else the same slashtag, tag, day and label. Compared are all
    columns that both files have but hits, updated_at and shares; others may hold anything. Logs columns that
    only one file has, what a file says that it lacks, and what it does not say. Raises InvalidRequestError
    for files that cannot be read or compared: of links and of tags, or of clicks of other days, links or of
    another zone, as they say of themselves, or else by the days of their rows.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as file:
        yield Comparison(file, load_table(old), load_table(new))


def _keys_of(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that name a row."""
    if "id" in columns and "clicks" not in columns:
        return ("id",)
    # The tag of a link is none of them, as it may have got another one.
    return tuple(name for name in KEYS if name in columns and not (name == "tag" and "slashtag" in columns))


def _kind_of(columns: Sequence[str]) -> str:
    """Return what a table has rows of, in words."""
    if "clicks" in columns:
        return f"clicks by {', '.join(_keys_of(columns))}"
    return "tags" if "name" in columns and "destination" not in columns else "links"


def _check_alike(old: LoadedTable, new: LoadedTable) -> None:
    """Raise InvalidRequestError for rows of another kind, or that are about other clicks."""
    _check_same("kind", old, _kind_of(old.columns), new, _kind_of(new.columns))
    if lacking := {*old.columns} ^ {*new.columns}:
        log.warning("columns that only one file has are not compared: %s", sorted(lacking))
    for table in (old, new):
        if table.about is None and "clicks" in table.columns:
            log.warning("%s does not say of which days, zone and links it is", table.where)
        elif table.about and not table.about.complete:
            log.warning("%s says of itself that it is not complete", table.where)
    if old.about is not None and new.about is not None:
        for name in ("timezone", "span", "compared_with", "selected"):
            _check_same(name.replace("_", " "), old, getattr(old.about, name), new, getattr(new.about, name))


def _check_same(what: str, old: LoadedTable, before: str, new: LoadedTable, after: str) -> None:
    if before != after:
        told = f"{old.where} has {before or 'none'}, {new.where} has {after or 'none'}"
        raise InvalidRequestError(f"the files differ in their {what}: {told}")


def _value(name: str, text: str, where: str) -> Any:
    """Return a cell as it is compared: clicks as a number, and a day or time in one form.

    Writers differ in the letter between day and time, zeros and midnights.
    """
    told = f"{where}, column {name}: {text!r} is no"
    if not text:
        return None if name.startswith("clicks") else ""
    if name.startswith("clicks"):
        if not text.isdecimal():
            raise InvalidRequestError(f"{told} number of clicks")
        return int(text)
    if name not in TIMES:
        return text
    # Spreadsheets of many countries write the day first; with slashes it cannot be told from the month.
    with suppress(ValueError):
        text = datetime.strptime(text, "%d.%m.%Y").isoformat()
    with suppress(ValueError):
        return datetime.fromisoformat(text).isoformat().removesuffix("T00:00:00")
    if not re.fullmatch(r"\d{4}-\d\d", text):  # a month
        raise InvalidRequestError(f"{told} day such as 2026-10-01 or 01.10.2026")
    return text
