"""How commands show things: data on stdout as a table, JSON Lines or CSV, progress on stderr."""

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Drawing
from rich.text import Text

from .._resources.listing import Progress
from ..export import Row, Table, open_writer
from .errors import one_line

Format = Literal["table", "jsonl", "csv"]

FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Form of the output. Default: table on a terminal, jsonl elsewhere.",
        show_default=False,
    ),
]


#: Characters that the last column keeps while the others are drawn in one line.
_LAST = 12


def chosen(form: Format | None) -> Format:
    """Return the form asked for, or the one that suits whoever reads."""
    return form or ("table" if sys.stdout.isatty() else "jsonl")


class Output:
    """Print the rows of a table: as they come, or drawn when all are there.

    A drawing has the columns `drawn`, of which the last gives way where the terminal is narrow, and all
    texts where that would hide anything.
    """

    def __init__(self, table: Table, form: Format, *, drawn: Sequence[str] = ()) -> None:
        self._drawn = [table.names.index(name) for name in drawn or table.names]
        self._drawing: Drawing | None = None
        if form != "table":
            self._writer = open_writer(f".{form}", sys.stdout.buffer, table)
            return
        self._drawing = new_drawing()
        self._texts = [n for n, column in enumerate(self._drawn) if table.columns[column].kind == "text"]
        for n in self._drawn:
            column = table.columns[n]
            self._drawing.add_column(
                column.name.replace("_", " "),
                justify="right" if column.kind == "int" else "left",
                overflow="fold",
                no_wrap=n != self._drawn[-1],
            )

    def write(self, rows: Iterable[Row]) -> None:
        """Take more rows."""
        if self._drawing is None:
            self._writer.write(rows)
            return
        for row in rows:
            self._drawing.add_row(*(_cell(row[n]) for n in self._drawn))

    def close(self) -> None:
        """Print what a form keeps to the end."""
        if self._drawing is None:
            self._writer.close()
            return
        console = Console(highlight=False)
        columns = self._drawing.columns
        widths = [max(cell_len(str(cell)) for cell in (column.header, *column.cells)) for column in columns]
        if sum(widths[:-1]) + len(columns) + min(widths[-1], _LAST) > console.width:
            for n in self._texts:
                columns[n].no_wrap = False
        console.print(self._drawing)


def new_drawing() -> Drawing:
    """Begin a table in the style of all of them."""
    return Drawing(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def _cell(value: object) -> Text:
    # Text, not markup: what the service tells is data.
    return Text("" if value is None else one_line(str(value)))


@contextmanager
def bars(*, shown: bool = True) -> Generator[Callable[[str], Progress], None, None]:
    """Show progress on stderr where it is a terminal; give what starts a bar and returns its callback."""
    console = Console(stderr=True)
    display = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )

    def start(name: str) -> Progress:
        for earlier in display.tasks:
            # A bar whose end nobody could know has reached it when the next one starts.
            display.update(earlier.id, total=earlier.completed)
        task = display.add_task(name, total=None, count="")

        def report(done: int, total: int | None) -> None:
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            display.update(task, completed=done, total=total, count=count)

        return report

    with display:
        yield start
