"""Data of commands on stdout, a table, JSON, JSON Lines or CSV."""

import json
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from typer import Option

from ..export import FORMATS, Row, Table, TableFile, TextFormat, format_of, open_writer
from .drawing import draw_rows
from .errors import as_usage

Format = Literal["table", TextFormat]

_option = partial(Option, rich_help_panel="The output")

FormatOption = Annotated[
    Format | None,
    _option("--format", help="Form of the output. Default: table on a terminal, jsonl elsewhere."),
]


def _writable(path: Path | None) -> Path | None:
    """Refuse a file of no known format before anything is sent; None for stdout."""
    if path is None or str(path) == "-":
        return None
    with as_usage():
        format_of(path)
    return path


OutputFile = Annotated[
    Path | None,
    _option(
        "--output",
        "-o",
        metavar="FILE",
        callback=_writable,
        help=f"Write to a file, its name in {', '.join(FORMATS)}; -: to stdout.",
    ),
]


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


@contextmanager
def output(
    table: Table, form: Format, *, shown: Mapping[str, int] | None = None, file: Path | None = None
) -> Generator[Callable[[Iterable[Row]], None], None, None]:
    """Yield the function that writes rows: to a file, whatever the form, or else to stdout.

    A table is drawn at the end, with the columns `shown`; see `draw_rows`.
    """
    if file is not None:
        with TableFile(file, table) as target:
            yield target.write
    elif form == "table":
        rows: list[Row] = []
        yield rows.extend
        draw_rows(table, rows, shown)
    else:
        writer = open_writer(f".{form}", stdout(), table)
        yield writer.write
        writer.close()


def print_rows(
    table: Table,
    rows: Iterable[Row],
    form: Format,
    *,
    shown: Mapping[str, int] | None = None,
    file: Path | None = None,
) -> None:
    """Write rows that are all there."""
    with output(table, form, shown=shown, file=file) as write:
        write(rows)
