"""The tables of a warehouse, and what may be done with their rows."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]
#: First and last day.
Span = tuple[date, date]

#: Columns of each table, with their types in DuckDB's SQL. Rows are named by the first one; tables of clicks
#: have a day, or the first day of a month, as the second.
TABLES: dict[str, dict[str, str]] = {
    "links": {
        "id": "BIGINT",
        "slashtag": "TEXT",
        "short_url": "TEXT",
        "destination": "TEXT",
        "hits": "BIGINT",
        "redirect_code": "BIGINT",
        "tag_id": "BIGINT",
        "created_at": "TIMESTAMP",
        "updated_at": "TIMESTAMP",
        "counted": "BOOLEAN",
        "gone_at": "TIMESTAMP",
    },
    "tags": {"id": "BIGINT", "name": "TEXT", "description": "TEXT", "created_at": "TIMESTAMP"},
    "clicks_daily": {"slashtag": "TEXT", "date": "DATE", "clicks": "BIGINT"},
    "clicks_by_tag": {"tag": "TEXT", "date": "DATE", "clicks": "BIGINT"},
    "clicks_by_dimension": {
        "slashtag": "TEXT",
        "month": "DATE",
        "dimension": "TEXT",
        "label": "TEXT",
        "clicks": "BIGINT",
    },
    "loads": {
        "loaded_at": "TIMESTAMP",
        "account": "TEXT",
        "timezone": "TEXT",
        "since": "DATE",
        "through": "DATE",
        "by_tag": "BOOLEAN",
        "dimensions": "TEXT",
        "complete": "BOOLEAN",
        "missing_links": "BIGINT",
        "missing": "TEXT",
        "requests": "BIGINT",
        "seconds": "DOUBLE",
        "version": "TEXT",
        "format": "BIGINT",
    },
}
#: Columns that tell rows apart.
KEYS = {
    "links": ("id",),
    "tags": ("id",),
    "clicks_daily": ("slashtag", "date"),
    "clicks_by_tag": ("tag", "date"),
    "clicks_by_dimension": ("slashtag", "month", "dimension", "label"),
    "loads": ("loaded_at",),
}


class Replacement(NamedTuple):
    """Rows of a table with one of `names` (None: all), on the days of a span (None: all), and new rows."""

    table: str
    names: Collection[Any] | None
    span: Span | None
    rows: Sequence[Row]


class Store(Protocol):
    """Where tables are: a database, or files."""

    def open(self) -> None:
        """Connect, make tables that are missing, and keep other loads away."""

    def close(self) -> None:
        """Let go of it."""

    def rows(self, table: str, span: Span | None = None, names: Collection[Any] | None = None) -> list[Row]:
        """Return the rows of a table, or those of a span and of some names."""
        ...

    def replace(self, changes: Sequence[Replacement]) -> None:
        """Replace rows: all of them or, in a database, none."""
