"""Representations of values: short in a console, as tables and small charts in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from html import escape
from itertools import groupby, islice
from operator import itemgetter
from typing import cast

from msgspec import Struct

#: Entries of a map in a repr; labels of a dimension, and rows of a page, in a notebook.
ENTRIES, LABELS, ROWS = 5, 5, 20
WIDTH, HEIGHT = 480, 48


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
    """Return a chart of the days or months of statistics and a table of the first labels."""
    series: list[tuple[str, int]] = []
    cells: list[tuple[str, str, str]] = []
    for dimension, group in groupby(rows, itemgetter(0)):
        counts = [(label, clicks) for _, label, clicks in group]
        if dimension in ("day", "month"):
            series = counts
            continue
        cells += [(dimension, label, f"{clicks:,}") for label, clicks in counts[:LABELS]]
        if len(counts) > LABELS:
            cells.append((dimension, f"{len(counts) - LABELS:,} more", ""))
    period = f", {series[0][0]} to {series[-1][0]}" if series else ""
    inexact = [name for name in stats.__struct_fields__ if getattr(stats, name) is False]
    return (
        f"<p><b>{type(stats).__name__}</b>: {total:,} clicks{period}</p>{_bars(series)}"
        + (table_html(("dimension", "label", "clicks"), cells) if cells else "")
        + "".join(f"<p>{name} is False</p>" for name in inexact)
    )


def page_html(number: int, items: Sequence[object]) -> str:
    """Return a table of the first records of a page."""
    names = items[0].__struct_fields__ if items and isinstance(items[0], Struct) else ()
    rows = ([getattr(item, name) for name in names] for item in items[:ROWS])
    more = f", the first {ROWS} of them here" if len(items) > ROWS else ""
    return f"<p><b>Page {number}</b>: {len(items):,} items{more}</p>{table_html(names, rows)}"


def plan_html(query: Struct, requests: int, span: tuple[object, object] | None) -> str:
    """Return a table of a query's members, its days and the number of its requests."""
    members = [(name, getattr(query, name)) for name in query.__struct_fields__]
    days = [("days", f"{span[0]} to {span[1]}")] if span else []
    rows = [("query", type(query).__name__), *members, *days, ("requests", f"{requests:,}")]
    return table_html(("plan", ""), rows)


def table_html(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; None is an empty cell."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    cells = ((escape("" if value is None else str(value)) for value in row) for row in rows)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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


def _bars(series: Sequence[tuple[str, int]]) -> str:
    most = max((clicks for _, clicks in series), default=0)
    if most <= 0:
        return ""
    path = "".join(
        f"M{i},{HEIGHT}v{-HEIGHT * clicks / most:.1f}h.8V{HEIGHT}z"
        for i, (_, clicks) in enumerate(series)
        if clicks > 0
    )
    return (
        f'<svg role="img" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {len(series)} {HEIGHT}" '
        f'preserveAspectRatio="none"><title>at most {most:,} clicks</title>'
        f'<path fill="#3355d1" d="{path}"/></svg>'
    )
