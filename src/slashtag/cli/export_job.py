"""Exports as jobs: with a journal beside the file, the same command run again requests only the rest."""

import sqlite3
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from os.path import realpath
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer
from typer import Option

from .. import AsyncSession, SlashtagError
from .._internal import JournalInUseError, UnfitJournalError, many, remove_journal
from ..export import (
    FORMATS,
    TEXT_FORMATS,
    Summary,
    Table,
    TableFile,
    TextFormat,
    Writer,
    ending_of,
    format_of,
    open_writer,
    remove_parts,
)
from .accounts import Accounts, Spool
from .errors import as_usage
from .failures import Failures
from .options import MAX_AGE, Connection, RangeEnd
from .output import stdout

OUTPUT = "The output"
_option = partial(Option, rich_help_panel=OUTPUT)

Work = Callable[[AsyncSession, Writer, Failures | None], Awaitable[Summary]]


@dataclass(frozen=True)
class Destination:
    """Options about the output of an export."""

    output: Annotated[
        Path | None,
        _option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"File, its name in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; - or none: stdout.",
        ),
    ] = None
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
    def file(self) -> Path | None:
        """File to write, None for stdout."""
        return None if self.output is None or str(self.output) == "-" else self.output

    @property
    def stdout_format(self) -> str:
        """Format of what goes to stdout."""
        return f".{self.form or TEXT_FORMATS[0]}"

    @contextmanager
    def writer(self, table: Table) -> Generator[Writer, None, None]:
        """Open the file or stdout for the rows of a table."""
        if self.file is not None:
            with TableFile(self.file, table, excel_safe=self.excel_safe) as target:
                yield target
        else:
            writer = open_writer(self.stdout_format, stdout(), table, excel_safe=self.excel_safe)
            yield writer
            writer.close()
            sys.stdout.flush()

    def __post_init__(self) -> None:
        if self.file is not None and self.form is not None:
            raise typer.BadParameter("--format is for stdout; the name of a file says its format")
        ending = self.stdout_format if self.file is None else ending_of(self.file)
        if self.excel_safe and not (ending and ending.startswith(".csv")):
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
    merged: bool = False,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Write a table of one or all accounts to a file or stdout, and print how it went.

    `work` is called with Failures if there are `max_failures`.
    """
    file, table = destination.file, connection.table(table)
    if file is not None:
        # Whatever is wrong with the file is reported before anything is sent or left behind.
        with as_usage():
            format_of(file)
        TableFile(file, table).abandon()
    journals: list[Path] = []

    async def answer(opened: Callable[[], AbstractContextManager[Writer]]) -> None:
        target = file
        if file is not None and connection.account is not None and connection.profile:
            target = file.with_name(f"{file.name}.{connection.profile}")
        failures = None if max_failures is None else Failures(target, max_failures, merged=merged)
        max_age = 0.0 if destination.fresh else MAX_AGE
        session_of: AbstractAsyncContextManager[AsyncSession]
        if target is None:
            session_of = connection.session(range_end=range_end)
        else:
            session_of = _journaled(connection, target, max_age, failures, range_end, journals)
        async with session_of as session:
            with opened() as writer:
                summary = await work(session, writer, failures)
        _conclude(connection, file, summary, session.metrics.attempts, failures)

    if connection.all_profiles:
        spools: list[Spool] = []

        async def answer_account() -> None:
            spool = Spool(connection.account, stack.enter_context(TemporaryFile()))  # noqa: SIM115
            await answer(lambda: nullcontext(spool))
            spools.append(spool)

        with ExitStack() as stack:
            failed = await connection.each(answer_account)
            with destination.writer(table) as writer:
                for spool in spools:
                    for rows in spool.batches():
                        writer.write(rows)
        if failed:
            # The next run takes from the journals what the other accounts answered.
            return
    else:
        await answer(lambda: destination.writer(table))
    for journal in journals:
        remove_journal(journal)


@asynccontextmanager
async def _journaled(
    connection: Connection,
    target: Path,
    max_age: float,
    failures: Failures | None,
    range_end: RangeEnd,
    journals: list[Path],
) -> AsyncGenerator[AsyncSession, None]:
    """Make a session with a journal beside the target, and add it to `journals` once the job is done.

    It is not added if the job stopped, or if another run may get an answer to what failed.
    """
    path = Path(realpath(target))
    journal = journal_of(target)
    ours = False
    try:
        async with connection.session(range_end=range_end, journal=journal, max_age=max_age) as session:
            ours = True
            connection.stopped = (
                f"stopped; run the same command again to go on: {journal} holds the answers so far"
            )
            # The journal is ours, so no other run is under way.
            remove_parts(path.parent, [path.name], nobody_writes=True)
            yield session
        if failures is not None:
            failures.commit()
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
    finally:
        if failures is not None:
            failures.discard()
    if failures is None or not failures.may_come_right:
        journals.append(journal)


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


def _conclude(
    connection: Connection, file: Path | None, summary: Summary, sent: int, failures: Failures | None
) -> None:
    """Print how an export went, and exit with 3 if keys failed."""
    # `sent` and not the requests of the summary, which include pages beyond the end that were never sent.
    parts = [
        f"{many(summary.rows, 'row')} to {file or 'stdout'}",
        f"requests: {summary.replayed:,} replayed, {sent:,} sent",
        f"{many(summary.throttled, 'time')} 429",
        f"{summary.seconds:.1f} s",
    ]
    if summary.learned_rate is not None:
        parts.append(f"{summary.learned_rate:.0f} requests/s allowed")
    if not summary.reconciles:
        parts.append(
            "THE DAYS OF SOME WINDOWS are missing or do not add up to the total that the service gave"
        )
    elif failures is not None:
        parts.append(f"the days {'of what was answered ' * bool(failures.count)}add up to the totals")
    connection.say("; ".join(parts))
    if summary.shared:
        connection.say(
            f"slashtags that several links share: {summary.shared:,}; the service counts clicks by slashtag, "
            "so the rows hold those of all these links, on whatever domain and selected or not"
        )
    if failures is not None:
        failures.conclude(connection)
