"""`slashtag export`: links, tags and clicks into files, resumable; `slashtag diff`: what differs between two.

With a journal beside the file, the same command run again requests only what it lacks or may have changed.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from os.path import realpath
from pathlib import Path

import typer
from msgspec.structs import astuple
from typer import Argument, Option

from ... import AsyncSession, InvalidRequestError, Progress
from ..._internal import remove_journal
from ..._wording import many
from ...export import (
    NAMED_URLS,
    TAGS,
    By,
    Summary,
    begins_anew,
    clicks_table,
    export_clicks,
    export_tags,
    export_urls,
)
from ...tables import RowDifference, Table, Writer, compare_files
from ..output import OutputOptions, table_of
from ..run import Run, command
from ..selection import PeriodArguments, SelectionOptions, warn_of_shared
from ..stderr import Lines

app = typer.Typer()
File = partial(Argument, exists=True, dir_okay=False)
DIFFERENCES = table_of(RowDifference.__struct_fields__)
_option = partial(Option, rich_help_panel="The output")


@app.command("urls")
@command
async def urls(output: OutputOptions, run: Run) -> None:
    """Export every link of the account."""
    await _export(output, run, NAMED_URLS, "links", export_urls)


@app.command("tags")
@command
async def tags(output: OutputOptions, run: Run) -> None:
    """Export every tag of the account."""
    await _export(output, run, TAGS, "tags", export_tags)


@app.command("clicks")
@command
async def clicks(
    period: PeriodArguments,
    selection: SelectionOptions,
    output: OutputOptions,
    run: Run,
    by: By = _option(
        "slashtag",
        help="A series for each link, or for each tag; of all tags also one for the links without.",
    ),
    dimensions: bool = _option(
        False, "--dimensions", help="Devices, browsers, platforms, countries and referrers instead of days."
    ),
) -> None:
    """Export the clicks of a range of days: a row for every link and day, zeros too.

    What fails is printed while the rest goes on; the exit code is then 3. Where the service cannot be reached
    or nothing is answered, it stops with 1 and the file stays as it was.
    """
    resolved = period.resolve(selection.timezone)
    if by == "tag" and not (selection.tag or selection.all_links):
        raise InvalidRequestError("--by tag goes with --tag or all links; `stats` counts others by tag")
    table = clicks_table(by, dimensions=dimensions)

    async def work(session: AsyncSession, writer: Writer, *, progress: Progress) -> Summary:
        selected = await selection.resolve(run, session, progress)
        summary = await export_clicks(
            session,
            resolved.whole,  # export_clicks leaves out the days after today
            writer,
            keys=selected.keys,
            tags=selected.tags,
            by=by,
            dimensions=dimensions,
            timezone=selection.timezone,
            progress=progress,
            on_error=run.note_failure,
        )
        if by == "slashtag" and not selection.all_links:
            # Rows have clicks of links that are not selected too.
            warn_of_shared(run, summary.shared if selected.keys is None else selected.shared)
        return summary

    await _export(output, run, table, "steps", work, resolved.days, **selection.told)


async def _export(
    output: OutputOptions,
    run: Run,
    table: Table,
    unit: str,
    work: Callable[..., Awaitable[Summary]],
    span: str = "",
    **told: str,
) -> None:
    """Write a table to a file or stdout, and print how it went; progress is counted in units.

    Answers about the clicks of a `span` are kept beside a file, and how links are named and tagged. `told`
    has further fields of what the file says of itself.
    """
    journal = links = None
    if span and output.file is not None:
        path = Path(realpath(output.file))
        # Hidden, so that `*` and readers of folders skip it.
        journal, links = (path.with_name(f".{path.name}.{ending}") for ending in ("journal", "links"))
        run.resumes_from = journal
        # With the journal, which is refused first if it is another account's.
        async with run.session(journal=journal) as session:
            is_anew = await begins_anew(session, links)
        if is_anew:
            run.say("links were renamed, retagged or deleted since the last run: all is counted anew")
            remove_journal(journal)
    try:
        async with run.session(journal=journal) as session:
            with output.writer(table, before=run.end_bars) as writer, run.bars() as start_bar:
                summary = await work(session, writer, progress=start_bar("exporting", unit))
                if not summary.reconciles:
                    run.warn("some figures are missing, or do not add up to the totals", "incomplete: ")
                writer.about = run.about(session, span=span, missing=",".join(summary.missing), **told)
        # Not if another run may get an answer to what failed.
        if journal is not None and not run.failures:
            remove_journal(journal)
    finally:
        if journal is not None and links is not None and not journal.exists():
            links.unlink(missing_ok=True)
    run.say(f"{many(summary.rows, 'row')} to {output.place}; {run.cost()}")
    run.say(str(writer.about))


@command
def diff(
    output: OutputOptions,
    old: Path = File(metavar="OLD", help="The earlier file."),
    new: Path = File(metavar="NEW", help="The later file."),
) -> None:
    """Show which rows of two listings or two exports were added, are gone or changed, and clicks by how much.

    The formats may differ. Hits, updated_at and percent are not compared. Exits with 1 where they differ.
    Nothing is sent.
    """
    with compare_files(old, new) as found, output.writer(DIFFERENCES) as writer:
        writer.write(map(astuple, found))
    rows = ("rows", found.rows), *found.clicks.items()
    told = ", ".join(f"{before:,} and {after:,} {name}" for name, (before, after) in rows)
    changes = [f"{found.count[change]:,} {change}" for change in ("added", "gone", "changed")]
    Lines().print(f"{', '.join(changes) if found.count else 'equal'}: {told}")
    if found.count:
        raise typer.Exit(1)
