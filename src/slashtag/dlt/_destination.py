"""Which destination a path or name is: a file, a folder, a bucket, or one of dlt's settings."""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import dlt
from dlt.common.normalizers.naming.snake_case import NamingConvention
from dlt.common.pipeline import get_dlt_pipelines_dir

from .. import ConfigurationError, InvalidRequestError
from .._internal import check_local_path, object_url
from ._calling import calling_dlt
from ._files import LAYOUT, month_of

_sqlite = partial(dlt.destinations.sqlalchemy, create_primary_keys=True)


def _filesystem(url: str) -> Any:
    return dlt.destinations.filesystem(url, layout=LAYOUT, extra_placeholders={"month": month_of})


#: Destinations that are a file or folder: default dataset, characters that paths must not have, as they are
#: taken for parts of a URL or for patterns, and rows would go to another file, and how dlt is told of them.
#: SQLite waits half a minute for others that read or write the file.
LOCAL: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "duckdb": ("slashtag", "?", lambda path: dlt.destinations.duckdb(str(path))),
    "sqlite": ("main", "%?", lambda path: _sqlite(f"sqlite:///{path}?timeout=30")),
    "filesystem": ("slashtag", "*?[", lambda path: _filesystem(path.as_uri())),
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
_MOTHERDUCK = re.compile(r"\s*(md|motherduck):", re.IGNORECASE)


def local_pipeline(
    destination: str | None,
    path: str | os.PathLike[str] | None = None,
    *,
    dataset: str | None = None,
    pipelines_dir: str | os.PathLike[str] | None = None,
) -> dlt.Pipeline:
    """Return a pipeline into a file, a folder, a bucket or another destination, with its own working folder.

    `destination` is "duckdb", "sqlite" or "filesystem" with a `path`, or another destination of dlt's without
    one, set in dlt's configuration. None is "filesystem" for a folder that exists, a path that ends in a
    slash, and a URL of a bucket (`s3://`, `gs://`, `az://`), whose credentials come from dlt's configuration
    or the environment; for other paths it is "duckdb", but a new file is refused if its name suggests another
    kind, such as `.sqlite`. dlt's telemetry is off unless its configuration turns it on. Raises
    InvalidRequestError unless there is a path where one is needed, for any other URL, and for a path that
    exists and is of another kind; ConfigurationError if packages that dlt needs for the destination are
    missing, or for a path that it would read as another one.

    DuckDB calls a database as its file, up to the first dot. If that is the name of the dataset, in any case,
    `_data` is added to the latter: DuckDB could not tell one from the other.
    """
    given = destination
    url = None if path is None else object_url(path)
    if path is not None and _MOTHERDUCK.match(os.fspath(path)):
        raise InvalidRequestError(
            "md: is a database of MotherDuck, which takes no path: give --destination motherduck, and set "
            "DESTINATION__MOTHERDUCK__CREDENTIALS"
        )
    if destination is None:
        is_folder = path is not None and (os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir())
        destination = "filesystem" if url or is_folder else "duckdb"
    if (destination in LOCAL) != (path is not None):
        needs = "needs the path of its file or folder" if path is None else "takes no path"
        raise InvalidRequestError(f"{destination} {needs}")
    target: Any = destination
    name = dataset or "slashtag"
    if url is not None:
        if destination != "filesystem":
            raise InvalidRequestError(
                f"{destination} needs the path of a file on this machine; in a bucket are Parquet files: "
                "leave out --destination"
            )
        path, target = url.rstrip("/"), _filesystem(url)
    elif path is not None:
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
    folder = _working_folder(pipelines_dir) / f"slashtag-{where}"
    with calling_dlt(destination, str(path or destination)):
        # Without these dlt fails with an unclear error.
        if destination == "sqlite":
            import_module("sqlalchemy")
        if url is not None:
            import_module("fsspec").get_filesystem_class(url.partition(":")[0])
        return dlt.pipeline("slashtag", pipelines_dir=str(folder), destination=target, dataset_name=name)


def _working_folder(given: str | os.PathLike[str] | None) -> Path:
    """Return the folder of pipelines, where temporary files go too if those usual for them cannot be written.

    dlt needs one even for the name of a folder that it does not use. Raises ConfigurationError if no folder
    can be written.
    """
    if (named := given or os.environ.get("DLT_DATA_DIR")) and not _has_temporary_folder():
        os.makedirs(named, exist_ok=True)
        tempfile.tempdir = os.path.abspath(named)
    try:
        return Path(given or _pipelines_dir())
    except FileNotFoundError as error:
        problem = f"{error.strerror}: name a folder that can be written with --pipelines-dir or DLT_DATA_DIR"
        raise ConfigurationError(problem) from None


def _has_temporary_folder() -> bool:
    try:
        return bool(tempfile.gettempdir())
    except FileNotFoundError:
        return False


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
