"""Tables as Parquet files in a folder or a bucket: one for a month of clicks, or for a whole table."""

from collections.abc import Collection, Sequence
from importlib import import_module
from io import BytesIO
from typing import Any

from .. import ConfigurationError
from ..tables import AtomicFile
from ._tables import TABLES, Replacement, Row, Span

_ARROW = {
    "BIGINT": "int64",
    "TEXT": "string",
    "DATE": "date32",
    "TIMESTAMP": "timestamp[us]",
    "BOOLEAN": "bool",
    "DOUBLE": "float64",
}


class Folder:
    """Files on a file system of fsspec, each of which is replaced whole."""

    def __init__(self, files: Any, root: str) -> None:
        self._files, self._root = files, root.rstrip("/")
        self._arrow: Any = import_module("pyarrow")
        self._dataset: Any = import_module("pyarrow.dataset")
        self._parquet: Any = import_module("pyarrow.parquet")

    def open(self) -> None:
        """Make the folder; raises ConfigurationError if it is one of an earlier version."""
        self._files.makedirs(self._root, exist_ok=True)
        if self._files.isdir(f"{self._root}/loads"):
            raise ConfigurationError(f"{self._root} was made by an earlier version: use another folder")

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def rows(self, table: str, span: Span | None = None, names: Collection[Any] | None = None) -> list[Row]:
        """Return the rows of a table, or those of a span of days and of some names."""
        found = self._read(table, self._paths(table, span), self._meant(table, span, names))
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def replace(self, changes: Sequence[Replacement]) -> None:
        """Replace rows, file by file."""
        for table, names, span, rows in changes:
            of_file: dict[str, list[Row]] = {path: [] for path in self._paths(table, span)}
            for row in rows:
                month = f"/{row[1].isoformat()[:7]}" if _has_months(table) else ""
                of_file.setdefault(f"{self._root}/{table}{month}.parquet", []).append(row)
            meant = self._meant(table, span, names)
            for path, added in of_file.items():
                self._rewrite(table, path, None if meant is None else ~meant, added)

    def _rewrite(self, table: str, path: str, kept: Any, added: Sequence[Row]) -> None:
        """Write a file with the rows that are kept (None: none) and new ones; remove it if it has no row."""
        columns = zip(*added, strict=True) if added else [()] * len(TABLES[table])
        schema = self._schema(table)
        parts = [
            self._arrow.Table.from_arrays([*map(self._arrow.array, columns, schema.types)], schema=schema)
        ]
        if kept is not None and self._files.exists(path):
            parts.append(self._read(table, [path], kept))
        whole = self._arrow.concat_tables(parts)
        if not len(whole):
            self._files.rm_file(path)
            return
        file = BytesIO()
        self._parquet.write_table(whole, file)
        if "file" not in self._files.protocol:
            self._files.pipe_file(path, file.getvalue())
            return
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with AtomicFile(path) as whole_file:
            whole_file.write(file.getvalue())

    def _read(self, table: str, paths: list[str], condition: Any) -> Any:
        files = self._dataset.dataset(paths, self._schema(table), "parquet", filesystem=self._files)
        return files.to_table(filter=condition)

    def _schema(self, table: str) -> Any:
        columns = TABLES[table].items()
        return self._arrow.schema(
            [(name, self._arrow.type_for_alias(_ARROW[kind])) for name, kind in columns]
        )

    def _meant(self, table: str, span: Span | None, names: Collection[Any] | None) -> Any:
        """Return a condition for rows with these names and days, None for all."""
        name, day, *_ = map(self._dataset.field, TABLES[table])
        conditions: list[Any] = []
        if names is not None:
            conditions.append(name.isin(self._arrow.array([*names], self._schema(table).types[0])))
        if span is not None:
            conditions.append((day >= span[0]) & (day <= span[1]))
        return conditions[0] & conditions[-1] if conditions else None

    def _paths(self, table: str, span: Span | None) -> list[str]:
        """Return the files that may have rows of a span."""
        self._files.invalidate_cache()
        if not _has_months(table):
            path = f"{self._root}/{table}.parquet"
            return [path] * self._files.exists(path)
        folder = f"{self._root}/{table}"
        found = sorted(self._files.ls(folder, detail=False)) if self._files.exists(folder) else []
        first, last = (day.isoformat()[:7] for day in span) if span else ("", "~")
        return [path for path in found if first <= path.rpartition("/")[2][:7] <= last]


def _has_months(table: str) -> bool:
    return table.startswith("clicks")
