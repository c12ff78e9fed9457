"""Exports as jobs: with a journal beside the file, the same command run again requests only the rest."""

import sqlite3
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from os.path import realpath
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from typer import Option

from .. import AsyncSession, SlashtagError
from .._internal import JournalInUseError, UnfitJournalError, many, remove_journal
from ..export import (
    TEXT_FORMATS,
    Summary,
    Table,
    TableFile,
    TextFormat,
    Writer,
    format_of,
    open_writer,
)
from .accounts import Accounts
from .failures import Failures
from .options import MAX_AGE, Connection, RangeEnd
from .output import OutputFile, stdout
from .selection import note_of_shared

_option = partial(Option, rich_help_panel="The output")

Work = Callable[[AsyncSession, Writer, Failures | None], Awaitable[Summary]]


@dataclass(frozen=True)
class Destination:
    """Options about the output of an export."""

    output: OutputFile = None
    form: Annotated[
        TextFormat | None,
        _option("--format", help=f"Format of what goes to stdout. Default: {TEXT_FORMATS[0]}."),
    ] = None
    excel_safe: Annotated[
        bool,
        _option(
            "--excel", help="CSV for Excel: with a BOM, and ' before what a spreadsheet would run: = + - @."
        ),
    ] = False
    fresh: Annotated[
        bool,
        _option(
            "--fresh", help="Request everything again, also what an interrupted run has beside the file."
        ),
    ] = False

    @property
    def format(self) -> str:
        """Format of the file, or of what goes to stdout."""
        return f".{self.form or TEXT_FORMATS[0]}" if self.output is None else format_of(self.output)

    @contextmanager
    def writer(self, table: Table) -> Generator[Writer, None, None]:
        """Open the file or stdout for the rows of a table."""
        if self.output is not None:
            with TableFile(self.output, table, excel_safe=self.excel_safe) as target:
                yield target
        else:
            writer = open_writer(self.format, stdout(), table, excel_safe=self.excel_safe)
            yield writer
            writer.close()
            sys.stdout.flush()

    def __post_init__(self) -> None:
        if self.output is not None and self.form is not None:
            raise typer.BadParameter("--format is for stdout; the name of a file says its format")
        if self.excel_safe and not self.format.startswith(".csv"):
            raise typer.BadParameter("--excel is for CSV; .xlsx needs no option")


def journal_of(target: Path) -> Path:
    """Return the journal beside a target: hidden, so that `*` and readers of folders skip it."""
    path = Path(realpath(target))
    return path.with_name(f".{path.name}.journal")


async def export(
    destination: Destination,
    connection: Accounts,
    table: Table,
    work: Work,
    *,
    max_failures: int | None = None,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Write a table of one or all accounts to a file or stdout, and print how it went.

    `work` is called with Failures if there are `max_failures`.
    """
    file, table = destination.output, connection.table(table)
    if file is not None:
        # Whatever is wrong with the file is reported before anything is sent or left behind.
        TableFile(file, table).abandon()
    journals: list[Path] = []
    failed: list[str] = []

    async def answer(opening: AbstractContextManager[Writer]) -> None:
        target = file
        if file is not None and connection.account is not None and connection.profile:
            target = file.with_name(f"{file.name}.{connection.profile}")
        failures = None if max_failures is None else Failures(target, max_failures)
        max_age = 0.0 if destination.fresh else MAX_AGE
        with failures or nullcontext():
            async with _session(connection, target, max_age, range_end) as session:
                with opening as writer:
                    summary = await work(session, writer, failures)
        # Not if another run may get an answer to what failed.
        if target is not None and (failures is None or not failures.may_come_right):
            journals.append(journal_of(target))
        _conclude(connection, file, summary, failures)

    if connection.all_profiles:
        with destination.writer(table) as writer:

            async def answer_account() -> None:
                with connection.held_back(writer) as held_back:
                    await answer(nullcontext(held_back))

            failed = await connection.each(answer_account)
    else:
        await answer(destination.writer(table))
    # If accounts failed, the next run takes from the journals what the others answered.
    for journal in journals if not failed else ():
        remove_journal(journal)


@asynccontextmanager
async def _session(
    connection: Connection, target: Path | None, max_age: float, range_end: RangeEnd
) -> AsyncGenerator[AsyncSession, None]:
    """Make a session with a journal beside the target, if there is one."""
    if target is None:
        async with connection.session(range_end=range_end) as session:
            yield session
        return
    journal = journal_of(target)
    ours = False
    try:
        async with connection.session(range_end=range_end, journal=journal, max_age=max_age) as session:
            ours = True
            connection.stopped = (
                f"stopped; run the same command again to go on: {journal} holds the answers so far"
            )
            yield session
    except BaseException as error:
        if ours and _is_empty(journal):
            # It holds nothing to go on with, and may be bound to credentials that were wrong.
            remove_journal(journal)
            connection.stopped = "stopped"
        elif isinstance(error, JournalInUseError):
            error.add_note(f"another export to {target} is under way")
        elif isinstance(error, UnfitJournalError):
            error.add_note("remove it to begin anew")
        elif isinstance(error, SlashtagError) and str(journal) not in str(error) and journal.exists():
            error.add_note("run the same command again to go on")
        raise


def _is_empty(journal: Path) -> bool:
    if Path(f"{journal}-wal").exists():
        # The log could not be written back, say on a full disk.
        return False
    try:
        # Immutable: reading it must leave no file beside it.
        with closing(sqlite3.connect(f"{journal.absolute().as_uri()}?immutable=1", uri=True)) as file:
            return not file.execute("SELECT EXISTS (SELECT 1 FROM response)").fetchone()[0]
    except sqlite3.Error:
        return False


def _conclude(connection: Connection, file: Path | None, summary: Summary, failures: Failures | None) -> None:
    """Print how an export went, and exit with 3 if keys failed."""
    metrics = connection.made[-1]
    # Attempts and not requests, which include pages beyond the end that were never sent.
    parts = [
        f"{many(summary.rows, 'row')} to {file or 'stdout'}",
        f"requests: {metrics.replayed:,} replayed, {metrics.attempts:,} sent",
        f"{many(metrics.throttled, 'time')} 429",
        f"{perf_counter() - connection.began:.1f} s",
    ]
    if metrics.learned_rate is not None:
        parts.append(f"{metrics.learned_rate:.0f} requests/s allowed")
    if not summary.reconciles:
        connection.left_out = True
        parts.append(
            "THE DAYS OF SOME WINDOWS are missing or do not add up to the total that the service gave"
        )
    elif failures is not None:
        parts.append(f"the days {'of what was answered ' * bool(failures.count)}add up to the totals")
    connection.say("; ".join(parts))
    if summary.shared:
        connection.say(note_of_shared(summary.shared))
    if failures is not None:
        failures.conclude(connection)
