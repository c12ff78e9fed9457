"""`slashtag login`: ask for credentials, check and save them."""

import os
import sys
from contextlib import nullcontext, suppress

import typer
from msgspec.structs import replace
from typer import Option

from ... import ConfigurationError, InvalidRequestError, parse_zone
from ..._internal import (
    VARIABLES,
    Login,
    Secret,
    login_path,
    profiles,
    read_login,
    save_login,
    strip_invisible,
)
from ..run import Run, command


@command
async def login(
    run: Run,
    remove: bool = Option(False, "--remove", help="Remove the saved credentials."),
    list_: bool = Option(False, "--list", help="Show the saved profiles, their services and time zones."),
    timezone: str | None = Option(
        None,
        metavar="ZONE",
        help="Also save the time zone of the days of later commands; where credentials are saved already or "
        "stand in the environment, only this. Without a zone of its own a command takes SLASHTAG_TIMEZONE, "
        "then this one.",
    ),
) -> None:
    """Save credentials for later commands.

    Asks for the address of the service unless it is given, and for the apikey and apisecret without showing
    them; checks them with one request; saves them in a file that only you can read. If stdin is not a
    terminal, they are read from it, one a line. Credentials in the environment take precedence.
    """
    profile = run.options.profile
    if timezone:
        parse_zone(timezone)
    if list_:
        for name in profiles():
            try:
                saved = read_login(name)
                columns = [saved.base_url, saved.timezone or ""] if saved else []
                print(name or "(no name)", *filter(None, columns), sep="\t")
            except ConfigurationError as error:
                run.warn(str(error), "not readable: ")
        return
    file = login_path(profile)  # first: there may be no place for it
    if remove:
        is_saved = file.exists()
        file.unlink(missing_ok=True)
        run.say(f"removed {file}" if is_saved else "no credentials were saved")
        return
    earlier = None
    is_of_environment = profile is None and any(os.environ.get(name) for name in VARIABLES)
    # What is damaged is replaced by a whole login only.
    with nullcontext() if is_of_environment and timezone is not None else suppress(ConfigurationError):
        earlier = read_login(profile)
    is_saved = earlier is not None and bool(earlier.apikey)
    if timezone is not None and (is_saved or is_of_environment):
        save_login(replace(earlier or Login(), timezone=timezone), profile)
        kept = "whose credentials stay as they are" if is_saved else "without credentials"
        run.say(f"days are those of {timezone or 'UTC'}: saved in {file}, {kept}")
        _say_what_wins(run, timezone, is_saved=is_saved)
        return
    base_url = run.options.base_url or _ask("address of the service", is_secret=False)
    credentials = Login(
        base_url=strip_invisible(base_url), apikey=_ask("apikey"), apisecret=_ask("apisecret")
    )
    async with run.session(credentials) as session:
        await session.urls.page(pagesize=1)
    credentials.timezone = timezone or (earlier.timezone if earlier is not None else None)
    save_login(credentials, profile)
    run.say(f"the service accepts them; saved in {file}")
    _say_what_wins(run, credentials.timezone or "", is_saved=True)


def _say_what_wins(run: Run, timezone: str, *, is_saved: bool) -> None:
    """Say which variables of the environment commands use instead of what was saved."""
    if is_saved and run.options.profile is None and any(os.environ.get(name) for name in VARIABLES):
        days = f", and the days of UTC unless SLASHTAG_TIMEZONE={timezone} is set" * bool(timezone)
        run.say(f"but commands use {' and '.join(VARIABLES)} of the environment while they are set{days}")
    if timezone and (zone := os.environ.get("SLASHTAG_TIMEZONE", timezone)) != timezone:
        run.say(f"but commands use SLASHTAG_TIMEZONE={zone} of the environment while it is set")


def _ask(what: str, *, is_secret: bool = True) -> Secret:
    if sys.stdin.isatty():
        return Secret(strip_invisible(typer.prompt(what, hide_input=is_secret, err=True)))
    line = Secret(strip_invisible(sys.stdin.readline()))
    if not line:
        raise InvalidRequestError(f"no {what} on stdin")
    return line
