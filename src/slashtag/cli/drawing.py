"""Tables drawn on a terminal, fitted to its width."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ..export import Row, Table
from .errors import one_line

#: Characters that a text keeps at least, and those for which other columns are left out.
LEAST, FIRST, OTHERS = 12, 40, 24


def new_drawing() -> RichTable:
    """Return an empty table in the style that all share."""
    return RichTable(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


class Drawing:
    """Table of rows, with those of its columns that a terminal has room for; see `Output`."""

    def __init__(self, table: Table, shown: Sequence[str], spare: Sequence[str] | None) -> None:
        self._table = table
        self._shown = [table.names.index(name) for name in shown]
        self._spare = None if spare is None else [table.names.index(name) for name in spare]
        self.rows: list[Row] = []

    def print(self) -> None:
        """Print it on stdout."""
        console = Console(highlight=False)
        columns = self._table.columns
        cells = {n: [_cell(row[n]) for row in self.rows] for n in self._shown}
        widths = {n: max(map(cell_len, (columns[n].name, *map(str, texts)))) for n, texts in cells.items()}
        texts = [n for n in self._shown if columns[n].kind == "text"]
        if self._spare is None:
            # Only the last column wraps, unless that leaves it too narrow.
            rest = _room(console, widths) - sum(widths.values()) + widths[self._shown[-1]]
            wrapped = texts if rest < min(LEAST, widths[self._shown[-1]]) else self._shown[-1:]
        else:
            wrapped = []
            self._leave_out(console, widths, texts)
            _cut(sum(widths.values()) - _room(console, widths), widths, texts)
        drawing = new_drawing()
        for n in widths:
            drawing.add_column(
                columns[n].name.replace("_", " "),
                justify="right" if columns[n].kind in ("int", "float") else "left",
                overflow="fold" if self._spare is None else "ellipsis",
                no_wrap=n not in wrapped,
                width=None if self._spare is None else widths[n],
            )
        for row in zip(*(cells[n] for n in widths), strict=True):
            drawing.add_row(*row)
        console.print(drawing)

    def _leave_out(self, console: Console, widths: dict[int, int], texts: list[int]) -> None:
        """Remove spare columns from the widths until the others fit, with texts cut to a readable width."""
        readable = {n: FIRST if n == texts[0] else OTHERS for n in texts}
        for n in self._spare or ():
            least = sum(min(width, readable.get(m, width)) for m, width in widths.items())
            if least <= _room(console, widths):
                return
            del widths[n]


def _room(console: Console, widths: dict[int, int]) -> int:
    """Return the characters that cells have; each column takes two for the space around it."""
    return console.width - 2 * len(widths) - 1


def _cut(excess: int, widths: dict[int, int], texts: list[int]) -> None:
    """Narrow texts, the last ones first, until nothing is too wide; the first names the record."""
    for n in reversed(texts):
        cut = max(0, min(excess, widths.get(n, 0) - LEAST))
        if cut:
            widths[n] -= cut
            excess -= cut


def _cell(value: object) -> Text:
    # Text, not markup: what the service sends is data.
    return Text("" if value is None else one_line(str(value)))
