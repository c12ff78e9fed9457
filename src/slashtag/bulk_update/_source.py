"""Changes read from CSV or from a sheet of a workbook, and checked as a whole."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import find_problems, many
from ._links import READ_ONLY, VOLATILE, Links, edited_cells, is_listing, is_number

#: Columns of a file of changes.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
_NUMBERS = {"id", "redirect_code", "domain_id", "tag_id"}
Source = str | os.PathLike[str] | io.BufferedIOBase


class ChangeRow(Struct, frozen=True):
    """One change and its line in the file, or its position among the changes, from 1.

    `edited` is a row of an edited listing as it is there; its change is what differs from the present link.
    """

    line: int
    change: Change
    edited: Change | None = None


class Problem(Struct, frozen=True, order=True):
    """Error of one row."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class ChangesError(InvalidRequestError):
    """Errors of a list of changes, of which nothing was sent.

    `problems` lists all errors in the order of the lines; none shows a password.
    """

    def __init__(self, where: str, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems)
        errors = many(len(self.problems), "error")
        self.summary = f"{where} has {errors}; nothing was sent"
        super().__init__(f"{self.summary}: {'; '.join(map(str, self.problems[:3]))}")


class Sheet(Struct, frozen=True):
    """File of changes: the cells of its rows by column, and whether they are those of a listing.

    CSV with commas, semicolons or tabs, or an .xlsx workbook (extra `xlsx`), with some of COLUMNS, one of
    them `slashtag` or `id`; or with columns of `slashtag urls list`. An empty cell omits its member.
    """

    where: str
    is_listing: bool
    rows: list[tuple[int, dict[str, str]]]
    problems: list[Problem]

    def changes(
        self, links: Links, tag_names: Mapping[int, str], is_own: Callable[[ShortUrl], bool]
    ) -> list[ChangeRow]:
        """Return its changes, of a listing the rows that differ from their link, found by id.

        Raises ChangesError with all errors of the rows, such as a changed read-only column, or an
        `updated_at` that is not the link's, unless the link `is_own`: as own changes left it.
        """
        problems = [*self.problems]
        rows: list[ChangeRow] = []
        for line, cells in self.rows:
            try:
                if not self.is_listing:
                    rows.append(ChangeRow(line, _change(cells)))
                elif given := edited_cells(cells, links, tag_names, is_own):
                    listed = {name: cell for name, cell in cells.items() if name in COLUMNS}
                    rows.append(ChangeRow(line, _by_id(given | {"id": cells["id"]}), _by_id(listed)))
            except InvalidRequestError as error:
                problems.append(Problem(line, str(error)))
        return checked(rows, self.where, problems)


def read_sheet(source: Source) -> Sheet:
    """Read the cells of a file; raises ChangesError for its header, InvalidRequestError for other files."""
    where = str(source) if isinstance(source, str | os.PathLike) else "the input"
    try:
        data = Path(source).read_bytes() if isinstance(source, str | os.PathLike) else source.read()
        cells = list(_cells(where, data))
    except (UnicodeDecodeError, csv.Error):
        raise InvalidRequestError(f"{where} is not a CSV file in UTF-8") from None
    except OSError as error:
        raise InvalidRequestError(f"{where} cannot be read: {error.strerror}") from None
    header = _header(cells, where)
    listing = is_listing(header)
    problems = [Problem(1, text) for text in _header_problems(header, listing)]
    if problems:
        raise ChangesError(where, problems)
    rows: list[tuple[int, dict[str, str]]] = []
    for line, values in cells[1:]:
        while len(values) > len(header) and not values[-1]:
            values.pop()  # spreadsheets add empty cells
        row = dict(zip(header, values, strict=False))
        # So spreadsheets and data frames write numbers of a column with gaps.
        row |= {name: row[name].removesuffix(".0") for name in _NUMBERS & row.keys()}
        if any(values) and len(values) != len(header):
            problems.append(Problem(line, f"{len(values)} cells, and {len(header)} columns"))
        elif any(values):
            rows.append((line, row))
    return Sheet(where, listing, rows, problems)


def checked(
    rows: list[ChangeRow], where: str = "the list of changes", problems: Iterable[Problem] = ()
) -> list[ChangeRow]:
    """Return the rows; raises ChangesError for their errors, and for problems found before."""
    found = [Problem(*each) for each in find_problems(((row.line, row.change) for row in rows), "line")]
    if found or problems:
        raise ChangesError(where, [*problems, *found])
    return rows


def _cells(where: str, data: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its line, the header first."""
    if data.startswith(b"PK\x03\x04"):
        yield from enumerate(_sheet(where, data), 1)
        return
    text = data.decode("utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader, before = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 0
    for cells in reader:
        line, before = before + 1, reader.line_num
        yield line, cells


def _sheet(where: str, data: bytes) -> Iterator[list[str]]:
    """Yield the rows of the first sheet of a workbook, as texts."""
    try:
        openpyxl = import_module("openpyxl")
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except ImportError:
        raise InvalidRequestError('a workbook needs openpyxl: pip install "slashtag[xlsx]"') from None
    except Exception:
        raise InvalidRequestError(f"{where} is not an .xlsx workbook") from None
    for row in workbook.worksheets[0].iter_rows(values_only=True):
        yield [_text(value) for value in row]


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else value.isoformat() if isinstance(value, datetime) else str(value)


def _header(cells: list[tuple[int, list[str]]], where: str) -> list[str]:
    """Return the names of the columns; spreadsheets may have changed blanks and capitals."""
    names = cells[0][1] if cells else []
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InvalidRequestError(
            f"{where} is empty: its first line must name the columns, which are {', '.join(COLUMNS)}"
        )
    return [name.strip().lower().replace(" ", "_") for name in names]


def _header_problems(header: list[str], listing: bool) -> Iterator[str]:
    for name in {*header} - {*COLUMNS, *(READ_ONLY + VOLATILE if listing else ())}:
        yield f"no column can be called {name!r}; there are {', '.join(COLUMNS)}"
    if len(set(header)) < len(header):
        yield "a column is there twice"
    if not {"slashtag", "id"} & set(header):
        yield "there must be a column slashtag or id"


def _change(cells: Mapping[str, str]) -> Change:
    given: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
    wrong: list[str] = []
    for name in given.keys() & {"id", "redirect_code", "domain_id"}:
        if is_number(given[name]):
            given[name] = int(given[name])
        else:
            wrong.append(f"{name} must be a number, not {given[name]!r}")
    if wrong:
        raise InvalidRequestError("; ".join(sorted(wrong)))
    keys = [given.pop(name) for name in ("slashtag", "id") if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id, and not both")
    return Change(keys[0], slashtag=given.pop("new_slashtag", None), **given)


def _by_id(cells: Mapping[str, str]) -> Change:
    """Return the change of the cells of a listing, where the slashtag is not what names the link."""
    return _change({"new_slashtag" if name == "slashtag" else name: cell for name, cell in cells.items()})
