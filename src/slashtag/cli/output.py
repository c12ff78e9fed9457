"""Rows of commands, on stdout or in a file, and tables and bar charts that fit a terminal."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from stat import S_ISREG
from types import SimpleNamespace
from typing import Any, Literal

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from typer import Option

from .. import InvalidRequestError, PeriodStats, RangeStats, Statistics
from ..tables import FORMATS, Row, Table, TextFormat, Writer, check_table_path, open_table, open_writer
from .stderr import one_line

_option = partial(Option, rich_help_panel="The output")
DAY = timedelta(days=1)
#: Characters that the first text of a row leaves to the other columns.
ROOM_FOR_OTHERS = 24
#: The longest range drawn by day; longer ones are drawn by month.
MOST_DAYS = 31
#: Labels drawn of a dimension; the others are summed in one line.
MOST_LABELS = 8
BAR_WIDTH = 30


@dataclass
class OutputOptions:
    """Options of where the rows of a command go, and in which form."""

    form: Literal["table", TextFormat] | None = _option(
        None, "--format", help="Form of what goes to stdout. Default: table on a terminal, jsonl elsewhere."
    )
    file: Path | None = _option(
        None,
        "--output",
        "-o",
        metavar="FILE",
        help=f"Write to a file, or an object (s3://, gs://, az://), its name in {', '.join(FORMATS)}.",
    )

    def __post_init__(self) -> None:
        """Report whatever is wrong with the file, or with stdout, before anything is sent."""
        if self.file is None:
            try:
                os.write(1, b"")
            except OSError as error:
                raise OSError(error.errno, error.strerror, "stdout") from None
            self.form = self.form or ("table" if sys.stdout.isatty() else "jsonl")
        elif self.form is not None and self.file.suffix.lower() != f".{self.form}":
            raise InvalidRequestError(
                f"--format {self.form}, and the name of {self.file} says another format: leave out --format"
            )
        else:
            check_table_path(self.file)

    @contextmanager
    def writer(
        self,
        table: Table,
        widths: Mapping[str, int] | None = None,
        before: Callable[[], object] | None = None,
    ) -> Generator[Writer, None, None]:
        """Open the file or stdout for rows; a table on stdout is drawn at the end, see `draw_rows`.

        `before` is called before rows come to stdout, if a terminal may show them: it ends progress there.
        """
        if self.file is not None:
            with open_table(self.file, table) as file:
                yield file
            return
        rows: list[Row] = []
        nothing: Callable[..., object] = bool  # text has no place for what describes it
        writer: Any = SimpleNamespace(
            write=rows.extend, describe=nothing, close=lambda: draw_rows(table, rows, widths)
        )
        if self.form != "table":
            # Opened with the first rows: a header too is written only then.
            opened = cache(lambda: open_writer(f".{self.form}", stdout(before), table))

            def write(rows: Iterable[Row]) -> None:
                opened().write(rows)

            writer = SimpleNamespace(write=write, describe=nothing, close=lambda: opened().close())
        yield writer
        writer.close()
        # A full disk is reported now, not after a summary.
        sys.stdout.flush()

    def print(self, table: Table, rows: Iterable[Row], widths: Mapping[str, int] | None = None) -> None:
        """Write rows that are all there; for a table see `draw_rows`."""
        with self.writer(table, widths) as writer:
            writer.write(rows)


def stdout(before: Callable[[], object] | None) -> Any:
    """Return stdout as a binary file that is safe to write data of the service to, as whole lines of UTF-8.

    On a terminal, which a destination of a link could steer, JSON's escapes stand for what cannot be printed.
    `before` is called before data is written, unless that goes to a regular file: what reads a pipe may show
    it on the terminal.
    """
    file, is_terminal = sys.stdout.buffer, sys.stdout.isatty()
    if before is None or S_ISREG(os.fstat(1).st_mode):
        before = bool  # does nothing

    def write(data: bytes) -> None:
        if data:
            before()
        if is_terminal:
            text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in data.decode())
            # JSON leaves DEL as it is.
            data = text.replace("\x7f", r"\u007f").encode()
        file.write(data)

    return SimpleNamespace(write=write)


def _new_drawing() -> RichTable:
    return RichTable(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def draw_rows(table: Table, rows: Sequence[Row], widths: Mapping[str, int] | None) -> None:
    """Print rows on stdout.

    `widths` has the columns to draw, each with the width of a terminal that has room for it. Each row is then
    one line, its texts cut where they do not fit. Without it all columns are drawn, and texts wrap.
    """
    console = Console(highlight=False)
    names = [name for name, width in widths.items() if width <= console.width] if widths else table.names
    positions = [table.names.index(name) for name in names]
    drawing = _new_drawing()
    columns = [table.columns[n] for n in positions]
    first_text = next((column for column in columns if column.kind == "text"), None)
    for column in columns:
        is_cut = bool(widths) and column is first_text
        drawing.add_column(
            column.name.replace("_", " "),
            justify="right" if column.kind in ("int", "float") else "left",
            # Of the other columns, rich makes the widest ones narrower. The first text names the record.
            overflow="ellipsis" if widths else "fold",
            no_wrap=column.kind != "text" or is_cut,
            max_width=console.width - ROOM_FOR_OTHERS if is_cut else None,
        )
    for row in rows:
        # Text, not markup: what the service sends is data.
        texts = ["" if row[n] is None else one_line(str(row[n])) for n in positions]
        drawing.add_row(*(Text(text, no_wrap=bool(widths)) for text in texts))
    console.print(drawing)


def draw(stats: Statistics, counts: Mapping[str, int] | None = None) -> None:
    """Print the clicks by day or month and the largest labels of each dimension, with bars and a total.

    With `counts`, the clicks of every label of one dimension, print these only.
    """
    # Bars give way on a narrow terminal.
    console, table = Console(highlight=False, markup=False), _new_drawing()
    table.add_column(no_wrap=True, max_width=console.width - ROOM_FOR_OTHERS)
    table.add_column("clicks", justify="right", no_wrap=True)
    table.add_column("%", justify="right", no_wrap=True)
    table.add_column(max_width=BAR_WIDTH)
    times = labels(stats, "month") if counts is None else counts
    if counts is None and isinstance(stats, RangeStats) and len(stats.clicks) <= MOST_DAYS:
        times = {f"{day} {day:%a}": n for day, n in sorted(stats.clicks.items())}
    sections = {"": times}
    for dimension in stats.DIMENSIONS.values() if counts is None else ():
        if dimension != "day":
            sections[dimension] = labels(stats, dimension)
    for dimension, clicks in sections.items():
        longest = max(clicks.values(), default=0) or 1
        rows: list[tuple[str, int, Bar | None]] = [
            (label, n, Bar(longest, 0, n, color="cyan")) for label, n in clicks.items()
        ]
        if dimension and rows:
            table.add_row(Text(dimension, "bold"))
            if len(rows) > MOST_LABELS + 1:
                rest = rows[MOST_LABELS:]
                # Without a bar, which would dwarf the others.
                rows[MOST_LABELS:] = [(f"{len(rest)} others", sum(n for _, n, _ in rest), None)]
        for label, n, bar in rows:
            share = f"{percent(n, stats.total):.1f}" if stats.total else ""
            table.add_row("  " * bool(dimension) + one_line(label), f"{n:,}", share, bar)
        table.add_section()
    if counts is None and isinstance(stats, PeriodStats):
        bound = "" if stats.unique_is_exact else " at most"
        table.add_row(Text(f"unique{bound}", "bold"), f"{stats.clicks_unique:,}")
    table.add_row(Text("total", "bold"), Text(f"{stats.total:,}", "bold"))
    console.print(table)


def percent(part: int, whole: int) -> float:
    """Return a share in percent, with one decimal."""
    return round(100 * part / whole, 1) if whole else 0.0


def labels(stats: Statistics, dimension: str | None) -> dict[str, int]:
    """Return the clicks of every label of a dimension; of days also by month, or by Monday of their week."""
    if dimension in ("week", "month") and isinstance(stats, RangeStats):
        counts = Counter[str]()
        for day, n in sorted(stats.clicks.items()):
            counts[str(day)[:7] if dimension == "month" else str(day - day.weekday() * DAY)] += n
        return counts
    return {label: clicks for name, label, clicks in stats.rows() if name == dimension}
