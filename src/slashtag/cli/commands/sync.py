"""`slashtag sync`: an account into a database or warehouse, or Parquet files, again and again."""

from datetime import datetime
from importlib import import_module
from typing import Any

from typer import Argument, Option

from ... import ConfigurationError, RangeStats
from ...counts import between
from ..run import Run, command
from ..selection import TIMEZONE
from ..stderr import StartBar

TARGET: Any = Argument(
    None,
    metavar="[PATH]",
    help="A DuckDB file, or a folder for Parquet files, which ends in / if it is new; or s3://, gs:// or "
    "az:// and the name of a bucket; with --destination sqlite a SQLite file.",
)
DESTINATION: Any = Option(
    None,
    metavar="NAME",
    help="duckdb, sqlite, filesystem, or another destination of dlt's, such as postgres or bigquery, "
    "described by dlt's configuration. Default: filesystem for a folder or a bucket, duckdb for a file.",
)
DATASET: Any = Option(None, metavar="NAME", help="Schema of the tables. Default: slashtag.")


@command
async def sync(
    run: Run,
    since: datetime = Option(formats=["%Y-%m-%d"], metavar="DATE", help="YYYY-MM-DD: the first month."),
    target: str | None = TARGET,
    destination: str | None = DESTINATION,
    dataset: str | None = DATASET,
    dimensions: str | None = Option(
        None,
        metavar="A,B,...",
        help=f"Also load clicks by month and label of: {', '.join(RangeStats.SUMS)}.",
    ),
    by_tag: bool = Option(False, "--by-tag", help="Also load the clicks of each tag."),
    allow_shrink: bool = Option(
        False, "--allow-shrink", help="Load also if more than a tenth of the links are gone."
    ),
    timezone: str | None = TIMEZONE,
) -> None:
    """Load links, tags and clicks by day into a destination, and bring it up to date when run again.

    All that is there is compared with the service, and what differs is loaded: what is unchanged costs one
    request for a hundred links. An interrupted run goes on where it stopped. The exit code is 3 where links
    failed, which the next run requests again, and where a listing shrank, so that nothing was loaded.
    """
    loading = imported("sync")
    warehouse = loading.Warehouse(target, destination, dataset=dataset)
    async with run.session() as session:
        with run.bars() as start_bar:
            run.resumes_from = warehouse.place
            try:
                loaded = await loading.load(
                    session,
                    warehouse,
                    since.date(),
                    timezone=timezone or "+00:00",
                    by_tag=by_tag,
                    dimensions=dimensions.split(",") if dimensions else (),
                    allow_shrink=allow_shrink,
                    progress=progress_of(start_bar),
                    on_error=run.note_failure,
                )
            except loading.ShrunkListingError as error:
                run.warn(str(error), "not loaded: ")
                return
    if loaded.missing:
        run.is_incomplete = True
    rows = ", ".join(f"{count:,} {table}" for table, count in loaded.rows.items() if count) or "no rows"
    days = f"{between(loaded.since, loaded.through)} ({loaded.timezone})"
    run.say(f"{days}: {rows} to {warehouse.place}; {run.cost()}")


def progress_of(start_bar: StartBar) -> Any:
    """Return what shows the progress of a load or an audit, in a bar for each table."""

    def show(table: str, done: int, total: int | None) -> None:
        start_bar(table, "steps")(done, total)

    return show


def imported(command: str) -> Any:
    """Return `slashtag.dlt`, which needs dlt, for a command."""
    try:
        return import_module("...dlt", __package__)
    except ImportError:
        raise ConfigurationError(f'{command} needs dlt: pip install "slashtag[dlt]"') from None
