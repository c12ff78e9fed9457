"""`slashtag api`: a request to any endpoint, as `gh api` makes it."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from typer import Argument, Option

from ... import InvalidRequestError
from ..output import stdout
from ..run import Run, command

#: Texts that a typed field turns into a value of JSON.
_CONSTANTS = {"true": True, "false": False, "null": None}


@command
async def api(
    run: Run,
    method: str = Argument(metavar="METHOD", help="GET, POST, PUT, PATCH or DELETE."),
    path: str = Argument(metavar="PATH", help="Relative to the base address: urls, tags, urls/spring."),
    fields: list[str] | None = Argument(None, metavar="[NAME=TEXT]...", help="Fields whose values are text."),
    typed: list[str] | None = Option(
        None,
        "--field",
        "-F",
        metavar="NAME=VALUE",
        help="A field whose value is an integer, true, false or null where it looks like one, the text of "
        "a file after @ (@- for stdin), else text.",
    ),
    param: list[str] | None = Option(
        None, "--param", "-p", metavar="NAME=TEXT", help="A parameter of the query, also of a write."
    ),
    body: str | None = Option(
        None, "--input", metavar="FILE", help="The body as JSON, from a file or - for stdin."
    ),
) -> None:
    """Send a request to any endpoint, and print the data of its answer as JSON.

    It has the credentials, the limit and the retries of all commands. Fields become the JSON body, those of a
    GET parameters of the query. A password belongs into a file or stdin: -F password=@FILE. A write whose
    answer was lost ends with an error that says so: it may have been done.
    """
    members: dict[str, Any] = {}
    values = [*map(_split, fields or ()), *((name, _typed(text)) for name, text in map(_split, typed or ()))]
    for name, value in values:
        if name in members:
            raise InvalidRequestError(f"the field {name!r} is given twice")
        members[name] = value
    params: dict[str, Any] = {}
    for name, text in map(_split, param or ()):
        params.setdefault(name, []).append(text)
    given: Any = members or None
    if method.upper() == "GET":
        params, given = params | members, None
    if body is not None:
        if members:
            raise InvalidRequestError("--input is the whole body: give no fields beside it, but --param")
        given = _decode(_read(body))
    async with run.session() as session:
        data = await session.request(method, path, params=params, json=given)
    text = json.dumps(data, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    stdout().write(f"{text}\n".encode())
    sys.stdout.flush()


def _split(field: str) -> tuple[str, str]:
    name, found, text = field.partition("=")
    if not name or not found:
        # Not shown: it may be a password.
        raise InvalidRequestError("a field or a parameter has the form NAME=VALUE")
    return name, text


def _typed(text: str) -> Any:
    """Return the value of a typed field."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("@"):
        # As written by `echo`.
        return _read(text[1:]).removesuffix("\n").removesuffix("\r")
    digits = text.removeprefix("-")
    # 007 is a text, as in JSON.
    is_int = digits.isascii() and digits.isdigit() and (digits[0] != "0" or digits == "0")
    return int(text) if is_int else text


def _read(name: str) -> str:
    """Return the text of a file, or of stdin."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequestError(f"{'stdin' if name == '-' else name} is not UTF-8") from None


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequestError(f"--input is not JSON: {error}") from None
