"""Rows of commands, on stdout or in a file, and tables and bar charts that fit a terminal."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from typer import Option

from .. import InvalidRequestError
from .._arrow import Kind
from .._files import object_url
from .._wording import many
from ..tables import (
    FORMATS,
    About,
    Column,
    Row,
    Table,
    TextFormat,
    Writer,
    check_table_path,
    open_table,
    open_writer,
)
from .stderr import one_line

_option = partial(Option, rich_help_panel="The output")
#: Columns that the first text of a row leaves to the others, and the width of a bar.
ROOM_FOR_OTHERS, BAR_WIDTH = 24, 30
#: The kinds of columns that are no texts.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("clicks", "clicks_before", "days", "id"), "int"),
    **dict.fromkeys(("percent", "change_percent", "clicks_per_day"), "float"),
    **dict.fromkeys(("day", "week"), "date"),
}


@dataclass
class OutputOptions:
    """Options of where the rows of a command go, and in which form."""

    form: Literal["table", TextFormat] | None = _option(
        None, "--format", help="Form of stdout. Default: table on a terminal, else jsonl."
    )
    file: Path | None = _option(
        None,
        "--output",
        "-o",
        metavar="FILE",
        help=f"Write a file, or an object of a bucket: {', '.join(FORMATS)}.",
    )

    def __post_init__(self) -> None:
        """Report whatever is wrong with the file before anything is sent."""
        if self.file is None:
            self.form = self.form or ("table" if sys.stdout.isatty() else "jsonl")
        elif self.form is not None and self.file.suffix.lower() != f".{self.form}":
            raise InvalidRequestError(
                f"--format {self.form}, and the name of {self.file} says another format: leave out --format"
            )
        else:
            check_table_path(self.file)
        #: What `print` wrote to the file, for a summary; empty for stdout.
        self.written = ""

    @contextmanager
    def writer(
        self,
        table: Table,
        widths: Mapping[str, int] | None = None,
        before: Callable[[], object] | None = None,
    ) -> Generator[Writer, None, None]:
        """Open the file or stdout for rows; a table on stdout is drawn at the end, see `draw_rows`.

        `before` is called before rows come to stdout: it ends progress, which a terminal may show.
        """
        if self.file is not None:
            with open_table(self.file, table) as file:
                yield file
            return
        rows: list[Row] = []
        writer: Any = SimpleNamespace(write=rows.extend, close=lambda: draw_rows(table, rows, widths))
        if self.form != "table":
            # Opened with the first rows: a header too is written only then.
            opened = cache(lambda: open_writer(f".{self.form}", stdout(before), table))

            def write(rows: Sequence[Row]) -> None:
                opened().write(rows)

            writer = SimpleNamespace(write=write, close=lambda: opened().close())
        yield writer
        writer.close()
        # A full disk is reported now, not after a summary.
        sys.stdout.flush()

    def print(
        self,
        table: Table,
        rows: Iterable[Row],
        widths: Mapping[str, int] | None = None,
        about: About | None = None,
    ) -> None:
        """Write rows that are all there, and `about` what they say of themselves."""
        rows = list(rows)
        with self.writer(table, widths) as writer:
            writer.about = about
            writer.write(rows)
        if self.file is not None:
            self.written = f"{many(len(rows), 'row')} to {object_url(self.file) or self.file}; "


def table_of(names: Iterable[str], title: str) -> Table:
    """Return the table of some columns, each of the kind that its name has."""
    return Table(tuple(Column(name, KINDS.get(name, "text")) for name in names), title)


def stdout(before: Callable[[], object] | None = None) -> Any:
    """Return stdout as a binary file that is safe to write data of the service to, as whole lines of UTF-8.

    On a terminal, which a destination of a link could steer, JSON's escapes stand for what cannot be printed.
    `before` is called before data is written.
    """
    file, is_terminal = sys.stdout.buffer, sys.stdout.isatty()

    def write(data: bytes) -> None:
        if data and before is not None:
            before()
        if is_terminal:
            text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in data.decode())
            # JSON leaves DEL as it is.
            data = text.replace("\x7f", r"\u007f").encode()
        file.write(data)

    return SimpleNamespace(write=write)


def draw_rows(table: Table, rows: Sequence[Row], widths: Mapping[str, int] | None) -> None:
    """Print rows on stdout.

    `widths` has the columns to draw, each with the width of a terminal that has room for it. Each row is then
    one line, its texts cut where they do not fit, with a bar as long as its clicks. Without it all columns
    are drawn, and texts wrap.
    """
    console, names = Console(highlight=False), table.names
    chosen = [name for name, width in widths.items() if width <= console.width] if widths else names
    positions = [names.index(name) for name in chosen]
    drawing = RichTable(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    columns = [table.columns[n] for n in positions]
    first_text = next((column for column in columns if column.kind == "text"), None)
    for column in columns:
        is_cut = bool(widths) and column is first_text
        drawing.add_column(
            column.name.replace("_", " "),
            justify="right" if column.kind in ("int", "float") else "left",
            # Of the other columns, rich makes the widest ones narrower. The first text names the record.
            overflow="ellipsis" if widths else "fold",
            no_wrap=bool(widths) or column.kind != "text",
            max_width=console.width - ROOM_FOR_OTHERS if is_cut else None,
        )
    bars: list[tuple[Bar, ...]] = [()] * len(rows)
    if widths and "clicks" in names:
        drawing.add_column(max_width=BAR_WIDTH)
        bars = [(bar,) for bar in _bars([row[: names.index("clicks") + 1] for row in rows])]
    for row, bar in zip(rows, bars, strict=True):
        # Text, not markup: what the service sends is data.
        drawing.add_row(*(Text(_cell(names[n], row[n])) for n in positions), *bar)
    console.print(drawing)


def _bars(rows: Sequence[Sequence[Any]]) -> Iterator[Bar]:
    """Yield a bar for the clicks at the end of each row; those of a dimension have a scale of their own."""
    longest = Counter[object]()
    for name, *_, clicks in rows:
        longest[name] = max(longest[name], clicks)
    is_by_name = len(longest) < len(rows)
    for name, *_, clicks in rows:
        yield Bar(longest[name] if is_by_name else max(longest.values()), 0, clicks, color="cyan")


def _cell(name: str, value: object) -> str:
    """Return a value as one line; counts are easier to read in groups of digits, ids are copied."""
    if isinstance(value, int) and name.startswith(("clicks", "hits")):
        return f"{value:,}"
    if isinstance(value, date) and name in ("day", "week"):
        return f"{value:%Y-%m-%d %a}"
    return "" if value is None else one_line(str(value))
