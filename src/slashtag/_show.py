"""Representations of values: short in a console, as tables in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from html import escape
from itertools import groupby, islice
from operator import itemgetter
from typing import cast

from msgspec import Struct

#: Entries of a map in a repr; labels of a dimension in a notebook.
ENTRIES, LABELS = 5, 5


def many(n: int, one: str, more: str | None = None) -> str:
    """Return a count with its noun; `more` is the plural if it is not formed with s."""
    return f"{n:,} {one if n == 1 else more or f'{one}s'}"


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a question about the name that is most like the one given; empty if none is."""
    close = get_close_matches(given, [name for name in names if name], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def short_repr(record: Struct) -> str:
    """Return the repr of a record: numbers and flags first, then maps, long ones cut."""
    names = sorted(record.__struct_fields__, key=lambda name: isinstance(getattr(record, name), dict))
    shown = (f"{name}={_cut(getattr(record, name))}" for name in names)
    return f"{type(record).__name__}({', '.join(shown)})"


def stats_html(stats: Struct, total: int, rows: Iterable[tuple[str, str, int]]) -> str:
    """Return the total and the period of statistics, and a table of the first labels."""
    period = ""
    cells: list[tuple[str, str, str]] = []
    for dimension, group in groupby(rows, itemgetter(0)):
        counts = [(label, clicks) for _, label, clicks in group]
        if dimension in ("day", "month"):
            period = f", {counts[0][0]} to {counts[-1][0]}"
            continue
        cells += [(dimension, label, f"{clicks:,}") for label, clicks in counts[:LABELS]]
        if len(counts) > LABELS:
            cells.append((dimension, f"{len(counts) - LABELS:,} more", ""))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
    inexact = [name for name in stats.__struct_fields__ if getattr(stats, name) is False]
    return f"<p><b>{type(stats).__name__}</b>: {total:,} clicks{period}</p><table>{body}</table>" + "".join(
        f"<p>{name} is False</p>" for name in inexact
    )


def _cut(member: object) -> str:
    """Return the repr of a member; that of a long map shows its first entries."""
    whole = repr(member)
    counts = cast("dict[object, int]", member) if isinstance(member, dict) else {}
    if len(counts) <= ENTRIES:
        return whole
    # The labels with most clicks; days and years from the first on.
    keys = sorted(counts, key=lambda key: -counts[key]) if isinstance(next(iter(counts)), str) else counts
    shown = ", ".join(f"{key!r}: {counts[key]!r}" for key in islice(keys, ENTRIES))
    return f"{{{shown}, ... {len(counts) - ENTRIES:,} more}}"
