"""The tables of a warehouse, and what is replaced in them."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any, NamedTuple, cast

from .._arrow import Kind

Row = tuple[Any, ...]
#: First and last day.
Span = tuple[date, date]
#: Name of the table of labels.
BY_DIMENSION = "clicks_by_dimension"

_COLUMNS = """
links: id int, slashtag text, short_url text, destination text, hits int, redirect_code int, tag_id int,
    created_at timestamp, updated_at timestamp, counted bool, gone_at timestamp
tags: id int, name text, description text, created_at timestamp
clicks_daily: slashtag text, date date, clicks int
clicks_by_tag: tag text, date date, clicks int
clicks_by_dimension: slashtag text, month date, dimension text, label text, clicks int
loads: loaded_at timestamp, timezone text, since date, through date, by_tag bool, dimensions text,
    complete bool, missing text, version text, format int
"""
#: Columns of each table, with the kind of their values. Rows are named by the first column. Tables of clicks
#: have a day, or the first one of a month, as the second column, and the clicks as the last. Columns of
#: links, but for the last two, and of tags are members of what is listed.
TABLES: dict[str, dict[str, Kind]] = {}
for _line in _COLUMNS.replace("\n    ", " ").strip().splitlines():
    _table, _, _columns = _line.partition(": ")
    TABLES[_table] = dict(cast(Any, map(str.split, _columns.split(", "))))


class Replacement(NamedTuple):
    """New rows in place of those with one of `names` (None: all), on the days of a span (None: all)."""

    table: str
    names: Collection[Any] | None
    span: Span | None
    rows: Sequence[Row]
