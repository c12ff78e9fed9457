"""Tables read from files of every format that is written here, also edited or made by other programs.

What a cell holds                        under a column of TIMES  any other
text, a number, nothing                  text                     text
a date, a time of a day of the calendar  text                     wrong
a whole number that a float has rounded, a boolean, a duration, an error value (#N/A), a formula without a
value, a list or an object: wrong

A wrong cell is an error that names it, if its column is used; in another column it may be.
"""

import os
import re
from collections.abc import Collection, Iterator
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from .. import InvalidRequestError
from .._files import check_local_path
from .._wording import many
from ._formats import Line, read_lines
from ._table import About
from ._workbook import EXACT, Wrong

#: Columns that hold days and times, and whole numbers.
TIMES = {"date", "day", "week", "month", "hour", "window_start", "window_end", "created_at", "updated_at"}
_MOMENTS = {"hour", "created_at", "updated_at"}
NUMBERS = {"id", "tag_id", "domain_id", "redirect_code", "hits", "clicks", "clicks_before"}


class LoadedTable(msgspec.Struct, frozen=True, kw_only=True):
    """Table of a file, whose rows are read as they are asked for, once.

    `where` names it in errors; `about` is what the file says of itself, which of those that are read only a
    workbook does. `header` and `lines` have the number of a line and its cells, without empty lines.
    """

    where: str
    header: Line
    lines: Iterator[Line]
    about: About | None = None

    @property
    def _names(self) -> list[str]:
        """Names of the columns in order, "" where there is none; spreadsheets change blanks and capitals."""
        cells = ("" if cell is None else str(cell) for cell in self.header[1])
        names = [cell.strip().lower().replace(" ", "_") for cell in cells]
        if twice := sorted({name for name in names if name and names.count(name) > 1}):
            raise InvalidRequestError(f"{self.where}: a column is there twice: {', '.join(twice)}")
        return names

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in lower case, with underscores for blanks.

        Raises InvalidRequestError for a name that is there twice.
        """
        return [name for name in self._names if name]

    def rows(self, used: Collection[str] | None = None) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield each row as the number of its line and its cells of text; of `used` columns only, if given.

        Raises InvalidRequestError for rows with fewer cells than there are columns, for wrong cells, and for
        cells without a column.
        """
        names = self._names
        least = max((n for n, name in enumerate(names, 1) if name), default=0)
        for line, cells in self.lines:
            if len(cells) < least:
                numbers = f"{many(len(cells), 'cell')} under {many(least, 'column')}"
                raise InvalidRequestError(f"{self.where}, line {line}: {numbers}")
            row: dict[str, str] = {}
            for n, cell in enumerate(cells):
                name = names[n] if n < len(names) else ""
                if name and used is not None and name not in used:
                    continue
                found = _text(cell, name)
                if found and not name:
                    found = Wrong("a value in a column that has no name")
                if isinstance(found, Wrong):
                    what = "not shown" if name == "password" else found.what
                    told = f"{self.where}, line {line}, column {name or n + 1}: {what}"
                    raise InvalidRequestError(f"{told}; a cell must hold text or a number under a name")
                if name:
                    row[name] = found
            yield line, row


def load_table(source: str | os.PathLike[str] | BinaryIO, where: str | None = None) -> LoadedTable:
    """Open the table in a file, or a binary stream; `where` names it in errors.

    The content tells the format: CSV with commas, semicolons or tabs, in UTF-8 or, with a byte order mark,
    UTF-16; JSON Lines; or a workbook (.xlsx, .xlsm) with one visible sheet beside `about`. Lines of
    CSV before the header that begin with # are comments. Raises InvalidRequestError for what is no table,
    here or while its rows are read.
    """
    where = str(source) if where is None else where
    try:
        if isinstance(source, str | os.PathLike):
            check_local_path(source)
            data = Path(source).read_bytes()
        else:
            data = source.read()
    except OSError as error:
        raise InvalidRequestError(f"{where} cannot be read: {error.strerror or error}") from None
    steps = read_lines(BytesIO(data), where)
    about, header = next(steps), next(steps, (0, ()))
    return LoadedTable(where=where, header=header, lines=steps, about=about)


def _text(value: Any, column: str) -> str | Wrong:
    """Return what a cell holds as text; see the table at the top."""
    match value:
        case None | "":
            return ""
        case str() if column in NUMBERS:
            return re.sub(r"\A(-?\d+)\.0+\Z", r"\1", value)  # as data frames have them beside empty cells
        case str():
            return value
        case bool():
            return Wrong(str(value).upper())
        # Spreadsheets and data frames have whole numbers as floats.
        case float() if value.is_integer() and abs(value) >= EXACT:
            return Wrong(f"{int(value)}, a number of so many digits that it may be rounded")
        case int() | float():
            return str(int(value) if value == value // 1 else value)
        case date():
            if column not in TIMES:
                return Wrong(f"the day or time {value}")
            # A workbook has days as times.
            return value.isoformat() if column in _MOMENTS else value.isoformat().removesuffix("T00:00:00")
        case Wrong():
            return value
        case _:
            return Wrong(f"{str(value)[:40]}, a value of the type {type(value).__name__}")
