"""`--all-profiles`: the same command with every saved profile, one account after another."""

import os
import pickle
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Annotated

import typer
from typer import Option

from .. import ConfigurationError, SlashtagError
from ..export import Column, Row, Table
from . import credentials_file
from .errors import SOME_FAILED, report, say
from .options import Connection


@dataclass
class Accounts(Connection):
    """Options of a command that can run with every saved profile."""

    all_profiles: Annotated[
        bool,
        Option(
            "--all-profiles",
            rich_help_panel="The service",
            help="Ask the account of every saved profile, one after another; a column names it.",
        ),
    ] = False

    #: The account whose turn it is, None without --all-profiles.
    account: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        named = (self.base_url, "SLASHTAG_BASE_URL"), (self.profile, "SLASHTAG_PROFILE")
        if self.all_profiles and any(value != (os.environ.get(name) or None) for value, name in named):
            raise typer.BadParameter("--all-profiles goes without --profile and --base-url")

    def credentials(self) -> credentials_file.Found:
        """Return the address, apikey and apisecret to use; raises ConfigurationError."""
        found = credentials_file.load(self.profile) if self.all_profiles else None
        return found or super().credentials()

    def table(self, table: Table) -> Table:
        """Return the table to write, with --all-profiles one that has the account as its first column."""
        return Table((Column("account"), *table.columns)) if self.all_profiles else table

    async def each(self, work: Callable[[], Awaitable[None]]) -> list[str]:
        """Do the work for every account; one that fails is named at the end and does not stop the others.

        Returns those that failed. Raises typer.Exit if all do; without --all-profiles what the work raises.
        """
        if not self.all_profiles:
            await work()
            return []
        profiles, failed, code = credentials_file.profiles(), list[str](), SOME_FAILED
        if not profiles:
            raise ConfigurationError("no profiles are saved; `slashtag login --profile NAME` saves one")
        for self.profile in profiles:
            self.account = credentials_file.shown(self.profile)
            self.say(f"account {self.account}")
            try:
                await work()
            except SlashtagError as error:
                error.add_note(f"account {self.account}")
                code = report(error)
                failed.append(self.account)
            except typer.Exit:
                failed.append(self.account)
        if failed:
            self.left_out = True
            say(f"{len(failed)} of {len(profiles)} accounts: {', '.join(failed)}", label="failed: ")
        if len(failed) == len(profiles):
            raise typer.Exit(code)
        return failed


class Spool:
    """Rows of one account on disk: they are written where all are there, so that none of a failed one is."""

    def __init__(self, account: str | None, file: IO[bytes]) -> None:
        self._account = account
        self._file = file

    def write(self, rows: Iterable[Row], /) -> None:
        pickle.dump([(self._account, *row) for row in rows], self._file)

    def close(self) -> None:
        """Do nothing, as the rows are read later."""

    def batches(self) -> Iterator[list[Row]]:
        """Yield the rows."""
        self._file.seek(0)
        with suppress(EOFError):
            while True:
                yield pickle.load(self._file)  # noqa: S301 - our own file, without a name
