"""Tables read from files of every format that is written here, also edited copies, and compared."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec

from .. import InvalidRequestError

#: The number of a line, from 1, and its cells.
Line = tuple[int, Sequence[Any]]
#: Columns that name a row where it has no id.
KEYS = ("slashtag", "tag", "date", "hour", "day", "month", "window_start", "window_end", "dimension", "label")
#: Columns of a listing that change by themselves: neither compared nor sent back.
VOLATILE = ("hits", "updated_at")
#: Formats differ in the letter between day and time, and a workbook has no dates but times at midnight.
_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)\Z")


def read_table(path: str | os.PathLike[str]) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the names of the columns of a file, in lower case, and each row as its line and cells of text.

    Empty rows are left out. The content tells the format: CSV with commas, semicolons or tabs, JSON, JSON
    Lines or Parquet, or a workbook with one sheet. Raises InvalidRequestError for other files, and for rows
    with more or fewer cells than there are columns.
    """
    (_, names), *lines = _lines(path) or [(1, [])]
    # Spreadsheets change blanks and capitals, and add empty cells.
    columns = [name.strip().lower().replace(" ", "_") for name in _without_end(names)]
    if len(set(columns)) < len(columns):
        raise InvalidRequestError(f"{path}: a column is there twice")
    rows: list[tuple[int, dict[str, str]]] = []
    for line, cells in lines:
        values = cells[: len(columns)] + _without_end(cells[len(columns) :])
        if any(values):
            if len(values) != len(columns):
                numbers = f"{len(values)} cells, and {len(columns)} columns"
                raise InvalidRequestError(f"{path}, line {line}: {numbers}")
            rows.append((line, dict(zip(columns, values, strict=True))))
    return columns, rows


def _lines(path: str | os.PathLike[str]) -> list[tuple[int, list[str]]]:
    kind = "a file"
    try:
        data = Path(path).read_bytes()
        kind, read = next(form[1:] for form in _FORMS if data.startswith(form[0]))
        return [(line, list(map(_text, cells))) for line, cells in read(data)]
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{path} {error}") from None
    except ImportError as error:
        needed = f'{error.name}: pip install "slashtag[parquet,xlsx]"'
        raise InvalidRequestError(f"{path}: {kind} needs {needed}") from None
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # many types, of several libraries
        raise InvalidRequestError(f"{path} is not {kind}, or not a whole one") from None


def _without_end(cells: list[str]) -> list[str]:
    """Return cells without the empty ones at the end."""
    return cells[: max((n for n, cell in enumerate(cells, 1) if cell), default=0)]


def _text(value: Any) -> str:
    # Spreadsheets and data frames have whole numbers as floats.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else value.isoformat() if isinstance(value, datetime) else str(value)


def _csv(data: bytes) -> Iterator[Line]:
    text = data.decode("utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows, before = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 0
    for cells in rows:
        yield before + 1, cells
        before = rows.line_num


def _workbook(data: bytes) -> Iterator[Line]:
    book: Any = import_module("openpyxl").load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    sheets = [list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets]
    sheets = [rows for rows in sheets if any(any(cell is not None for cell in row) for row in rows)]
    if len(sheets) > 1:
        raise InvalidRequestError("has several sheets; save the one that is meant as a file of its own")
    yield from enumerate(sheets[0] if sheets else (), 1)


def _records(records: Iterable[dict[str, Any]]) -> Iterator[Line]:
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return enumerate([names, *([row.get(name) for name in names] for row in rows)], 1)


_decode_lines = msgspec.json.Decoder(dict[str, Any]).decode_lines
#: How each format begins, its name, and its reader.
_FORMS: tuple[tuple[bytes, str, Callable[[bytes], Iterable[Line]]], ...] = (
    (b"PK\x03\x04", "an .xlsx workbook", _workbook),
    (
        b"PAR1",
        "a Parquet file",
        lambda data: _records(import_module("pyarrow.parquet").read_table(io.BytesIO(data)).to_pylist()),
    ),
    (b"[", "a JSON file", lambda data: _records(msgspec.json.decode(data, type=list[dict[str, Any]]))),
    (b"{", "a file of JSON Lines", lambda data: _records(_decode_lines(data))),
    (b"", "a CSV file in UTF-8", _csv),
)


class RowDifference(msgspec.Struct, frozen=True):
    """Row that only one file has (`column` is ""), or a column in which a row differs.

    `key` is its id, `name` the slashtag of a link or the name of a tag; a row without an id has a `key` only.
    """

    change: Literal["added", "gone", "changed"]
    key: str
    name: str
    column: str = ""
    old: str = ""
    new: str = ""


def compare_files(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> Iterator[RowDifference]:
    """Yield the differences of two listings or two exports, in the order of their rows.

    Rows are the same if they have the same id, else the same slashtag, tag, day and label. Compared are all
    columns that both files have but hits and updated_at. Both files are held in memory.
    Raises InvalidRequestError for files that cannot be read or compared.
    """
    (names, before), (others, after) = read_table(old), read_table(new)
    # Formats of lines without rows have no columns.
    names = [name for name in names if name in others] or names or others
    keys = ("id",) if "id" in names else tuple(name for name in KEYS if name in names)
    if names and not keys:
        raise InvalidRequestError(f"none of {', '.join(('id', *KEYS))} is a column of both files")
    compared = [name for name in names if name not in (*keys, *VOLATILE)]
    earlier, later = _by_key(before, keys, old), _by_key(after, keys, new)
    gone = {key: row for key, row in earlier.items() if key not in later}
    for key, row in (gone | later).items():
        name = row.get("slashtag") or row.get("name") or "" if keys == ("id",) else ""
        if key in gone or key not in earlier:
            yield RowDifference("gone" if key in gone else "added", ", ".join(key), name)
            continue
        for column in compared:
            if (was := earlier[key][column]) != row[column]:
                yield RowDifference("changed", ", ".join(key), name, column, was, row[column])


def _by_key(
    rows: Iterable[tuple[int, dict[str, str]]], keys: Sequence[str], path: str | os.PathLike[str]
) -> dict[tuple[str, ...], dict[str, str]]:
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for _, cells in rows:
        row = {name: _MOMENT.sub(r"\1T\2", cell).removesuffix("T00:00:00") for name, cell in cells.items()}
        key = tuple(row[name] for name in keys)
        if key in found:
            raise InvalidRequestError(f"{path}: several rows of {', '.join(key)}")
        found[key] = row
    return found
