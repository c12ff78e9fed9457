"""Warehouses: which destination a path or name is, and errors of it in one line."""

import os
import re
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
import dlt
from dlt.common.configuration.exceptions import ConfigFieldMissingException
from filelock import FileLock, Timeout

from .. import ConfigurationError, ExportError, InvalidRequestError, SlashtagError
from .._internal import check_local_path, in_thread, object_url
from ._database import Database
from ._folder import Folder
from ._tables import Replacement, Row, Span, Store

#: What a file or folder may be, and what its path must not have: it is taken for part of a URL.
LOCAL = {"duckdb": "?", "sqlite": "%?", "filesystem": "*?["}
#: What drivers may quote of a connection string: what is before its host, where a password may have an @ that
#: was not quoted, and values of settings.
_CREDENTIALS = re.compile(
    r"(?:(?<=://)[^\s\"']+|[^\s\"'(/]+)(?=@[^\s@])"
    r"|(?:(?<=password=)|(?<=secret=)|(?<=token=)|(?<=key=))[^\s&;'\"]+",
    re.IGNORECASE,
)


class Warehouse:
    """Tables of clicks in a file, a folder, a bucket or a database, which `load` and `audit` open.

    `destination` is "duckdb", "sqlite" or "filesystem" with a `path`, or another destination of dlt's without
    one, described by dlt's configuration. None: what the path is; of a new path "filesystem" if it ends in a
    slash or is a URL of a bucket (`s3://`, `gs://`, `az://`), else "duckdb". `dataset` is the schema, or the
    folder, of the tables, by default "slashtag" ("main" in SQLite). dlt's telemetry is off unless its
    configuration turns it on.

    While it is open no other load into a file, a folder or a dataset of PostgreSQL can begin. Raises
    InvalidRequestError for a path that is of another kind, or missing; ConfigurationError if packages or
    settings of the destination are missing, or if its tables are of another version; ExportError if the
    destination fails, or another load is under way.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        destination: str | None = None,
        *,
        dataset: str | None = None,
    ) -> None:
        url = None if path is None else object_url(path)
        if path is not None and url is None:
            check_local_path(path)
            path = (
                Path(path).absolute()
                if not os.fspath(path).endswith(("/", os.sep))
                else f"{Path(path).absolute()}/"
            )
        self.destination = destination or _kind_of(path, url)
        self.place = str(url or path or self.destination)
        if (self.destination in LOCAL) != (path is not None) or (url and self.destination != "filesystem"):
            needs = "takes no path" if path is not None else "needs the path of its file or folder"
            raise InvalidRequestError(f"{self.destination} {needs}")
        self.dataset = dataset or ("main" if self.destination == "sqlite" else "slashtag")
        if path is not None and url is None:
            self._check(Path(path))
        self._lock = None
        if url is None and self.destination in ("sqlite", "filesystem"):
            self._lock = FileLock(f"{self.place.rstrip('/')}.lock", blocking=False)

    def _check(self, path: Path) -> None:
        """Refuse a path of another kind, and one that dlt or DuckDB would take for another."""
        found = _kind_of(path, None) if path.exists() else self.destination
        if found != self.destination:
            raise InvalidRequestError(f"{path} is of destination {found}, not {self.destination}")
        if wrong := "".join(sorted({*LOCAL[self.destination]} & {*str(path)})):
            raise ConfigurationError(f"{self.destination} cannot have {wrong} in a path: {path}")
        # DuckDB calls a database as its file, up to the first dot.
        if self.destination == "duckdb" and path.name.partition(".")[0].lower() == self.dataset.lower():
            raise ConfigurationError(
                f"DuckDB cannot tell the file {path.name} from the schema {self.dataset}: give either "
                "another name (--dataset)"
            )

    def __enter__(self) -> Self:
        # A connection does one thing at a time.
        self._turn = anyio.Lock()
        with self._errors():
            if self._lock is not None:
                Path(self._lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
            is_new = not Path(self.place).exists()
            try:
                self._store = self._connect()
                self._store.open()
            except BaseException:
                self.__exit__()
                if is_new and self.destination == "duckdb":
                    # A file whose beginning alone is there, as of a full disk, could not be opened again.
                    Path(self.place).unlink(missing_ok=True)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # all that it was to keep is kept
            self._store.close()
        if self._lock is not None:
            self._lock.release()

    def _connect(self) -> Store:
        for name, value in (("dlthub_telemetry", False), ("log_level", "CRITICAL")):
            if dlt.config.get(f"runtime.{name}") is None:
                dlt.config[f"runtime.{name}"] = value
        destinations: Any = dlt.destinations
        url = self.place if "://" in self.place else Path(self.place).as_uri() if "/" in self.place else ""
        of_kind = {
            "duckdb": lambda: destinations.duckdb(self.place),
            "sqlite": lambda: destinations.sqlalchemy(f"sqlite:///{self.place}?timeout=30"),
            "filesystem": lambda: destinations.filesystem(url),
        }
        destination = of_kind.get(self.destination, lambda: self.destination)()
        found: Any = dlt.dataset(destination, self.dataset, dlt.Schema("slashtag"))
        if self.destination == "filesystem":
            client = found.destination_client
            return Folder(client.fs_client, client.dataset_path)
        return Database(found.sql_client)

    async def rows(
        self, table: str, span: Span | None = None, names: Collection[Any] | None = None
    ) -> list[Row]:
        """Return the rows of a table, or those of a span of days and of some names."""
        async with self._turn:
            with self._errors():
                return await in_thread(partial(self._store.rows, table, span, names))

    async def replace(self, *changes: Replacement) -> None:
        """Replace rows of tables, in a database in one transaction."""
        async with self._turn:
            with self._errors():
                await in_thread(partial(self._store.replace, changes))

    @contextmanager
    def _errors(self) -> Generator[None, None, None]:
        """Raise what goes wrong as an error of this library, in one line without credentials."""
        try:
            yield
        except SlashtagError:
            raise
        except Timeout:
            raise ExportError(f"{self.place}: another load into it is under way") from None
        except ConfigFieldMissingException:
            setting = f"DESTINATION__{self.destination.upper()}__CREDENTIALS"
            raise ConfigurationError(f"{self.destination} is not configured: set {setting}") from None
        except Exception as error:
            cause: BaseException = error
            while not isinstance(cause, SlashtagError) and (deeper := cause.__cause__):
                cause = deeper
            if isinstance(cause, ImportError):
                problem = f"{self.destination} needs more packages: see dlt's page of it ({cause})"
                raise ConfigurationError(problem) from None
            lines = str(cause).strip().splitlines()
            text = _CREDENTIALS.sub("***", lines[0] if lines else type(cause).__name__)
            raise ExportError(f"{self.place} failed: {text}; what is loaded stays, load again") from None


def _kind_of(path: str | os.PathLike[str] | None, url: str | None) -> str:
    """Return the destination that a path is of, or is for if it is missing."""
    if path is None:
        raise InvalidRequestError("give the path of a file, folder or bucket, or a destination")
    if url is not None or os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir():
        return "filesystem"
    head = b""
    with suppress(OSError), Path(path).open("rb") as file:  # the destination tells what is wrong
        head = file.read(16)
    return "sqlite" if head == b"SQLite format 3\0" else "duckdb"
