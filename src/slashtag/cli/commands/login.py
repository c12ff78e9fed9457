"""`slashtag login`: ask for credentials, check and save them."""

import sys
from typing import Annotated

import typer
from typer import Option

from ... import AsyncSession
from .. import credentials_file
from ..errors import say
from ..options import AllowHttp, BaseUrl, Timeout, command


@command
async def login(
    base_url: BaseUrl = None,
    allow_http: AllowHttp = False,
    timeout: Timeout = 30.0,
    profile: Annotated[
        str | None,
        Option(envvar="SLASHTAG_PROFILE", metavar="NAME", help="Name of the account for --profile."),
    ] = None,
    remove: Annotated[bool, Option("--remove", help="Remove the saved credentials.")] = False,
    status: Annotated[
        bool, Option("--status", help="Show which credentials are used, and check them.")
    ] = False,
    list_: Annotated[bool, Option("--list", help="Show the saved profiles and their services.")] = False,
) -> None:
    """Save credentials for later commands.

    Asks for the address of the service unless it is given, and for the apikey and apisecret without showing
    them; checks them with one request; saves them in a file that only you can read. If stdin is not a
    terminal, they are read from it, one a line. Credentials in the environment take precedence.
    """
    file = credentials_file.path(profile)
    if remove:
        say(f"removed {file}" if file.exists() else "no credentials were saved")
        file.unlink(missing_ok=True)
        return
    if list_:
        for each in sorted(file.parent.glob("credentials*.json"), key=lambda each: each.stem):
            name = each.stem.partition("-")[2]
            found = credentials_file.load(name)
            print(f"{name or '(no name)'}\t{found[0] if found else ''}")
        return
    if status:
        base_url, apikey, apisecret = credentials_file.credentials(base_url, profile)
    else:
        base_url = base_url or _ask("address of the service", shown=True)
        apikey, apisecret = _ask("apikey"), _ask("apisecret")
    async with AsyncSession(
        base_url, apikey=apikey, apisecret=apisecret, allow_http=allow_http, timeout=timeout
    ) as session:
        await session.urls.page(pagesize=1)
    if status:
        of_file = (base_url, apikey, apisecret) == (credentials_file.load(profile) if file.exists() else None)
        say(f"{base_url} accepts the credentials of {file if of_file else 'the environment'}")
        return
    saved = credentials_file.save(base_url, apikey, apisecret, profile)
    say(f"the service accepts them; saved in {saved}")


def _ask(what: str, *, shown: bool = False) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(what, hide_input=not shown, err=True)).strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise typer.BadParameter(f"no {what} on stdin")
    return line
