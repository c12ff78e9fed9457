"""Shared part of `slashtag urls list` and `slashtag tags list`."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import typer

from .. import ShortUrl, Tag
from .._internal import Resource, many
from ..export import Row, Table
from .options import Connection, option
from .output import Output

T = TypeVar("T", ShortUrl, Tag)


@dataclass
class Listed(Output):
    """Options of which records are listed, and how."""

    orderby: Literal["date", "-date"] = option(
        "date", help="date: oldest first, complete even while links are added; -date: latest first."
    )
    limit: int | None = option(None, min=0, metavar="N", help="The most records to list; default: all.")
    columns: str | None = option(None, metavar="A,B,...", help="These columns only.")

    @cached_property
    def names(self) -> list[str]:
        """Names of --columns."""
        return [name.strip() for name in (self.columns or "").split(",") if name.strip()]


async def print_listing(
    connection: Connection,
    listed: Listed,
    records: Resource[T],
    row: Callable[[T], Row],
    table: Table,
    shown: Mapping[str, int],
    *,
    wanted: Callable[[T], bool] | None = None,
    is_last: Callable[[T], bool] | None = None,
) -> None:
    """Print the records of one kind that are `wanted`, page by page or as one table.

    After a page with a record that `is_last` no more are read. Raises BadParameter for a column that the
    table does not have.
    """
    names = listed.names or list(table.names)
    for name in names:
        if name not in table.names:
            raise typer.BadParameter(f"no column {name!r}; there are {', '.join(table.names)}")
    places = [table.names.index(name) for name in names]
    table = Table(tuple(table.columns[n] for n in places))
    count, left = 0, listed.limit
    # Rows that stream onto the terminal are their own progress.
    silent = listed.form not in (None, "table") and sys.stdout.isatty()
    shown = dict.fromkeys(listed.names, 0) or shown
    with listed.writer(table, shown) as writer, connection.bars() as start:

        def write(items: list[T]) -> None:
            nonlocal count
            count += len(items)
            writer.write(tuple(values[n] for n in places) for values in map(row, items))

        listing = records.list(orderby=listed.orderby, progress=None if silent else start("reading"))
        if left is not None and wanted is None:
            # Pages are then no larger than the limit.
            write(await listing.to_list(left))
        else:
            async with listing.pages() as pages:
                async for page in pages:
                    found = [item for item in page.items if wanted is None or wanted(item)][:left]
                    write(found)
                    left = None if left is None else left - len(found)
                    if left == 0 or (is_last is not None and any(map(is_last, page.items))):
                        break
    if listed.output is not None:
        connection.say(f"{many(count, 'row')} to {listed.output}; {connection.cost()}")
