"""`slashtag login`: ask for credentials, check and save them, with settings."""

import os
import sys
from contextlib import suppress
from typing import Any

import typer
from msgspec.structs import asdict, replace
from typer import Option

from ... import ConfigurationError, InvalidRequestError, parse_zone
from ..._internal import Secret
from ..._saved_logins import (
    VARIABLES,
    Login,
    login_path,
    parse_setting,
    profiles,
    read_login,
    save_login,
)
from ..._wording import did_you_mean
from ..run import Run, command

#: Settings that can be saved, by their names in the environment after SLASHTAG_.
SETTINGS = tuple(name for name in Login.__struct_fields__ if name not in ("base_url", "apikey", "apisecret"))
#: Those that no session takes.
OF_COMMANDS = ("timezone", "log_format")


@command
async def login(
    run: Run,
    remove: bool = Option(False, "--remove", help="Remove what is saved."),
    list_: bool = Option(False, "--list", help="Show the saved profiles and their services."),
    set_: list[str] | None = Option(
        None,
        "--set",
        metavar="NAME=VALUE",
        help=f"Save a setting: {', '.join(SETTINGS)}. SLASHTAG_NAME in the environment overrides it; an "
        "empty VALUE removes it. May be repeated.",
    ),
) -> None:
    """Save credentials and settings for later commands.

    Asks for the address of the service, unless SLASHTAG_BASE_URL has it, and for the apikey and apisecret
    without showing them; checks them with one request; saves them in a file that only you can read. If stdin
    is not a terminal, they are read from it, one a line. With --set nothing is asked: only settings are
    changed. Credentials of the environment come first.
    """
    if list_:
        for name in profiles():
            print(name or "(no name)", (read_login(name) or Login()).base_url or "", sep="\t")
        return
    file = login_path(run.profile)  # first: there may be no place for it
    if remove:
        is_saved = file.exists()
        file.unlink(missing_ok=True)
        run.say(f"removed {file}" if is_saved else "no credentials were saved")
        return
    changed = dict(map(_setting, set_ or ()))
    saved = None
    with suppress(ConfigurationError):  # what is damaged is replaced
        saved = read_login(run.profile)
    found = replace(saved or Login(), **changed)
    if not changed:
        found = replace(
            found,
            base_url=os.environ.get("SLASHTAG_BASE_URL") or _ask("address of the service"),
            apikey=Secret(_ask("apikey", is_secret=True)),
            apisecret=Secret(_ask("apisecret", is_secret=True)),
        )
        used = {name: value for name, value in asdict(found).items() if name not in OF_COMMANDS}
        async with run.session(profile=None, **used) as session:
            await session.urls.page(pagesize=1)
        run.say("the service accepts them")
    run.say(f"saved in {save_login(found, run.profile)}")
    if run.profile is None and any(os.environ.get(name) for name in VARIABLES):
        run.say(f"but commands use {' and '.join(VARIABLES)} of the environment while they are set")


def _setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of a setting; raises InvalidRequestError for what is none."""
    given, equals, value = text.partition("=")
    name = given.strip().lower().replace("-", "_")
    if name not in SETTINGS or not equals:
        told = f"--set takes NAME=VALUE, of {', '.join(SETTINGS)}{did_you_mean(name, SETTINGS)}"
        raise InvalidRequestError(told)
    if name == "timezone":
        parse_zone(value or None)
    return name, parse_setting(name, value) if value else None


def _ask(what: str, *, is_secret: bool = False) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(what, hide_input=is_secret, err=True))
    line = sys.stdin.readline().strip()
    if not line:
        raise InvalidRequestError(f"no {what} on stdin")
    return line
