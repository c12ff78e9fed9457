"""Data of commands on stdout, a table, JSON, JSON Lines or CSV."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer

from ..export import FORMATS, Row, Table, TableFile, TextFormat, format_of, open_writer
from .drawing import Drawing
from .errors import as_usage

Format = Literal["table", TextFormat]

FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Form of the output. Default: table on a terminal, jsonl elsewhere.",
        show_default=False,
    ),
]


def _writable(path: Path | None) -> Path | None:
    """Refuse a file of no known format before anything is sent."""
    if path is not None:
        with as_usage():
            format_of(path)
    return path


OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        callback=_writable,
        help=f"Write to a file instead, its name in {', '.join(FORMATS)}.",
        show_default=False,
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


class Output:
    """Rows of a table on stdout: written as they come, or drawn once all are there.

    A drawing has the columns `drawn`. On a narrow terminal it leaves out those of `spare`, in their order,
    and then cuts texts; without `spare` it breaks texts into lines and hides nothing. With `columns`, rows of
    every form have these columns and no others. With `file` all go there, whatever the form.
    """

    def __init__(
        self,
        table: Table,
        form: Format,
        *,
        drawn: Sequence[str] = (),
        spare: Sequence[str] | None = None,
        columns: Sequence[str] = (),
        file: Path | None = None,
    ) -> None:
        if columns:
            drawn, spare = columns, ()
        self._positions = [table.names.index(name) for name in columns or table.names]
        table = Table(tuple(table.columns[n] for n in self._positions))
        self._drawing: Drawing | None = None
        self._file, self._table, self._rows = file, table, list[Row]()
        if file is None and form == "table":
            self._drawing = Drawing(table, drawn or table.names, spare)
        elif file is None:
            self._writer = open_writer(f".{form}", stdout(), table)

    def write(self, rows: Iterable[Row]) -> None:
        """Write more rows."""
        selected = (tuple(row[n] for n in self._positions) for row in rows)
        if self._file is not None:
            self._rows += selected
        elif self._drawing is None:
            self._writer.write(selected)
        else:
            self._drawing.rows += selected

    def close(self) -> None:
        """Print what a form can only write at the end."""
        if self._file is not None:
            with TableFile(self._file, self._table) as file:
                file.write(self._rows)
        elif self._drawing is None:
            self._writer.close()
        else:
            self._drawing.print()
