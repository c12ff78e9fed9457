"""`slashtag export`: links, tags and clicks into files, resumable."""

from functools import partial
from typing import Annotated

import typer
from typer import Option

from ... import AsyncSession, DateRange
from ...export import (
    NAMED_URLS,
    TAGS,
    By,
    Summary,
    Writer,
    begun,
    clicks_table,
    dimensions_table,
    export_clicks,
    export_tags,
    export_urls,
)
from ..dryrun import bounds_of_each, print_plan
from ..export_job import Destination, export
from ..failures import Failures, MaxFailures
from ..options import DryRun, Timezone
from ..period import Period
from ..progress import Begin
from ..run import Run, command
from ..selection import Selection

app = typer.Typer(
    help="Links, tags and clicks into files. A file appears whole or not at all; a run that was "
    "interrupted, run again, requests only what is missing.",
    no_args_is_help=True,
)
_option = partial(Option, rich_help_panel="The output")


@app.command("urls")
@command
async def urls(destination: Destination, run: Run) -> None:
    """Export every link of the account."""
    await export(
        destination,
        run,
        NAMED_URLS,
        lambda session, writer, begin, _: export_urls(session, writer, progress=begin("links", "links")),
    )


@app.command("tags")
@command
async def tags(destination: Destination, run: Run) -> None:
    """Export every tag of the account."""
    await export(
        destination,
        run,
        TAGS,
        lambda session, writer, begin, _: export_tags(session, writer, progress=begin("tags", "tags")),
    )


@app.command("clicks")
@command
async def clicks(
    period: Period,
    selection: Selection,
    destination: Destination,
    run: Run,
    timezone: Timezone = None,
    by: Annotated[
        By, _option(help="A series for each link, or for each tag; links without a tag are in none.")
    ] = "slashtag",
    dimensions: Annotated[
        bool,
        _option(
            "--dimensions", help="Devices, browsers, platforms, countries and referrers instead of days."
        ),
    ] = False,
    max_failures: MaxFailures = 100,
    dry_run: DryRun = False,
) -> None:
    """Export the clicks of a range of days: a row for every link and day, zeros too.

    What fails goes to FILE.failures.jsonl while the rest goes on; the exit code is then 3. Where the service
    cannot be reached or nothing is answered, it stops with 1 and the file stays as it was.
    """
    counted = period.counted(timezone)
    query = begun(DateRange(*counted.whole), timezone)
    if (period.start, period.end) != tuple(map(str, counted.query.bounds)):
        run.say(f"clicks of {counted.text}")
    if by == "tag":
        selection.require_tags(run)
    if dry_run:
        async with (
            run.session() as session,
            selection.chosen(run, session, by, dry_run=True) as (keys, tags),
        ):
            await print_plan(
                session, query, keys, tags, timezone=timezone, rate=run.options.rate, bounds=bounds_of_each
            )
        return

    async def work(session: AsyncSession, writer: Writer, begin: Begin, failures: Failures) -> Summary:
        return await export_clicks(
            session,
            query,
            writer,
            **await selection.selector(run, session, begin("checking", "links")),
            by=by,
            dimensions=dimensions,
            timezone=timezone,
            progress=begin("clicks", "links" if by == "slashtag" else "tags"),
            on_error=failures,
        )

    table = dimensions_table(by) if dimensions else clicks_table(by)
    await export(destination, run, table, work, max_failures=max_failures)
