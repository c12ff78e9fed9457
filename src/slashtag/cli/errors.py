"""Errors as the command line prints them: one line on stderr that says what to do."""

from errno import EADDRINUSE

import typer

from .. import (
    APIError,
    AuthenticationError,
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


def describe(error: Exception) -> tuple[str, int]:
    """Return what to print of the error that ended a command, and the exit code; raise an unexpected one."""
    # Typer's errors have no public base class.
    format_message = getattr(error, "format_message", None)
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has seen enough.
        return "", 1
    if isinstance(error, typer.Abort):
        return "aborted", 1
    if format_message is not None:
        # Typer asks pydantic where that is installed, which names the kind of the error first.
        text = format_message().replace("Value error, ", "").rstrip(".")
        command = getattr(getattr(error, "ctx", None), "command_path", "slashtag")
        return f"{text}; see `{command} --help`", 2
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
    # Wrong usage: the same command fails again.
    return "; ".join(parts), 2 if isinstance(error, InvalidRequestError | UnknownTagError) else 1
