"""What differs between two files of the same table: rows that were added, that are gone, that changed."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import msgspec
from msgspec import Struct

from .. import ExportError, InvalidRequestError
from ._writers import format_of

#: Columns that name a row where it has no id.
KEYS = ("slashtag", "tag", "date", "hour", "day", "month", "window_start", "window_end", "dimension", "label")
#: Columns that change by themselves, and are compared only if they are named.
VOLATILE = ("hits", "updated_at")

#: A workbook has no dates but times at midnight.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")


class RowDifference(Struct, frozen=True):
    """Row that only one file has (`column` is ""), or a column in which a row differs."""

    change: Literal["added", "gone", "changed"]
    key: str
    column: str = ""
    old: str = ""
    new: str = ""


def compare_files(
    old: str | os.PathLike[str], new: str | os.PathLike[str], columns: Sequence[str] = ()
) -> Iterator[RowDifference]:
    """Yield the differences of two listings or two exports, in the order of their rows.

    Rows are the same if they have the same id, else the same slashtag, tag, day and label. Compared are the
    `columns`, by default all that both files have but hits and updated_at. Raises ExportError for a file that
    cannot be read, InvalidRequestError for files that cannot be compared. Both are held in memory.
    """
    before, after = read_rows(old), read_rows(new)
    names = [name for name in after[0] if name in before[0]] if before and after else []
    names = names or list((before or after or [{}])[0])
    keys = ("id",) if "id" in names else tuple(name for name in KEYS if name in names)
    if unknown := [name for name in columns if name not in names]:
        raise InvalidRequestError(f"not a column of both files: {', '.join(unknown)}")
    if (before or after) and not keys:
        raise InvalidRequestError(f"none of {', '.join(('id', *KEYS))} is a column of both files")
    compared = columns or [name for name in names if name not in (*keys, *VOLATILE)]
    earlier, later = _by_key(before, keys, old), _by_key(after, keys, new)
    for key in earlier:
        if key not in later:
            yield RowDifference("gone", ", ".join(key))
    for key, row in later.items():
        if (known := earlier.get(key)) is None:
            yield RowDifference("added", ", ".join(key))
            continue
        for name in compared:
            if known[name] != row[name]:
                yield RowDifference("changed", ", ".join(key), name, known[name], row[name])


def _by_key(
    rows: Iterable[Mapping[str, str]], keys: Sequence[str], path: str | os.PathLike[str]
) -> dict[tuple[str, ...], Mapping[str, str]]:
    found: dict[tuple[str, ...], Mapping[str, str]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if key in found:
            raise InvalidRequestError(f"{path}: several rows of {', '.join(key)}")
        found[key] = row
    return found


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Return the rows of a file of any of FORMATS, each value as text; raises ExportError."""
    form = format_of(path)
    try:
        data = Path(path).read_bytes()
        data = gzip.decompress(data) if form.endswith(".gz") else data
        rows = list(_READERS[form.removesuffix(".gz")](data))
    except ImportError as error:
        raise ExportError(f"{path}: {error.name} is missing; see the extras parquet and xlsx") from None
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, LookupError, EOFError, csv.Error, BadZipFile):
        raise ExportError(f"{path} is not a whole file of the format that its name says") from None
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: _text(row.get(name)) for name in names} for row in rows]


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = "" if value is None else str(value)
    # An apostrophe that keeps a spreadsheet from running what follows.
    text = text[1:] if text[:2] in ("'=", "'+", "'-", "'@") else text
    moment = _MOMENT.fullmatch(text)
    return text if moment is None else moment[1] if moment[2] == "00:00:00" else f"{moment[1]}T{moment[2]}"


def _csv(data: bytes) -> Iterable[Mapping[str, Any]]:
    text = data.decode("utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    return csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def _xlsx(data: bytes) -> Iterator[Mapping[str, Any]]:
    workbook: Any = import_module("openpyxl").load_workbook(io.BytesIO(data), data_only=True)
    for sheet in workbook.worksheets:
        header, *rows = sheet.iter_rows(values_only=True)
        for row in rows:
            yield dict(zip(header, row, strict=True))


_READERS: dict[str, Callable[[bytes], Iterable[Mapping[str, Any]]]] = {
    ".csv": _csv,
    ".json": partial(msgspec.json.decode, type=list[dict[str, Any]]),
    ".jsonl": msgspec.json.Decoder(dict[str, Any]).decode_lines,
    ".xlsx": _xlsx,
    ".parquet": lambda data: import_module("pyarrow.parquet").read_table(io.BytesIO(data)).to_pylist(),
}
