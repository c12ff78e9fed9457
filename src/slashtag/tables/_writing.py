"""Tables, and a writer for each format, which takes rows of plain values and writes them as they come."""

import csv
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, BinaryIO, Literal, Protocol
from xml.sax.saxutils import escape

import msgspec

from .. import ExportError, InvalidRequestError
from .._internal import AtomicFile, Kind, arrow_columns, import_extra, object_url
from ._object import ObjectFile

Row = tuple[str | int | float | date | datetime | None, ...]
Sink = BinaryIO | AtomicFile | ObjectFile

#: Name of the sheet of a workbook, beside that of its rows, that says what it is.
ABOUT = "about"
#: Rows that are turned into bytes at once.
BATCH = 5_000
#: Rows in each group of a Parquet file.
ROW_GROUP = 25_000
#: What a sheet holds, and the smallest integer that the numbers of a workbook may have rounded.
MOST_ROWS, MOST_CHARACTERS, EXACT = 1_048_575, 32_767, 2**53
#: Before this day the calendars of spreadsheets differ.
_FIRST_DAY = date(1900, 3, 1)
_FORMATS = {"date": "yyyy-mm-dd", "timestamp": "yyyy-mm-dd hh:mm:ss", "int": "#,##0", "float": "#,##0.0"}
#: Numbers that name something: no thousands are told apart.
_IDENTIFIERS = {"id", "tag_id", "redirect_code", "line", "year"}
#: Characters that the name of a sheet cannot have, and the most that it may have.
_NOT_IN_SHEETS, _LONGEST_SHEET = re.compile(r"[\[\]:*?/\\\x00-\x1f\ufffe\uffff]|^'|'$"), 31
_WIDTHS = {"text": 32, "timestamp": 19}
#: Texts that spreadsheets take for formulas, and those before which a writer has put an apostrophe.
FORMULA, ESCAPED_FORMULA = re.compile("'*[=+@\t\r-]"), re.compile("'+[=+@\t\r-]")
_ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9a-fA-F]{4}_)")
_encode_lines = msgspec.json.Encoder().encode_lines


class Column(msgspec.Struct, frozen=True):
    """A column: its name and the kind of its values."""

    name: str
    kind: Kind = "text"


class Table(msgspec.Struct, frozen=True):
    """The columns of a table.

    `title` says what its rows are, as with their days: it names the sheet of a workbook.
    """

    columns: tuple[Column, ...]
    title: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of itself; "" is not told.

    `account` is the address of the service and a name, never a credential; `collected` the time at which the
    rows were complete (ISO 8601); `timezone` that of the days; `span` and `compared_with` are days, as
    2026-10-01..2026-10-31; `missing` names what failed.

    A workbook has it on a sheet `about`, a Parquet file in its metadata. `str` of it is one line, for formats
    that have no place.
    """

    account: str = ""
    collected: str = ""
    timezone: str = ""
    span: str = ""
    compared_with: str = ""
    complete: bool = True
    missing: str = ""

    @property
    def texts(self) -> dict[str, str]:
        """What is told, by name."""
        told = {name: str(getattr(self, name)) for name in self.__struct_fields__}
        return {name: text.lower() if name == "complete" else text for name, text in told.items() if text}

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')}: {text}" for name, text in self.texts.items())


class Writer(Protocol):
    """Writer of rows. `about` is what the file says of itself; it may be set until `close`."""

    about: About | None = None

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


class CsvStyle(msgspec.Struct, frozen=True):
    """How CSV is written.

    `decimal="comma"` writes fractions as 7,5, with semicolons between cells. `excel` is for a spreadsheet: a
    byte order mark, and an apostrophe before texts that it would take for formulas, which is left out again
    where such a file is read here. Both write whole fractions without decimals.
    """

    decimal: Literal["point", "comma"] = "point"
    excel: bool = False


class CsvWriter(Writer):
    """Writer of CSV in UTF-8 with a header."""

    def __init__(self, file: Sink, table: Table, style: CsvStyle | None = None) -> None:
        self._file = file
        style = style or CsvStyle()
        self._mark = "," if style.decimal == "comma" else "."
        self._escaped = FORMULA if style.excel else ESCAPED_FORMULA
        self._lines: list[str] = []
        lines: Any = SimpleNamespace(write=self._lines.append)
        # A text with \r or \n is only quoted if lines end in them.
        self._csv = csv.writer(lines, lineterminator="\r\n", delimiter=";" if self._mark == "," else ",")
        #: Columns whose values are not written as they are.
        self._others = [
            n
            for n, column in enumerate(table.columns)
            if column.kind == "text" or (style != CsvStyle() and column.kind == "float")
        ]
        if style.excel:
            file.write(b"\xef\xbb\xbf")
        self.write([table.names])

    def _cells(self, row: Row) -> list[Any]:
        cells: list[Any] = [*row]
        for n in self._others:
            value = cells[n]
            if isinstance(value, float):
                # Whole ones as spreadsheets write them, and as counts are.
                cells[n] = str(value).removesuffix(".0").replace(".", self._mark)
            elif value and self._escaped.match(value):
                # Also what looks as if it were escaped, so that what is read is what was written.
                cells[n] = f"'{value}"
        return cells

    def write(self, rows: Iterable[Row], /) -> None:
        for batch in _batches(rows):
            self._csv.writerows(map(self._cells, batch))
            self._file.write("".join([line[:-2] + "\n" for line in self._lines]).encode())
            self._lines.clear()


class ParquetWriter(Writer):
    """Writer of typed columns, a row group at a time; needs the extra `parquet`.

    Raises ExportError for a count that int64 cannot hold.
    """

    def __init__(self, file: Sink, table: Table) -> None:
        self._table = table
        schema = arrow_table(table, ()).schema
        self._parquet = import_extra("parquet", "pyarrow.parquet").ParquetWriter(
            file, schema, compression="zstd"
        )
        self._rows: list[Row] = []

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            self._rows.append(row)
            if len(self._rows) == ROW_GROUP:
                self._flush()

    def _flush(self) -> None:
        self._parquet.write_table(arrow_table(self._table, self._rows))
        self._rows.clear()

    def close(self) -> None:
        try:
            if self._rows:
                self._flush()
            if self.about is not None:
                texts = self.about.texts.items()
                self._parquet.add_key_value_metadata({f"slashtag.{name}": text for name, text in texts})
        finally:
            self._parquet.close()


def arrow_table(table: Table, rows: Iterable[Row]) -> Any:
    """Return rows as a typed Arrow table; raises ExportError as `ParquetWriter`, and without pyarrow."""
    return arrow_columns({each.name: each.kind for each in table.columns}, zip(*rows, strict=True))


class XlsxWriter(Writer):
    """Writer of one sheet with typed cells, and a header that stays in view and filters.

    It needs the extra `xlsx`.

    The title of the table is the name of the sheet, and stands above it in print. A row of its own would be
    one of the table to whatever reads the file.

    Texts are never formulas or links. What no number or time of a workbook holds exactly is a text: large
    numbers, days before 1900-03-01, parts of a millisecond. Characters that XML does not allow are escaped,
    as spreadsheets do it. Raises ExportError for more than a sheet or a cell holds.
    """

    def __init__(self, file: Any, table: Table) -> None:
        xlsxwriter = import_extra("xlsx", "xlsxwriter")
        #: Of the temporary files of sheets.
        self._errors = (OSError, xlsxwriter.exceptions.XlsxFileError)
        # A folder of its own: xlsxwriter leaves its temporary files behind when the disk is full.
        self._folder = TemporaryDirectory(prefix="slashtag-", ignore_cleanup_errors=True)
        options = {"constant_memory": True, "tmpdir": self._folder.name}
        self._book: Any = xlsxwriter.Workbook(file, options)
        self._sheet = self._book.add_worksheet(_sheet_name(table.title))
        self._sheet.set_header(
            f"&L{table.title.replace('&', '&&')[:200]}&RPage &P of &N" if table.title else ""
        )
        # Its own misses escapes that overlap, and then takes a text from <r> to </r> for markup.
        self._sheet._escape_control_characters = _escaped
        self._names = table.names
        self._rows = 0
        formats = {kind: self._book.add_format({"num_format": form}) for kind, form in _FORMATS.items()}
        formats["id"] = self._book.add_format({"num_format": "0"})
        self._formats = [
            formats.get("id" if column.name in _IDENTIFIERS else column.kind) for column in table.columns
        ]
        for n, column in enumerate(table.columns):
            self._sheet.set_column(n, n, _WIDTHS.get(column.kind, 12))
        self._sheet.freeze_panes(1, 0)
        self._sheet.write_row(0, 0, table.names, self._book.add_format({"bold": True}))

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            self._rows += 1
            if self._rows > MOST_ROWS:
                raise ExportError(f"a sheet holds {MOST_ROWS:,} rows; export to .csv or .parquet")
            try:
                for n, value in enumerate(row):
                    if value is not None:
                        self._write(n, value)
            except self._errors as error:
                raise ExportError(f"the workbook cannot be written: {error}") from None

    def _write(self, n: int, value: Any) -> None:
        if _is_inexact(value):
            value = str(value)
        if not isinstance(value, str):
            self._sheet.write(self._rows, n, value, self._formats[n])
        elif self._sheet.write_string(self._rows, n, value) == -2:
            raise ExportError(f"{self._names[n]} has more than the {MOST_CHARACTERS:,} characters of a cell")

    def close(self) -> None:
        """Complete the workbook and remove its temporary files."""
        try:
            if self._names:
                self._sheet.autofilter(0, 0, self._rows, len(self._names) - 1)
            if self.about is not None:
                about = self._book.add_worksheet(ABOUT)
                about.set_column(0, 1, _WIDTHS["text"])
                for n, (name, text) in enumerate(self.about.texts.items()):
                    about.write_string(n, 0, name)
                    about.write_string(n, 1, text[:MOST_CHARACTERS])
            self._book.close()
        except self._errors as error:
            raise ExportError(f"the workbook cannot be written: {error}") from None
        finally:
            for each in self._sheet.fh, self._sheet.row_data_fh:
                with suppress(OSError):
                    each.close()
            self._folder.cleanup()


def _is_inexact(value: Any) -> bool:
    """Return whether a workbook has no number, day or time that is the same as a value."""
    if isinstance(value, datetime):
        return value.date() < _FIRST_DAY or value.microsecond % 1000 > 0
    if isinstance(value, date):
        return value < _FIRST_DAY
    return isinstance(value, int) and abs(value) >= EXACT


def _sheet_name(title: str) -> str | None:
    """Return the name of a sheet for a title; None for the default."""
    name = title
    if len(name) > _LONGEST_SHEET:
        # Half a day or half a word would read as another one.
        name = name[: _LONGEST_SHEET + 1].rpartition(" ")[0] or name[:_LONGEST_SHEET]
    name = _NOT_IN_SHEETS.sub(" ", name).strip(" ',")
    return None if name.lower() in ("", "history") else name


def _escaped(text: str) -> str:
    """Return a text as workbooks hold it: _xHHHH_ is a character, and _x005F_ the _ of such a text itself."""
    text = _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
    if text.startswith("<r>") and text.endswith("</r>"):
        return f'<r><t xml:space="preserve">{escape(text)}</t></r>'
    return text


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


def _format_of(path: str | os.PathLike[str]) -> str:
    """Return which of FORMATS a file's name ends in; raises InvalidRequestError for another."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise InvalidRequestError(f"{Path(path).name}: its name must end in one of {', '.join(FORMATS)}")
    return ending


def open_writer(format: str, file: Sink, table: Table, csv: CsvStyle | None = None) -> Writer:
    """Begin to write a table to a binary file, in one of FORMATS; `csv` says how CSV is written."""
    options = {"style": csv} if format == ".csv" else {}
    return _WRITERS[format](file, table, **options)


def _begin(path: str | os.PathLike[str]) -> AtomicFile | ObjectFile:
    url = object_url(path)
    return AtomicFile(path) if url is None else ObjectFile(url)


@contextmanager
def open_table(
    path: str | os.PathLike[str], table: Table, csv: CsvStyle | None = None, *, about: About | None = None
) -> Generator[Writer, None, None]:
    """Open a file for the rows of a table, or an object in a bucket.

    The ending of its name is the format, `csv` the style of CSV. The file says `about` itself, which may also
    be set on the writer, until the end, where more is known.

    It appears whole at the end of the `with` block, and not at all if that ends with an error. Raises
    InvalidRequestError for another ending than FORMATS, ExportError as AtomicFile and the writers do, and
    for half a surrogate pair in a text.
    """
    form = _format_of(path)
    # Closed after an error too: formats write their end now, or when they are dropped.
    with _begin(path) as file, closing(open_writer(form, file, table, csv)) as writer:
        writer.about = about
        try:
            yield writer
        except UnicodeEncodeError:
            raise ExportError("half of a surrogate pair is in a text, which no file can hold") from None


def check_table_path(path: str | os.PathLike[str]) -> None:
    """Raise the errors that `open_table` raises at once; beginning a file, and removing it, shows them."""
    form = _format_of(path)
    file = _begin(path)
    try:
        open_writer(form, file, Table(())).close()
    finally:
        file.discard()
