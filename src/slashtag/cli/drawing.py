"""Tables drawn on a terminal, fitted to its width."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..export import Row, Table
from .errors import one_line

#: Characters that a text keeps at least.
LEAST = 12


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
    columns = [table.columns[table.names.index(name)] for name in names]
    # Text, not markup: what the service sends is data.
    cells = [
        [Text("" if row[n] is None else one_line(str(row[n]))) for row in rows]
        for n in map(table.names.index, names)
    ]
    widths: list[int | None] = [None] * len(columns)
    if shown:
        fitted = [
            max(map(cell_len, (column.name, *map(str, texts))))
            for column, texts in zip(columns, cells, strict=True)
        ]
        # Each column takes two characters for the space around it.
        excess = sum(fitted) - (console.width - 2 * len(columns) - 1)
        # The last texts are cut first: the first one names the record.
        for n, column in reversed(list(enumerate(columns))):
            if column.kind == "text" and excess > 0:
                cut = max(0, min(excess, fitted[n] - LEAST))
                fitted[n] -= cut
                excess -= cut
        widths = [*fitted]
    drawing = new_drawing()
    for column, width in zip(columns, widths, strict=True):
        drawing.add_column(
            column.name.replace("_", " "),
            justify="right" if column.kind in ("int", "float") else "left",
            overflow="ellipsis" if shown else "fold",
            no_wrap=bool(shown) or column.kind != "text",
            width=width,
        )
    for row in zip(*cells, strict=True):
        drawing.add_row(*row)
    console.print(drawing)
