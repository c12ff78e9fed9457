"""Errors as the command line prints them: one line on stderr that says what to do."""

import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from errno import EADDRINUSE
from types import SimpleNamespace

from rich.console import Console
from rich.text import Text

from .. import (
    APIError,
    AuthenticationError,
    ConfigurationError,
    ExportError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
    UnknownTagError,
)

#: The exit code if some keys or rows failed or were left out and the rest was done.
SOME_FAILED = 3

#: Whether lines are JSON, also those of other threads.
_form = SimpleNamespace(is_json=False)

# The first match is used.
_ADVICE: list[tuple[type[SlashtagError], str]] = [
    (AuthenticationError, "run `slashtag login`, or check SLASHTAG_APIKEY and SLASHTAG_APISECRET"),
    (UnknownTagError, "`slashtag tags list` shows the tags that exist"),
    (TagLimitError, "the account cannot have more tags"),
    (OutcomeUnknownError, "check whether it was done before you repeat it"),
    (RateLimitError, "try again later, or give the service's limit with --rate"),
    (NotFoundError, "check --base-url"),
    (ServerError, "the service has a problem; try again later"),
    (RequestTimeoutError, "raise --timeout, or try again later"),
    (TransportError, "check --base-url and the network"),
    (UnexpectedResponseError, "check --base-url"),
]


def one_line(text: str) -> str:
    """Return a text with a blank for each line break and control character, safe for a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def say(text: str, *, label: str = "", style: str = "") -> None:
    """Print one line on stderr, however narrow the terminal is; as JSON with --log-format json."""
    if _form.is_json:
        level = label.strip(": ") or "info"
        record = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "level": level, "message": text}
        print(json.dumps(record), file=sys.stderr)
        return
    line = Text.assemble((label, style), one_line(text))
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


@contextmanager
def as_usage() -> Generator[None, None, None]:
    """Turn an option that the library refuses into wrong usage, exit code 2."""
    try:
        yield
    except (ConfigurationError, ExportError) as error:
        raise InvalidRequestError(str(error)) from None


def report(error: Exception) -> int:
    """Print the error that ended a command and return its exit code; re-raise an unexpected one."""
    if isinstance(error, SlashtagError):
        parts = [str(error).rstrip("."), *getattr(error, "__notes__", ())]
        if isinstance(error, NotFoundError) and error.method == "PUT":
            parts.append("`slashtag urls list` shows the links that exist")
        else:
            parts += [advice for kind, advice in _ADVICE if isinstance(error, kind)][:1]
        if isinstance(error, APIError) and error.retry_after:
            parts.append(f"the service asks to wait {error.retry_after:g} s")
    elif isinstance(error, OSError):
        parts = [f"{error.filename}: " * bool(error.filename) + (error.strerror or str(error))]
        parts += ["choose another with --port"] * (error.errno == EADDRINUSE)
    else:
        raise error
    say("; ".join(parts), label="error: ", style="bold red")
    # Wrong usage: the same command fails again.
    return 2 if isinstance(error, InvalidRequestError | UnknownTagError) else 1


class _Lines(logging.Handler):
    """Handler that prints each record as one line."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), label=f"{record.levelname.lower()}: ", style="dim")


@contextmanager
def log_lines(level: int, *, as_json: bool = False) -> Generator[None, None, None]:
    """Print log records of the library from a level on; with `as_json`, all lines on stderr are JSON."""
    log, lines = logging.getLogger("slashtag"), _Lines()
    before = log.level
    log.setLevel(level)
    log.addHandler(lines)
    _form.is_json = as_json
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(before)
    # Not after an error: its line, which `report` prints, has the same form.
    _form.is_json = False
