"""Which service a command uses: its options, and what the environment or a saved login has."""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from typer import Option

from .. import ConfigurationError
from .._internal import Secret, strip_invisible
from .._saved_logins import VARIABLES, Login, find_saved, profiles, settings

_option = partial(Option, rich_help_panel="The service")
#: Settings of commands, which no session takes.
_OF_COMMANDS = {"timezone", "log_format"}


@dataclass(frozen=True)
class SessionOptions:
    """Options of which account is used, how fast, and what is printed on stderr."""

    profile: str | None = _option(
        None,
        # Read before --timezone, whose default may stand in its file.
        is_eager=True,
        envvar="SLASHTAG_PROFILE",
        show_envvar=False,
        metavar="NAME",
        help="The account that `slashtag login` saved by this name.",
    )
    rate: float | None = _option(
        None, min=0.001, metavar="N", help="Requests/s that the service allows; else learnt."
    )
    verbose: int = _option(
        0,
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        metavar="",
        help="Log retries and throttling; -vv: every request.",
    )
    quiet: bool = _option(False, "--quiet", "-q", help="Print only errors and what was left out.")

    def of_session(self, login: Login | None = None) -> dict[str, Any]:
        """Return the options of AsyncSession but for the credentials; raises ConfigurationError.

        They are those of a login that is not saved yet, or else of the one that is used.
        """
        found = {"rate": self.rate, **settings(login or self.profile)}
        return {name: value for name, value in found.items() if name not in _OF_COMMANDS}


def find_credentials(options: SessionOptions) -> Login:
    """Return the address and credentials to use; raises ConfigurationError.

    All are of one place: the file of a profile that is named, else the environment, else the file without a
    profile.
    """
    if (saved := find_saved(options.profile)) is not None:
        return saved
    names = ("SLASHTAG_BASE_URL", *VARIABLES)
    if missing := [name for name in names if not strip_invisible(os.environ.get(name, ""))]:
        named = ""
        with suppress(ConfigurationError):  # there may be no folder for them
            named = ", ".join(filter(None, profiles()))
        chooses = f"--profile chooses saved ones ({named}), " if named else ""
        raise ConfigurationError(
            f"not set in the environment: {', '.join(missing)}; `slashtag login` saves them, "
            f"{chooses}`slashtag sandbox` prints some to try"
        )
    # In no variable, which a traceback may show.
    return Login(
        base_url=strip_invisible(os.environ["SLASHTAG_BASE_URL"]),
        apikey=Secret(strip_invisible(os.environ[VARIABLES[0]])),
        apisecret=Secret(strip_invisible(os.environ[VARIABLES[1]])),
    )
