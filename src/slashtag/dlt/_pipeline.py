"""The pipeline of dlt: where it is, and runs of it, one at a time, with this library's errors."""

import hashlib
import os
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import dlt
from dlt.common.configuration.container import Container
from dlt.common.configuration.exceptions import ConfigFieldMissingException
from dlt.common.configuration.providers import DictionaryProvider
from dlt.common.configuration.specs.pluggable_run_context import PluggableRunContext
from dlt.common.destination.exceptions import DestinationUndefinedEntity
from dlt.common.normalizers.naming.snake_case import NamingConvention
from dlt.common.pipeline import get_dlt_pipelines_dir
from dlt.common.runtime.telemetry import stop_telemetry
from dlt.pipeline.state_sync import load_pipeline_state_from_destination

from .. import ConfigurationError, ExportError, InvalidRequestError, SlashtagError
from .._internal import FileLock, check_local_path
from ._source import MERGE, journal_of, number_of_loads

_sqlite = partial(dlt.destinations.sqlalchemy, create_primary_keys=True)
#: Destinations that are a file or folder: default dataset, characters that paths must not have, as they are
#: taken for parts of a URL or for patterns, and rows would go to another file, and how dlt is told of them.
LOCAL: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "duckdb": ("slashtag", "?", lambda path: dlt.destinations.duckdb(str(path))),
    "sqlite": ("main", "%?", lambda path: _sqlite(f"sqlite:///{path}")),
    "filesystem": ("slashtag", "*?[", lambda path: dlt.destinations.filesystem(path.as_uri())),
}

#: What a path has to be, if it exists, for each of LOCAL.
_KINDS = {
    "duckdb": "a DuckDB database",
    "sqlite": "a SQLite database",
    "filesystem": "a folder",
}
#: Destinations that names of files suggest, by their endings; where none is given, these names are refused.
_SUGGESTED = {
    **dict.fromkeys((".db", ".db3", ".s3db", ".sl3", ".sqlite", ".sqlite3"), "sqlite"),
    **dict.fromkeys((".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx"), "filesystem"),
}
#: Errors that a load raises as they are.
_OWN = (SlashtagError, KeyboardInterrupt)
_BUSY = "another load of this pipeline or into its destination is under way"
_COUNT = "SELECT count(*) FROM {}"
_BY_KEYS = "({keys}) IN (SELECT {keys} FROM {{staging_table}})"
_LOCK = "SELECT pg_try_advisory_lock(hashtext(%s))"


def local_pipeline(
    destination: str | None,
    path: str | os.PathLike[str] | None = None,
    *,
    dataset: str | None = None,
    pipelines_dir: str | os.PathLike[str] | None = None,
) -> dlt.Pipeline:
    """Return a pipeline into a file, a folder or another destination, with its own working folder.

    `destination` is "duckdb", "sqlite" or "filesystem" with a `path`, or another destination of dlt's without
    one, set in dlt's configuration. None is "duckdb", but a new file is refused if its name suggests another
    kind, such as `.sqlite`. dlt's telemetry is off unless its configuration turns it on. Raises
    InvalidRequestError unless there is a path where one is needed, for a URL, and for a path that exists and
    is of another kind; ConfigurationError if packages that dlt needs for the destination are missing, or for
    a path that it would read as another one.

    DuckDB calls a database as its file, up to the first dot. If that is the name of the dataset, in any case,
    `_data` is added to the latter: DuckDB could not tell one from the other.
    """
    given, destination = destination, destination or "duckdb"
    if (destination in LOCAL) != (path is not None):
        needs = "needs the path of its file or folder" if path is None else "takes no path"
        raise InvalidRequestError(f"{destination} {needs}")
    target: Any = destination
    name = dataset or "slashtag"
    if path is not None:
        check_local_path(path)
        path = Path(path).absolute()
        _check_kind(path, destination, is_given=given is not None)
        default, not_in_paths, make = LOCAL[destination]
        if wrong := "".join(sorted(set(not_in_paths) & set(str(path)))):
            raise ConfigurationError(f"{destination} cannot have {wrong} in a path: {path}")
        target, name = make(path), dataset or default
        if destination == "duckdb":
            name = _told_from_database(name, path)
    where = hashlib.sha256(f"{destination}\0{path or ''}\0{name}".encode()).hexdigest()[:12]
    folder = Path(pipelines_dir or _pipelines_dir()) / f"slashtag-{where}"
    with _calling_dlt(destination):
        if destination == "sqlite":
            # Without it dlt fails with an unclear error.
            import_module("sqlalchemy")
        return dlt.pipeline("slashtag", pipelines_dir=str(folder), destination=target, dataset_name=name)


def _pipelines_dir() -> Path:
    """Return dlt's folder of pipelines.

    dlt joins it to XDG_DATA_HOME also where that is empty or relative: the working directory would get it,
    and a run from another one would not find its journal (XDG Base Directory Specification). A relative
    DLT_DATA_DIR is meant.
    """
    folder = Path(get_dlt_pipelines_dir())
    if folder.is_absolute() or "DLT_DATA_DIR" in os.environ:
        return folder
    return Path("~/.dlt/pipelines").expanduser()


def _check_kind(path: Path, destination: str, *, is_given: bool) -> None:
    """Refuse a path of another kind than its destination, which a name decides if `is_given` is False."""
    found, needed = _kind_of(path), _KINDS[destination]
    if found not in (None, destination):
        raise InvalidRequestError(
            f"{path} is {_KINDS[found]}, and destination {destination} needs {needed}: give another path, "
            f"or --destination {found}"
        )
    suggested = _SUGGESTED.get(path.suffix.lower())
    if found is None and suggested is not None and not is_given:
        raise InvalidRequestError(
            f"{path.name} is no usual name of {needed}: give --destination {suggested} for "
            f"{_KINDS[suggested]}, or --destination {destination}"
        )


def _kind_of(path: Path) -> str | None:
    """Return of which of LOCAL a path is; None if it is of none of them, or missing."""
    if path.is_dir():
        return "filesystem"
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:  # the destination tells what is wrong
        return None
    return "sqlite" if head == b"SQLite format 3\0" else "duckdb" if head[8:12] == b"DUCK" else None


def _told_from_database(dataset: str, path: Path) -> str:
    """Return the name of a dataset that is not that of the DuckDB database in a file, nor its staging area's.

    Raises ConfigurationError for a database that is called like a schema of DuckDB's own.
    """
    database = next(filter(None, path.name.split(".")), "").lower()
    if database == "information_schema":
        raise ConfigurationError(
            f"duckdb cannot have a file called {path.name}: it has a schema of that name"
        )
    # As dlt spells it in the database.
    normalize = NamingConvention().normalize_identifier
    while database in (dataset.lower(), spelt := normalize(dataset), f"{spelt}_staging"):
        dataset += "_data"
    return dataset


def load(pipeline: dlt.Pipeline, source: Any) -> dict[str, int]:
    """Load a source made by `slashtag_source`, and return the number of rows that each table got.

    What an interrupted load has requested is not requested again. The pipeline's working folder is emptied
    first: do not use it for other sources. Raises errors of the source; ExportError if another load of this
    pipeline is running, if another machine has loaded meanwhile, or if the destination fails.
    """
    name = pipeline.destination.destination_name
    lock = Path(pipeline.pipelines_dir) / "slashtag"
    with _calling_dlt(name_of(pipeline)), _file_locked(lock), warnings.catch_warnings():
        # Warnings of dlt and of drivers about how they load.
        warnings.simplefilter("ignore")
        # The destination has the state. What an interrupted load left here may not fit it: another machine
        # may have loaded since, or the destination may be gone or restored from a backup.
        pipeline.drop()
        pipeline.sync_destination()
        _restore_tables(pipeline)
        loads = number_of_loads(pipeline.state)
        if name == "sqlalchemy":
            _delete_by_keys(source)
        pipeline.extract(source)
        counts = pipeline.normalize().row_counts
        with _destination_locked(pipeline):
            if _loads_at_destination(pipeline) != loads:
                raise ExportError("another load has changed the destination meanwhile: run this one again")
            pipeline.load()
        journal_of(pipeline)  # removes that of this load
    return {table: count for table, count in counts.items() if not table.startswith("_dlt")}


def name_of(pipeline: dlt.Pipeline) -> str:
    """Return the name of a pipeline's destination, as it is called here."""
    if str(pipeline.destination.config_params.get("credentials")).startswith("sqlite:"):
        return "sqlite"
    return str(pipeline.destination.destination_name)


def _delete_by_keys(source: Any) -> None:
    """Have the rows that a load replaces found by their keys: SQLite would look at every row of the table."""
    for resource in source.resources.values():
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
def _destination_locked(pipeline: dlt.Pipeline) -> Generator[None, None, None]:
    """Refuse a second load into a DuckDB or SQLite file, or a dataset of PostgreSQL."""
    name = pipeline.destination.destination_name
    with ExitStack() as stack:
        if name in ("duckdb", "postgres", "sqlalchemy"):
            # DuckDB locks a file while it is open.
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


@contextmanager
def _calling_dlt(destination: str) -> Generator[None, None, None]:
    """Give dlt settings, unless its configuration has others, for the time of a call, and mend its errors.

    Errors of this library and Ctrl-C are raised as themselves, and others as ExportError.
    """
    settings: dict[str, Any] = {
        "runtime": {"dlthub_telemetry": False, "log_level": "CRITICAL"},
        # Otherwise the destination keeps a copy of the rows of the last load.
        "load": {"truncate_staging_dataset": True},
    }
    if destination == "filesystem":
        # Merging into plain files only appends: readers tell rows apart by the load that brought them.
        parquet = {"add_dlt_load_id": True}
        settings["normalize"] = {"loader_file_format": "parquet", "parquet_normalizer": parquet}
    provider = DictionaryProvider()
    providers = Container()[PluggableRunContext].providers.providers
    providers.append(provider)
    try:
        with provider.values(settings):
            # dlt may have read its configuration before.
            stop_telemetry()
            dlt.current.run_context().initialize_runtime()
            yield
    except Exception as failed:
        cause: BaseException = failed
        while not isinstance(cause, _OWN) and (deeper := cause.__cause__ or cause.__context__):
            cause = deeper
        if isinstance(cause, _OWN):
            raise cause from None
        if isinstance(cause, ImportError):
            extra = {"sqlite": "sqlalchemy"}.get(destination, destination)
            problem = f'{destination} needs more packages: pip install "dlt[{extra}]"'
            raise ConfigurationError(problem) from failed
        if isinstance(cause, ConfigFieldMissingException):
            variable = f"DESTINATION__{destination.upper()}__CREDENTIALS"
            raise ConfigurationError(f"{destination} is not configured: set {variable}") from failed
        lines = str(cause).strip().splitlines()
        problem = f"{destination} failed: {lines[0] if lines else type(cause).__name__}".rstrip(".")
        raise ExportError(f"{problem}. Correct that, and load again: the answers are kept") from failed
    finally:
        providers.remove(provider)
