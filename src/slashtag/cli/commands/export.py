"""`slashtag export`: links, tags and clicks into files, resumable."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from ... import AsyncSession, DateRange
from ...export import (
    NAMED_URLS,
    TAGS,
    URLS,
    Summary,
    Writer,
    clicks_table,
    dimensions_table,
    export_clicks,
    export_tags,
    export_urls,
    list_selection,
)
from ..dryrun import print_plan, print_plan_of_each
from ..errors import many
from ..export_job import OUTPUT, Destination, export
from ..failures import Failures
from ..options import Connection, DryRun, RangeEnd, Timezone, command
from ..period import Period
from ..selection import Selection

app = typer.Typer(
    help="Links, tags and clicks into files. A file appears whole or not at all; a run that was "
    "interrupted, run again, requests only what is missing.",
    no_args_is_help=True,
)

MAX_FAILURES = 100


@dataclass(frozen=True)
class Series:
    """Options about the series that are counted, and how."""

    timezone: Timezone = None
    by: Annotated[
        Literal["slashtag", "tag"],
        typer.Option(
            help="A series for each link, or for each tag; links without a tag are in none.",
            rich_help_panel=OUTPUT,
        ),
    ] = "slashtag"
    merged: Annotated[
        bool,
        typer.Option(
            "--merged",
            help="One series, the sum of all that is selected; with --by tag of the tags only.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    dimensions: Annotated[
        bool,
        typer.Option(
            "--dimensions",
            help="Devices, browsers, platforms, countries and referrers instead of days.",
            rich_help_panel=OUTPUT,
        ),
    ] = False


@dataclass(frozen=True)
class _Clicks:
    """An export of clicks, as its options have it."""

    query: DateRange
    selection: Selection
    series: Series
    destination: Destination
    connection: Connection
    range_end: RangeEnd
    max_failures: int

    def __post_init__(self) -> None:
        if self.series.by == "tag" and not (self.selection.tag or self.selection.every):
            raise typer.BadParameter("--by tag goes with --tag or --all")


@app.command("urls")
@command
async def urls(
    destination: Destination,
    connection: Connection,
    with_tag_names: Annotated[
        bool, typer.Option("--with-tag-names", help="Add a column with the name of the tag.")
    ] = False,
) -> None:
    """Export every link of the account."""

    async def work(session: AsyncSession, writer: Writer) -> Summary:
        with connection.bars() as start:
            return await export_urls(session, writer, with_tag_names=with_tag_names, progress=start("links"))

    await export(destination, connection, NAMED_URLS if with_tag_names else URLS, work)


@app.command("tags")
@command
async def tags(destination: Destination, connection: Connection) -> None:
    """Export every tag of the account."""

    async def work(session: AsyncSession, writer: Writer) -> Summary:
        with connection.bars() as start:
            return await export_tags(session, writer, progress=start("tags"))

    await export(destination, connection, TAGS, work)


@app.command("clicks")
@command
async def clicks(
    period: Period,
    selection: Selection,
    series: Series,
    destination: Destination,
    connection: Connection,
    max_failures: Annotated[
        int, typer.Option(min=0, metavar="N", help="Stop if more requests fail than this.")
    ] = MAX_FAILURES,
    range_end: RangeEnd = "inclusive",
    dry_run: DryRun = False,
) -> None:
    """Export the clicks of a range of days: a row for every link and day, zeros too.

    A single date is the first day of a range that ends today.

    What fails goes to FILE.failures.jsonl while the rest goes on; the exit code is then 3. Where the service
    cannot be reached, nothing is answered, or a sum would lack what may still be answered, it stops with 1
    and the file stays as it was.
    """
    query = DateRange(*period.dates(series.timezone, until_today=True))
    if not period.is_plain:
        connection.say(f"clicks of {query.start} to {query.end}")
    job = _Clicks(query, selection, series, destination, connection, range_end, max_failures)
    if dry_run and destination.form is not None:
        raise typer.BadParameter("--dry-run prints its plan in words: leave --format out")
    if dry_run:
        await _print_plan(job)
    else:
        await _write(job)


async def _write(job: _Clicks) -> None:
    """Write a new file."""
    connection, series = job.connection, job.series
    failures = Failures(job.destination.file, job.max_failures, merged=series.merged)

    async def work(session: AsyncSession, writer: Writer) -> Summary:
        with connection.bars() as begin:
            summary = await export_clicks(
                session,
                job.query,
                writer,
                **await job.selection.streamed(session, begin("checking")),
                by=series.by,
                merged=series.merged,
                dimensions=series.dimensions,
                timezone=series.timezone,
                progress=begin("clicks"),
                on_error=failures,
            )
        if series.by == "tag" and job.selection.every and not connection.quiet:
            await _count_untagged(session, connection, merged=series.merged)
        return summary

    column = None if series.merged else series.by
    table = dimensions_table(column) if series.dimensions else clicks_table(column)
    await export(job.destination, connection, table, work, failures=failures, range_end=job.range_end)


async def _count_untagged(session: AsyncSession, connection: Connection, *, merged: bool) -> None:
    """Print how many links have no tag: whoever takes all tags for all links would miss them."""
    async with session.urls.list() as urls:
        untagged = sum([url.tag_id is None async for url in urls])
    if untagged:
        have = "has no tag and is" if untagged == 1 else "have no tag and are"
        connection.say(
            f"{many(untagged, 'link')} {have} in {'none of what is summed' if merged else 'no series'}"
        )


async def _print_plan(job: _Clicks) -> None:
    series, connection = job.series, job.connection
    async with connection.session(range_end=job.range_end) as session:
        selector: dict[str, Any] = await job.selection.streamed(session, dry_run=True)
        keys, tags = await list_selection(session, **selector, by=series.by, merged=series.merged)
        plan = session.stats.plan(job.query, keys=keys, tags=tags, timezone=series.timezone)
        if series.merged:
            print_plan(session, plan, connection.rate)
        else:
            print_plan_of_each(session, plan, connection.rate, series.timezone, job.range_end)
