"""Exports as jobs: with a journal beside the file, the same command, run again, asks for the rest."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from hashlib import blake2b
from os.path import realpath
from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import AsyncSession, SlashtagError
from .._journal.file import JournalInUseError, UnfitJournalError
from ..export import Summary, Table, TableFile, Writer, open_writer
from ..export._target import remove_parts
from ..export._writers import format_of
from .errors import SOME_FAILED, as_usage, many
from .failures import Failures
from .options import MAX_AGE, Connection, RangeEnd
from .output import stdout

OUTPUT = "The output"
_NAME_BYTES = 200

Work = Callable[[AsyncSession, Writer], Awaitable[Summary]]


@dataclass(frozen=True)
class Destination:
    """Say where an export goes."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File, its name in .jsonl, .jsonl.gz, .csv, .csv.gz or .parquet; - or none: stdout.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None
    form: Annotated[
        Literal["jsonl", "csv"] | None,
        typer.Option(
            "--format",
            help="Form of what goes to stdout. Default: jsonl.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None
    excel_safe: Annotated[
        bool,
        typer.Option(
            "--excel-safe",
            help="In CSV, put ' before what a spreadsheet would run: = + - @.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Ask for everything, also what an interrupted run left beside the file.",
            rich_help_panel=OUTPUT,
        ),
    ] = False

    @property
    def file(self) -> Path | None:
        """Give the file to write, None for stdout."""
        return None if self.output is None or str(self.output) == "-" else self.output

    def __post_init__(self) -> None:
        if self.file is not None and self.form is not None:
            raise typer.BadParameter("--format is for stdout; the name of a file says its format")
        text = self.form == "csv" if self.file is None else ".csv" in self.file.name.lower()
        if self.excel_safe and not text:
            raise typer.BadParameter("--excel-safe is for CSV")


def journal_of(target: Path) -> Path:
    """Return the journal beside a target: hidden, so that `*` and readers of folders skip it."""
    path = Path(realpath(target))
    name, encoded = path.name, os.fsencode(path.name)
    if len(encoded) > _NAME_BYTES:
        name = name[:40] + blake2b(encoded, digest_size=8).hexdigest()
    return path.with_name(f".{name}.journal")


async def export(
    destination: Destination,
    connection: Connection,
    table: Table,
    work: Work,
    *,
    failures: Failures | None = None,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Write a table to a file or stdout, tell what came of it, and exit with 3 where keys failed."""
    file = destination.file
    if file is None:
        async with connection.session(range_end=range_end) as session:
            form = f".{destination.form or 'jsonl'}"
            writer = open_writer(form, stdout(), table, excel_safe=destination.excel_safe)
            summary = await work(session, writer)
            writer.close()
            sys.stdout.flush()
            sent = session.metrics.attempts
        conclude(connection, "stdout", summary, sent, failures)
        return
    # Whatever is wrong with the file is told before anything is asked or left behind.
    with as_usage():
        format_of(file)
    TableFile(file, table).abandon()
    async with resumed(
        connection, file, fresh=destination.fresh, failures=failures, range_end=range_end
    ) as run:
        with TableFile(file, table, excel_safe=destination.excel_safe) as writer:
            run.summary = await work(run.session, writer)
    conclude(connection, str(file), run.summary, run.session.metrics.attempts, failures)


@dataclass
class Run:
    """Hold one run of a job: its session, and what came of it."""

    session: AsyncSession
    summary: Summary


@asynccontextmanager
async def resumed(
    connection: Connection,
    target: Path,
    *,
    fresh: bool,
    failures: Failures | None = None,
    range_end: RangeEnd = "inclusive",
) -> AsyncGenerator[Run, None]:
    """Run a job with a journal beside its target; once it is done the journal goes.

    It stays where the job stopped, or where what failed may come right in another run.
    """
    journal = journal_of(target)
    ours = False
    try:
        session = connection.session(range_end=range_end, journal=journal, max_age=0.0 if fresh else MAX_AGE)
        async with session:
            ours = True
            # The journal is ours, so no other run is under way.
            path = Path(realpath(target))
            remove_parts(path.parent, [path.name], nobody_writes=True)
            yield Run(session, _NOTHING)
        if failures is not None:
            failures.commit()
    except BaseException as error:
        if ours and _is_empty(journal):
            # Of nothing there is to go on with; and it may be bound to credentials that were wrong.
            _remove(journal)
        elif isinstance(error, asyncio.CancelledError):
            connection.stop(
                f"stopped; run the same command again to go on: {journal} holds what was answered"
            )
        elif isinstance(error, SlashtagError):
            _advise(error, target, journal)
        raise
    finally:
        if failures is not None:
            failures.discard()
    if failures is None or not failures.may_come_right:
        _remove(journal)


def _is_empty(journal: Path) -> bool:
    if Path(f"{journal}-wal").exists():
        # Its end could not be written where it belongs, say on a full disk.
        return False
    try:
        # Immutable: to look at it must leave nothing beside it.
        with closing(sqlite3.connect(f"{journal.absolute().as_uri()}?immutable=1", uri=True)) as file:
            return not file.execute("SELECT EXISTS (SELECT 1 FROM response)").fetchone()[0]
    except sqlite3.Error:
        return False


def _remove(journal: Path) -> None:
    for left in (journal, Path(f"{journal}-wal"), Path(f"{journal}-shm")):
        left.unlink(missing_ok=True)


_NOTHING = Summary(rows=0, requests=0, replayed=0, throttled=0, seconds=0.0, learned_rate=None)


def _advise(error: SlashtagError, target: Path, journal: Path) -> None:
    if isinstance(error, JournalInUseError):
        error.add_note(f"another export to {target} is under way")
    elif isinstance(error, UnfitJournalError):
        error.add_note("remove it to begin anew")
    elif str(journal) not in str(error) and journal.exists():
        error.add_note("run the same command again to go on")


def conclude(
    connection: Connection, where: str, summary: Summary, sent: int, failures: Failures | None
) -> None:
    """Tell what came of an export, and exit with 3 where keys failed."""
    # `sent`, as not all requests of the summary are: pages beyond the end were about to be asked for.
    parts = [
        f"{many(summary.rows, 'row')} to {where}; requests: {summary.replayed:,} replayed, {sent:,} asked; "
        f"{summary.throttled:,} times 429; {summary.seconds:.1f} s"
    ]
    if summary.learned_rate is not None:
        parts.append(f"{summary.learned_rate:.0f} requests/s allowed")
    if failures is not None:
        # Of what failed nobody knows.
        of = "of what was answered " if failures.count else ""
        parts.append(
            f"the days {of}add up to the totals"
            if summary.reconciles
            else "THE DAYS OF SOME WINDOWS are missing or do not add up to the total that the service told"
        )
    connection.say("; ".join(parts))
    tell_shared(connection, summary.shared)
    if failures is not None and failures.count:
        connection.say(failures.summary())
        raise typer.Exit(SOME_FAILED)


def tell_shared(connection: Connection, slashtags: int) -> None:
    """Tell of how many slashtags the rows count links beside those that were selected."""
    if slashtags:
        belong = "belongs" if slashtags == 1 else "belong"
        connection.say(
            f"{many(slashtags, 'slashtag')} {belong} to several links, on different domains: the service "
            "counts clicks by slashtag, so the rows hold those of all these links, selected or not"
        )
