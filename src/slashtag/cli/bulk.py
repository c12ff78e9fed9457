"""`slashtag urls update --from`: changes of many links from a file, with `slashtag.bulk_update`."""

import sys
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

import typer

from .. import AsyncSession, InvalidRequestError, SlashtagError
from .._internal import many
from ..bulk_update import COLUMNS, BulkUpdate, ChangesError, preview
from ..export import Column, Table
from .errors import SOME_FAILED
from .options import option
from .output import Output
from .run import Run

_option = partial(option, rich_help_panel="Many links")

#: The most errors of a file that are printed.
MOST_ERRORS = 20
LEFT = Table((Column("line", "int"), Column("key"), Column("status"), Column("error")))
DIFFERENCES = Table((Column("line", "int"), Column("key"), Column("member"), Column("now"), Column("new")))


@dataclass(frozen=True)
class Bulk:
    """Options of an update from a file."""

    source: Path | None = _option(
        None,
        "--from",
        metavar="FILE",
        help=f"Changes: CSV or .xlsx with some of the columns {', '.join(COLUMNS)}; or an edited copy "
        "of `urls list`, whose changed rows are sent; - reads CSV from stdin.",
    )
    dry_run: bool = _option(False, "--dry-run", help="Show what would change, and change nothing.")
    keep: bool = _option(
        False,
        "--keep",
        help="Send the present destination and redirect code where a row has none.",
    )
    repeat_lost: bool = _option(
        False,
        "--repeat-lost",
        help="Send again changes whose answer was lost, in this run and in earlier ones.",
    )
    results: Path | None = _option(
        None,
        metavar="FILE",
        help="File that records the outcome of each row, read by the next run. Default: beside FILE.",
    )

    def __post_init__(self) -> None:
        if self.source is None and (self.dry_run or self.keep or self.repeat_lost or self.results):
            raise InvalidRequestError("--dry-run, --keep, --repeat-lost and --results belong to --from")


async def update_from(run: Run, bulk: Bulk, source: Path, output: Output) -> None:
    """Make the changes of a file that are left to make; exit with 3 where some were not made."""
    piped = str(source) == "-"
    if piped and bulk.results is None and not bulk.dry_run:
        raise InvalidRequestError("--from - needs --results FILE")
    if not piped and not source.is_file():
        raise InvalidRequestError(f"--from names no file: {source}")
    changes = BytesIO(sys.stdin.buffer.read()) if piped else source
    try:
        async with run.session() as session:
            if bulk.dry_run:
                left = await _show(run, session, bulk, changes, output)
            else:
                left = await _update(run, session, bulk, changes, output)
    except ChangesError as error:
        for problem in error.problems[:MOST_ERRORS]:
            run.lines.error(str(problem))
        if more := error.problems[MOST_ERRORS:]:
            run.lines.error(f"and {len(more):,} more")
        run.lines.error(error.summary)
        raise typer.Exit(1) from None
    if left:
        raise typer.Exit(SOME_FAILED)


async def _show(run: Run, session: AsyncSession, bulk: Bulk, changes: Path | BytesIO, output: Output) -> bool:
    """Print what the rows would change; return whether some would fail or stay unknown."""
    with run.bars() as start:
        shown = await preview(session, changes, outcomes=bulk.results, progress=start("reading", "links"))
    differences = [(each.line, str(each.key), each.member, each.now, each.new) for each in shown.differences]
    output.print(DIFFERENCES, differences)
    run.say(
        f"{many(shown.changed, 'row')} would change a link, {shown.unchanged:,} would change nothing, "
        f"{shown.missing:,} name no link or several, {shown.skipped:,} were done before; nothing was sent"
    )
    if shown.unknown:
        run.say(
            f"an earlier run sent {shown.unknown:,} of them without an answer; where a difference is listed, "
            "the change was not made, or was overwritten since"
        )
    return bool(shown.missing or (shown.unknown and not bulk.repeat_lost))


async def _update(
    run: Run, session: AsyncSession, bulk: Bulk, changes: Path | BytesIO, output: Output
) -> bool:
    """Send the changes, and print what is left and what to do next; return whether something is left."""
    with run.bars() as start:
        update = BulkUpdate(
            session,
            changes,
            outcomes=bulk.results,
            keep=bulk.keep,
            repeat_lost=bulk.repeat_lost,
            progress=start("updating", "rows"),
        )
        run.say_when_stopped(
            f"stopped; run the same command again to go on: {update.path} has the outcomes so far"
        )
        try:
            async with update:
                left = [outcome async for outcome in update if outcome.status != "done"]
        except SlashtagError as error:
            if update.undo_path is not None:
                error.add_note("run the same command again to go on")
            raise
    if left or output.form != "table":
        output.print(LEFT, sorted((each.line, str(each.key), each.status, each.error) for each in left))
    count = update.summary
    run.say(
        f"{many(count.done, 'row')} done, {count.failed:,} failed, {count.unknown:,} outcome unknown, "
        f"{count.skipped:,} done before; {run.cost()}; outcomes in {update.path}"
    )
    advice = {
        f"the links as they were: undo with --from {update.undo_path}": count.done or count.unknown,
        "password and domain are not in the listing: a row that has none sent none, and they are lost if the "
        "service resets them": bulk.keep,
        f"{count.unknown:,} unknown: run the same command again to see which were done; --repeat-lost sends "
        "the others again": count.unknown,
        "run the same command again to try what failed": count.failed,
    }
    for text, applies in advice.items():
        if applies:
            run.say(text)
    return bool(left)
