"""A writer for each format, which takes rows of plain values and writes them as they come."""

import csv
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Literal, TypeVar

import msgspec

from .. import InvalidRequestError
from .._arrow import Kind, arrow_columns, import_extra
from .._files import AtomicFile
from ._table import Row, Table, Writer
from ._workbook import XlsxWriter

T = TypeVar("T")
Sink = BinaryIO | AtomicFile

#: Rows that are turned into bytes at once.
CHUNK = 5_000
_encode_lines = msgspec.json.Encoder().encode_lines


def chunks(rows: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield the rows in lists of at most so many."""
    rest = iter(rows)
    while chunk := list(islice(rest, most)):
        yield chunk


class JsonLinesWriter(Writer):
    """Writer of one JSON object a line; dates and timestamps as ISO 8601."""

    def __init__(self, file: Sink, table: Table) -> None:
        self._file = file
        self._names = table.names

    def write(self, rows: Iterable[Row], /) -> None:
        for chunk in chunks(rows, CHUNK):
            self._file.write(_encode_lines([dict(zip(self._names, row, strict=True)) for row in chunk]))


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
        for chunk in chunks(rows, CHUNK):
            self._csv.writerows(chunk)
            self._file.write("".join([line[:-2] + "\n" for line in self._lines]).encode())
            self._lines.clear()


class ParquetWriter(Writer):
    """Writer of typed columns, a row group for each chunk; needs the extra `parquet`.

    Raises ExportError for a count that int64 cannot hold.
    """

    def __init__(self, file: Sink, table: Table) -> None:
        self._kinds: dict[str, Kind] = {column.name: column.kind for column in table.columns}
        parquet = import_extra("parquet", "pyarrow.parquet")
        self._parquet = parquet.ParquetWriter(file, arrow_columns(self._kinds, ()).schema, compression="zstd")

    def write(self, rows: Iterable[Row], /) -> None:
        for chunk in chunks(rows, CHUNK):
            columns = [
                # A number among texts, as `diff` has them.
                [None if value is None else str(value) for value in values] if kind == "text" else values
                for kind, values in zip(self._kinds.values(), zip(*chunk, strict=True), strict=True)
            ]
            self._parquet.write_table(arrow_columns(self._kinds, columns))

    def close(self) -> None:
        if self.about is not None:
            texts = self.about.texts.items()
            self._parquet.add_key_value_metadata({f"slashtag.{name}": text for name, text in texts})
        self._parquet.close()


#: Formats of text, which can be printed.
TextFormat = Literal["jsonl", "csv"]
#: What begins to write a Table to a Sink, by the ending of the name of its files.
FORMATS: dict[str, Callable[..., Writer]] = {
    ".jsonl": JsonLinesWriter,
    ".csv": CsvWriter,
    ".xlsx": XlsxWriter,
    ".parquet": ParquetWriter,
}


@contextmanager
def open_table(path: str | os.PathLike[str], table: Table) -> Generator[Writer, None, None]:
    """Open a file for the rows of a table; the ending of its name is the format.

    It appears whole at the end of the `with` block, and not at all if that ends with an error. What it says
    of itself is set on the writer until then. Raises InvalidRequestError for another ending than FORMATS, and
    ExportError as AtomicFile and the writers do.
    """
    form = Path(path).suffix.lower()
    if form not in FORMATS:
        raise InvalidRequestError(f"{Path(path).name}: its name must end in one of {', '.join(FORMATS)}")
    # Closed after an error too: formats write their end now, or when they are dropped.
    with AtomicFile(path) as file, closing(FORMATS[form](file, table)) as writer:
        yield writer


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Raise the errors that `open_table` raises at once; beginning a file, and removing it, shows them."""
    with suppress(InterruptedError), open_table(path, Table(())):
        raise InterruptedError
