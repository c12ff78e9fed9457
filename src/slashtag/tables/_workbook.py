"""Workbooks (.xlsx, .xlsm), read and written by openpyxl row by row."""

import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from io import BytesIO
from itertools import chain
from typing import Any

import msgspec

from .. import ExportError, InvalidRequestError
from .._arrow import import_extra
from .._files import writing_to
from ._table import About, Column, Row, Table, Writer

#: Name of the sheet, beside that of the rows, that says what the file is.
ABOUT = "about"
#: What a sheet and a cell hold, and the smallest integer that a workbook may have rounded.
MOST_ROWS, MOST_CHARACTERS, EXACT = 1_048_575, 32_767, 2**53
_FORMATS = {"date": "yyyy-mm-dd", "timestamp": "yyyy-mm-dd hh:mm:ss", "int": "#,##0", "float": "#,##0.0"}
#: Numbers that name something: no thousands are told apart.
_IDENTIFIERS = {"id", "tag_id", "redirect_code", "line", "year"}
_WIDTHS = {"text": 32, "timestamp": 19}
#: Spreadsheets escape what XML does not allow, and the _ of a text that looks like an escape. Other writers
#: escape nothing: an escape of another character is a text.
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9a-fA-F]{4}_)")
_ESCAPED = re.compile("_x(00[01].|005f|fff[ef])_", re.IGNORECASE)


class Wrong(msgspec.Struct, frozen=True):
    """Cell that holds neither a text nor a whole number; `what` it is, in words."""

    what: str


def read_workbook(file: BytesIO) -> tuple[str, About | None, Iterator[tuple[int, list[Any]]]]:
    """Return the one visible sheet with cells, what the file says of itself, and the rows.

    A row is its number, from 1, and its cells: str, int, float, bool, datetime or Wrong. Raises
    InvalidRequestError for cells on no visible sheet or several, other errors for what is no workbook.
    """
    library: Any = import_module("openpyxl")
    with warnings.catch_warnings(action="ignore"):  # of styles and extensions, which do not matter here
        # The values, and a second time the formulas, which may have none.
        books = [library.load_workbook(file, read_only=True, data_only=only) for only in (True, False)]
    is_calculated = not (books[1].calculation and books[1].calculation.fullCalcOnLoad)
    about, visible = None, dict[str, Any]()
    for pair in zip(*(book.worksheets for book in books), strict=True):
        for sheet in pair:
            sheet.reset_dimensions()  # which other writers get wrong
        rows = _rows(zip(*(sheet.iter_rows() for sheet in pair), strict=True), is_calculated)
        if pair[0].title == ABOUT:
            about = About.of({str(cells[0]): str(cells[-1]) for _, cells in rows})
        elif pair[0].sheet_state == "visible" and (first := next(rows, None)) is not None:
            visible[pair[0].title] = chain([first], rows)
    if len(visible) != 1:
        told = ", ".join(map(repr, visible)) or "none"
        raise InvalidRequestError(f"must have cells on one visible sheet, and has on {told}")
    ((title, rows),) = visible.items()
    return title, about, rows


def _rows(both: Iterable[tuple[Any, Any]], is_calculated: bool) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows with cells, as wide as the first one, given their values and formulas."""
    width = 0
    for n, (row, formulas) in enumerate(both, 1):
        cells = [_cell(*pair, is_calculated) for pair in zip(row, formulas, strict=True)]
        if any(cell not in (None, "") for cell in cells):
            width = width or len(cells)
            yield n, cells + [""] * (width - len(cells))


def _cell(cell: Any, formula: Any, is_calculated: bool) -> Any:
    value, kind = cell.value, cell.data_type
    if kind == "e":
        return Wrong(value or "an error value")
    # The value of a text may be empty.
    if formula.data_type == "f" and (not is_calculated or (value is None and kind != "str")):
        return Wrong("a formula without a value")
    if isinstance(value, int) and abs(value) >= EXACT:
        return float(value)  # as which a spreadsheet holds it
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if isinstance(value, str) else value


class XlsxWriter(Writer):
    """Writer of one sheet with typed cells, and a header that stays in view and filters; extra `xlsx`.

    The title of the table is the name of the sheet. A row of its own would be one of the table to whatever
    reads the file.

    Texts are never formulas or links, and large numbers, which no cell holds exactly, are texts. Raises
    ExportError for more than a sheet or a cell holds.
    """

    def __init__(self, file: Any, table: Table) -> None:
        library = import_extra("xlsx", "openpyxl")
        self._file, self._table, self._rows = file, table, 0
        self._book: Any = library.Workbook(write_only=True)
        title = re.sub(r"[\[\]:*?/\\'\x00-\x1f\ufffe\uffff]", " ", table.title)
        # Half a day would read as another one.
        self._sheet = self._book.create_sheet(textwrap.shorten(title, 31, placeholder="") or "rows")
        self._sheet.freeze_panes = "A2"
        #: One cell for each column, whose value is set for each row.
        self._cells = [library.cell.WriteOnlyCell(self._sheet) for _ in table.columns]
        for n, (column, cell) in enumerate(zip(table.columns, self._cells, strict=True), 1):
            form = "0" if column.name in _IDENTIFIERS else _FORMATS.get(column.kind, "General")
            cell.number_format, cell.column = form, n
            self._sheet.column_dimensions[cell.column_letter].width = _WIDTHS.get(column.kind, 12)
        self.write([table.names])

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            if self._rows > MOST_ROWS:
                raise ExportError(f"a sheet holds {MOST_ROWS:,} rows; export to .csv or .parquet")
            cells = list(map(_set, self._table.columns, self._cells, row))
            with writing_to("the workbook"):  # the library has a temporary file
                self._sheet.append(cells)
            self._rows += 1

    def close(self) -> None:
        """Write the workbook, and remove its temporary files."""
        with writing_to("the workbook"):
            if self._cells:
                self._sheet.auto_filter.ref = f"A1:{self._cells[-1].column_letter}{self._rows}"
            if self.about is not None:
                sheet = self._book.create_sheet(ABOUT)
                for name, text in self.about.texts.items():
                    sheet.append([name, _TO_ESCAPE.sub(" ", text)[:MOST_CHARACTERS]])
            self._book.save(self._file)


def _set(column: Column, cell: Any, value: Any) -> Any:
    """Set a cell to a value and return it; None for an empty one."""
    if value is None or value == "":
        return None
    if isinstance(value, str) or (isinstance(value, int) and abs(value) >= EXACT):
        text = _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", str(value))
        if len(text) > MOST_CHARACTERS:
            raise ExportError(f"{column.name} has more than the {MOST_CHARACTERS:,} characters of a cell")
        cell.value = text
        cell.data_type = "s"  # also of what looks like a formula
    else:
        cell.value = value
    return cell
