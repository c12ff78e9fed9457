"""`slashtag urls update --from`: changes of many links from a file, with `slashtag.bulk_update`."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from .. import AsyncSession, SlashtagError
from .._internal import many
from ..bulk_update import COLUMNS, BulkUpdate, ChangeRow, ChangesError, needs_links, preview, read_changes
from ..export import Column, Table, names_of_tags
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
        help="Read all links first, and send destination and redirect code again where a row has none.",
    )
    repeat_lost: bool = _option(
        False,
        "--repeat-lost",
        help="Send again changes whose answer was lost, in this run and in earlier ones, except renames "
        "by slashtag.",
    )
    results: Path | None = _option(
        None,
        metavar="FILE",
        help="File that records the outcome of each row, read by the next run. Default: beside FILE.",
    )

    def __post_init__(self) -> None:
        if self.source is None and (self.dry_run or self.keep or self.repeat_lost or self.results):
            raise typer.BadParameter("--dry-run, --keep, --repeat-lost and --results belong to --from")


async def update_from(run: Run, bulk: Bulk, source: Path, output: Output) -> None:
    """Make the changes of a file that are left to make; exit with 3 where some were not made."""
    piped = str(source) == "-"
    if piped and bulk.results is None:
        raise typer.BadParameter("--from - needs --results FILE")
    if not piped and not source.is_file():
        raise typer.BadParameter(f"--from names no file: {source}")
    path = bulk.results or source.with_name(f"{source.stem}.results.jsonl")
    try:
        async with run.session() as session:
            rows = await _read(run, session, source)
            if bulk.dry_run:
                await _show(run, session, rows, path, output)
            else:
                await _update(run, session, bulk, rows, path, output)
    except ChangesError as error:
        for problem in error.problems[:MOST_ERRORS]:
            run.say_loudly(str(problem), "error: ")
        if more := error.problems[MOST_ERRORS:]:
            run.say_loudly(f"and {len(more):,} more", "error: ")
        run.say_loudly(error.summary, "error: ")
        raise typer.Exit(1) from None


async def _read(run: Run, session: AsyncSession, source: Path) -> list[ChangeRow]:
    """Read the changes, compared with the links of the account where the file is a listing."""
    data = sys.stdin.buffer.read() if str(source) == "-" else None
    if not needs_links(source, data=data):
        return read_changes(source, data=data)
    with run.bars() as start:
        names = await names_of_tags(session)
        links = await session.urls.list(progress=start("comparing", "links"), anew=True).to_list()
    rows = read_changes(source, data=data, links=links, tag_names=names)
    run.say(f"{many(len(rows), 'row')} of the listing to change; rows as they were send nothing")
    return rows


async def _show(run: Run, session: AsyncSession, rows: list[ChangeRow], path: Path, output: Output) -> None:
    """Print what the rows would change."""
    with run.bars() as start:
        shown = await preview(session, rows, outcomes=path, progress=start("reading", "links"))
    differences = [(each.line, str(each.key), each.member, each.now, each.new) for each in shown.differences]
    output.print(DIFFERENCES, differences)
    run.say(
        f"{many(shown.changed, 'row')} would change a link, {shown.unchanged:,} would change nothing, "
        f"{shown.missing:,} name no link or several, {shown.skipped:,} were done before; nothing was sent"
    )
    if shown.unknown:
        run.say(
            f"{shown.unknown:,} of them were sent before and got no answer: where destination, slashtag or "
            "redirect code would change, they were not done, or somebody has changed it since"
        )


async def _update(
    run: Run,
    session: AsyncSession,
    bulk: Bulk,
    rows: list[ChangeRow],
    path: Path,
    output: Output,
) -> None:
    """Send the changes, and print what is left and what to do next; exit with 3 where something is left."""
    run.say_when_stopped(f"stopped; run the same command again to go on: {path} has the outcomes so far")
    try:
        with run.bars() as start:
            async with BulkUpdate(
                session,
                rows,
                outcomes=path,
                keep=bulk.keep,
                repeat_lost=bulk.repeat_lost,
                progress=start("updating", "rows"),
            ) as update:
                left = [outcome async for outcome in update if outcome.status != "done"]
    except SlashtagError as error:
        if session.metrics.attempts and not isinstance(error, ChangesError):
            error.add_note("run the same command again to go on")
        raise
    if left or output.form != "table":
        output.print(LEFT, sorted((each.line, str(each.key), each.status, each.error) for each in left))
    count = update.summary
    run.say(
        f"{many(count.done, 'row')} done, {count.failed:,} failed, {count.unknown:,} outcome unknown, "
        f"{count.skipped:,} done before; {run.cost()}; outcomes in {path}"
    )
    advice = {
        "password and domain are not in the listing: a row that has none sent none, and they are lost if the "
        "service resets them": bulk.keep,
        f"{count.unknown:,} unknown: see with --dry-run what they would change, then send them again with "
        "--repeat-lost, but for renames by slashtag, which are not repeated: rename by id": count.unknown,
        "run the same command again to try what failed": count.failed,
    }
    for text, applies in advice.items():
        if applies:
            run.say(text)
    if left:
        raise typer.Exit(SOME_FAILED)
