"""Output of commands: data on stdout as a table, JSON Lines or CSV, progress on stderr."""

import asyncio
import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Annotated, BinaryIO, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Drawing
from rich.text import Text

from .. import Metrics
from .._internal import Progress
from ..export import Row, Table, open_writer
from .errors import one_line, say

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
    """Return the form asked for; by default a table on a terminal and JSON Lines elsewhere."""
    return form or ("table" if sys.stdout.isatty() else "jsonl")


class TerminalSafe:
    """Binary file that passes text on to a terminal with control characters escaped, as JSON has it.

    The text comes from the service, and a link's destination may hold sequences that steer the terminal.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes, /) -> None:
        """Write whole UTF-8 text."""
        text = data.decode()
        if not text.replace("\n", "").isprintable():
            text = "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)
        self._file.write(text.encode())


def _escaped(character: str) -> str:
    # JSON leaves DEL as it is.
    return json.dumps(character)[1:-1].replace("\x7f", r"\u007f")


def stdout() -> BinaryIO | TerminalSafe:
    """Return stdout as a binary file that is safe to write data of the service to."""
    return TerminalSafe(sys.stdout.buffer) if sys.stdout.isatty() else sys.stdout.buffer


class Output:
    """Rows of a table on stdout: written as they come, or drawn once all are there.

    A drawing has the columns `drawn`, of which the last gives way where the terminal is narrow, and all
    texts where that would hide anything.
    """

    def __init__(self, table: Table, form: Format, *, drawn: Sequence[str] = ()) -> None:
        self._drawn = [table.names.index(name) for name in drawn or table.names]
        self._drawing: Drawing | None = None
        if form != "table":
            self._writer = open_writer(f".{form}", stdout(), table)
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
        """Write more rows."""
        if self._drawing is None:
            self._writer.write(rows)
            return
        for row in rows:
            self._drawing.add_row(*(_cell(row[n]) for n in self._drawn))

    def close(self) -> None:
        """Print what a form can only write at the end."""
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
    """Return an empty table in the style that all share."""
    return Drawing(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def _cell(value: object) -> Text:
    # Text, not markup: what the service sends is data.
    return Text("" if value is None else one_line(str(value)))


#: Seconds after which a wait is shown, and after which it is printed where there is no terminal.
SHOWN_AFTER, PRINTED_AFTER = 2.0, 30.0


class WaitWatch:
    """What a session waits for, looked at every second: its rate limit, or a service that does not answer."""

    def __init__(
        self, metrics: Metrics, show: Callable[[str], object], print_: Callable[[str], object]
    ) -> None:
        self._metrics = metrics
        self._show = show
        self._print = print_
        self._printed = False
        self._loop = asyncio.get_running_loop()
        self._answers = (0, 0, 0)
        #: The attempts and the time when the last answer was noticed.
        self._at_answer = 0, self._loop.time()
        self._timer = self._loop.call_later(1, self._look)

    def _look(self) -> None:
        now, metrics = self._loop.time(), self._metrics
        answers = metrics.bytes_received, metrics.throttled, metrics.replayed
        if answers != self._answers:
            self._answers, self._at_answer = answers, (metrics.attempts, now)
        attempts, answered_at = self._at_answer
        pause, silence, text = metrics.paused_until - now, now - answered_at, ""
        # Between two attempts nothing is in flight, and the one before was not answered.
        unanswered = metrics.in_flight > 0 or metrics.attempts > attempts
        if metrics.waiting and pause >= SHOWN_AFTER:
            text = f"waiting {pause:.0f} s for the service's limit"
        elif unanswered and silence >= SHOWN_AFTER:
            text = f"no answer for {silence:.0f} s"
            if silence >= PRINTED_AFTER and not self._printed:
                self._printed = True
                self._print(f"the service has not answered for {silence:.0f} s; still trying")
        self._show(text)
        self._timer = self._loop.call_later(1, self._look)

    def close(self) -> None:
        """Stop looking."""
        self._timer.cancel()


@contextmanager
def bars(
    *, shown: bool = True, metrics: Metrics | None = None, quiet: bool = False
) -> Generator[Callable[[str], Progress], None, None]:
    """Show progress on stderr if it is a terminal; yields what starts a bar and returns its callback.

    With the `metrics` of a session, the bar says what the session waits for; without a terminal one line
    says, unless `quiet`, that the service does not answer.
    """
    console = Console(stderr=True)
    display = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )

    def start(name: str) -> Progress:
        for earlier in display.tasks:
            # A bar without a known total is complete when the next one starts.
            display.update(earlier.id, total=earlier.completed, status="")
        task = display.add_task(name, total=None, count="", status="")

        def report(done: int, total: int | None) -> None:
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            display.update(task, completed=done, total=total, count=count)

        return report

    def show(status: str) -> None:
        if display.tasks:
            display.update(display.tasks[-1].id, status=status)

    with display:
        watch = None if metrics is None else WaitWatch(metrics, show, _nothing if quiet else say)
        try:
            yield start
        finally:
            if watch is not None:
                watch.close()


def _nothing(_: str) -> None:
    """Print nothing."""
