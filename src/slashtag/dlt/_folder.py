"""Tables as Parquet files in a folder or a bucket: one for a month of clicks, or for a whole table."""

from collections.abc import Collection, Sequence
from importlib import import_module
from io import BytesIO
from typing import Any

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
    """Files on a file system of fsspec, each of which is replaced whole: spans are those of whole files."""

    def __init__(self, files: Any, root: str) -> None:
        self._files, self._root = files, root.rstrip("/")
        self._arrow: Any = import_module("pyarrow")
        self._dataset: Any = import_module("pyarrow.dataset")
        self._parquet: Any = import_module("pyarrow.parquet")

    def open(self) -> None:
        """Make the folder."""
        self._files.makedirs(self._root, exist_ok=True)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def rows(self, table: str, span: Span | None = None) -> list[Row]:
        """Return the rows of a table, or those of the files of a span."""
        found = self._read(table, self._paths(table, span))
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def replace(self, changes: Sequence[Replacement]) -> None:
        """Replace rows, file by file."""
        for table, names, span, rows in changes:
            of_file: dict[str, list[Row]] = {path: [] for path in self._paths(table, span)}
            for row in rows:
                month = f"/{row[1].isoformat()[:7]}" if _has_months(table) else ""
                of_file.setdefault(f"{self._root}/{table}{month}.parquet", []).append(row)
            for path, added in of_file.items():
                self._rewrite(table, path, names, added)

    def _rewrite(self, table: str, path: str, names: Collection[Any] | None, added: Sequence[Row]) -> None:
        """Write a file with rows in place of those of some names (None: all); remove it if it has no row."""
        columns = list(zip(*added, strict=True)) or [()] * len(TABLES[table])
        whole = self._arrow.table(columns, schema=self._schema(table))
        if names is not None and self._files.exists(path):
            of_others = ~self._dataset.field(next(iter(TABLES[table]))).isin([*names])
            whole = self._arrow.concat_tables([whole, self._read(table, [path]).filter(of_others)])
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

    def _read(self, table: str, paths: list[str]) -> Any:
        files = self._dataset.dataset(paths, self._schema(table), "parquet", filesystem=self._files)
        return files.to_table()

    def _schema(self, table: str) -> Any:
        return self._arrow.schema([(name, _ARROW[kind]) for name, kind in TABLES[table].items()])

    def _paths(self, table: str, span: Span | None) -> list[str]:
        """Return the files that have rows of a span."""
        self._files.invalidate_cache()
        path = f"{self._root}/{table}"
        if not _has_months(table):
            return [f"{path}.parquet"] * self._files.exists(f"{path}.parquet")
        found = sorted(self._files.ls(path, detail=False)) if self._files.exists(path) else []
        first, last = (day.isoformat()[:7] for day in span) if span else ("", "~")
        return [path for path in found if first <= path.rpartition("/")[2][:7] <= last]


def _has_months(table: str) -> bool:
    return table.startswith("clicks")
