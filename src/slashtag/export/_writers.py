"""Writers, one for each format; all take rows of plain values and write them as they come."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol, Self

import msgspec

from .. import ExportError, InvalidRequestError
from ._table import Row, Table
from ._target import AtomicFile
from ._xlsx import XlsxWriter

#: Rows that are turned into bytes at once, and those of a row group of Parquet.
BATCH, ROW_GROUP = 5_000, 25_000
_ARROW = {
    "text": "string",
    "int": "int64",
    "date": "date32",
    "timestamp": "timestamp[us]",
    "float": "float64",
}
_encode_lines = msgspec.json.Encoder().encode_lines


class Sink(Protocol):
    """Binary file to write to."""

    def write(self, data: bytes, /) -> object: ...


class Writer(Protocol):
    """Writer of rows."""

    def write(self, rows: Iterable[Row], /) -> None: ...

    def close(self) -> None:
        """Write what the format needs at its end, if anything; the file itself stays open."""


class JsonLinesWriter(Writer):
    """Writer of one JSON object a line; dates and timestamps as ISO 8601."""

    def __init__(self, file: Sink, table: Table) -> None:
        self._file = file
        self._names = table.names

    def write(self, rows: Iterable[Row], /) -> None:
        for batch in _batches(rows):
            self._file.write(_encode_lines([dict(zip(self._names, row, strict=True)) for row in batch]))


class CsvWriter(Writer):
    """Writer of CSV in UTF-8 with a header."""

    def __init__(self, file: Sink, table: Table) -> None:
        self._file = file
        self._lines: list[str] = []
        lines: Any = SimpleNamespace(write=self._lines.append)
        # A text with \r or \n is only quoted if lines end in them.
        self._csv = csv.writer(lines, lineterminator="\r\n")
        self.write([table.names])

    def write(self, rows: Iterable[Row], /) -> None:
        for batch in _batches(rows):
            self._csv.writerows(batch)
            self._file.write("".join([line[:-2] + "\n" for line in self._lines]).encode())
            self._lines.clear()


class ParquetWriter:
    """Writer of typed columns, a row group at a time; needs the extra `parquet`.

    Raises ExportError for a count that int64 cannot hold.
    """

    def __init__(self, file: Sink, table: Table) -> None:
        self._arrow, parquet = load_arrow()
        self._schema = arrow_schema(table)
        self._parquet: Any = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[Row] = []

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            self._rows.append(row)
            if len(self._rows) == ROW_GROUP:
                self._flush()

    def _flush(self) -> None:
        try:
            table = self._arrow.table(list(zip(*self._rows, strict=True)), schema=self._schema)
        except (OverflowError, self._arrow.ArrowInvalid) as error:
            raise ExportError(f"{error}: Parquet cannot hold it; export to .jsonl or .csv") from None
        self._parquet.write_table(table)
        self._rows.clear()

    def close(self) -> None:
        try:
            if self._rows:
                self._flush()
        finally:
            self._parquet.close()


def arrow_schema(table: Table) -> Any:
    """Return the Arrow schema of a table; needs the extra `parquet`."""
    arrow, _ = load_arrow()
    return arrow.schema([(column.name, _ARROW[column.kind]) for column in table.columns])


def load_arrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet; raises ExportError where they are not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ExportError('Parquet needs pyarrow: pip install "slashtag[parquet]"') from None


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch


#: Formats of text, which can be printed.
TextFormat = Literal["jsonl", "csv"]
#: What writes each format, by the ending of the name of its files.
_WRITERS: dict[str, Callable[..., Writer]] = {
    ".jsonl": JsonLinesWriter,
    ".csv": CsvWriter,
    ".xlsx": XlsxWriter,
    ".parquet": ParquetWriter,
}
#: Endings of the names of files that can be written.
FORMATS = tuple(_WRITERS)


def format_of(path: str | os.PathLike[str]) -> str:
    """Return which of FORMATS a file's name ends in; raises InvalidRequestError for another."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise InvalidRequestError(f"{Path(path).name}: its name must end in one of {', '.join(FORMATS)}")
    return ending


def open_writer(format: str, file: Sink, table: Table) -> Writer:
    """Begin to write a table to a binary file, in one of FORMATS."""
    return _WRITERS[format](file, table)


class TableFile:
    """Writer of a table to a file that appears whole or not at all; the ending of its name is the format.

    Also a context manager, which removes the file on an error.
    Raises ExportError as AtomicFile and the writers do.
    """

    def __init__(self, path: str | os.PathLike[str], table: Table) -> None:
        form = format_of(path)
        self._target = AtomicFile(path)
        try:
            self._writer = open_writer(form, self._target, table)
        except BaseException:
            self._target.discard()
            raise

    def write(self, rows: Iterable[Row], /) -> None:
        """Write rows."""
        self._writer.write(rows)

    def close(self) -> None:
        """Complete the file and give it its name."""
        try:
            self._writer.close()
            self._target.commit()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove the file; safe to repeat, and without effect once closed."""
        # Formats write their end now or when they are dropped, when there is no file any more.
        with suppress(Exception):
            self._writer.close()
        self._target.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()
