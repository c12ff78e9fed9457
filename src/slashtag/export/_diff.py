"""What differs between two files of the same table: rows that were added, that are gone, that changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from .. import InvalidRequestError
from ._reading import read_table

#: Columns that name a row where it has no id.
KEYS = ("slashtag", "tag", "date", "hour", "day", "month", "window_start", "window_end", "dimension", "label")
#: Columns of a listing that change by themselves: compared only if they are named, and never sent back.
VOLATILE = ("hits", "updated_at")

#: A workbook has no dates but times at midnight.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")


class RowDifference(Struct, frozen=True):
    """Row that only one file has (`column` is ""), or a column in which a row differs.

    `key` is its id, `name` the slashtag of a link or the name of a tag; a row without an id has a `key` only.
    """

    change: Literal["added", "gone", "changed"]
    key: str
    name: str
    column: str = ""
    old: str = ""
    new: str = ""


def compare_files(
    old: str | os.PathLike[str], new: str | os.PathLike[str], columns: Sequence[str] = ()
) -> Iterator[RowDifference]:
    """Yield the differences of two listings or two exports, in the order of their rows.

    Rows are the same if they have the same id, else the same slashtag, tag, day and label. Compared are the
    `columns`, by default all that both files have but hits and updated_at. Both files are held in memory.
    Raises InvalidRequestError for files that cannot be read or compared.
    """
    (names, before), (others, after) = read_table(old), read_table(new)
    # Formats of lines without rows have no columns.
    names = [name for name in names if name in others] or names or others
    keys = ("id",) if "id" in names else tuple(name for name in KEYS if name in names)
    if unknown := [name for name in columns if name not in names]:
        raise InvalidRequestError(f"not a column of both files: {', '.join(unknown)}")
    if names and not keys:
        raise InvalidRequestError(f"none of {', '.join(('id', *KEYS))} is a column of both files")
    compared = columns or [name for name in names if name not in (*keys, *VOLATILE)]
    earlier, later = _by_key(before, keys, old), _by_key(after, keys, new)
    for key in earlier:
        if key not in later:
            yield RowDifference("gone", ", ".join(key), _name(earlier[key], keys))
    for key, row in later.items():
        if (known := earlier.get(key)) is None:
            yield RowDifference("added", ", ".join(key), _name(row, keys))
            continue
        for name in compared:
            if known[name] != row[name]:
                yield RowDifference("changed", ", ".join(key), _name(row, keys), name, known[name], row[name])


def _name(row: Mapping[str, str], keys: Sequence[str]) -> str:
    """Return what else names a row than its keys."""
    return "" if keys != ("id",) else row.get("slashtag") or row.get("name") or ""


def _plain(text: str) -> str:
    """Return a cell as every format has it."""
    moment = _MOMENT.fullmatch(text)
    return text if moment is None else moment[1] if moment[2] == "00:00:00" else f"{moment[1]}T{moment[2]}"


def _by_key(
    rows: Iterable[tuple[int, dict[str, str]]], keys: Sequence[str], path: str | os.PathLike[str]
) -> dict[tuple[str, ...], dict[str, str]]:
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for _, cells in rows:
        row = {name: _plain(cell) for name, cell in cells.items()}
        key = tuple(row[name] for name in keys)
        if key in found:
            raise InvalidRequestError(f"{path}: several rows of {', '.join(key)}")
        found[key] = row
    return found
