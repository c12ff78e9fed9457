"""Workbooks read by python-calamine, with what it leaves out."""

import io
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any
from zipfile import ZipFile

from .. import InvalidRequestError
from ._flaws import Flaws
from ._ods_flaws import flaws_of_ods
from ._writing import ABOUT
from ._xls_flaws import flaws_of_xls
from ._xlsx_flaws import flaws_of_xlsx


def read_workbook(data: bytes) -> tuple[str, Iterator[tuple[int, Sequence[Any]]]]:
    """Return the name of the one visible sheet with cells, and its rows, each with its number from 1.

    A cell is a str, an int, a float, a bool, a date, a time or a Wrong. Raises InvalidRequestError where
    cells are on several visible sheets, or so far apart that python-calamine would fill the memory.
    """
    library: Any = import_module("python_calamine")
    # Before the library holds every cell of a sheet between its first and its last.
    flaws = _flaws_of_archive(data) if data.startswith(b"PK") else flaws_of_xls(data)
    for name, found_there in flaws.items():
        found_there.check(name)
    try:
        book = library.load_workbook(io.BytesIO(data))
        found = [
            (each.name, each.visible == library.SheetVisibleEnum.Visible, rows)
            for each in book.sheets_metadata
            if each.typ == library.SheetTypeEnum.WorkSheet
            and each.name != ABOUT
            and (rows := list(_rows(book.get_sheet_by_name(each.name), flaws.get(each.name, Flaws()))))
        ]
    except library.PasswordError:
        raise InvalidRequestError("is protected by a password") from None
    except BaseException as error:
        # The library is in Rust, whose panics are no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise InvalidRequestError("is not a whole workbook") from None
    visible = [(name, rows) for name, is_visible, rows in found if is_visible]
    if len(visible) > 1:
        names = ", ".join(repr(name) for name, _ in visible)
        raise InvalidRequestError(
            f"has several sheets, {names}; save the one that is meant as a file of its own"
        )
    if found and not visible:
        raise InvalidRequestError(f"has cells on hidden sheets only, such as {found[0][0]!r}")
    name, rows = visible[0] if visible else ("", [])
    return name, iter(rows)


def _flaws_of_archive(data: bytes) -> dict[str, Flaws]:
    """Return what is found in each sheet of an archive of XML, by its name.

    Raises InvalidRequestError for another archive, whose flaws cannot be found.
    """
    archive = ZipFile(io.BytesIO(data))
    names = {name.replace("\\", "/").lower(): name for name in archive.namelist()}
    if "xl/workbook.bin" in names:
        raise InvalidRequestError(
            "is a binary workbook (.xlsb), whose error values are not told from empty cells; save it as .xlsx"
        )
    return flaws_of_ods(archive) if "content.xml" in names else flaws_of_xlsx(archive, names)


def _rows(sheet: Any, flaws: Flaws) -> Iterator[tuple[int, Sequence[Any]]]:
    rows: dict[int, list[Any]] = {}
    width = 0
    if sheet.start is not None:
        (top, left), (_, right) = sheet.start, sheet.end
        width = right + 1
        before = [""] * left
        # Without the empty rows and columns before the first cell.
        values = sheet.to_python(skip_empty_area=True)
        rows = {n: [*before, *map(_value, cells)] for n, cells in enumerate(values, top)}
    for row, column, held in flaws.cells():
        cells = rows.setdefault(row, [""] * width)
        cells += [""] * (column + 1 - len(cells))
        cells[column] = held
    for row in sorted(rows):
        if any(cell != "" for cell in rows[row]):
            yield row + 1, rows[row]


def _value(value: Any) -> Any:
    # A workbook counts in days, of which a second is no exact part.
    if isinstance(value, datetime):
        value = value + timedelta(microseconds=500)
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value
