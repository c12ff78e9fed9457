"""What python-calamine leaves out of .xlsx and .xlsm, archives of XML."""

import io
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import IO
from xml.etree import ElementTree
from xml.parsers.expat import ParserCreate
from zipfile import ZipFile

from ._flaws import MOST_CELLS, SPARSEST, Flaws, Wrong, check_encoding, local_name

_ESCAPED = re.compile("_x([0-9a-fA-F]{4})_")


def flaws_of_xlsx(archive: ZipFile, names: dict[str, str]) -> dict[str, Flaws]:
    """Return what is found in each sheet of an archive, by its name; `names` are its parts by path."""
    check_encoding(archive, names["xl/workbook.xml"])
    book = ElementTree.fromstring(archive.read(names["xl/workbook.xml"]))
    links = ElementTree.fromstring(archive.read(names["xl/_rels/workbook.xml.rels"]))
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    # Some writers give every formula the value 0, and have it calculated when the workbook is opened.
    is_calculated = not any(
        local_name(each.tag) == "calcPr" and each.get("fullCalcOnLoad") in ("1", "true")
        for each in book.iter()
    )
    shared = _XlsxPart(is_calculated, {})
    if "xl/sharedstrings.xml" in names:
        check_encoding(archive, names["xl/sharedstrings.xml"])
        data = archive.read(names["xl/sharedstrings.xml"])
        if _MAY_BE_ESCAPE.search(data):
            shared.parse(io.BytesIO(data))
    found: dict[str, Flaws] = {}
    for sheet in (each for each in book.iter() if local_name(each.tag) == "sheet"):
        target = next(targets[value] for name, value in sheet.items() if local_name(name) == "id")
        path = posixpath.normpath(posixpath.join("/xl", target.replace("\\", "/"))).lstrip("/")
        name = names[path.lower()]
        check_encoding(archive, name)
        part = _XlsxPart(is_calculated, shared.texts)
        if shared.texts or not _is_plain(archive, name):
            with archive.open(name) as file:
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
    """Return whether nothing can be found in a sheet: an event for each of its cells takes long."""
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
        tag = local_name(name)
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
        tag = local_name(name)
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
            if (escaped := _unescaped(self._held.get("t", ""))) is not None:
                self.texts[str(self._count)] = escaped
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
