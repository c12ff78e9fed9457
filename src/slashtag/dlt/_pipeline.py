"""Runs of a pipeline of dlt, one at a time, each of which is loaded whole."""

import logging
import time
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import dlt
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from dlt.destinations.exceptions import DatabaseException
from dlt.pipeline.state_sync import load_pipeline_state_from_destination

from .. import ExportError
from .._internal import FileLock
from ._calling import calling_dlt
from ._files import remove_earlier, split_by_month
from ._source import LISTED, MERGE, journal_of, number_of_loads

_BUSY = "another load of this pipeline or into its destination is under way"
_COUNT = "SELECT count(*) FROM {}"
_BY_KEYS = "({keys}) IN (SELECT {keys} FROM {{staging_table}})"
_LOCK = "SELECT pg_try_advisory_lock(hashtext(%s))"
#: Number of primary keys of a PostgreSQL table, and the statement that adds one.
_KEYS = "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid = %s::regclass"
_ADD_KEY = "ALTER TABLE {table} ADD PRIMARY KEY ({keys})"
log = logging.getLogger("slashtag")
#: Seconds that PostgreSQL waits for a lock that another session has; dlt tries a few times.
LOCK_SECONDS = 10
#: Seconds in which a DuckDB file that another program has open may be closed.
PATIENCE = 30.0


def load(pipeline: dlt.Pipeline, source: Any) -> dict[str, int]:
    """Load a source made by `slashtag_source`, and return the number of rows that each table got.

    What an interrupted load has requested is not requested again. Each table is changed in one transaction,
    in the end `loads` gets a row that says what this load was. The pipeline's working folder is emptied
    first: do not use it for other sources. Raises errors of the source; ExportError if another load of this
    pipeline is running, if another machine has loaded meanwhile, or if the destination fails.
    """
    name = pipeline.destination.destination_name
    lock = Path(pipeline.pipelines_dir) / "slashtag"
    place = _place_of(pipeline)
    folders = [Path(pipeline.pipelines_dir), *([] if "://" in place else [Path(place)])]
    with calling_dlt(name_of(pipeline), place, folders), _file_locked(lock), warnings.catch_warnings():
        # Warnings of dlt and of drivers about how they load.
        warnings.simplefilter("ignore")
        if name == "postgres":
            _limit_locks(pipeline)
        if "://" in place:
            _check_bucket(pipeline, place)
        with _file_opened(pipeline):
            # The destination has the state. What an interrupted load left here may not fit it: another
            # machine may have loaded since, or the destination may be gone or restored from a backup.
            pipeline.drop()
            pipeline.sync_destination()
            _restore_tables(pipeline)
        loads = number_of_loads(pipeline.state)
        if name == "sqlalchemy":
            _delete_by_keys(source)
        pipeline.extract(source)
        counts = _normalize(pipeline)
        with _destination_locked(pipeline):
            if _loads_at_destination(pipeline) != loads:
                raise ExportError("another load has changed the destination meanwhile: run this one again")
            _load(pipeline)
            if name == "postgres":
                _add_primary_keys(pipeline)
            # After the rows that it speaks of, or a load that is killed would claim to be complete.
            pipeline.extract(source.with_resources("loads"))
            _normalize(pipeline)
            _load(pipeline)
        journal_of(pipeline)  # removes that of this load
    return {table: count for table, count in counts.items() if not table.startswith("_dlt")}


def name_of(pipeline: dlt.Pipeline) -> str:
    """Return the name of a pipeline's destination, as it is called here."""
    if str(pipeline.destination.config_params.get("credentials")).startswith("sqlite:"):
        return "sqlite"
    return str(pipeline.destination.destination_name)


def _place_of(pipeline: dlt.Pipeline) -> str:
    """Return the path, URL or name of a destination, without credentials."""
    given = pipeline.destination.config_params
    url = str(given.get("bucket_url") or given.get("credentials") or pipeline.destination.destination_name)
    text = url.removeprefix("sqlite:///").removeprefix("file://")
    if "://" not in text:
        # A path, or the name of a destination; a connection string of other form may have a password.
        return (
            str(pipeline.destination.destination_name)
            if "=" in text and not Path(text).is_absolute()
            else text.partition("?")[0]
        )
    scheme, _, rest = text.partition("://")
    # A password may have any character, as in a str that was not quoted: the host is after the last @.
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def _limit_locks(pipeline: dlt.Pipeline) -> None:
    """Have PostgreSQL give up waiting for a lock, unless its credentials have options for that."""
    connection: Any = pipeline.sql_client()
    credentials = connection.credentials
    query = dict(credentials.query or {})
    if "lock_timeout" not in (options := query.get("options", "")):
        credentials.query = {**query, "options": f"{options} -clock_timeout={LOCK_SECONDS}s"}
    pipeline.destination.config_params["credentials"] = credentials


def _check_bucket(pipeline: dlt.Pipeline, url: str) -> None:
    """Raise ExportError if a bucket is missing: dlt would make one, in the end."""
    connection: Any = pipeline.destination_client()
    with connection as client:
        if not client.fs_client.exists(bucket := url.partition("://")[2].partition("/")[0]):
            raise ExportError(f"{url}: check the bucket {bucket}, its credentials and its address")


def _normalize(pipeline: dlt.Pipeline) -> dict[str, int]:
    counts = pipeline.normalize().row_counts
    if pipeline.destination.destination_name == "filesystem":
        split_by_month(pipeline)
    return counts


def _load(pipeline: dlt.Pipeline) -> None:
    """Load what was normalized; of files, remove those of earlier listings then."""
    (load_id, *_) = pipeline.list_normalized_load_packages() or [""]
    pipeline.load()
    if load_id and pipeline.destination.destination_name == "filesystem":
        connection: Any = pipeline.destination_client()
        with connection as client:
            remove_earlier(client, load_id, LISTED)


def _add_primary_keys(pipeline: dlt.Pipeline) -> None:
    """Add primary keys to tables of PostgreSQL, for which dlt makes none; warn where that is not possible."""
    connection: Any = pipeline.sql_client()
    with connection as client:
        for name in pipeline.default_schema.data_table_names():
            columns: Any = pipeline.default_schema.get_table_columns(name).values()
            keys = [client.escape_column_name(each["name"]) for each in columns if each.get("primary_key")]
            qualified = client.make_qualified_table_name(name)
            if keys and client.execute_sql(_KEYS, qualified) == [(0,)]:
                try:
                    client.execute_sql(_ADD_KEY.format(table=qualified, keys=", ".join(keys)))
                except DatabaseException as error:
                    reason = str(error).strip().partition("\n")[0]
                    log.warning("%s has no primary key: %s; the next load tries again", name, reason)


def _delete_by_keys(source: Any) -> None:
    """Have the rows that a load replaces found by their keys: SQLite would look at every row of the table."""
    for name, resource in source.resources.items():
        if name in LISTED:  # replaced as a whole
            continue
        columns = resource.compute_table_schema()["columns"].values()
        for hint in ("merge_key", "primary_key"):
            if keys := ", ".join(column["name"] for column in columns if column.get(hint)):
                scope = _BY_KEYS.format(keys=keys)
                resource.apply_hints(write_disposition={**MERGE, "destination_scope": scope})
                break


def _restore_tables(pipeline: dlt.Pipeline) -> None:
    """Create tables that somebody has dropped, and have those filled that are empty."""
    if not pipeline.schema_names:
        return
    connection: Any = pipeline.destination_client()
    with connection as client, pipeline.managed_state() as state:
        filled = [source.get("resources", {}) for source in state.get("sources", {}).values()]
        names = {*pipeline.default_schema.data_table_names(), *chain(*filled)}
        empty = {name for name, columns in client.get_storage_tables(names) if not columns}
        if empty:
            client.update_stored_schema(force=True)
        if pipeline.destination.destination_name != "filesystem":
            # Also those that an interrupted load has created.
            for name in names - empty:
                table = client.sql_client.make_qualified_table_name(name)
                if client.sql_client.execute_sql(_COUNT.format(table)) == [(0,)]:
                    empty.add(name)
        for resources in filled:
            for name in empty.intersection(resources):
                del resources[name]


def _loads_at_destination(pipeline: dlt.Pipeline) -> int:
    connection: Any = pipeline.destination_client()
    with suppress(DestinationUndefinedEntity), connection as client:
        return number_of_loads(load_pipeline_state_from_destination(pipeline.pipeline_name, client) or {})
    return 0


@contextmanager
def _file_opened(pipeline: dlt.Pipeline) -> Generator[None, None, None]:
    """Keep a DuckDB file open, which locks it; one that another program has open is waited for."""
    connection: Any = pipeline.sql_client() if pipeline.destination.destination_name == "duckdb" else None
    until = time.monotonic() + PATIENCE
    with ExitStack() as stack:
        while connection is not None:
            try:
                stack.enter_context(connection)
                break
            except Exception as error:
                if "set lock" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)
        yield


@contextmanager
def _destination_locked(pipeline: dlt.Pipeline) -> Generator[None, None, None]:
    """Refuse a second load into a DuckDB or SQLite file, or a dataset of PostgreSQL."""
    name = pipeline.destination.destination_name
    with ExitStack() as stack:
        stack.enter_context(_file_opened(pipeline))
        if name in ("postgres", "sqlalchemy"):
            connection: Any = pipeline.sql_client()
            client = stack.enter_context(connection)
            dataset = client.fully_qualified_dataset_name()
            if name == "postgres" and client.execute_sql(_LOCK, dataset) != [(True,)]:
                raise ExportError(_BUSY)
            if getattr(client, "dialect_name", None) == "sqlite":
                stack.enter_context(_file_locked(Path(client.engine.url.database)))
        yield


@contextmanager
def _file_locked(path: Path) -> Generator[None, None, None]:
    """Lock a path, whose folder is made if it is missing; refuse if it is locked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    if not lock.acquire():
        raise ExportError(_BUSY)
    try:
        yield
    finally:
        lock.release()
