"""Cells of a file of changes: CSV with commas, semicolons or tabs, or a sheet of a workbook."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path

from .. import InvalidRequestError

_ZIP = b"PK\x03\x04"


def read_cells(path: Path, data: bytes | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file with the numbers of their lines, the header first.

    `data` is its content if it was read already. Raises InvalidRequestError for what is neither CSV in UTF-8
    nor an .xlsx workbook.
    """
    try:
        data = path.read_bytes() if data is None else data
        if data.startswith(_ZIP):
            yield from enumerate(_sheet(path, data), 1)
            return
        text = data.decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        reader, before = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 0
        for cells in reader:
            line, before = before + 1, reader.line_num
            yield line, cells
    except (UnicodeDecodeError, csv.Error):
        raise InvalidRequestError(f"{path} is not a CSV file in UTF-8") from None
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be read: {error.strerror}") from None


def _sheet(path: Path, data: bytes) -> Iterator[list[str]]:
    """Yield the rows of the first sheet of a workbook, as texts."""
    try:
        openpyxl = import_module("openpyxl")
        workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except ImportError:
        raise InvalidRequestError('a workbook needs openpyxl: pip install "slashtag[xlsx]"') from None
    except Exception:
        raise InvalidRequestError(f"{path} is not an .xlsx workbook") from None
    for row in workbook.worksheets[0].iter_rows(values_only=True):
        yield [_text(value) for value in row]


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else value.isoformat() if isinstance(value, datetime) else str(value)
