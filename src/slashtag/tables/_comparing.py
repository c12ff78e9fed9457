"""Differences of two tables."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from .. import InvalidRequestError
from ._reading import FRACTIONS, TIMES, LoadedTable, load_table

log = logging.getLogger("slashtag")

#: What a table has rows of, by columns that tell.
_KINDS = (
    ({"clicks"}, "clicks"),
    ({"short_url"}, "links"),
    ({"destination"}, "links"),
    ({"id", "slashtag"}, "links"),
    ({"id", "name"}, "tags"),
)
#: Columns that name a row where it has no id: what clicks are counted by.
KEYS = (
    *("slashtag", "tag", "date", "hour", "day", "weekday", "weekday_hour", "week", "month"),
    *("window_start", "window_end", "dimension", "label"),
    *("device", "browser", "platform", "country", "referrer", "language", "timezone"),
    *("state", "city", "postalcode"),
)
#: Columns of a listing that change by themselves: neither compared nor sent back.
VOLATILE = ("hits", "updated_at")
#: Shares of a sum, which change with the clicks of other rows: not compared either.
_SHARES = ("percent",)
#: Writers differ in the letter between day and time, in zeros, and in whether a day is a time at midnight.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d?)(:\d\d:\d\d)(?:(\.\d*?)0*)?")
#: What to do instead where the files have no day in common.
_ADVICE = "; to compare spans: `slashtag top` or `slashtag stats`, with --compare SPAN"
#: Rows by what names them.
_Rows = dict[tuple[str, ...], dict[str, str]]


class RowDifference(msgspec.Struct, frozen=True):
    """Row that only one file has (`column` is ""), or a column in which a row differs.

    `key` is its id, `name` the slashtag of a link or the name of a tag; a row without an id has a `key` only.
    """

    change: Literal["added", "gone", "changed"]
    key: str
    name: str
    column: str = ""
    old: str = ""
    new: str = ""


def compare_files(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> Iterator[RowDifference]:
    """Yield the differences of two listings or two exports, in the order of their rows.

    Rows are the same if they have the same id, else the same slashtag, tag, day and label. Compared are all
    columns that both files have but hits, updated_at and percent; others may hold anything. Both files are
    held in memory. Logs the days of both if they begin or end on different ones. Raises InvalidRequestError
    for files that cannot be read or compared, such as a listing of links and one of tags.
    """
    before, after = load_table(old), load_table(new)
    told = "; ".join(map(_told, (before, after)))
    if _differ(before.columns, after.columns):
        raise InvalidRequestError(f"the files are of different kinds: {told}")
    # Formats of lines without rows have no columns.
    names = [name for name in before.columns or after.columns if name in (after.columns or before.columns)]
    keys = ("id",) if "id" in names else tuple(name for name in KEYS if name in names)
    if "slashtag" in keys:
        # The tag of a link, which may have got another one.
        keys = tuple(name for name in keys if name != "tag")
    if not keys and (before.columns or after.columns):
        raise InvalidRequestError(
            f"the files have no column in common that names a row ({', '.join(('id', *KEYS))}): {told}"
        )
    compared = [name for name in names if name not in (*keys, *VOLATILE, *_SHARES)]
    shown = [name for name in ("slashtag", "name") if keys == ("id",)]
    used = {*keys, *compared, *shown}
    several = f"; {told}" * (before.columns != after.columns)
    earlier, later = (_by_key(each, keys, used, several) for each in (before, after))
    _log_days(keys, {before.where: earlier, after.where: later})
    gone = {key: row for key, row in earlier.items() if key not in later}
    for key, row in (gone | later).items():
        name = next(filter(None, (row.get(name) for name in shown)), "")
        if key in gone or key not in earlier:
            yield RowDifference("gone" if key in gone else "added", ", ".join(key), name)
            continue
        for column in compared:
            if (was := earlier[key][column]) != row[column]:
                yield RowDifference("changed", ", ".join(key), name, column, was, row[column])


def _kind_of(columns: Sequence[str]) -> str:
    return next((kind for names, kind in _KINDS if names.issubset(columns)), "")


def _told(table: LoadedTable) -> str:
    """Return in words what a table has."""
    kind = _kind_of(table.columns)
    return f"{table.where} has {kind}{': ' * bool(kind)}{', '.join(table.columns) or 'no columns'}"


def _differ(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether tables are of different kinds, such as clicks by slashtag and by tag."""
    kinds = {_kind_of(old), _kind_of(new)}
    if kinds != {"clicks"}:
        return len(kinds) > 1 and "" not in kinds
    keys, others = {*KEYS}.intersection(old), {*KEYS}.intersection(new)
    return not (keys <= others or keys >= others)


def _log_days(keys: Sequence[str], files: dict[str, _Rows]) -> None:
    """Log the days of files that begin or end on different ones: rows of other days are no change."""
    spans = [_days_of(keys, rows) for rows in files.values()]
    found = [span for span in spans if span is not None]
    if len(found) == len(spans) and len({*found}) > 1:
        told = "; ".join(
            f"{where} has {first} to {last}" for where, (first, last) in zip(files, found, strict=True)
        )
        advice = "" if max(first for first, _ in found) <= min(last for _, last in found) else _ADVICE
        log.warning("rows of days that only one file has count as added or gone: %s%s", told, advice)


def _days_of(keys: Sequence[str], rows: _Rows) -> tuple[str, str] | None:
    """Return the first and the last day, or month, of rows; None if they have none.

    In a table of several dimensions they are the labels of one.
    """
    times = [n for n, name in enumerate(keys) if name in TIMES]
    if times:
        return (min(key[times[0]] for key in rows), max(key[times[-1]] for key in rows)) if rows else None
    if "dimension" not in keys:
        return None
    dimension, label = keys.index("dimension"), keys.index("label")
    labels = [key[label] for key in rows if key[dimension] in TIMES]
    return (min(labels), max(labels)) if labels else None


def _by_key(table: LoadedTable, keys: Sequence[str], used: set[str], told: str) -> _Rows:
    found: _Rows = {}
    for _, row in table.rows(used):
        for name in TIMES & row.keys():
            if moment := _MOMENT.fullmatch(row[name]):
                day, hour, rest, fraction = moment.groups("")
                row[name] = f"{day}T{hour:0>2}{rest}{fraction.rstrip('.')}".removesuffix("T00:00:00")
        for name in FRACTIONS & row.keys():
            row[name] = row[name].removesuffix(".0")
        key = tuple(row[name] for name in keys)
        if key in found:
            raise InvalidRequestError(f"{table.where}: several rows of {', '.join(key)}{told}")
        found[key] = row
    return found
