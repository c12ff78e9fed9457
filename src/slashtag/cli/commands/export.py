"""`slashtag export`: links, tags and clicks into files, resumable."""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import typer
from typer import Option

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
)
from ...export import selection as selection_of
from ..accounts import Accounts
from ..dryrun import bounds_of_each, print_plan
from ..export_job import OUTPUT, Destination, export
from ..failures import Failures, MaxFailures
from ..options import DryRun, RangeEnd, Timezone, command
from ..period import Period
from ..selection import Selection

app = typer.Typer(
    help="Links, tags and clicks into files. A file appears whole or not at all; a run that was "
    "interrupted, run again, requests only what is missing.",
    no_args_is_help=True,
)
_option = partial(Option, rich_help_panel=OUTPUT)


@dataclass(frozen=True)
class Series:
    """Options about the series that are counted, and how."""

    timezone: Timezone = None
    by: Annotated[
        Literal["slashtag", "tag"],
        _option(help="A series for each link, or for each tag; links without a tag are in none."),
    ] = "slashtag"
    merged: Annotated[
        bool,
        _option(
            "--merged", help="One series, the sum of all that is selected; with --by tag of the tags only."
        ),
    ] = False
    dimensions: Annotated[
        bool,
        _option(
            "--dimensions", help="Devices, browsers, platforms, countries and referrers instead of days."
        ),
    ] = False
    range_end: RangeEnd = "inclusive"


@app.command("urls")
@command
async def urls(
    destination: Destination,
    connection: Accounts,
    with_tag_names: Annotated[
        bool, Option("--with-tag-names", help="Add a column with the name of the tag.")
    ] = False,
) -> None:
    """Export every link of the account."""

    async def work(session: AsyncSession, writer: Writer, failures: Failures | None) -> Summary:
        with connection.bars() as start:
            return await export_urls(session, writer, with_tag_names=with_tag_names, progress=start("links"))

    await export(destination, connection, NAMED_URLS if with_tag_names else URLS, work)


@app.command("tags")
@command
async def tags(destination: Destination, connection: Accounts) -> None:
    """Export every tag of the account."""

    async def work(session: AsyncSession, writer: Writer, failures: Failures | None) -> Summary:
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
    connection: Accounts,
    max_failures: MaxFailures = 100,
    dry_run: DryRun = False,
) -> None:
    """Export the clicks of a range of days: a row for every link and day, zeros too.

    A single date is the first day of a range that ends today.

    What fails goes to FILE.failures.jsonl while the rest goes on; the exit code is then 3. Where the service
    cannot be reached, nothing is answered, or a sum would lack what may still be answered, it stops with 1
    and the file stays as it was.
    """
    query = DateRange(*period.dates(series.timezone, until_today=True))
    if (period.start, period.end) != (str(query.start), str(query.end)):
        connection.say(f"clicks of {query.start} to {query.end}")
    if series.by == "tag":
        selection.require_tags("--by tag")
    if dry_run and destination.form is not None:
        raise typer.BadParameter("--dry-run prints its plan in words: leave --format out")
    if dry_run and connection.all_profiles:
        raise typer.BadParameter("--dry-run is about one account: give --profile, not --all-profiles")
    if dry_run:
        await _print_plan(query, selection, series, connection)
        return
    if series.by == "tag" and selection.every:
        connection.say("links without a tag are in no row")

    async def work(session: AsyncSession, writer: Writer, failures: Failures | None) -> Summary:
        with connection.bars() as begin:
            return await export_clicks(
                session,
                query,
                writer,
                **await selection.selector(session, begin("checking")),
                by=series.by,
                merged=series.merged,
                dimensions=series.dimensions,
                timezone=series.timezone,
                progress=begin("clicks"),
                on_error=failures,
            )

    column = None if series.merged else series.by
    table = dimensions_table(column) if series.dimensions else clicks_table(column)
    await export(
        destination,
        connection,
        table,
        work,
        max_failures=max_failures,
        merged=series.merged,
        range_end=series.range_end,
    )


async def _print_plan(query: DateRange, selection: Selection, series: Series, connection: Accounts) -> None:
    async with connection.session(range_end=series.range_end) as session:
        selector = await selection.selector(session, dry_run=True)
        async with selection_of(session, **selector, by=series.by, merged=series.merged) as (keys, tags):
            if isinstance(keys, AsyncIterable):
                keys = [key async for key in keys]
            plan = session.stats.plan(query, keys=keys, tags=tags, timezone=series.timezone)
        bounds = () if series.merged else bounds_of_each(plan)
        print_plan(session, plan, connection.rate, *bounds)
