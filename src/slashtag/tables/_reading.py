"""Tables read from files of every format that is written here, also edited or made by other programs.

What a cell holds                        under a column of TIMES  of FRACTIONS  any other
text, a whole number, nothing            text                     text          text
a date, a time of a day of the calendar  text                     wrong         wrong
a fraction                               wrong                    text          wrong
a whole number that a float has rounded, a boolean, a duration, an error value (#N/A), a formula without
a value, a cell that is hidden by merged ones, a list or an object: wrong

A wrong cell is an error that names it, if its column is used; in another column it may be.
"""

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from importlib import import_module
from json import JSONDecoder
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from .. import InvalidRequestError
from .._internal import check_local_path, many
from ._flaws import ERRORS, Wrong
from ._workbook import read_workbook
from ._writing import ESCAPED_FORMULA, EXACT

#: The number of a line, from 1, and its cells.
Line = tuple[int, Sequence[Any]]
#: Columns that hold days and times, and numbers with a fraction.
TIMES = {"date", "day", "week", "month", "hour", "window_start", "window_end", "created_at", "updated_at"}
FRACTIONS = {"percent", "change_percent", "clicks_per_day"}
#: Columns of changes in which the text of an error value is not meant, also where a format has texts only.
_NEVER_ERRORS = {"new_slashtag", "password"}
#: So many wrong cells are named in an error.
_SHOWN = 3
#: So many characters of a list or an object are shown.
_LONGEST = 40


class LoadedTable(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Table as it is in a file.

    `where` names it in errors; `sheet` is that of a workbook; `lines` are its rows that are not empty, each
    with its number from 1, the first one the header; `is_named`: each record names its columns, so the first
    line is no row.
    """

    where: str
    lines: list[tuple[int, list[Any]]]
    sheet: str | None = None
    is_named: bool = False

    @cached_property
    def _header(self) -> list[str]:
        """Names of the columns in order, "" where there is none."""
        if not self.lines:
            return []
        line, cells = self.lines[0]
        for n, cell in enumerate(cells):
            if isinstance(found := _text(cell, ""), Wrong):
                told = f"{self._place(line, n, '')}: {found.what} as the name of a column"
                raise InvalidRequestError(f"{self._prefix}{told}")
        # Spreadsheets change blanks and capitals.
        names = [_name(cell) for cell in cells]
        if twice := sorted({name for name in names if name and names.count(name) > 1}):
            raise InvalidRequestError(f"{self.where}: a column is there twice: {', '.join(twice)}")
        return names

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns, in lower case, with underscores for blanks.

        Raises InvalidRequestError for a name that is there twice.
        """
        return [name for name in self._header if name]

    def rows(self, used: Collection[str] | None = None) -> list[tuple[int, dict[str, str]]]:
        """Return each row as the number of its line and its cells of text; of `used` columns only, if given.

        Raises InvalidRequestError for wrong cells, for rows with fewer cells than there are columns, and for
        cells without a column.
        """
        names, least = self._header, max((n for n, name in enumerate(self._header, 1) if name), default=0)
        rows: list[tuple[int, dict[str, str]]] = []
        wrong: list[str] = []
        for line, cells in self.lines[1:]:
            if len(cells) < least:
                numbers = f"{many(len(cells), 'cell')} under {many(least, 'column')}"
                raise InvalidRequestError(f"{self.where}, line {line}: {numbers}")
            row: dict[str, str] = {}
            for n, cell in enumerate(cells):
                if n < len(names) and used is not None and names[n] not in used:
                    continue
                name = names[n] if n < len(names) else ""
                found = _text(cell, name)
                if isinstance(found, Wrong):
                    what = "not shown" if name == "password" else found.what
                    wrong.append(f"{self._place(line, n, name)}: {what}")
                elif name:
                    row[name] = found
                elif found:
                    wrong.append(f"{self._place(line, n, name)}: a value in a column that has no name")
            rows.append((line, row))
        if wrong:
            more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            rule = "a cell must hold text or a whole number, and its column have a name"
            raise InvalidRequestError(f"{self._prefix}{'; '.join(wrong[:_SHOWN])}{more}; {rule}")
        return rows

    def as_list(self, name: str) -> "LoadedTable":
        """Return the same lines without a header, as a table of one column."""
        return msgspec.structs.replace(self, lines=[(0, [name]), *self.lines], is_named=True)

    @property
    def _prefix(self) -> str:
        return f"{self.where}, " + ("" if self.sheet is None else f"sheet {self.sheet!r}, ")

    def _place(self, line: int, n: int, name: str) -> str:
        if self.sheet is not None:
            return f"cell {cell_name(line, n)}" + (f" ({name})" if name else "")
        return f"line {line}, " + (f"column {name}" if name else f"cell {n + 1}")


def read_table(path: str | os.PathLike[str]) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the names of the columns of a file, in lower case, and each row as its line and cells of text.

    Empty rows are left out. The content tells the format: CSV with commas, semicolons or tabs, in UTF-8 or,
    with a byte order mark, UTF-16; JSON, JSON Lines, Parquet; or a workbook with one visible sheet (.xlsx,
    .xlsm, .ods, .xls). Lines of CSV before the header that begin with # are comments.

    A cell holds text or a whole number; dates and times are in columns such as created_at only. Raises
    InvalidRequestError for other files, for another cell, which it names, and for rows with more or fewer
    cells than there are columns.
    """
    table = load_table(path)
    return table.columns, table.rows()


def load_table(source: str | os.PathLike[str] | BinaryIO, where: str | None = None) -> LoadedTable:
    """Read a file or a binary stream, as `read_table` describes; `where` names it in errors.

    Raises InvalidRequestError for what is no table; wrong cells are found when rows are asked for.
    """
    if where is None:
        where = str(source)
    if isinstance(source, str | os.PathLike):
        check_local_path(source)
    try:
        data = Path(source).read_bytes() if isinstance(source, str | os.PathLike) else source.read()
    except OSError as error:
        raise InvalidRequestError(f"{where} cannot be read: {error.strerror or error}") from None
    kind = "a file"
    sheet = None
    try:
        if (found := next((form for form in _BINARY if data.startswith(form[0])), None)) is not None:
            _, kind, read = found
            sheet, lines = read(data)
            is_named = sheet is None
        else:
            kind = "a CSV file in UTF-8"
            text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
            _, kind, is_named, read_text = next(form for form in _TEXT if text.lstrip().startswith(form[0]))
            lines = read_text(text)
        kept = [(line, list(cells)) for line, cells in lines if any(cell not in (None, "") for cell in cells)]
        return LoadedTable(where=where, lines=kept, sheet=sheet, is_named=is_named)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{where} {error}") from None
    except ImportError as error:
        needed = f'{error.name}: pip install "slashtag[parquet,xlsx]"'
        raise InvalidRequestError(f"{where}: {kind} needs {needed}") from None
    except Exception:  # many types, of several libraries
        raise InvalidRequestError(f"{where} is not {kind}, or not a whole one") from None


def cell_name(line: int, n: int) -> str:
    """Return the name that spreadsheets give to a cell: line 3 and n 1 are B3."""
    letters, n = "", n + 1
    while n:
        n, rest = divmod(n - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{line}"


def _name(cell: Any) -> str:
    return str(_text(cell, "")).strip().lower().replace(" ", "_")


def _text(value: Any, column: str) -> str | Wrong:
    """Return what a cell holds as text; see the table at the top."""
    match value:
        case None | "":
            return ""
        case str() if column in FRACTIONS:
            return value if "." in value else value.replace(",", ".")  # as CSV of many countries has them
        case str():
            return Wrong(value) if column in _NEVER_ERRORS and value in ERRORS else value
        case bool():
            return Wrong(str(value).upper())
        case int():
            return str(value)
        case float() | Decimal() if not isfinite(value):
            return Wrong(str(value))
        # Spreadsheets and data frames have whole numbers as floats.
        case float() | Decimal() if value == int(value):
            if isinstance(value, float) and abs(value) >= EXACT:
                return Wrong(f"{int(value)}, a number of so many digits that it may be rounded")
            return str(int(value))
        case float() | Decimal():
            return str(value) if column in FRACTIONS else Wrong(f"the fraction {value}")
        case datetime():
            return value.isoformat() if column in TIMES else Wrong(f"the time {value.isoformat()}")
        case date():
            return value.isoformat() if column in TIMES else Wrong(f"the date {value}")
        case Wrong():
            return value
        case _:
            shown = str(value)
            shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
            return Wrong(f"{shown}, a value of the type {type(value).__name__}")


def _csv(text: str) -> Iterator[Line]:
    # Excel tells itself the delimiter in a line of its own; comments and blank lines may stand there too.
    start, told = 0, ""
    lines = io.StringIO(text, newline="")
    for line in lines:
        if found := re.fullmatch(r"sep=(.)\s*", line):
            told = found[1]
        elif line.strip() and not line.lstrip().startswith("#"):
            break
        start += 1
    else:
        return
    if "\0" in line:
        raise InvalidRequestError("is not in UTF-8, or has a NUL character in its first line")
    delimiter = told or max(",;\t", key=lambda each: len(next(csv.reader([line], delimiter=each))))
    rest = io.StringIO("".join([line, *lines]), newline="")
    rows, before = csv.reader(rest, delimiter=delimiter, strict=True), 0
    for cells in rows:
        # An apostrophe before a formula is one that a writer has put there.
        yield start + before + 1, [cell[1:] if ESCAPED_FORMULA.match(cell) else cell for cell in cells]
        before = rows.line_num


def _json(text: str) -> Iterator[Line]:
    """Return the records of a list, or those that follow each other, one a line."""
    text = text.strip()
    # Of a name that is there twice the decoder of the rows keeps one value without a word.
    decoder, at = JSONDecoder(object_pairs_hook=_check_names), 0
    while at < len(text):
        _, at = decoder.raw_decode(text, at)
        at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
    rows = _decode_list(text) if text.startswith("[") else _decode_lines(text)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return enumerate([names, *([row.get(name) for name in names] for row in rows)], 1)


_BLANKS = re.compile(r"\s*")


def _check_names(members: list[tuple[str, Any]]) -> None:
    if twice := [name for name, n in Counter(name for name, _ in members).items() if n > 1]:
        raise InvalidRequestError(f"has a record with several values of {', '.join(map(repr, twice))}")


def _parquet(data: bytes) -> tuple[None, Iterator[Line]]:
    table: Any = import_module("pyarrow.parquet").read_table(io.BytesIO(data))
    columns = [
        # Times of Python have no nanoseconds.
        (each.cast("timestamp[us]", safe=False) if str(each.type) == "timestamp[ns]" else each).to_pylist()
        for each in table.columns
    ]
    return None, enumerate([table.column_names, *zip(*columns, strict=True)], 1)


def _markup(text: str) -> Iterator[Line]:
    raise InvalidRequestError("is HTML or XML and no table; save it as .xlsx or .csv")


_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_lines = msgspec.json.Decoder(dict[str, Any]).decode_lines
#: How a format of bytes begins, its name, and its reader, which returns the sheet and the lines.
_BINARY: tuple[tuple[bytes, str, Callable[[bytes], tuple[str | None, Iterable[Line]]]], ...] = (
    (b"PK\x03\x04", "a workbook", read_workbook),
    (b"\xd0\xcf\x11\xe0", "a workbook", read_workbook),
    (b"PAR1", "a Parquet file", _parquet),
)
#: How a format of text begins, its name, whether its records name their columns, and its reader.
_TEXT: tuple[tuple[str, str, bool, Callable[[str], Iterable[Line]]], ...] = (
    ("[", "a JSON list of objects", True, _json),
    ("{", "a file of JSON Lines, one object each", True, _json),
    ("<", "a table", False, _markup),
    ("", "a CSV file in UTF-8", False, _csv),
)
