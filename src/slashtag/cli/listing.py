"""Shared part of `slashtag urls list` and `slashtag tags list`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import typer

from .. import ShortUrl, Tag
from .._internal import Resource
from ..export import Row, Table
from .options import Connection
from .output import FormatOption, Output, chosen

T = TypeVar("T", ShortUrl, Tag)


@dataclass(frozen=True)
class Listed:
    """Options of which records are listed, and how."""

    orderby: Annotated[
        Literal["date", "-date"],
        typer.Option(help="date: oldest first, complete even while links are added; -date: latest first."),
    ] = "date"
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="The most records to list; default: all.", show_default=False),
    ] = None
    form: FormatOption = None
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="These columns and no others.", show_default=False),
    ] = None


async def print_listing(
    connection: Connection,
    listed: Listed,
    records: Resource[T],
    row: Callable[[T], Row],
    table: Table,
    drawn: Sequence[str],
    spare: Sequence[str],
) -> None:
    """Print the records of one kind, page by page or as one table."""
    form = chosen(listed.form)
    columns = [name.strip() for name in (listed.columns or "").split(",") if name.strip()]
    for name in columns:
        if name not in table.names:
            raise typer.BadParameter(f"no column {name!r}; there are {', '.join(table.names)}")
    # Rows that stream onto the terminal are their own progress.
    silent = form != "table" and sys.stdout.isatty()
    out = Output(table, form, drawn=drawn, spare=spare, columns=columns)
    with connection.bars() as start:
        listing = records.list(orderby=listed.orderby, progress=None if silent else start("reading"))
        if listed.limit is not None:
            out.write(map(row, await listing.to_list(listed.limit)))
        else:
            async with listing.pages() as pages:
                async for page in pages:
                    out.write(map(row, page.items))
    out.close()
