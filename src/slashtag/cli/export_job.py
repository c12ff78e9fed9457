"""Exports as jobs: with a journal beside the file, the same command run again requests only the rest."""

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from typing import Any, ClassVar

from .. import AsyncSession, ExportError, JournalError, SlashtagError
from .._internal import JournalInUseError, UnfitJournalError, many, remove_journal
from ..export import Summary, Table, Writer
from .failures import Failures
from .options import option
from .output import Output
from .progress import Begin
from .run import Run
from .selection import note_of_shared

Work = Callable[[AsyncSession, Writer, Begin, Failures], Awaitable[Summary]]


@dataclass
class Destination(Output):
    """Options about the output of an export; without a file or form, JSON Lines."""

    fresh: bool = option(
        False,
        "--fresh",
        rich_help_panel="The output",
        help="Request everything again, also what an interrupted run has beside the file.",
    )

    drawn_by_default: ClassVar[bool] = False


def journal_of(target: Path) -> Path:
    """Return the journal beside a target: hidden, so that `*` and readers of folders skip it."""
    path = Path(realpath(target))
    return path.with_name(f".{path.name}.journal")


async def export(
    destination: Destination,
    run: Run,
    table: Table,
    work: Work,
    *,
    max_failures: int = 0,
) -> None:
    """Write a table to a file or stdout, and print how it went."""
    target = destination.output
    failures = Failures(run.lines, target, max_failures)
    written: list[Summary] = []
    try:
        with failures:
            async with _session(run, target, fresh=destination.fresh) as session:
                with destination.writer(table) as writer, run.bars() as begin:
                    summary = await work(session, writer, begin, failures)
                written.append(summary)
    except JournalError:
        # The file is in place, so nothing needs the journal any more.
        if not written:
            raise
    (summary,) = written
    run.say(
        f"{many(summary.rows, 'row')} to {target or 'stdout'}; {run.cost()}", rows=summary.rows, file=target
    )
    if not summary.reconciles:
        run.mark_incomplete()
        run.say("SOME FIGURES are missing, or do not add up to the totals that the service gave")
    if summary.shared:
        run.say(note_of_shared(summary.shared))
    failures.conclude(run)
    # Not if another run may get an answer to what failed.
    if target is not None and not failures.may_come_right:
        journal = journal_of(target)
        if not remove_journal(journal):
            run.say(f"{journal} cannot be removed; give --fresh next time, or its answers are taken again")


@asynccontextmanager
async def _session(run: Run, target: Path | None, *, fresh: bool) -> AsyncGenerator[AsyncSession, None]:
    """Make a session with a journal beside the target, if there is one."""
    journal = None if target is None else journal_of(target)
    options: dict[str, Any] = {"journal_max_age": 0.0} if fresh else {}
    try:
        async with run.session(journal=journal, **options) as session:
            if journal is not None:
                run.say_when_stopped(
                    f"stopped; run the same command again to go on: {journal} holds the answers so far"
                )
            yield session
    except BaseException as error:
        if isinstance(error, JournalInUseError):
            error.add_note(f"another export to {target} is under way")
        elif isinstance(error, UnfitJournalError):
            error.add_note("remove it to begin anew")
        elif journal is None or not journal.exists() or _is_empty(journal):
            # There is nothing to go on with.
            run.say_when_stopped("stopped")
            if journal is not None:
                remove_journal(journal)
        elif _can_go_on(error) and str(journal) not in str(error):
            error.add_note("run the same command again to go on")
        raise


def _is_empty(journal: Path) -> bool:
    """Return whether a journal has no answers, as far as it can be read."""
    # Immutable: reading it must leave no file beside it.
    uri = f"{journal.absolute().as_uri()}?immutable=1"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as file:
        has_answers = file.execute("SELECT EXISTS (SELECT 1 FROM response)").fetchone()[0]
        # A log stays where it could not be written back, say on a full disk.
        return not has_answers and not Path(f"{journal}-wal").exists()
    return False


def _can_go_on(error: BaseException) -> bool:
    """Return whether the same command may succeed later; not if the format cannot hold the rows."""
    is_of_format = isinstance(error, ExportError) and not isinstance(error.__context__, OSError)
    return isinstance(error, SlashtagError) and not is_of_format
