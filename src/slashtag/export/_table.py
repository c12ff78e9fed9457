"""The tables that are exported: their columns, and the rows of links, tags and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from .. import RangeStats, ShortUrl, Tag

Kind = Literal["text", "int", "date", "timestamp", "float"]
Value = str | int | float | date | datetime | None
Row = tuple[Value, ...]


class Column(Struct, frozen=True):
    """A column: its name and the kind of its values."""

    name: str
    kind: Kind = "text"


class Table(Struct, frozen=True):
    """The columns of a table."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)


URLS = Table(
    (
        Column("id", "int"),
        Column("slashtag"),
        Column("short_url"),
        Column("destination"),
        Column("hits", "int"),
        Column("redirect_code", "int"),
        Column("tag_id", "int"),
        Column("created_at", "timestamp"),
        Column("updated_at", "timestamp"),
    )
)
NAMED_URLS = Table((*URLS.columns, Column("tag_name")))
TAGS = Table(
    (Column("id", "int"), Column("name"), Column("description"), Column("created_at", "timestamp")),
)
#: Returns the row of a link, or of a tag.
url_row: Callable[[ShortUrl], Row] = attrgetter(*URLS.names)
tag_row: Callable[[Tag], Row] = attrgetter(*TAGS.names)
_DAY = (Column("date", "date"), Column("clicks", "int"))
_LABELS = (
    Column("window_start", "date"),
    Column("window_end", "date"),
    Column("dimension"),
    Column("label"),
    Column("clicks", "int"),
)


def clicks_table(by: str | None) -> Table:
    """Return the table of clicks by day; `by` names the first column ("slashtag", "tag"), None for a sum."""
    return Table(((Column(by),) if by else ()) + _DAY)


def dimensions_table(by: str | None) -> Table:
    """Return the table of clicks by dimension and label; `by` as in `clicks_table`."""
    return Table(((Column(by),) if by else ()) + _LABELS)


def named_url_row(url: ShortUrl, names: Mapping[int, str | None]) -> Row:
    """Return the row of a link with the name of its tag, None where it has none."""
    return (*url_row(url), names.get(url.tag_id) if url.tag_id is not None else None)


def clicks_rows(stats: RangeStats, *of: str) -> Iterator[Row]:
    """Yield a row for every day of the range, zeros too; `of` is the slashtag or tag, if any."""
    for day, clicks in stats.clicks.items():
        yield (*of, day, clicks)


def dimension_rows(stats: RangeStats, start: date, end: date, *of: str) -> Iterator[Row]:
    """Yield a row for every label of every dimension but the days."""
    for dimension, label, clicks in stats.rows():
        if dimension != "day":
            yield (*of, start, end, dimension, label, clicks)
