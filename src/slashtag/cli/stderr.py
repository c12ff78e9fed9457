"""What is printed on stderr: lines and progress."""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from .. import ConfigurationError, Metrics, Progress
from .._saved_logins import Login, find_login
from .._wording import many

#: Called with a name and the unit of what is counted, starts a bar and returns what to call with progress.
StartBar = Callable[[str, str], Progress]
#: What every log record bears; fields are the others.
_PLAIN = {*vars(logging.makeLogRecord({})), "message", "asctime"}
#: Labels of lines that are levels; any other is a warning.
_LEVELS = ("debug", "info", "error")


def one_line(text: str) -> str:
    """Return a text with a blank for each line break and control character, safe for a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


class _Stderr(Console):
    """Console on stderr, which goes quiet once nobody reads it; rich would end the command."""

    def on_broken_pipe(self) -> None:
        """Print nothing from now on."""
        self.quiet = True


class Lines(logging.Handler):
    """Printer of lines on stderr, also of what the library logs.

    Progress is drawn on the same `console`, so that lines do not run into it. What cannot be written, as on a
    full disk, is dropped: the work of a command, and its exit code, do not depend on it. Where the setting
    log_format, of the environment or a profile, is json, each line is an object with `time`, `level`,
    `message` and the fields of the line.
    """

    def __init__(self, profile: str | None = None) -> None:
        super().__init__()
        form = None
        with suppress(ConfigurationError):  # which the session raises
            form = find_login(Login(), profile).log_format
        self.as_json = form == "json"
        self.console: Console = _Stderr(stderr=True, highlight=False)

    def print(self, text: str, *, label: str = "", style: str = "", **fields: Any) -> None:
        """Print one line, however narrow the terminal is; `fields` are for JSON."""
        if not self.as_json:
            with suppress(OSError):
                self.console.print(Text.assemble((label, style), one_line(text)), soft_wrap=True)
            return
        level = label.removesuffix(": ") or "info"
        told = {"level": level if level in _LEVELS else "warning", "message": text, **fields}
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with suppress(OSError, ValueError):
            # In one piece: threads print too.
            sys.stderr.write(f"{json.dumps({'time': now, **told}, default=str)}\n")

    def error(self, text: str, **fields: Any) -> None:
        """Print the error that ended a command, if there is anything to say about it."""
        if text:
            self.print(text, label="error: ", style="bold red", **fields)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        self.print(record.getMessage(), label=f"{record.levelname.lower()}: ", style="dim", **fields)


class Status(ProgressColumn):
    """What a session waits for, or how many requests it has sent; `metrics` are set once there is one."""

    metrics: Metrics | None = None

    def render(self, task: Task) -> Text:
        """Return what there is to say now."""
        if (metrics := self.metrics) is None:
            return Text()
        if metrics.waiting and metrics.paused_for >= 1:
            return Text(f"waiting {metrics.paused_for:.0f} s for the service's limit")
        return Text(many(metrics.attempts, "request"))


def bars(console: Console, status: Status, *, is_shown: bool) -> Bars:
    """Return the progress of a command, which is drawn on a terminal while it is entered."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        status,
        console=console,
        transient=True,
        # Data goes to stdout, even while progress is shown.
        redirect_stdout=False,
        disable=not (is_shown and console.is_terminal),
    )
