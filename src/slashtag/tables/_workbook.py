"""Workbooks (.xlsx, .xlsm), read and written by openpyxl row by row."""

import re
import warnings
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from typing import Any

import msgspec

from .. import ExportError, InvalidRequestError
from .._arrow import import_extra
from .._files import writing_to
from ._table import About, Row, Table, Writer

#: Name of the sheet, beside that of the rows, that says what the file is.
ABOUT = "about"
#: What a sheet holds, and the smallest integer that a workbook may have rounded.
MOST_ROWS, EXACT = 1_048_575, 2**53
_FORMATS = {"date": "yyyy-mm-dd", "timestamp": "yyyy-mm-dd hh:mm:ss", "int": "0", "float": "0.0"}
#: Width of columns, in characters: a time has 19.
_WIDTH = 20
#: Spreadsheets escape what XML does not allow, and the _ of a text that looks like an escape. Other writers
#: escape nothing: an escape of another character is a text.
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9a-fA-F]{4}_)")
_ESCAPED = re.compile("_x(00[01].|005f|fff[ef])_", re.IGNORECASE)


class Wrong(msgspec.Struct, frozen=True):
    """Cell that holds neither a text nor a whole number; `what` it is, in words."""

    what: str


def read_workbook(file: BytesIO) -> tuple[About | None, Iterator[tuple[int, list[Any]]]]:
    """Return what the file says of itself, and the rows of the one visible sheet with cells.

    A row is its number, from 1, and its cells: str, int, float, bool, datetime or Wrong. Raises
    InvalidRequestError for cells on no visible sheet or several, other errors for what is no workbook.
    """
    library = import_extra("xlsx", "openpyxl")
    with warnings.catch_warnings(action="ignore"):  # of styles and extensions, which do not matter here
        # The same cells twice: with values, and with the formulas that have none.
        values, formulas = (library.load_workbook(file, read_only=True, data_only=n) for n in (True, False))
    about, visible = None, dict[str, Any]()
    for sheet, other in zip(values.worksheets, formulas.worksheets, strict=True):
        rows = _rows(sheet, other)
        if sheet.title == ABOUT:
            about = About.of({str(cells[0]): str(cells[-1]) for _, cells in rows})
        elif sheet.sheet_state == "visible" and (first := next(rows, None)) is not None:
            visible[sheet.title] = chain([first], rows)
    if len(visible) != 1:
        told = ", ".join(map(repr, visible)) or "none"
        raise InvalidRequestError(f"must have cells on one visible sheet, and has on {told}")
    return about, visible.popitem()[1]


def _rows(values: Any, formulas: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows with cells, as wide as the first one."""
    for each in (values, formulas):
        each.reset_dimensions()  # which other writers get wrong
    width = 0
    for n, row in enumerate(zip(values.iter_rows(), formulas.iter_rows(), strict=True), 1):
        cells = list(map(_cell, *row))
        if any(cell not in (None, "") for cell in cells):
            width = width or len(cells)
            yield n, cells + [""] * (width - len(cells))


def _cell(cell: Any, formula: Any) -> Any:
    value = cell.value
    if value is None and formula.data_type == "f":
        return Wrong("a formula without a value")
    if cell.data_type == "e":
        return Wrong(str(value))
    if isinstance(value, int) and abs(value) >= EXACT:
        return float(value)  # as which a spreadsheet holds it
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if isinstance(value, str) else value


class XlsxWriter(Writer):
    """Writer of one sheet with typed cells, and a header that stays in view and filters; extra `xlsx`.

    Texts are never formulas or links, and large numbers, which no cell holds exactly, are texts. Raises
    ExportError for more than a sheet holds.
    """

    def __init__(self, file: Any, table: Table) -> None:
        library = import_extra("xlsx", "openpyxl")
        self._file, self._rows = file, 0
        self._book: Any = library.Workbook(write_only=True)
        self._sheet = self._book.create_sheet("rows")
        self._sheet.freeze_panes = "A2"
        #: One cell for each column, whose value is set for each row.
        self._cells = [library.cell.WriteOnlyCell(self._sheet) for _ in table.columns]
        for n, (column, cell) in enumerate(zip(table.columns, self._cells, strict=True), 1):
            cell.number_format, cell.column = _FORMATS.get(column.kind, "General"), n
            self._sheet.column_dimensions[cell.column_letter].width = _WIDTH
        self.write([table.names])

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            if self._rows > MOST_ROWS:
                raise ExportError(f"a sheet holds {MOST_ROWS:,} rows; export to .csv or .parquet")
            cells = list(map(_set, self._cells, row))
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
                    sheet.append([name, _TO_ESCAPE.sub(" ", text)])
            # One step at a time: a file that fails half way would be told by the library once more, later.
            for sheet in self._book:
                sheet.close()
            self._book.save(whole := BytesIO())
            self._file.write(whole.getvalue())


def _set(cell: Any, value: Any) -> Any:
    """Set a cell to a value and return it; None for an empty one."""
    if value is None or value == "":
        return None
    if isinstance(value, str) or (isinstance(value, int) and abs(value) >= EXACT):
        cell.value = _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", str(value))
        cell.data_type = "s"  # also of what looks like a formula
    else:
        cell.value = value
    return cell
