"""Lines on stderr: text for people, or JSON for programs."""

import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

#: What every log record has; the others are fields of the library's.
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def one_line(text: str) -> str:
    """Return a text with a blank for each line break and control character, safe for a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


class Lines:
    """Printer of lines on stderr; with `as_json` each is an object of time, level, message and more fields.

    What progress is drawn on is the same `console`, so that lines do not run into it.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.as_json = as_json

    def print(
        self, text: str, *, label: str = "", style: str = "", dated: bool = False, **fields: Any
    ) -> None:
        """Print one line, however narrow the terminal is.

        `dated` lines begin with the time in UTC where stderr is not a terminal; `fields` are only in JSON.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if self.as_json:
            record = {"time": now, "level": label.strip(": ") or "info", "message": text, **fields}
            print(json.dumps(record, default=str), file=sys.stderr, flush=True)
            return
        moment = f"{now} " if dated and not self.console.is_terminal else ""
        self.console.print(Text.assemble(moment, (label, style), one_line(text)), soft_wrap=True)

    def error(self, text: str) -> None:
        """Print the error that ended a command, if there is anything to say about it."""
        if text:
            self.print(text, label="error: ", style="bold red")

    @contextmanager
    def of_log(self, level: int) -> Generator[None, None, None]:
        """Print what the library logs from a level on; what records bear as `extra` are fields."""
        log, handler = logging.getLogger("slashtag"), _Handler(self)
        before = log.level
        log.setLevel(level)
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(before)


class _Handler(logging.Handler):
    """Handler that prints each record as one line."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        label = f"{record.levelname.lower()}: "
        self._lines.print(record.getMessage(), label=label, style="dim", dated=True, **fields)
