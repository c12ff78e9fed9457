"""`slashtag api`: a request to any endpoint, as `gh api` makes it."""

import json
import sys
from typing import Any

import msgspec
import typer
from typer import Argument, Option

from ... import InvalidRequestError
from ..output import Stdout
from ..run import Run, command


@command
async def api(
    run: Run,
    method: str = Argument(metavar="METHOD", help="GET, POST, PUT, PATCH or DELETE."),
    path: str = Argument(metavar="PATH", help="Relative to the base address: urls, tags, urls/spring."),
    fields: list[str] | None = Argument(
        None, metavar="[NAME=TEXT]...", help="Parameters of a GET; members of the body of another request."
    ),
    body: typer.FileBinaryRead | None = Option(
        None, "--input", metavar="FILE", help="The body as JSON, from a file or - for stdin."
    ),
) -> None:
    """Send a request to any endpoint, and print the data of its answer as JSON.

    It has the credentials, the limit and the retries of all commands. A body with numbers, or with a
    password, comes from --input; fields are then parameters. A write whose answer was lost ends with an error
    that says so: it may have been done.
    """
    members: dict[str, str] = {}
    for field in fields or ():
        name, found, text = field.partition("=")
        if not name or not found or name in members:
            # Not shown: it may be a password.
            raise InvalidRequestError("a field has the form NAME=TEXT, each name once")
        members[name] = text
    given: Any = None
    if body is not None:
        try:
            given = msgspec.json.decode(body.read().removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequestError(f"--input is not JSON: {error}") from None
    elif method.upper() != "GET":
        given, members = members or None, {}
    async with run.session() as session:
        answer = await session.request(method, path, params=members, json=given)
    text = json.dumps(answer, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    Stdout().write(f"{text}\n".encode())
    sys.stdout.flush()
