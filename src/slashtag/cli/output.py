"""Rows of commands, on stdout or in a file, and tables and bar charts that fit a terminal."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, partial
from pathlib import Path
from stat import S_ISREG
from types import SimpleNamespace
from typing import Any, Literal

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text
from typer import Option

from .. import InvalidRequestError, PeriodStats, RangeStats, Statistics
from .._internal import many, object_url
from ..export import LINK_COLUMNS
from ..tables import (
    FORMATS,
    Row,
    Table,
    TextFormat,
    Writer,
    check_table_path,
    open_table,
    open_writer,
)
from .stderr import Lines, one_line

_option = partial(Option, rich_help_panel="The output")
DAY = timedelta(days=1)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Characters that the first text of a row leaves to the other columns.
ROOM_FOR_OTHERS = 24
#: The longest range drawn by day; longer ones are drawn by month.
MOST_DAYS = 31
#: Labels drawn of a dimension; the others are summed in one line.
MOST_LABELS = 8
BAR_WIDTH = 30
#: Cells that a text of a table keeps, and where texts with a common start or end are cut: as URLs are read.
LEAST_WIDTH = 8
DELIMITERS = "/?&=#"


COLUMNS = _option(
    None,
    "--columns",
    metavar="A,B",
    help=f"More columns, which say of which link a row is: {', '.join(LINK_COLUMNS)}.",
)


def columns_of(given: str | None) -> list[str]:
    """Return the names of --columns."""
    return [name.strip() for name in (given or "").split(",") if name.strip()]


@dataclass
class OutputOptions:
    """Options of where the rows of a command go, and in which form."""

    form: Literal["table", TextFormat] | None = _option(
        None,
        "--format",
        help="Form of what goes to stdout. Default: table on a terminal, jsonl elsewhere.",
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
            _warn_of_form(self.form)
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

        `before` is called before rows come to stdout, if a terminal may show them: it ends progress there.
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

            def write(rows: Iterable[Row]) -> None:
                opened().write(rows)

            writer = SimpleNamespace(write=write, close=lambda: opened().close())
        yield writer
        writer.close()
        # A full disk is reported now, not after a summary.
        sys.stdout.flush()

    def print(self, table: Table, rows: Iterable[Row], widths: Mapping[str, int] | None = None) -> None:
        """Write rows that are all there; for a table see `draw_rows`."""
        rows = list(rows)
        with self.writer(table, widths) as writer:
            writer.write(rows)
        if self.file is not None:
            self.written = f"{many(len(rows), 'row')} to {object_url(self.file) or self.file}; "


def _warn_of_form(form: str) -> None:
    """Warn on a terminal where the shell writes stdout to a file whose name says another format."""
    try:
        name = os.readlink("/proc/self/fd/1") if sys.stderr.isatty() and S_ISREG(os.fstat(1).st_mode) else ""
    except OSError:
        name = ""  # a system that does not say
    suffix = Path(name).suffix.lower()
    if suffix in (*FORMATS, ".tsv", ".xls", ".ods") and suffix != f".{form}":
        others = f"--format {suffix[1:]}, or " * (suffix in (".csv", ".jsonl"))
        written = "JSON Lines" if form == "jsonl" else form
        text = f"{Path(name).name} gets {written}; for another format give {others}-o FILE"
        Lines().print(text, label="warning: ", style="bold red")


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


def _common_start(texts: Sequence[str]) -> str:
    """Return what all texts begin with."""
    unlike = (n for n, characters in enumerate(zip(*texts, strict=False)) if len({*characters}) > 1)
    return texts[0][: next(unlike, min(map(len, texts)))]


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
    columns_of_texts = [[_cell(table.columns[n].name, row[n]) for row in rows] for n in positions]
    if not widths:
        # Text, not markup: what the service sends is data.
        cells: list[list[Any]] = [list(map(Text, texts)) for texts in columns_of_texts]
    else:
        cells = [list(map(partial(_Line, same=_same_ends(texts)), texts)) for texts in columns_of_texts]
    for row_of_cells in zip(*cells, strict=True):
        drawing.add_row(*row_of_cells)
    console.print(drawing)


class _Line:
    """A text in one line; where it does not fit, what all texts of its column have at both ends is left out.

    What then does not fit is cut in the middle, as URLs differ at their ends.
    """

    def __init__(self, text: str, same: tuple[int, int]) -> None:
        self._text, self._same = text, same

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = cell_len(self._text)
        return Measurement(min(width, LEAST_WIDTH), width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text, room = self._text, options.max_width
        if cell_len(text) > room:
            start, end = self._same
            # No more of the start is left out than has to be.
            start = max(0, min(start, start + cell_len(text[start : len(text) - end]) + 1 + (end > 0) - room))
            text = f"{'…' * (start > 0)}{text[start : len(text) - end]}{'…' * (end > 0)}"
            # Both halves by the cells that they take on the terminal.
            if cell_len(text) > room:
                head = set_cell_size(text, (room - 1) // 2).rstrip()
                tail = set_cell_size(text[::-1], max(0, room - 1 - cell_len(head))).rstrip()[::-1]
                text = f"{head}…{tail}"
        yield Text(text, no_wrap=True, overflow="ellipsis")


def _same_ends(texts: Sequence[str]) -> tuple[int, int]:
    """Return how many characters all texts have in common, at the start and the end, up to a delimiter."""
    different = [*dict.fromkeys(filter(None, texts))]
    if len(different) < 2:
        return 0, 0
    start = _common_start(different)
    end = _common_start([text[len(start) :][::-1] for text in different])[::-1]
    first = max(start.rfind(c) for c in DELIMITERS) + 1
    last = min((n for n in map(end.find, DELIMITERS) if n >= 0), default=len(end))
    return first, len(end) - last


def _cell(name: str, value: object) -> str:
    """Return a value as one line; counts are easier to read in groups of digits, ids are copied."""
    is_count = isinstance(value, int) and name.startswith(("clicks", "hits"))
    return "" if value is None else f"{value:,}" if is_count else one_line(str(value))


def draw(
    stats: Statistics,
    counts: Mapping[str, Mapping[str, int]],
    more: Mapping[str, Callable[[str, Iterable[str]], str]] | None = None,
) -> None:
    """Print the clicks of the labels of one dimension, or the largest of each of several, and a total.

    `more` has further columns by their heads: the text for a dimension and some of its labels, in one line
    together; for the dimension "total" that of all.
    """
    # Bars give way on a narrow terminal.
    console, table = Console(highlight=False, markup=False), _new_drawing()
    more = more or {}
    table.add_column(no_wrap=True, max_width=console.width - ROOM_FOR_OTHERS - 8 * len(more))
    for head in ("clicks", "%", *more):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column(max_width=BAR_WIDTH)
    for n, (dimension, clicks) in enumerate(counts.items()):
        longest = max(clicks.values(), default=0) or 1
        rows: list[tuple[str, int, Bar | None, list[str]]] = [
            (_named(dimension, label, clicks), n, Bar(longest, 0, n, color="cyan"), [label])
            for label, n in clicks.items()
        ]
        is_titled = n > 0
        if is_titled and rows:
            table.add_row(Text(dimension, "bold"))
            if len(rows) > MOST_LABELS + 1:
                rest = rows[MOST_LABELS:]
                others = [label for *_, [label] in rest]
                # Without a bar, which would dwarf the others.
                rows[MOST_LABELS:] = [(f"{len(rest)} others", sum(n for _, n, *_ in rest), None, others)]
        for label, n, bar, of in rows:
            share = f"{percent(n, stats.total):.1f}" if stats.total else ""
            cells = [text(dimension, of) for text in more.values()]
            table.add_row("  " * is_titled + one_line(label), f"{n:,}", share, *cells, bar)
        table.add_section()
    if len(counts) > 1 and isinstance(stats, PeriodStats):
        bound = "" if stats.unique_is_exact else " at most"
        table.add_row(Text(f"unique{bound}", "bold"), f"{stats.clicks_unique:,}")
    cells = [text("total", ("",)) for text in more.values()]
    table.add_row(Text("total", "bold"), Text(f"{stats.total:,}", "bold"), "", *cells)
    console.print(table)


def _named(dimension: str, label: str, labels: Iterable[str]) -> str:
    """Return a label with the weekday of a day; of an hour the offset only if it comes twice."""
    if dimension not in ("day", "week", "hour"):
        return label
    name = f"{label[:10]} {weekday(date.fromisoformat(label[:10]))[:3]}"
    if dimension != "hour":
        return name
    hour, offset = label[11:16], label[16:].removesuffix(":00")
    return f"{name} {hour}{offset * (sum(each[:16] == label[:16] for each in labels) > 1)}"


def change(clicks: int, before: int | None) -> float | None:
    """Return by how much clicks changed, in percent; None where they were 0 or are not known."""
    return percent(clicks - before, before) if before else None


def told_change(clicks: int, before: int | None) -> str:
    """Return by how much clicks changed, in words for people."""
    if before == 0:
        return "new" if clicks else ""
    return "" if before is None else f"{percent(clicks - before, before):+.1f}"


def percent(part: int, whole: int) -> float:
    """Return a share in percent, with one decimal."""
    return round(100 * part / whole, 1) if whole else 0.0


def labels(stats: Statistics, dimension: str) -> dict[str, int]:
    """Return the clicks of every label; of days also by weekday, by Monday of their week, or by month."""
    if dimension in ("weekday", "week", "month") and isinstance(stats, RangeStats):
        counts = Counter[str]()
        for day, n in sorted(stats.clicks.items()):
            counts[label_of(day, dimension)] += n
        return (
            counts if dimension != "weekday" else {name: counts[name] for name in WEEKDAYS if name in counts}
        )
    return {label: clicks for name, label, clicks in stats.rows() if name == dimension}


def label_of(day: date, dimension: str) -> str:
    """Return the label of a day, its weekday, its week (by its Monday), or its month."""
    if dimension == "weekday":
        return weekday(day)
    return str(day - day.weekday() * DAY if dimension == "week" else day)[: 7 if dimension == "month" else 10]


def weekday(day: date) -> str:
    """Return the name of the weekday of a date."""
    return WEEKDAYS[day.weekday()]
