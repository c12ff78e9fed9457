"""Cells of a workbook that python-calamine gives as empty or as something else, found in the file itself.

It gives "" for an error value and for a formula without a value, so that a change would be sent without it.
It holds every cell between the first and the last of a sheet, however few there are.
"""

import io
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import IO
from xml.etree import ElementTree
from zipfile import ZipFile

import msgspec

from .. import InvalidRequestError

#: Error values, as spreadsheets show them.
ERRORS = {
    "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA", "#SPILL!", "#CALC!",
    "#CONNECT!", "#BLOCKED!", "#UNKNOWN!", "#FIELD!", "#BUSY!", "#EXTERNAL!", "#PYTHON!",
}  # fmt: skip
#: Over so many cells between the first and the last of a sheet, one in so many must hold something.
MOST_CELLS, SPARSEST = 4_000_000, 16


class Wrong(msgspec.Struct, frozen=True):
    """Cell that holds neither a text nor a whole number; `what` it is, in words."""

    what: str


class Flaws(msgspec.Struct):
    """What is found in a sheet.

    `areas` are cells that are not as the library gives them, as (first row, first column, last row, last
    column, what they hold), all from 0. The other fields are about all cells that hold something: their
    number, and the first and last row and column.
    """

    areas: list[tuple[int, int, int, int, str | Wrong]] = []
    count: int = 0
    top: int = 2**31
    left: int = 2**31
    bottom: int = -1
    right: int = -1

    def add(
        self, row: int, column: int, held: str | Wrong | None = None, rows: int = 1, columns: int = 1
    ) -> None:
        """Take note of cells that hold something; what, where it is not as the library gives it."""
        self.count += rows * columns
        self.top, self.left = min(self.top, row), min(self.left, column)
        self.bottom, self.right = max(self.bottom, row + rows - 1), max(self.right, column + columns - 1)
        if held is not None:
            self.areas.append((row, column, row + rows - 1, column + columns - 1, held))

    def check(self, name: str) -> None:
        """Raise InvalidRequestError where a sheet is so sparse that reading it would fill the memory."""
        cells = (self.bottom + 1 - self.top) * (self.right + 1 - self.left)
        if self.count and cells > max(MOST_CELLS, SPARSEST * self.count):
            raise InvalidRequestError(
                f"has {self.count:,} cells on sheet {name!r} that are too far apart: the last row is "
                f"{self.bottom + 1:,}, the last column {self.right + 1:,}; delete those that are not meant"
            )

    def cells(self) -> Iterator[tuple[int, int, str | Wrong]]:
        """Yield row, column and what they hold, of areas as far as any cell holds something."""
        for top, left, bottom, right, held in self.areas:
            for row in range(top, min(bottom, self.bottom) + 1):
                for column in range(left, min(right, self.right) + 1):
                    yield row, column, held


def flaws_of_xml(data: bytes) -> dict[str, Flaws]:
    """Return what is found in each sheet of an archive of XML, by its name.

    Raises InvalidRequestError for another archive, whose flaws cannot be found.
    """
    archive = ZipFile(io.BytesIO(data))
    names = {name.replace("\\", "/").lower(): name for name in archive.namelist()}
    if "xl/workbook.bin" in names:
        raise InvalidRequestError(
            "is a binary workbook (.xlsb), whose error values are not told from empty cells; save it as .xlsx"
        )
    return _of_ods(archive) if "content.xml" in names else _of_xlsx(archive, names)


def _local(name: str) -> str:
    """Return the name of an element or attribute without its namespace."""
    return name.rpartition("}")[2]


# --- .xlsx and .xlsm ------------------------------------------------------------------------------------

_ESCAPED = re.compile("_x([0-9a-fA-F]{4})_")
_PRESERVED = "{http://www.w3.org/XML/1998/namespace}space", "preserve"


def _of_xlsx(archive: ZipFile, names: dict[str, str]) -> dict[str, Flaws]:
    book = ElementTree.fromstring(archive.read(names["xl/workbook.xml"]))
    links = ElementTree.fromstring(archive.read(names["xl/_rels/workbook.xml.rels"]))
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    # Some writers give every formula the value 0, and have it calculated when the workbook is opened.
    is_calculated = not any(
        _local(each.tag) == "calcPr" and each.get("fullCalcOnLoad") in ("1", "true") for each in book.iter()
    )
    texts = _shared_texts(archive, names)
    found: dict[str, Flaws] = {}
    for sheet in (each for each in book.iter() if _local(each.tag) == "sheet"):
        target = next(targets[value] for name, value in sheet.items() if _local(name) == "id")
        path = posixpath.normpath(posixpath.join("/xl", target.replace("\\", "/"))).lstrip("/")
        with archive.open(names[path.lower()]) as file:
            found[sheet.get("name", "")] = _of_xlsx_sheet(file, is_calculated, texts)
    return found


def _shared_texts(archive: ZipFile, names: dict[str, str]) -> dict[str, str]:
    """Return the shared texts with escapes, as `_text_of` reads them, by their numbers."""
    data = archive.read(names["xl/sharedstrings.xml"]) if "xl/sharedstrings.xml" in names else b""
    if b"_x" not in data:
        return {}
    items = [each for each in ElementTree.fromstring(data) if _local(each.tag) == "si"]
    return {str(n): text for n, each in enumerate(items) if (text := _text_of(each)) is not None}


def _text_of(element: ElementTree.Element) -> str | None:
    """Return the text of an element that may have escapes, else None.

    An escape stands for what XML does not allow, or for the _ of a text that looks like one. Others, such as
    _x0020_, are texts of writers that escape nothing; the library reads them as characters.
    """
    parts = [each for child in element for each in ([child] if _local(child.tag) == "t" else child)]
    texts = [
        text if each.get(_PRESERVED[0]) == _PRESERVED[1] else text.strip(" \t\r\n")
        for each in parts
        if _local(each.tag) == "t" and (text := each.text)
    ]
    return _unescaped("".join(texts))


def _unescaped(text: str) -> str | None:
    return _ESCAPED.sub(_character, text) if "_x" in text else None


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code < ord(" ") or code in (ord("_"), 0xFFFE, 0xFFFF) else found[0]


def _of_xlsx_sheet(file: IO[bytes], is_calculated: bool, texts: Mapping[str, str]) -> Flaws:
    flaws, row = Flaws(), -1
    for _, each in ElementTree.iterparse(file):
        if (tag := _local(each.tag)) == "row":
            row, column = int(each.get("r", row + 2)) - 1, -1
            for cell in each:
                # A cell without a name follows the one before.
                name = cell.get("r")
                row, column = (row, column + 1) if name is None else _position(name)
                if len(cell):  # else it has a format only
                    flaws.add(row, column, _held_in_xlsx(cell, is_calculated, texts))
            each.clear()
        elif tag == "mergeCell":
            first, _, last = each.get("ref", "").partition(":")
            (top, left), (bottom, right) = _position(first), _position(last or first)
            covered = Wrong(f"a cell that is merged with {first}")
            flaws.areas.append((top, left + 1, top, right, covered))
            flaws.areas.append((top + 1, left, bottom, right, covered))
    return flaws


def _held_in_xlsx(
    cell: ElementTree.Element, is_calculated: bool, texts: Mapping[str, str]
) -> str | Wrong | None:
    parts = {_local(part.tag): part.text for part in cell}
    kind, value = cell.get("t"), parts.get("v")
    if kind == "e":
        return Wrong(value or "an error value")
    if "f" not in parts:
        if kind == "inlineStr":
            return next((_text_of(part) for part in cell if _local(part.tag) == "is"), None)
        return texts.get(value or "") if kind == "s" else None
    # The value of a text may be empty.
    if not value and not (kind == "str" and "v" in parts):
        return Wrong("a formula without a value")
    if not is_calculated:
        return Wrong("a formula that was never calculated")
    return _unescaped(value or "") if kind == "str" else None


def _position(name: str) -> tuple[int, int]:
    """Return the row and the column of a cell, from 0: B3 is 2 and 1."""
    letters = name.rstrip("0123456789")
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(name[len(letters) :]) - 1, column - 1


# --- .ods -----------------------------------------------------------------------------------------------


def _of_ods(archive: ZipFile) -> dict[str, Flaws]:
    found: dict[str, Flaws] = {}
    flaws, row = Flaws(), 0
    with archive.open("content.xml") as file:
        for event, each in ElementTree.iterparse(file, ("start", "end")):
            tag = _local(each.tag)
            if event == "start" and tag == "table":
                name = next((value for key, value in each.items() if _local(key) == "name"), "")
                flaws, row = found.setdefault(name, Flaws()), 0
            elif event == "end" and tag == "table-row":
                rows = _given(each).get("number-rows-repeated", "1")
                _add_row_of_ods(flaws, each, row, int(rows))
                row += int(rows)
                each.clear()
    return found


def _given(element: ElementTree.Element) -> dict[str, str]:
    """Return the attributes by their names, where several are of the same name that of the extension."""
    given: dict[str, str] = {}
    for name, value in element.items():
        key = _local(name)
        given["extended-type" if key == "value-type" and "calc" in name else key] = value
    return given


def _add_row_of_ods(flaws: Flaws, element: ElementTree.Element, row: int, rows: int) -> None:
    column = 0
    for cell in element:
        given = _given(cell)
        columns = int(given.get("number-columns-repeated", "1"))
        if _local(cell.tag) == "covered-table-cell":
            covered = Wrong("a cell that is merged with another")
            flaws.areas.append((row, column, row + rows - 1, column + columns - 1, covered))
        elif "value-type" in given or "formula" in given:
            flaws.add(row, column, _wrong_of_ods(cell, given), rows, columns)
        column += columns


def _wrong_of_ods(cell: ElementTree.Element, given: dict[str, str]) -> Wrong | None:
    if given.get("extended-type") == "error":
        return Wrong("".join(cell.itertext()) or "an error value")
    if "value-type" not in given:
        return Wrong("a formula without a value")
    # So LibreOffice writes a boolean that it read from another format.
    if (formula := given.get("formula", "")).endswith(("=TRUE()", "=FALSE()")):
        return Wrong(formula.rpartition("=")[2].removesuffix("()"))
    # The library leaves them out of a text.
    if any(_local(part.tag) in ("tab", "line-break") for part in cell.iter()):
        return Wrong("a tab or a break in a line, which is not read from .ods")
    return None
