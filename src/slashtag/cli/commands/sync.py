"""`slashtag sync`: the account loaded into a database, a warehouse or files, incrementally."""

import logging
import sys
from datetime import datetime
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from typer import Argument, Option

from ... import ConfigurationError, parse_zone
from ..run import MAX_FAILURES, Run, command
from ..selection import TIMEZONE
from ..service import find_credentials
from ..stderr import StartBar

log = logging.getLogger("slashtag")
LOCAL = ("duckdb", "sqlite", "filesystem")
PIPELINES_DIR: Any = Option(
    None, metavar="FOLDER", help="Working folder of dlt. Default: in DLT_DATA_DIR, or ~/.dlt."
)


@command
def sync(
    run: Run,
    since: datetime = Option(formats=["%Y-%m-%d"], metavar="DATE", help="First day, YYYY-MM-DD."),
    target: str | None = Argument(
        None,
        metavar="[PATH]",
        help=f"File or folder of the destinations {', '.join(LOCAL)}; or s3://, gs:// or az:// and the name "
        "of a bucket, for Parquet files.",
    ),
    destination: str | None = Option(
        None,
        metavar="NAME",
        help=f"{', '.join(LOCAL)}, or another destination of dlt's, such as postgres or bigquery, "
        "described by dlt's configuration. Default: filesystem for a folder or bucket, else duckdb, but for "
        "names of other files, such as .sqlite.",
    ),
    dataset: str | None = Option(None, metavar="NAME", help="Schema of the tables. Default: slashtag."),
    dimensions: str | None = Option(
        None,
        metavar="A,B,...",
        help="Also load clicks by month and label of: device, browser, platform, country, referrer.",
    ),
    by_tag: bool = Option(False, "--by-tag", help="Also load the clicks of each tag."),
    lookback: int = Option(3, min=0, metavar="DAYS", help="Days to request again for late clicks."),
    reload: tuple[datetime, datetime] | None = Option(
        None,
        formats=["%Y-%m-%d"],
        metavar="FROM TO",
        help="Also request these days again, and load them whatever was loaded before.",
    ),
    no_zeros: bool = Option(False, "--no-zeros", help="Load no rows for days without clicks."),
    allow_shrink: bool = Option(
        False, "--allow-shrink", help="Load also if more than a tenth of the links or tags are gone."
    ),
    pipelines_dir: Path | None = PIPELINES_DIR,
    timezone: str | None = TIMEZONE,
    max_failures: int = MAX_FAILURES,
) -> None:
    """Load links, tags and clicks by day into a destination, and bring it up to date when run again.

    Days that were not over, late clicks and new links are requested; what is unchanged costs one request for
    a hundred links. An interrupted run goes on where it stopped. The exit code is 3 where links failed, which
    the next run requests again, and where a listing shrank, so that nothing was loaded.
    """
    credentials = find_credentials(run.options)
    loading = imported("sync")
    pipeline = loading.local_pipeline(destination, target, dataset=dataset, pipelines_dir=pipelines_dir)
    run.resumes_from(Path(pipeline.working_dir))
    with run.bars() as start_bar:
        bar = cache(start_bar)
        bar("links", "links")
        monitor = monitor_of(run, loading, bar, max_failures)
        source = loading.slashtag_source(
            **credentials.arguments,
            since=since.date(),
            lookback=lookback,
            timezone=timezone or "+00:00",
            dimensions=tuple(dimensions.split(",")) if dimensions else (),
            by_tag=by_tag,
            reload=reload and (reload[0].date(), reload[1].date()),
            zeros=not no_zeros,
            allow_shrink=allow_shrink,
            session_options=run.options.of_session(),
            monitor=monitor,
        )
        try:
            loaded = loading.load(pipeline, source)
        except loading.ShrunkListingError as error:
            run.warn(str(error), "not loaded: ")
            return
    rows = ", ".join(f"{count:,} {table}" for table, count in sorted(loaded.items()) if count) or "no rows"
    run.figures |= {"destination": target or destination, "rows": loaded}
    name = pipeline.dataset_name
    # DuckDB needs another name than that of the file.
    is_duckdb = pipeline.destination.destination_name == "duckdb"
    schema = f", schema {name}" if is_duckdb and name != (dataset or "slashtag") else ""
    run.say(
        f"{rows} to {target or destination}{schema}; days are those of {parse_zone(timezone)}; {run.cost()}"
    )


def monitor_of(run: Run, loading: Any, bar: StartBar, max_failures: int) -> Any:
    """Return the Monitor of a load or an audit, whose progress is shown in a bar for each table."""

    def progress(table: str, done: int, total: int | None) -> None:
        bar(table, "batches" if table == "audit" else "links")(done, total)

    monitor = loading.Monitor(progress, partial(run.note_failure, max_failures=max_failures))
    run.follow(lambda: monitor.metrics)
    return monitor


def imported(command: str) -> Any:
    """Return `slashtag.dlt`, which needs dlt, for a command."""
    try:
        loading = import_module("...dlt", __package__)
    except ImportError:
        raise ConfigurationError(f'{command} needs dlt: pip install "slashtag[dlt]"') from None
    # Files of dlt's that could not be completed complain when they are collected.
    sys.unraisablehook = lambda unraisable: log.debug("%r", unraisable.exc_value)
    return loading
