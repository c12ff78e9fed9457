"""`slashtag diff`: what differs between two listings or two exports."""

from collections import Counter
from functools import partial
from pathlib import Path

from msgspec.structs import astuple
from typer import Argument, Option

from ...export import Column, RowDifference, Table, compare_files
from ..output import Output
from ..run import command
from ..stderr import Lines

File = partial(Argument, exists=True, dir_okay=False)
DIFFERENCES = Table(tuple(map(Column, RowDifference.__struct_fields__)))


@command
def diff(
    output: Output,
    old: Path = File(metavar="OLD", help="The earlier file."),
    new: Path = File(metavar="NEW", help="The later file."),
    columns: str | None = Option(
        None, metavar="A,B,...", help="Compare these columns; default: all but hits and updated_at."
    ),
) -> None:
    """Show which rows of two listings or two exports were added, are gone or changed.

    The formats may differ. Nothing is sent.
    """
    names = [name.strip() for name in (columns or "").split(",") if name.strip()]
    found = list(compare_files(old, new, names))
    output.print(DIFFERENCES, (astuple(each) for each in found))
    rows = {(each.change, each.key) for each in found}
    count = Counter(change for change, _ in rows)
    Lines().print(f"{count['added']:,} added, {count['gone']:,} gone, {count['changed']:,} changed")
