"""The tables of a warehouse, and what is replaced in them."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any, NamedTuple

Row = tuple[Any, ...]
#: First and last day.
Span = tuple[date, date]
#: Name of the table of labels.
BY_DIMENSION = "clicks_by_dimension"

_COLUMNS = """
links: id BIGINT, slashtag TEXT, short_url TEXT, destination TEXT, hits BIGINT, redirect_code BIGINT,
    tag_id BIGINT, created_at TIMESTAMP, updated_at TIMESTAMP, counted BOOLEAN, gone_at TIMESTAMP
tags: id BIGINT, name TEXT, description TEXT, created_at TIMESTAMP
clicks_daily: slashtag TEXT, date DATE, clicks BIGINT
clicks_by_tag: tag TEXT, date DATE, clicks BIGINT
clicks_by_dimension: slashtag TEXT, month DATE, dimension TEXT, label TEXT, clicks BIGINT
loads: loaded_at TIMESTAMP, timezone TEXT, since DATE, through DATE, by_tag BOOLEAN, dimensions TEXT,
    complete BOOLEAN, missing_links BIGINT, missing TEXT, requests BIGINT, seconds DOUBLE,
    version TEXT, format BIGINT
"""
#: Columns of each table, with their types in DuckDB's SQL. Rows are named by the first column. Tables of
#: clicks have a day, or the first one of a month, as the second column, and the clicks as the last.
TABLES: dict[str, dict[str, str]] = {}
for _line in _COLUMNS.replace("\n    ", " ").strip().splitlines():
    _table, _, _columns = _line.partition(": ")
    for _column in _columns.split(", "):
        _name, _kind = _column.split()
        TABLES.setdefault(_table, {})[_name] = _kind


class Replacement(NamedTuple):
    """New rows in place of those with one of `names` (None: all), on the days of a span (None: all)."""

    table: str
    names: Collection[Any] | None
    span: Span | None
    rows: Sequence[Row]
