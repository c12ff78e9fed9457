"""Rows of commands, on stdout or in a file: a table, JSON Lines, CSV and more."""

import json
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from typer import Option

from .. import InvalidRequestError
from ..export import FORMATS, Row, Table, TableFile, TextFormat, Writer, open_writer
from .drawing import draw_rows

_option = partial(Option, rich_help_panel="The output")


@dataclass
class Output:
    """Options of where the rows of a command go, and in which form."""

    form: Literal["table", TextFormat] | None = _option(
        None, "--format", help="Form of what goes to stdout. Default: table on a terminal, jsonl elsewhere."
    )
    output: Path | None = _option(
        None, "--output", "-o", metavar="FILE", help=f"Write to a file, its name in {', '.join(FORMATS)}."
    )

    def __post_init__(self) -> None:
        """Report whatever is wrong with the file before anything is sent."""
        if self.output is None:
            self.form = self.form or ("table" if sys.stdout.isatty() else "jsonl")
        elif self.form is not None:
            raise InvalidRequestError("--format is for stdout; the name of a file says its format")
        else:
            # Made and removed again: nothing else tells whether it can be written.
            TableFile(self.output, Table(())).abandon()

    @contextmanager
    def writer(self, table: Table, shown: Mapping[str, int] | None = None) -> Generator[Writer, None, None]:
        """Open the file or stdout for rows; drawn at the end with the columns `shown`, see `draw_rows`."""
        if self.output is not None:
            with TableFile(self.output, table) as file:
                yield file
            return
        rows: list[Row] = []
        writer: Any = SimpleNamespace(write=rows.extend, close=lambda: draw_rows(table, rows, shown))
        if self.form != "table":
            writer = open_writer(f".{self.form}", stdout(), table)
        yield writer
        writer.close()
        # A full disk is reported now, not after a summary.
        sys.stdout.flush()

    def print(self, table: Table, rows: Iterable[Row], shown: Mapping[str, int] | None = None) -> None:
        """Write rows that are all there; a table has the columns `shown`, see `draw_rows`."""
        with self.writer(table, shown) as writer:
            writer.write(rows)


def safe(data: bytes) -> bytes:
    """Return whole UTF-8 text with JSON's escapes for what cannot be printed and may steer a terminal.

    The text comes from the service, such as the destination of a link.
    """
    text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in data.decode())
    # JSON leaves DEL as it is.
    return text.replace("\x7f", r"\u007f").encode()


def stdout() -> Any:
    """Return stdout as a binary file that is safe to write data of the service to."""
    file = sys.stdout.buffer

    def write(data: bytes) -> None:
        file.write(safe(data))

    return SimpleNamespace(write=write) if sys.stdout.isatty() else file
