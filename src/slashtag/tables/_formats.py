"""The formats of tables that are read, each told by how a file begins; lines come as they are read."""

import csv
import re
from collections.abc import Iterator, Sequence
from io import BytesIO, TextIOWrapper
from itertools import chain
from typing import Any, TextIO

import msgspec

from .. import InvalidRequestError, SlashtagError
from ._table import About
from ._workbook import read_workbook

#: The number of a line, from 1, and its cells.
Line = tuple[int, Sequence[Any]]


def read_lines(file: BytesIO, where: str) -> Iterator[Any]:
    """Yield what a file says of itself, an About or None, then its lines that are not empty.

    Whatever is wrong is raised as InvalidRequestError.
    """
    try:
        about, lines = _content(file)
        yield about
        yield from (line for line in lines if any(cell not in (None, "") for cell in line[1]))
    except SlashtagError as error:
        raise InvalidRequestError(f"{where}: {error}") from None
    except Exception:  # many types, of several libraries
        raise InvalidRequestError(
            f"{where} is none of these, or not a whole one: CSV in UTF-8, JSON Lines with one object each, "
            "an .xlsx workbook without a password; save it as one of them"
        ) from None


def _content(file: BytesIO) -> tuple[About | None, Iterator[Line]]:
    start = file.read(4)
    file.seek(0)
    if start == b"PK\x03\x04":
        return read_workbook(file)
    is_utf16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = TextIOWrapper(file, "utf-16" if is_utf16 else "utf-8-sig", newline="")
    first = next((line.lstrip() for line in iter(text.readline, "") if line.strip()), "")[:1]
    text.seek(0)
    return None, _json(text) if first in ("{", "[") else _csv(text)


def _csv(text: TextIO) -> Iterator[Line]:
    # Comments and blank lines may stand before the header, and everywhere in a plain list.
    without_comments = (re.sub(r"^\s*#.*", "", line) for line in text)
    for before, line in enumerate(without_comments):  # noqa: B007 - used below
        if line.strip():
            break
    else:
        return
    delimiter = max(",;\t", key=lambda each: len(next(csv.reader([line], delimiter=each))))
    rest = text if delimiter in line else without_comments
    rows = csv.reader(chain([line], rest), delimiter=delimiter, strict=True)
    n = 1
    for cells in rows:
        yield before + n, cells
        n = rows.line_num + 1


def _json(text: TextIO) -> Iterator[Line]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    # Read twice: a record may lack a member, or have one more than the others.
    names = dict[str, Any]()
    for line in filter(str.strip, text):
        names |= decode(line)
    yield 0, [*names]
    text.seek(0)
    for n, line in enumerate(text, 1):
        if line.strip():
            yield n, [*map(decode(line).get, names)]
