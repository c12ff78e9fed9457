"""What `slashtag urls list` and `slashtag tags list` have in common."""

import sys
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import typer

from .._models import ShortUrl, Tag
from .._resources.listing import Collection
from ..export import Row
from .options import Connection
from .output import Format, Output, chosen

T = TypeVar("T", ShortUrl, Tag)

OrderBy = Annotated[
    Literal["date", "-date"],
    typer.Option(help="date: oldest first, complete also while links arrive; -date: latest first."),
]
Limit = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="At most so many; default: all.", show_default=False)
]


async def print_listing(
    connection: Connection,
    records: Collection[T],
    row: Callable[[T], Row],
    output: Callable[[Format], Output],
    *,
    orderby: str,
    limit: int | None,
    form: Format | None,
) -> None:
    """Print the records of one kind, page by page or as one table."""
    form = chosen(form)
    # Rows that stream onto the terminal are their own progress.
    silent = form != "table" and sys.stdout.isatty()
    out = output(form)
    with connection.bars() as start:
        listing = records.list(orderby=orderby, progress=None if silent else start("reading"))
        if limit is not None:
            out.write(map(row, await listing.to_list(limit)))
        else:
            async with listing.pages() as pages:
                async for page in pages:
                    out.write(map(row, page.items))
    out.close()
