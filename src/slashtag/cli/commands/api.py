"""`slashtag api`: one request as it is, for what no other command shows."""

import sys
from typing import Annotated, Any, Literal

import msgspec
from typer import Argument

from ... import Call, InvalidRequestError
from ..output import stdout
from ..run import Run, command


@command
async def api(
    method: Annotated[Literal["GET"], Argument(help="Only GET: nothing is changed.")],
    path: Annotated[str, Argument(metavar="PATH", help="Below /api/v1, such as urls or stats/yearly.")],
    run: Run,
    parameters: Annotated[
        list[str] | None, Argument(metavar="NAME=VALUE...", help="Parameters, not encoded.")
    ] = None,
) -> None:
    """Send one GET and print the data of the answer as JSON.

    The request waits for the limit of the service and is retried as those of other commands are.
    """
    pairs: list[tuple[str, str]] = []
    for parameter in parameters or ():
        name, equals, value = parameter.partition("=")
        if not equals:
            raise InvalidRequestError("parameters have the form NAME=VALUE")
        pairs.append((name, value))
    if ".." in path.split("/"):
        raise InvalidRequestError("PATH is below /api/v1, so it has no '..' in it")
    call = Call(
        method=method, path=path.strip("/").removeprefix("api/v1/"), params=tuple(pairs), returns=object
    )
    async with run.session() as session:
        data: Any = await session.send(call)
    stdout().write(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    sys.stdout.flush()
