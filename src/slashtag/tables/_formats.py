"""The formats of tables that are read, each told by how a file begins; lines come as they are read."""

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from io import BytesIO, TextIOWrapper
from itertools import chain
from typing import Any, TextIO

import msgspec

from .. import InvalidRequestError
from ._table import About
from ._workbook import read_workbook

#: The number of a line, from 1, and its cells.
Line = tuple[int, Sequence[Any]]
#: The sheet of a workbook, what the file says of itself, the lines.
Content = tuple[str | None, About | None, Iterator[Line]]


def read_lines(file: BytesIO, where: str) -> Iterator[Any]:
    """Yield the first two of a Content, then its lines that are not empty.

    Whatever is wrong is raised as InvalidRequestError.
    """
    kind = "a CSV file in UTF-8"
    try:
        kind, read = _format_of(file)
        *told, lines = read()
        yield told
        yield from (line for line in lines if any(cell not in (None, "") for cell in line[1]))
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{where} {error}") from None
    except ImportError as error:
        needed = f'{error.name}: pip install "slashtag[parquet,xlsx]"'
        raise InvalidRequestError(f"{where}: {kind} needs {needed}") from None
    except Exception:  # many types, of several libraries
        raise InvalidRequestError(f"{where} is not {kind}, or not a whole one: save it as that") from None


def _format_of(file: BytesIO) -> tuple[str, Callable[[], Content]]:
    """Return what a file is, in words, and what reads it."""
    start = file.read(4)
    file.seek(0)
    if start in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        # An .ods, .xls or .xlsb, or one with a password, is told what to be saved as.
        return "an .xlsx workbook without a password", partial(read_workbook, file)
    if start == b"PAR1":
        return "a Parquet file", partial(_parquet, file)
    is_utf16 = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = TextIOWrapper(file, "utf-16" if is_utf16 else "utf-8-sig", newline="")
    first = next((line.lstrip() for line in iter(text.readline, "") if line.strip()), "")[:1]
    text.seek(0)
    if first in ("{", "["):
        return "a file of JSON Lines, one object each", partial(_json, text)
    return "a CSV file in UTF-8", lambda: (None, None, _csv(text))


def _csv(text: TextIO) -> Iterator[Line]:
    # Comments and blank lines may stand before the header.
    for before, line in enumerate(text):  # noqa: B007 - used below
        if line.strip() and not line.lstrip().startswith("#"):
            break
    else:
        return
    delimiter = max(",;\t", key=lambda each: len(next(csv.reader([line], delimiter=each))))
    rows = csv.reader(chain([line], text), delimiter=delimiter, strict=True)
    n = 1
    for cells in rows:
        yield before + n, cells
        n = rows.line_num + 1


def _json(text: TextIO) -> Content:
    decode = msgspec.json.Decoder(dict[str, Any]).decode

    def records() -> Iterator[dict[str, Any]]:
        text.seek(0)
        return (decode(line) for line in text if line.strip())

    # Read twice: a record may lack a member, or have one more than the others.
    names = list(dict.fromkeys(chain.from_iterable(records())))
    lines = ((n, [record.get(name) for name in names]) for n, record in enumerate(records(), 2))
    return None, None, chain([(1, names)], lines)


def _parquet(file: BytesIO) -> Content:
    parquet: Any = import_module("pyarrow.parquet").ParquetFile(file)
    told: dict[bytes, bytes] = parquet.metadata.metadata or {}
    about = About.of({name.decode().removeprefix("slashtag."): text.decode() for name, text in told.items()})
    batches = ([column.to_pylist() for column in batch.columns] for batch in parquet.iter_batches())
    rows = (row for columns in batches for row in zip(*columns, strict=True))
    return None, about, chain([(1, parquet.schema_arrow.names)], enumerate(rows, 2))
