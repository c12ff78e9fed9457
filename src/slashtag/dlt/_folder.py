"""Tables as Parquet files in a folder or a bucket: one file for a month of clicks, or for a whole table."""

from collections.abc import Collection, Sequence
from importlib import import_module
from io import BytesIO
from typing import Any

from .. import ConfigurationError
from ..tables import AtomicFile
from ._tables import TABLES, Replacement, Row, Span


class Folder:
    """Files on a file system of fsspec; each file is replaced whole."""

    def __init__(self, files: Any, root: str) -> None:
        self._files, self._root = files, root.rstrip("/")
        self._arrow: Any = import_module("pyarrow")
        self._parquet: Any = import_module("pyarrow.parquet")
        self._is_local = "file" in files.protocol
        arrow = self._arrow
        kinds = {
            "BIGINT": arrow.int64(),
            "TEXT": arrow.string(),
            "DATE": arrow.date32(),
            "TIMESTAMP": arrow.timestamp("us"),
            "BOOLEAN": arrow.bool_(),
            "DOUBLE": arrow.float64(),
        }
        self._schemas = {
            table: arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
            for table, columns in TABLES.items()
        }

    def open(self) -> None:
        self._files.makedirs(self._root, exist_ok=True)
        if self._files.exists(f"{self._root}/loads"):
            problem = f"{self._root} was loaded by an earlier version of slashtag"
            raise ConfigurationError(f"{problem}; use another folder or --dataset")

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def rows(self, table: str, span: Span | None = None, names: Collection[Any] | None = None) -> list[Row]:
        wanted = None if names is None else {*names}
        found: list[Row] = []
        for path in self._paths(table, span):
            columns = self._read(table, path).columns
            found += (
                row
                for row in zip(*(column.to_pylist() for column in columns), strict=True)
                if _is_meant(row, span, wanted)
            )
        return found

    def replace(self, changes: Sequence[Replacement]) -> None:
        for change in changes:
            of_file: dict[str, list[Row]] = {path: [] for path in self._paths(change.table, change.span)}
            for row in change.rows:
                of_file.setdefault(self._path(change.table, row), []).append(row)
            for path, rows in of_file.items():
                self._replace(change, path, rows)

    def _replace(self, change: Replacement, path: str, rows: Sequence[Row]) -> None:
        """Write a file with these rows in place of those that are replaced; remove it if none is left."""
        arrow, schema = self._arrow, self._schemas[change.table]
        new = arrow.Table.from_arrays(
            [
                arrow.array(column, kind)
                for column, kind in zip(_columns(rows, schema), schema.types, strict=True)
            ],
            schema=schema,
        )
        if self._files.exists(path):
            held = self._read(change.table, path)
            names = None if change.names is None else {*change.names}
            pairs = zip(*(column.to_pylist() for column in held.columns[:2]), strict=True)
            kept = held.filter(arrow.array([not _is_meant(pair, change.span, names) for pair in pairs]))
            if not rows and len(kept) == len(held):
                return
            new = arrow.concat_tables([kept, new])
        if len(new) or "/" not in path.removeprefix(f"{self._root}/"):
            file = BytesIO()
            self._parquet.write_table(new, file, compression="zstd")
            self._write(path, file.getvalue())
        else:
            self._files.rm_file(path)

    def _write(self, path: str, data: bytes) -> None:
        """Write a file that appears whole, as an object of a bucket does."""
        if not self._is_local:
            self._files.pipe_file(path, data)
            return
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with AtomicFile(path) as file:
            file.write(data)

    def _read(self, table: str, path: str) -> Any:
        data = self._arrow.BufferReader(self._files.cat_file(path))
        return self._parquet.read_table(data).select(list(TABLES[table])).cast(self._schemas[table])

    def _paths(self, table: str, span: Span | None) -> list[str]:
        """Return the files that may have rows of a span."""
        if not _has_months(table):
            path = f"{self._root}/{table}.parquet"
            return [path] * self._files.exists(path)
        self._files.invalidate_cache()
        found = sorted(self._files.glob(f"{self._root}/{table}/*.parquet"))
        if span is None:
            return found
        first, last = (day.isoformat()[:7] for day in span)
        return [path for path in found if first <= path.rpartition("/")[2][:7] <= last]

    def _path(self, table: str, row: Row) -> str:
        month = f"/{row[1].isoformat()[:7]}" if _has_months(table) else ""
        return f"{self._root}/{table}{month}.parquet"


def _has_months(table: str) -> bool:
    return "DATE" in list(TABLES[table].values())[:2]


def _columns(rows: Sequence[Row], schema: Any) -> Sequence[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * len(schema)


def _is_meant(row: Row, span: Span | None, names: Collection[Any] | None) -> bool:
    """Return whether a row has one of the names, and a day of the span; its first two columns are enough."""
    if names is not None and row[0] not in names:
        return False
    return span is None or span[0] <= row[1] <= span[1]
