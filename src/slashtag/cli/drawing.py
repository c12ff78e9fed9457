"""Tables drawn on a terminal, fitted to its width."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..export import Row, Table
from .errors import one_line


def new_drawing() -> RichTable:
    """Return an empty table in the style that all share."""
    return RichTable(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def draw_rows(table: Table, rows: Sequence[Row], shown: Mapping[str, int] | None) -> None:
    """Print rows on stdout.

    `shown` has the columns to draw, each with the width of a terminal that has room for it. Every row is
    then one line, its texts cut where they do not fit. Without it all columns are drawn, and texts wrap.
    """
    console = Console(highlight=False)
    names = [name for name in shown or table.names if not shown or shown[name] <= console.width]
    positions = [table.names.index(name) for name in names]
    drawing = new_drawing()
    for column in (table.columns[n] for n in positions):
        drawing.add_column(
            column.name.replace("_", " "),
            justify="right" if column.kind in ("int", "float") else "left",
            # Of the other columns, rich makes the widest ones narrower.
            no_wrap=column.kind != "text",
        )
    for row in rows:
        # Text, not markup: what the service sends is data.
        texts = ["" if row[n] is None else one_line(str(row[n])) for n in positions]
        overflow = "ellipsis" if shown else "fold"
        drawing.add_row(*(Text(text, no_wrap=bool(shown), overflow=overflow) for text in texts))
    console.print(drawing)
