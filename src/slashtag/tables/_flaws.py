"""Cells of a workbook that python-calamine gives as empty or as something else, found in the file itself.

It gives "" for an error value and for a formula without a value, so that a change would be sent without it.
It holds every cell between the first and the last of a sheet, however few there are.
"""

import io
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import IO
from xml.etree import ElementTree
from xml.parsers.expat import ParserCreate
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
        last, rightmost = row + rows - 1, column + columns - 1
        self.count += rows * columns
        # Sheets have millions of cells: a comparison costs less than a call.
        self.top = row if row < self.top else self.top
        self.left = column if column < self.left else self.left
        self.bottom = last if last > self.bottom else self.bottom
        self.right = rightmost if rightmost > self.right else self.right
        if held is not None:
            self.areas.append((row, column, last, rightmost, held))

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


@lru_cache(1_000)
def _local(name: str) -> str:
    """Return the name of an element or attribute without its namespace or the prefix that stands for one."""
    return re.split("[}:]", name)[-1]


# --- .xlsx and .xlsm ------------------------------------------------------------------------------------

_ESCAPED = re.compile("_x([0-9a-fA-F]{4})_")


def _of_xlsx(archive: ZipFile, names: dict[str, str]) -> dict[str, Flaws]:
    book = ElementTree.fromstring(archive.read(names["xl/workbook.xml"]))
    links = ElementTree.fromstring(archive.read(names["xl/_rels/workbook.xml.rels"]))
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    # Some writers give every formula the value 0, and have it calculated when the workbook is opened.
    is_calculated = not any(
        _local(each.tag) == "calcPr" and each.get("fullCalcOnLoad") in ("1", "true") for each in book.iter()
    )
    for name in names.values():
        if name.lower().endswith(".xml"):
            _check_encoding(archive, name)
    shared = _XlsxPart(is_calculated, {})
    if "xl/sharedstrings.xml" in names:
        data = archive.read(names["xl/sharedstrings.xml"])
        if _MAY_BE_ESCAPE.search(data):
            shared.parse(io.BytesIO(data))
    found: dict[str, Flaws] = {}
    for sheet in (each for each in book.iter() if _local(each.tag) == "sheet"):
        target = next(targets[value] for name, value in sheet.items() if _local(name) == "id")
        path = posixpath.normpath(posixpath.join("/xl", target.replace("\\", "/"))).lstrip("/")
        part = _XlsxPart(is_calculated, shared.texts)
        if shared.texts or not _is_plain(archive, names[path.lower()]):
            with archive.open(names[path.lower()]) as file:
                part.parse(file)
        found[sheet.get("name", "")] = part.flaws
    return found


#: What the library takes for an escape, or may, as markup can part it.
_MAY_BE_ESCAPE = re.compile(rb"_x[0-9a-fA-F+]{4}_|_(?:x[0-9a-fA-F+]{0,4})?<")
#: What a sheet has only if it has errors, formulas or merged cells, or may have, as it is written unusually.
_UNUSUAL = b't="e"', b"='", b"<f", b"<mergeCell", b":row", b":c", b"<!", b" =", b"= "
#: Cells with names of three and of two letters, and so many columns up to the last one.
_WIDTHS = (rb'<c r="[A-Z]{3}', 16_384), (rb'<c r="[A-Z]{2}', 702)
#: A larger sheet is not read at once.
_MOST_BYTES = 2**28


def _is_plain(archive: ZipFile, name: str) -> bool:
    """Return whether nothing can be found in a sheet; an event for each of millions of cells takes long."""
    if archive.getinfo(name).file_size > _MOST_BYTES:
        return False
    data = archive.read(name)
    if any(each in data for each in _UNUSUAL) or _MAY_BE_ESCAPE.search(data):
        return False
    cells, rows = data.count(b"<c "), re.findall(rb'<row r="([0-9]+)"', data)
    if data.count(b'<c r="') < cells + data.count(b"<c>") or len(rows) < data.count(b"<row"):
        return False
    columns = next((width for cell, width in _WIDTHS if re.search(cell, data)), 26)
    return max(map(int, rows), default=0) * columns <= max(MOST_CELLS, SPARSEST * cells)


def _check_encoding(archive: ZipFile, name: str) -> None:
    """Raise InvalidRequestError for XML that is not in UTF-8, of which the library reads no cell."""
    with archive.open(name) as file:
        found = re.match(
            rb"""\xef?\xbb?\xbf?<\?xml[^>]*?\sencoding\s*=\s*["']([^"']*)""", start := file.read(200)
        )
    if b"\0" in start or (found and found[1].lower() not in (b"utf-8", b"us-ascii")):
        raise InvalidRequestError("has texts in another encoding than UTF-8; save it again as .xlsx")


class _XlsxPart:
    """A sheet, of which it finds the `flaws`; or the shared texts, of which `texts` are those with escapes.

    An escape stands for what XML does not allow, or for the _ of a text that looks like one. Others, such as
    _x0020_, are texts of writers that escape nothing; the library reads them as characters.
    """

    def __init__(self, is_calculated: bool, shared: Mapping[str, str]) -> None:
        self.flaws = Flaws()
        self.texts: dict[str, str] = {}
        self._is_calculated, self._shared, self._count = is_calculated, shared, 0
        self._row = self._column = -1
        self._given: dict[str, str] = {}
        #: What the present cell or shared text holds, by the name of the element.
        self._held: dict[str, str] = {}
        self._characters: list[str] = []
        self._is_preserved = self._is_phonetic = False

    def parse(self, file: IO[bytes]) -> None:
        """Read the whole part."""
        # An element is an event here and no object: sheets have millions.
        parser = ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters.append
        parser.ParseFile(file)

    def _start(self, name: str, given: dict[str, str]) -> None:
        self._characters.clear()
        tag = _local(name)
        if tag == "c":
            self._given, self._held = given, {}
        elif tag == "t":
            self._is_preserved = given.get("xml:space") == "preserve"
        elif tag == "row":
            self._row, self._column = int(given.get("r", self._row + 2)) - 1, -1
        elif tag == "si":
            self._held = {}
        elif tag == "rPh":
            self._is_phonetic = True
        elif tag == "mergeCell":
            first, _, last = given.get("ref", "").partition(":")
            (top, left), (bottom, right) = _position(first), _position(last or first)
            covered = Wrong(f"a cell that is merged with {first}")
            self.flaws.areas.append((top, left + 1, top, right, covered))
            self.flaws.areas.append((top + 1, left, bottom, right, covered))

    def _end(self, name: str) -> None:
        tag = _local(name)
        if tag in ("v", "f"):
            self._held[tag] = "".join(self._characters)
        elif tag == "t" and not self._is_phonetic:
            text = "".join(self._characters)
            text = text if self._is_preserved else text.strip(" \t\r\n")
            self._held["t"] = self._held.get("t", "") + text
        elif tag == "c":
            # A cell without a name follows the one before.
            place = self._given.get("r")
            self._row, self._column = (self._row, self._column + 1) if place is None else _position(place)
            if self._held:  # else it has a format only
                self.flaws.add(self._row, self._column, self._found())
        elif tag == "si":
            if (text := _unescaped(self._held.get("t", ""))) is not None:
                self.texts[str(self._count)] = text
            self._count += 1
        elif tag == "rPh":
            self._is_phonetic = False

    def _found(self) -> str | Wrong | None:
        """Return what the present cell holds, if it is not as the library gives it."""
        held, kind = self._held, self._given.get("t")
        value = held.get("v")
        if kind == "e":
            return Wrong(value or "an error value")
        if "f" not in held:
            if kind == "inlineStr":
                return _unescaped(held.get("t", ""))
            return self._shared.get(value or "") if kind == "s" else None
        # The value of a text may be empty.
        if not value and not (kind == "str" and value is not None):
            return Wrong("a formula without a value")
        if not self._is_calculated:
            return Wrong("a formula that was never calculated")
        return _unescaped(value or "") if kind == "str" else None


def _unescaped(text: str) -> str | None:
    """Return a text that may have escapes, else None."""
    return _ESCAPED.sub(_character, text) if "_x" in text else None


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code < ord(" ") or code in (ord("_"), 0xFFFE, 0xFFFF) else found[0]


def _position(name: str) -> tuple[int, int]:
    """Return the row and the column of a cell, from 0: B3 is 2 and 1."""
    letters = name.rstrip("0123456789")
    return int(name[len(letters) :]) - 1, _column(letters)


@lru_cache(20_000)
def _column(letters: str) -> int:
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - ord("A") + 1
    return column - 1


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
