"""Representations of values: short in a console, as tables and small charts in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any, cast

from msgspec import Struct

#: Entries of a map in a repr; labels of a dimension, and rows of a page, in a notebook.
ENTRIES, LABELS, ROWS = 5, 5, 20
WIDTH, HEIGHT = 480, 48


def short_repr(record: Struct) -> str:
    """Return the repr of a record with only the first entries of long maps."""
    shown = (f"{name}={_cut(getattr(record, name))}" for name in record.__struct_fields__)
    return f"{type(record).__name__}({', '.join(shown)})"


def stats_html(stats: Struct, total: int, rows: Iterable[tuple[str, str, int]]) -> str:
    """Return a chart of the days or months of statistics and a table of the first labels."""
    series: list[tuple[str, int]] = []
    labels: dict[str, list[tuple[str, int]]] = {}
    for dimension, label, clicks in rows:
        if dimension in ("day", "month"):
            series.append((label, clicks))
        else:
            labels.setdefault(dimension, []).append((label, clicks))
    cells: list[tuple[str, str, str]] = []
    for dimension, counts in labels.items():
        cells += [(dimension, label, f"{clicks:,}") for label, clicks in counts[:LABELS]]
        if len(counts) > LABELS:
            cells.append((dimension, f"{len(counts) - LABELS:,} more", ""))
    inexact = [name for name in stats.__struct_fields__ if getattr(stats, name) is False]
    return (
        f"<p><b>{type(stats).__name__}</b>: {total:,} clicks{_period(series)}</p>{_bars(series)}"
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
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_long(member: object) -> bool:
    return isinstance(member, dict) and len(cast("dict[object, object]", member)) > ENTRIES


def _cut(member: Any) -> str:
    """Return the repr of a member; that of a long map shows its first entries."""
    if not _is_long(member):
        return repr(member)
    counts: dict[Any, Any] = member
    # The labels with most clicks; days and years from the first on.
    keys = sorted(counts, key=lambda key: -counts[key]) if isinstance(next(iter(counts)), str) else counts
    shown = ", ".join(f"{key!r}: {counts[key]!r}" for key in islice(keys, ENTRIES))
    return f"{{{shown}, ... {len(counts) - ENTRIES:,} more}}"


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"


def _period(series: Sequence[tuple[str, int]]) -> str:
    return f", {series[0][0]} to {series[-1][0]}" if series else ""


def _bars(series: Sequence[tuple[str, int]]) -> str:
    most = max((clicks for _, clicks in series), default=0)
    if most <= 0:
        return ""
    path = "".join(
        f"M{i},{HEIGHT}v{-HEIGHT * clicks / most:.1f}h.8V{HEIGHT}z"
        for i, (_, clicks) in enumerate(series)
        if clicks > 0
    )
    text = escape(f"Clicks{_period(series)}, at most {most:,}")
    return (
        f'<svg role="img" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {len(series)} {HEIGHT}" '
        f'preserveAspectRatio="none"><title>{text}</title><path fill="#3355d1" d="{path}"/></svg>'
    )
