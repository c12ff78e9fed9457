"""`slashtag login`: ask for credentials, check and save them."""

import sys
from typing import Annotated

import typer

from ... import AsyncSession
from .. import credentials_file
from ..errors import say
from ..options import command


@command
async def login(
    base_url: Annotated[
        str | None, typer.Option(envvar="SLASHTAG_BASE_URL", metavar="URL", help="Address of the service.")
    ] = None,
    allow_http: Annotated[
        bool, typer.Option("--allow-http", help="Send credentials unencrypted, also off this machine.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="Seconds that the check may take.")
    ] = 30.0,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the saved credentials.")] = False,
) -> None:
    """Save credentials for later commands.

    Asks for the address of the service unless it is given, and for the apikey and apisecret without showing
    them; checks them with one request; saves them in a file that only you can read. If stdin is not a
    terminal, they are read from it, one a line. Credentials in the environment take precedence.
    """
    if remove:
        removed = credentials_file.remove()
        say(f"removed {credentials_file.path()}" if removed else "no credentials were saved")
        return
    base_url = base_url or _ask("address of the service", shown=True)
    apikey, apisecret = _ask("apikey"), _ask("apisecret")
    async with AsyncSession(
        base_url, apikey=apikey, apisecret=apisecret, allow_http=allow_http, timeout=timeout
    ) as session:
        await session.urls.page(pagesize=1)
    say(f"the service accepts them; saved in {credentials_file.save(base_url, apikey, apisecret)}")


def _ask(what: str, *, shown: bool = False) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(what, hide_input=not shown, err=True)).strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise typer.BadParameter(f"no {what} on stdin")
    return line
