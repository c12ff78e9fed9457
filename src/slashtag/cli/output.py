"""Rows of commands, on stdout or in a file, and tables and bar charts that fit a terminal."""

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from typer import Option

from .. import InvalidRequestError
from .._arrow import Kind
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
)
from .stderr import one_line

_option = partial(Option, rich_help_panel="The output")
#: The widest bar, and the widest cell of the first column.
BAR_WIDTH, MOST_WIDTH = 30, 40
#: The kinds of columns that are no texts.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("clicks", "clicks_before", "days", "id", "line", "held", "counted", "difference"), "int"
    ),
    **dict.fromkeys(("percent", "change_percent", "clicks_per_day"), "float"),
    **dict.fromkeys(("day", "week", "date"), "date"),
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
        help=f"Write a file: {', '.join(FORMATS)}.",
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

    @property
    def place(self) -> str:
        """Where the rows go, in words."""
        return "stdout" if self.file is None else str(self.file)

    @contextmanager
    def writer(
        self,
        table: Table,
        drawn: Collection[str] = (),
        before: Callable[[], object] = lambda: None,
    ) -> Generator[Writer, None, None]:
        """Open the file or stdout for rows; a table on stdout is drawn at the end, with the columns `drawn`.

        `before` is called before rows come to stdout: it ends progress, which a terminal may show.
        """
        if self.file is not None:
            with open_table(self.file, table) as file:
                yield file
            return
        if self.form == "table":
            writer: Writer = _Drawing(table, drawn)
        else:
            file_like: Any = Stdout(before)
            writer = FORMATS[f".{self.form}"](file_like, table)
        yield writer
        writer.close()
        # A full disk is reported now, not after a summary.
        sys.stdout.flush()

    def print(
        self,
        table: Table,
        rows: Iterable[Row],
        drawn: Collection[str] = (),
        about: About | None = None,
    ) -> str:
        """Write rows that are all there, and `about` what they say of themselves.

        Returns what a file has got, for a summary; empty for stdout.
        """
        rows = list(rows)
        with self.writer(table, drawn) as writer:
            writer.about = about
            writer.write(rows)
        if self.file is None:
            return ""
        return f"{many(len(rows), 'row')} to {self.place}; " + (f"{about}; " if about else "")


def table_of(names: Iterable[str]) -> Table:
    """Return the table of some columns, each of the kind that its name has."""
    return Table(tuple(Column(name, KINDS.get(name, "text")) for name in names))


class Stdout:
    """Stdout as a binary file that is safe to write data of the service to, as whole lines of UTF-8.

    On a terminal, which a destination of a link could steer, U+FFFD stands for what cannot be printed.
    """

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self._before = before

    def write(self, data: bytes) -> None:
        """Write lines; what `before` does comes first."""
        self._before()
        if sys.stdout.isatty():
            text = data.decode()
            data = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text).encode()
        sys.stdout.buffer.write(data)


class _Drawing:
    """Writer of a table on a terminal.

    With columns to be drawn each row is one line, its texts cut where they do not fit, with a bar as long as
    its clicks. Without, all columns are drawn, and texts wrap.
    """

    about: About | None = None

    def __init__(self, table: Table, drawn: Collection[str]) -> None:
        self._table, self._drawn, self._rows = table, drawn, list[Row]()

    def write(self, rows: Iterable[Row], /) -> None:
        """Keep rows until the table is closed."""
        self._rows.extend(rows)

    def close(self) -> None:
        """Print the table."""
        names, drawing = self._table.names, RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        columns = [column for column in self._table.columns if column.name in (self._drawn or names)]
        for n, column in enumerate(columns):
            # Rich makes texts narrower, but neither numbers nor what names the record.
            is_whole = column.kind != "text" or (n == 0 and bool(self._drawn))
            drawing.add_column(
                column.name.replace("_", "\n"),
                justify="right" if column.kind in ("int", "float") else "left",
                no_wrap=is_whole,
                max_width=MOST_WIDTH if n == 0 else None,
            )
        bars: list[Bar] = []
        if self._drawn and "clicks" in names:
            drawing.add_column(max_width=BAR_WIDTH)
            bars = _bars(names, self._rows)
        for n, row in enumerate(self._rows):
            # Text, not markup: what the service sends is data.
            cells = [
                Text(_cell(name, value), no_wrap=bool(self._drawn), overflow="ellipsis")
                for name, value in zip(names, row, strict=True)
                if name in (self._drawn or names)
            ]
            drawing.add_row(*cells, *bars[n : n + 1])
        Console(highlight=False).print(drawing)


def _bars(names: Sequence[str], rows: Iterable[Row]) -> list[Bar]:
    """Return a bar for the clicks of each row; those of a dimension have a scale of their own."""
    clicks: list[Any] = [
        (row[0] if names[0] == "dimension" else "", row[names.index("clicks")]) for row in rows
    ]
    longest = dict(sorted(clicks))  # the last of a dimension counts
    return [Bar(longest[name], 0, n, color="cyan") for name, n in clicks]


def _cell(name: str, value: object) -> str:
    """Return a value as one line; counts are easier to read in groups of digits, ids are copied."""
    if isinstance(value, int) and name.startswith(("clicks", "hits")):
        return f"{value:,}"
    if isinstance(value, date) and name in ("day", "week"):
        return f"{value:%Y-%m-%d %a}"
    return "" if value is None else one_line(str(value))
