"""Warehouses: which destination a path or name is, and errors of it in one line."""

import os
import re
import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import dlt
from filelock import FileLock, Timeout

from .. import ExportError, InvalidRequestError, SlashtagError
from .._files import object_url
from .._internal import in_thread
from ._database import Database
from ._folder import Folder
from ._tables import Replacement, Row, Span

# SQLite has dates as texts. What Python's own module does with them, which it is about to leave to others.
sqlite3.register_adapter(date, str)
sqlite3.register_adapter(datetime, str)
sqlite3.register_converter("DATE", lambda text: date.fromisoformat(text.decode()))
sqlite3.register_converter("TIMESTAMP", lambda text: datetime.fromisoformat(text.decode()))

#: What a file or folder may be.
LOCAL = ("duckdb", "sqlite", "filesystem")
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
    one, described by dlt's configuration. None: "filesystem" for a folder, for a path that ends in a slash
    and for the URL of a bucket (`s3://`, `gs://`, `az://`), else "duckdb". `dataset` is the schema, or the
    folder, of the tables, by default "slashtag" ("main" in SQLite). dlt's telemetry is off.

    While it is open no other load into a file, a folder or a dataset of PostgreSQL can begin. Raises
    InvalidRequestError for a path where none is expected, or none where one is; ExportError if the
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
        if destination is None:
            if path is None:
                raise InvalidRequestError("give the path of a file, folder or bucket, or a destination")
            destination = "duckdb"
            if url or str(path).endswith(("/", os.sep)) or Path(path).is_dir():
                destination = "filesystem"
        self.destination = destination
        if (destination in LOCAL) != (path is not None) or (url and destination != "filesystem"):
            raise InvalidRequestError(
                f"{destination}: duckdb, sqlite and filesystem go with a path, others without; a bucket with "
                "filesystem"
            )
        self.dataset = dataset or ("main" if destination == "sqlite" else "slashtag")
        self._path = None if path is None or url else Path(path).absolute()
        self.place = str(url or self._path or destination)

    def __enter__(self) -> Self:
        with self._errors(), ExitStack() as held:
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                if self.destination != "duckdb":  # which locks its file itself
                    held.enter_context(FileLock(f"{self._path}.lock", blocking=False))
            self._store = self._connect(held)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._errors():
            self._held.close()

    def _connect(self, held: ExitStack) -> Database | Folder:
        destination: Any = self.destination
        destinations: Any = dlt.destinations
        dlt.config["runtime.dlthub_telemetry"] = False
        dlt.config["runtime.log_level"] = "CRITICAL"
        if destination == "duckdb":
            opened = held.enter_context(import_module("duckdb").connect(self._path))
            # It takes an existing .csv or .parquet for data, and would lose what is written.
            if not opened.sql("FROM duckdb_databases() WHERE path IS NOT NULL").fetchall():
                raise ExportError(f"{self.place} is no DuckDB file; for Parquet files give a folder")
            destination = destinations.duckdb(opened)
        elif destination == "sqlite":
            sqlalchemy: Any = import_module("sqlalchemy")
            engine = sqlalchemy.create_engine(
                sqlalchemy.URL.create("sqlite", database=self.place),
                connect_args={"detect_types": sqlite3.PARSE_DECLTYPES},
            )
            held.callback(engine.dispose)
            destination = destinations.sqlalchemy(engine)
        elif destination == "filesystem":
            destination = destinations.filesystem(self._path.as_uri() if self._path else self.place)
        found: Any = dlt.dataset(destination, self.dataset, dlt.Schema("slashtag"))
        if self.destination == "filesystem":
            return Folder(found.destination_client.fs_client, found.destination_client.dataset_path)
        database = Database(found.sql_client)
        held.callback(database.close)
        database.open()
        return database

    async def rows(self, table: str, span: Span | None = None) -> list[Row]:
        """Return the rows of a table, or those of the days of some months."""
        with self._errors():
            return await in_thread(self._store.rows, table, span)

    async def replace(self, *changes: Replacement) -> None:
        """Replace rows of tables, in a database in one transaction."""
        with self._errors():
            await in_thread(self._store.replace, changes)

    @contextmanager
    def _errors(self) -> Generator[None, None, None]:
        """Raise what goes wrong as an error of this library, in one line without credentials."""
        try:
            yield
        except SlashtagError:
            raise
        except Timeout:
            raise ExportError(f"another load into {self.place} is under way") from None
        except Exception as error:
            cause: BaseException = error
            while deeper := cause.__cause__:
                cause = deeper
            (line, *_) = str(cause).strip().splitlines() or [type(cause).__name__]
            told = _CREDENTIALS.sub("***", line)
            raise ExportError(f"{self.place} failed: {told}; what is loaded stays") from None
