"""Cells of a workbook that python-calamine gives as empty or as something else, found in the file itself.

It gives "" for an error value and for a formula without a value, so that a change would be sent without it.
It holds every cell between the first and the last of a sheet, however few there are.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
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


@lru_cache(1_000)
def local_name(name: str) -> str:
    """Return the name of an element or attribute without its namespace or the prefix that stands for one."""
    return re.split("[}:]", name)[-1]


def check_encoding(archive: ZipFile, name: str) -> None:
    """Raise InvalidRequestError for XML that is not in UTF-8, of which the library reads no cell."""
    with archive.open(name) as file:
        start = file.read(200)
    found = re.match(rb"""\xef?\xbb?\xbf?<\?xml[^>]*?\sencoding\s*=\s*["']([^"']*)""", start)
    if b"\0" in start or (found and found[1].lower() not in (b"utf-8", b"us-ascii")):
        raise InvalidRequestError("has texts that are not in UTF-8; save it again with a spreadsheet")
