"""What is printed of the error that ends a command, and the exit code."""

import re
import sys
from contextlib import suppress
from traceback import format_exception

import typer

from .. import (
    InvalidRequestError,
    RequestFailedError,
    ServerError,
    SlashtagError,
    UnknownTagError,
)
from .stderr import Lines

#: User and password in a URL that was given for a file.
_USERINFO = re.compile(r"://.*@")
#: What to do, by the name of an error or of what it derives from.
_ADVICE = {
    "AuthenticationError": "run `slashtag login`, or check SLASHTAG_APIKEY and SLASHTAG_APISECRET",
    "UnknownTagError": "`slashtag tags list` shows the tags that exist",
    "OutcomeUnknownError": "check whether it was done before you repeat it",
    "RateLimitError": "try again later, or give the service's limit with --rate",
    "QueueTimeoutError": "try again later, or give the service's limit with --rate",
    "NotFoundError": "check SLASHTAG_BASE_URL",
    "ServerError": "the service has a problem; try again later",
    "RequestTimeoutError": "raise SLASHTAG_TIMEOUT, or try again later",
    "TransportError": "check SLASHTAG_BASE_URL, SLASHTAG_PROXY and the network",
    "UnexpectedResponseError": "check SLASHTAG_BASE_URL",
}
_SETTINGS = ("base-url", "proxy", "allow-http", "range-end", "concurrency", "timeout", "log-format")
#: What to type instead of options that other programs have.
_INSTEAD = {
    **{f"--{name}": f"set SLASHTAG_{name.replace('-', '_').upper()}" for name in _SETTINGS},
    **dict.fromkeys(("--from", "--since"), "give the days as one SPAN: 2024-06-01..2024-06-30"),
}


def report(error: Exception, lines: Lines) -> tuple[str, int]:
    """Print the error that ended a command; return what it says and the exit code."""
    try:
        text, code = describe(error)
    except Exception:
        text, code = f"{type(error).__name__}: {error}", 1
        trace = "".join(format_exception(error))
        with suppress(OSError):
            sys.stderr.write(trace * (not lines.as_json))
        lines.error(text, traceback=trace)
        return text, code
    lines.error(text)
    return text, code


def describe(error: Exception) -> tuple[str, int]:
    """Return what to print of the error that ended a command, and the exit code; raise an unexpected one."""
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has seen enough.
        return "", 1
    if isinstance(error, typer.Abort):
        return "aborted", 1
    if (format_message := getattr(error, "format_message", None)) is not None:
        return _of_usage(error, format_message()), 2
    if isinstance(error, SlashtagError):
        parts = [str(error).rstrip("."), *getattr(error, "__notes__", ())]
        parts += [_ADVICE[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _ADVICE][:1]
        if isinstance(error, ServerError) and error.retry_after:
            parts.append(f"the service asks to wait {error.retry_after:g} s")
        if isinstance(error, RequestFailedError) and error.request_id:
            parts.append(f"request id {error.request_id}")
    elif isinstance(error, OSError):
        parts = [f"{error.filename}: " * bool(error.filename) + (error.strerror or str(error))]
        parts += getattr(error, "__notes__", ())
    else:
        raise error
    # Wrong usage: the same command fails again.
    return "; ".join(parts), 2 if isinstance(error, InvalidRequestError | UnknownTagError) else 1


def _of_usage(error: Exception, message: str) -> str:
    """Return what to print of an error of the arguments, which typer found."""
    # Typer asks pydantic where that is installed, which names the kind of the error first.
    text = message.replace("Value error, ", "").rstrip(".")
    unknown = re.match("No such option: ([^ ]+)", text)
    if unknown and unknown[1] in _INSTEAD:
        text = f"{text}; {_INSTEAD[unknown[1]]}"
    command = getattr(getattr(error, "ctx", None), "command_path", None) or "slashtag"
    return _USERINFO.sub("://***@", f"{text}; see `{command} --help`")
