"""`--all-profiles`: the same command with every saved profile, one account after another."""

import pickle
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Annotated

import typer
from typer import Option

from .. import ConfigurationError, ExportError, SlashtagError
from ..export import Column, Row, Table, Writer
from . import credentials_file
from .errors import report, say
from .options import Connection


def _without_another(context: typer.Context, all_profiles: bool) -> bool:
    """Refuse --all-profiles with --profile or --base-url; their variables do not matter."""
    sources = map(context.get_parameter_source, ("profile", "base_url"))
    if all_profiles and any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise typer.BadParameter("--all-profiles goes without --profile and --base-url")
    return all_profiles


@dataclass
class Accounts(Connection):
    """Options of a command that can run with every saved profile."""

    all_profiles: Annotated[
        bool,
        Option(
            "--all-profiles",
            callback=_without_another,
            rich_help_panel="The service",
            help="Ask the account of every saved profile, one after another; a column names it.",
        ),
    ] = False

    #: The current account, None without --all-profiles.
    account: str | None = field(default=None, init=False)

    def credentials(self) -> credentials_file.Found:
        """Return the address, apikey and apisecret to use; raises ConfigurationError."""
        return credentials_file.load(self.profile) if self.all_profiles else super().credentials()

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
        profiles, failed = credentials_file.profiles(), list[str]()
        if not profiles:
            raise ConfigurationError("no profiles are saved; `slashtag login --profile NAME` saves one")
        for self.profile in profiles:
            self.account = self.profile or credentials_file.NAMELESS
            self.say(f"account {self.account}")
            try:
                await work()
            except ExportError:
                # The file is that of all accounts.
                raise
            except (SlashtagError, typer.Exit) as error:
                failed.append(self.account)
                if isinstance(error, SlashtagError):
                    error.add_note(f"account {self.account}")
                    report(error)
        if failed:
            self.left_out = True
            say(f"{len(failed)} of {len(profiles)} accounts: {', '.join(failed)}", label="failed: ")
        if len(failed) == len(profiles):
            raise typer.Exit(1)
        return failed

    @contextmanager
    def held_back(self, writer: Writer) -> Generator[Writer, None, None]:
        """Keep the rows of an account on disk and write them at the end: none if it fails before."""
        with TemporaryFile() as file:
            yield _Spool(file)
            file.seek(0)
            with suppress(EOFError):
                while True:
                    rows: list[Row] = pickle.load(file)  # noqa: S301 - our own file, without a name
                    writer.write((self.account, *row) for row in rows)


class _Spool:
    """Writer of rows to a temporary file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, rows: Iterable[Row], /) -> None:
        pickle.dump(list(rows), self._file)

    def close(self) -> None:
        """Do nothing, as the rows are read later."""
