"""Writers, one for each format; all take rows of plain values and write them as they come."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

import msgspec

from .. import ExportError
from ._outlet import Outlet, Sink
from ._table import Row, Table, Value
from ._xlsx import XlsxWriter

ROW_GROUP = 25_000
#: Rows that are turned into bytes at once.
BATCH = 5_000
_INT64 = 2**63
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class Writer(Protocol):
    """Writer of rows; `close` writes what a format needs at its end, the file itself stays open.

    `abandon` instead of it gives up: what was written is no whole file.
    """

    def write(self, rows: Iterable[Row], /) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class JsonLinesWriter:
    """Writer of one JSON object a line; dates and timestamps as ISO 8601."""

    def __init__(self, file: Sink, table: Table) -> None:
        self._file = file
        self._names = table.names
        self._encode = msgspec.json.Encoder().encode

    def write(self, rows: Iterable[Row], /) -> None:
        encode, names = self._encode, self._names
        for batch in _batches(rows):
            lines = [encode(dict(zip(names, row, strict=True))) for row in batch]
            self._file.write(b"\n".join(lines) + b"\n")

    def close(self) -> None:
        """Do nothing: every line is whole."""

    abandon = close


class JsonWriter:
    """Writer of one JSON array with an object for each row."""

    def __init__(self, file: Sink, table: Table) -> None:
        self._file = file
        self._names = table.names
        self._before = b"["

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            line = msgspec.json.encode(dict(zip(self._names, row, strict=True)))
            self._file.write(self._before + b"\n" + line)
            self._before = b","

    def close(self) -> None:
        """End the array."""
        self._file.write(b"[]\n" if self._before == b"[" else b"\n]\n")

    def abandon(self) -> None:
        """Do nothing: an array without its end is not JSON."""


class CsvWriter:
    """Writer of CSV in UTF-8 with a header.

    `excel_safe` begins with a BOM, by which Excel knows UTF-8, and guards cells that a spreadsheet would run.
    """

    def __init__(self, file: Sink, table: Table, *, excel_safe: bool = False) -> None:
        self._file = file
        self._excel_safe = excel_safe
        if excel_safe:
            file.write(codecs.BOM_UTF8)
        self.write([table.names])

    def write(self, rows: Iterable[Row], /) -> None:
        for batch in _batches(rows):
            if self._excel_safe:
                batch = [tuple(map(guarded, row)) for row in batch]
            text = _csv(batch)
            if "\r" in text:
                # Lines end in \n, so that csv leaves a lone \r bare, at which readers end the row.
                bare = (any(isinstance(value, str) and "\r" in value for value in row) for row in batch)
                text = "".join(_csv([row], quoted=quoted) for row, quoted in zip(batch, bare, strict=True))
            self._file.write(text.encode())

    def close(self) -> None:
        """Do nothing: every row is whole."""

    abandon = close


def _csv(rows: Sequence[Row], *, quoted: bool = False) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerows(
        rows
    )
    return text.getvalue()


def guarded(value: Value) -> Value:
    """Put an apostrophe before a text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


class ParquetWriter:
    """Writer of typed columns, a row group at a time; needs the extra `parquet`.

    Raises ExportError for a count that int64 cannot hold.
    """

    def __init__(self, file: Sink, table: Table, *, row_group: int = ROW_GROUP, batch: int = BATCH) -> None:
        arrow, parquet = load_arrow()
        self._arrow = arrow
        self._columns = table.columns
        self._schema = arrow_schema(table)
        self._outlet = Outlet(file)
        self._parquet: Any = parquet.ParquetWriter(self._outlet, self._schema, compression="zstd")
        self._row_group = row_group
        self._batch = min(batch, row_group)
        # Rows wait as Arrow columns, which are several times smaller than tuples.
        self._rows: list[Row] = []
        self._batches: list[Any] = []
        self._waiting = 0

    def write(self, rows: Iterable[Row], /) -> None:
        for batch in _batches(rows):
            self._rows += batch
            while len(self._rows) >= (size := min(self._batch, self._row_group - self._waiting)):
                self._convert(size)

    def _convert(self, size: int) -> None:
        rows, self._rows = self._rows[:size], self._rows[size:]
        arrays = [self._array(n, [row[n] for row in rows]) for n in range(len(self._columns))]
        self._batches.append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting += len(rows)
        if self._waiting >= self._row_group:
            self._flush()

    def _array(self, n: int, values: list[Any]) -> Any:
        try:
            return self._arrow.array(values, type=self._schema.field(n).type)
        except (OverflowError, self._arrow.ArrowInvalid):
            name = self._columns[n].name
            for value in values:
                if isinstance(value, int) and not -_INT64 <= value < _INT64:
                    raise ExportError(
                        f"{name} {value} does not fit Parquet's int64; export to .jsonl or .csv"
                    ) from None
            raise

    def _flush(self) -> None:
        batches, self._batches, self._waiting = self._batches, [], 0
        self._parquet.write_table(self._arrow.Table.from_batches(batches), row_group_size=self._row_group)

    def close(self) -> None:
        if self._rows:
            self._convert(len(self._rows))
        if self._batches:
            self._flush()
        self._parquet.close()

    def abandon(self) -> None:
        # pyarrow writes a footer when its writer is dropped, also after an error.
        self._outlet.shut = True
        self._parquet.close()


def arrow_schema(table: Table) -> Any:
    """Return the Arrow schema of a table; needs the extra `parquet`."""
    arrow, _ = load_arrow()
    kinds = {
        "text": arrow.string(),
        "int": arrow.int64(),
        "date": arrow.date32(),
        "timestamp": arrow.timestamp("us"),
        "flag": arrow.bool_(),
        "float": arrow.float64(),
    }
    return arrow.schema([(column.name, kinds[column.kind]) for column in table.columns])


def load_arrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet; raises ExportError where they are not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ExportError('Parquet needs pyarrow: pip install "slashtag[parquet]"') from None


class GzipWriter:
    """Writer of another format, gzipped."""

    def __init__(self, file: Sink, make: Callable[[Sink], Writer]) -> None:
        self._outlet = Outlet(file)
        # No time stamp and no name within: the same rows give the same bytes.
        self._gzip = gzip.GzipFile(
            filename="", mode="wb", compresslevel=6, fileobj=cast("Any", self._outlet), mtime=0
        )
        self._inner = make(cast(Sink, self._gzip))

    def write(self, rows: Iterable[Row], /) -> None:
        self._inner.write(rows)

    def close(self) -> None:
        self._inner.close()
        self._gzip.close()

    def abandon(self) -> None:
        # gzip writes a trailer when its file is dropped, also after an error.
        self._outlet.shut = True
        self._gzip.close()


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch


#: Formats of text, which can be printed, and gzipped as files.
TextFormat = Literal["jsonl", "json", "csv"]
TEXT_FORMATS: tuple[TextFormat, ...] = get_args(TextFormat)
#: What writes each format, by its name. Endings, messages and options of the command line derive from this.
_WRITERS: dict[str, Callable[..., Writer]] = {
    "jsonl": JsonLinesWriter,
    "json": JsonWriter,
    "csv": CsvWriter,
    "xlsx": XlsxWriter,
    "parquet": ParquetWriter,
}
_GZIP = ".gz"
#: Endings of the names of files that can be written.
FORMATS = tuple(
    f".{name}{packed}" for name in _WRITERS for packed in ("", _GZIP)[: 1 + (name in TEXT_FORMATS)]
)


def ending_of(path: str | os.PathLike[str]) -> str | None:
    """Return which of FORMATS a file's name ends in."""
    name = Path(path).name.lower()
    return next((known for known in sorted(FORMATS, key=len, reverse=True) if name.endswith(known)), None)


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that a file's name asks for; raises ExportError for another."""
    ending = ending_of(path)
    if ending is None:
        raise ExportError(f"{Path(path).name}: its name must end in one of {', '.join(FORMATS)}")
    return ending


def has_guard(format: str) -> bool:
    """Return whether `excel_safe` makes a difference to one of FORMATS."""
    return _WRITERS[format.removesuffix(_GZIP).removeprefix(".")] is CsvWriter


def open_writer(format: str, file: Sink, table: Table, *, excel_safe: bool = False) -> Writer:
    """Begin to write a table in one of FORMATS to a binary file."""
    if format not in FORMATS:
        raise ExportError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    if format.endswith(_GZIP):
        inner = format.removesuffix(_GZIP)
        return GzipWriter(file, lambda zipped: open_writer(inner, zipped, table, excel_safe=excel_safe))
    options = {"excel_safe": excel_safe} if has_guard(format) else {}
    return _WRITERS[format.removeprefix(".")](file, table, **options)
