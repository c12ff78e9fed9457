"""Changes read from CSV or from a sheet of a workbook, and checked as a whole."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import find_problems, many
from ._links import READ_ONLY, VOLATILE, Links, completed, edited_cells, is_listing

#: Columns of a file of changes.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")


class ChangeRow(Struct, frozen=True):
    """One change and its line in the file, or its position among the changes, from 1."""

    line: int
    change: Change


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


def read_changes(
    path: str | os.PathLike[str],
    *,
    data: bytes | None = None,
    links: Iterable[ShortUrl] | None = None,
    tag_names: Mapping[int, str] | None = None,
) -> list[ChangeRow]:
    """Read a file of changes, with some of COLUMNS, one of them `slashtag` or `id`; or an edited listing.

    CSV with commas, semicolons or tabs, or an .xlsx workbook (extra `xlsx`). An empty cell omits its member.
    A file with the columns of `slashtag urls list` needs the `links` of the account, and `tag_names` to check
    that column: rows that differ from their link, found by id, are changes, completed with its present
    destination and redirect code; a changed read-only column is an error. `data` is the content of the file
    if it was read already. Raises ChangesError with all errors of the rows, InvalidRequestError for other
    files.
    """
    path = Path(path)
    cells = _read_cells(path, data)
    header = _header(cells, path)
    listing = is_listing(header)
    if listing and links is None:
        raise InvalidRequestError(f"{path} is a listing of links: pass links= to compare it with")
    present = Links(links or ())
    problems = [Problem(1, text) for text in _header_problems(header, listing)]
    rows: list[ChangeRow] = []
    for line, values in () if problems else cells:
        if not any(values):
            continue
        try:
            if len(values) != len(header):
                raise InvalidRequestError(f"{len(values)} cells, and {len(header)} columns")
            row = dict(zip(header, values, strict=True))
            change = _edited_change(row, present, tag_names) if listing else _change(row)
        except InvalidRequestError as error:
            problems.append(Problem(line, str(error)))
        else:
            if change is not None:
                rows.append(ChangeRow(line, change))
    return checked(rows, str(path), problems)


def needs_links(path: str | os.PathLike[str], *, data: bytes | None = None) -> bool:
    """Return whether a file of changes is a listing, for which `read_changes` takes links."""
    return is_listing(_header(_read_cells(Path(path), data), Path(path)))


def checked(
    rows: list[ChangeRow], where: str = "the list of changes", problems: Iterable[Problem] = ()
) -> list[ChangeRow]:
    """Return the rows; raises ChangesError for their errors, and for problems found before."""
    found = [Problem(*each) for each in find_problems(((row.line, row.change) for row in rows), "line")]
    if found or problems:
        raise ChangesError(where, [*problems, *found])
    return rows


def _read_cells(path: Path, data: bytes | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its line, the header first."""
    try:
        data = path.read_bytes() if data is None else data
        if data.startswith(b"PK\x03\x04"):
            yield from enumerate(_sheet(path, data), 1)
            return
        text = data.decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        reader, before = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 0
        for cells in reader:
            line, before = before + 1, reader.line_num
            yield line, cells
    except (UnicodeDecodeError, csv.Error):
        raise InvalidRequestError(f"{path} is not a CSV file in UTF-8") from None
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be read: {error.strerror}") from None


def _sheet(path: Path, data: bytes) -> Iterator[list[str]]:
    """Yield the rows of the first sheet of a workbook, as texts."""
    try:
        openpyxl = import_module("openpyxl")
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except ImportError:
        raise InvalidRequestError('a workbook needs openpyxl: pip install "slashtag[xlsx]"') from None
    except Exception:
        raise InvalidRequestError(f"{path} is not an .xlsx workbook") from None
    for row in workbook.worksheets[0].iter_rows(values_only=True):
        yield [_text(value) for value in row]


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else value.isoformat() if isinstance(value, datetime) else str(value)


def _header(cells: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    """Read the names of the columns; spreadsheets may have changed blanks and capitals."""
    _, names = next(cells, (1, list[str]()))
    if not any(names):
        raise InvalidRequestError(
            f"{path} is empty: its first line must name the columns, which are {', '.join(COLUMNS)}"
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
        if _is_number(given[name]):
            given[name] = int(given[name])
        else:
            wrong.append(f"{name} must be a number, not {given[name]!r}")
    if wrong:
        raise InvalidRequestError("; ".join(sorted(wrong)))
    keys = [given.pop(name) for name in ("slashtag", "id") if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id, and not both")
    return Change(keys[0], slashtag=given.pop("new_slashtag", None), **given)


def _edited_change(
    cells: Mapping[str, str], links: Links, tag_names: Mapping[int, str] | None
) -> Change | None:
    """Return the change of a row of an edited listing, None where nothing differs."""
    key = cells["id"]
    if not _is_number(key):
        raise InvalidRequestError(f"id must be a number, not {key!r}")
    url = links.find(int(key))
    given = edited_cells(cells, url, tag_names)
    if "slashtag" in given:
        given["new_slashtag"] = given.pop("slashtag")
    return completed(_change({"id": key, **given}), url) if given else None


def _is_number(cell: str) -> bool:
    # Every number of so many digits fits into 64 bits.
    return cell.isascii() and cell.isdecimal() and len(cell) <= 18
