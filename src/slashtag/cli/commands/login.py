"""`slashtag login`: ask for credentials, check and save them."""

import sys

import typer
from typer import Option

from ... import ConfigurationError, InvalidRequestError
from ..._internal import strip_invisible
from .. import service
from ..run import Run, command


@command
async def login(
    run: Run,
    remove: bool = Option(False, "--remove", help="Remove the saved credentials."),
    list_: bool = Option(False, "--list", help="Show the saved profiles and their services."),
) -> None:
    """Save credentials for later commands.

    Asks for the address of the service unless it is given, and for the apikey and apisecret without showing
    them; checks them with one request; saves them in a file that only you can read. If stdin is not a
    terminal, they are read from it, one a line. Credentials in the environment take precedence.
    """
    profile = run.options.profile
    if remove:
        file = service.path(profile)
        saved = file.exists()
        file.unlink(missing_ok=True)
        run.say(f"removed {file}" if saved else "no credentials were saved")
    elif list_:
        for name in service.profiles():
            try:
                print(name or "(no name)", getattr(service.read(name), "base_url", ""), sep="\t")
            except (ConfigurationError, OSError) as error:
                run.warn(str(error), "not readable: ")
    else:
        file = service.path(profile)  # first: there may be no place for it
        base_url = run.options.base_url or _ask("address of the service", is_secret=False)
        credentials = service.Login(strip_invisible(base_url), _ask("apikey"), _ask("apisecret"))
        async with run.session(credentials) as session:
            await session.urls.page(pagesize=1)
        service.save(credentials, profile)
        run.say(f"the service accepts them; saved in {file}")


def _ask(what: str, *, is_secret: bool = True) -> str:
    if sys.stdin.isatty():
        return strip_invisible(typer.prompt(what, hide_input=is_secret, err=True))
    line = strip_invisible(sys.stdin.readline())
    if not line:
        raise InvalidRequestError(f"no {what} on stdin")
    return line
