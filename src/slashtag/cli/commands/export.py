"""`slashtag export`: links, tags and clicks into files, resumable."""

from pathlib import Path
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
    update_parquet,
    update_sqlite,
)
from ...export._jobs import selection as selected_of
from ...export._update import slashtags
from .. import cluster
from ..dryrun import tell_each, tell_plan
from ..errors import many
from ..export_job import OUTPUT, Destination, conclude, export, resumed
from ..failures import Failures
from ..options import Connection, DryRun, RangeEnd, Timezone, command
from ..period import Period
from ..selection import Selection

app = typer.Typer(
    help="Links, tags and clicks into files. A file appears whole or not at all; a run that was "
    "interrupted, run again, asks only for what is missing.",
    no_args_is_help=True,
)

UPDATE = "Keeping a file up to date"
CLUSTER = "On a Dask cluster"
MAX_FAILURES = 100
SQLITE = (".sqlite", ".sqlite3", ".db")


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
    destination: Destination,
    connection: Connection,
    timezone: Timezone = None,
    by: Annotated[
        Literal["slashtag", "tag"],
        typer.Option(
            help="A series for each link, or for each tag; links without a tag are in none.",
            rich_help_panel=OUTPUT,
        ),
    ] = "slashtag",
    merged: Annotated[
        bool,
        typer.Option(
            "--merged",
            help="One series, the sum of all that is selected; with --by tag of the tags only.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    dimensions: Annotated[
        bool,
        typer.Option(
            "--dimensions",
            help="Devices, browsers, platforms, countries and referrers instead of days.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Bring an SQLite file (.sqlite, .db) or a folder of Parquet files by month up to date.",
            rich_help_panel=UPDATE,
            show_default=False,
        ),
    ] = None,
    lookback: Annotated[
        int,
        typer.Option(
            min=0, metavar="DAYS", help="Days before the last ones to ask for again.", rich_help_panel=UPDATE
        ),
    ] = 3,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT",
            help="Have the workers of a running Dask cluster write Parquet parts into the folder of -o, "
            "which all see under the same name. Run again, it skips finished parts. Key and secret are those "
            "of the workers' environment (SLASHTAG_APIKEY, SLASHTAG_APISECRET), never sent to them; "
            "--base-url is.",
            rich_help_panel=CLUSTER,
            show_default=False,
        ),
    ] = None,
    max_failures: Annotated[
        int, typer.Option(min=0, metavar="N", help="Stop where more requests fail than so many.")
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
    if dry_run and destination.form is not None:
        raise typer.BadParameter("--dry-run tells its plan in words: leave --format out")
    if by == "tag" and not (selection.tag or selection.every):
        raise typer.BadParameter("--by tag goes with --tag or --all")
    query = DateRange(*period.dates(timezone, until_today=True))
    if not period.is_plain:
        connection.say(f"clicks of {query.start} to {query.end}")
    if scheduler is not None:
        refused = {
            "--update": update is not None,
            "--merged": merged,
            "--by tag": by == "tag",
            "--dimensions": dimensions,
            "--format": destination.form is not None,
            "--excel-safe": destination.excel_safe,
            "--fresh": destination.fresh,
            "--max-failures": max_failures != MAX_FAILURES,
            "--dry-run": dry_run,
        }
        folder = cluster.check(scheduler, destination.file, connection=connection, refused=refused)
        await cluster.run(scheduler, query, folder, selection, connection, timezone, range_end)
        return
    if update is not None:
        if destination != Destination(fresh=destination.fresh) or merged or dimensions or by == "tag":
            raise typer.BadParameter(
                "--update takes none of -o, --format, --excel-safe, --merged, --by, --dimensions"
            )
        if dry_run:
            raise typer.BadParameter("--dry-run cannot tell what the file of --update lacks")
        await _update(
            query,
            update,
            selection,
            connection,
            timezone,
            lookback,
            max_failures,
            range_end,
            destination.fresh,
        )
        return
    if dry_run:
        await _tell_plan(query, selection, connection, timezone, by, merged, range_end)
        return
    failures = Failures(destination.file, max_failures, merged=merged)

    async def work(session: AsyncSession, writer: Writer) -> Summary:
        with connection.bars() as begin:
            summary = await export_clicks(
                session,
                query,
                writer,
                **await selection.streamed(session, begin("checking")),
                by=by,
                merged=merged,
                dimensions=dimensions,
                timezone=timezone,
                progress=begin("asking"),
                on_error=failures,
            )
        if by == "tag" and selection.every and not connection.quiet:
            await _tell_untagged(session, connection, merged=merged)
        return summary

    series = None if merged else by
    table = dimensions_table(series) if dimensions else clicks_table(series)
    await export(destination, connection, table, work, failures=failures, range_end=range_end)


async def _tell_untagged(session: AsyncSession, connection: Connection, *, merged: bool) -> None:
    """Tell how many links have no tag: whoever takes all tags for all links would miss them."""
    async with session.urls.list() as urls:
        untagged = sum([url.tag_id is None async for url in urls])
    if untagged:
        have = "has no tag and is" if untagged == 1 else "have no tag and are"
        connection.say(
            f"{many(untagged, 'link')} {have} in {'none of what is summed' if merged else 'no series'}"
        )


async def _update(
    query: DateRange,
    path: Path,
    selection: Selection,
    connection: Connection,
    timezone: Any,
    lookback: int,
    max_failures: int,
    range_end: RangeEnd,
    fresh: bool,
) -> None:
    """Bring an SQLite file or a Parquet dataset up to date."""
    sqlite = path.suffix.lower() in SQLITE and not path.is_dir()
    if not sqlite and path.suffix and not path.is_dir():
        raise typer.BadParameter(
            f"--update takes a file in {', '.join(SQLITE)}, or a folder, not {path.name}"
        )
    bring = update_sqlite if sqlite else update_parquet
    failures = Failures(path, max_failures)
    async with resumed(connection, path, fresh=fresh, failures=failures, range_end=range_end) as run:
        with connection.bars() as begin:
            run.summary = await bring(
                run.session,
                query,
                path,
                **await selection.streamed(run.session, begin("checking")),
                lookback=lookback,
                timezone=timezone,
                progress=begin("asking"),
                on_error=failures,
            )
    conclude(connection, str(path), run.summary, run.session.metrics.attempts, failures)


async def _tell_plan(
    query: DateRange,
    selection: Selection,
    connection: Connection,
    timezone: Any,
    by: Literal["slashtag", "tag"],
    merged: bool,
    range_end: RangeEnd,
) -> None:
    async with connection.session(range_end=range_end) as session:
        async with selected_of(
            session, **await selection.streamed(session, dry_run=True), by=by, merged=merged
        ) as (
            keys,
            tags,
        ):
            named = None if keys is None else [key async for batch in slashtags(keys) for key in batch]
        plan = session.stats.plan(query, keys=named, tags=tags, timezone=timezone)
        if merged:
            tell_plan(session, plan, connection.rate)
        else:
            tell_each(session, plan, connection.rate, timezone, range_end)
