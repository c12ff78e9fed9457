"""`slashtag login`: ask for credentials, check and save them, with settings."""

import os
import sys
from contextlib import suppress

import msgspec
import typer
from msgspec.structs import asdict, replace
from typer import Option

from ... import ConfigurationError, InvalidRequestError, parse_zone
from ..._internal import Secret, strip_invisible
from ..._saved_logins import VARIABLES, Login, login_path, profiles, read_login, save_login
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
    list_: bool = Option(False, "--list", help="Show the saved profiles, their services and settings."),
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
    is not a terminal, they are read from it, one a line. Where credentials are saved already, or stand in the
    environment, --set changes only the settings. Credentials of the environment come first.
    """
    if list_:
        _print_profiles(run)
        return
    file = login_path(run.profile)  # first: there may be no place for it
    if remove:
        is_saved = file.exists()
        file.unlink(missing_ok=True)
        run.say(f"removed {file}" if is_saved else "no credentials were saved")
        return
    changed = dict(map(_setting, set_ or ()))
    is_of_environment = run.profile is None and any(os.environ.get(name) for name in VARIABLES)
    saved = None
    with suppress(ConfigurationError):  # what is damaged is replaced
        saved = read_login(run.profile)
    found = replace(saved or Login(), **changed)
    is_asked = not (changed and (found.apikey or is_of_environment))
    if is_asked:
        found = replace(
            found,
            base_url=strip_invisible(os.environ.get("SLASHTAG_BASE_URL") or _ask("address of the service")),
            apikey=Secret(_ask("apikey", is_secret=True)),
            apisecret=Secret(_ask("apisecret", is_secret=True)),
        )
        used = {name: value for name, value in asdict(found).items() if name not in OF_COMMANDS}
        async with run.session(profile=None, **used) as session:
            await session.urls.page(pagesize=1)
    run.say(f"{'the service accepts them; ' * is_asked}saved in {save_login(found, run.profile)}")
    if found.apikey and is_of_environment:
        run.say(f"but commands use {' and '.join(VARIABLES)} of the environment while they are set")


def _print_profiles(run: Run) -> None:
    """Print the profiles with their settings, on stdout."""
    for name in profiles():
        try:
            saved = read_login(name)
        except ConfigurationError as error:
            run.warn(str(error), "not readable: ")
            continue
        known = {each: getattr(saved, each) for each in SETTINGS}
        # The proxy may have a password.
        shown = [f"{each}={'***' if each == 'proxy' else value}" for each, value in known.items() if value]
        print(name or "(no name)", *filter(None, [saved and saved.base_url, *shown]), sep="\t")


def _setting(text: str) -> tuple[str, object]:
    """Return the name and the value of a setting; raises InvalidRequestError for what is none."""
    given, equals, value = text.partition("=")
    name = given.strip().lower().replace("-", "_")
    if name not in SETTINGS or not equals:
        told = f"--set takes NAME=VALUE, of {', '.join(SETTINGS)}{did_you_mean(name, SETTINGS)}"
        raise InvalidRequestError(told)
    if not value:
        return name, None
    if name == "timezone":
        parse_zone(value)
    try:
        made = msgspec.convert({name: value}, Login, strict=False, dec_hook=lambda kind, text: kind(text))
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"--set {name}: {error}") from None
    return name, getattr(made, name)


def _ask(what: str, *, is_secret: bool = False) -> str:
    if sys.stdin.isatty():
        return strip_invisible(typer.prompt(what, hide_input=is_secret, err=True))
    line = strip_invisible(sys.stdin.readline())
    if not line:
        raise InvalidRequestError(f"no {what} on stdin")
    return line
