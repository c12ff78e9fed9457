"""Tables as Parquet files in a folder or a bucket: one for a month of clicks, or for a whole table."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from io import BytesIO
from typing import Any

from .._arrow import arrow_columns
from ..tables import AtomicFile
from ._tables import TABLES, Replacement, Row, Span


class Folder:
    """Files on a file system of fsspec, each of which is replaced whole; a span has whole months."""

    def __init__(self, files: Any, root: str) -> None:
        self._files, self._root = files, root.rstrip("/")
        self._parquet: Any = import_module("pyarrow.parquet")

    def rows(self, table: str, span: Span | None = None) -> list[Row]:
        """Return the rows of a table, or those of a span."""
        return [row for path in self._paths(table, span) for row in self._read(path)]

    def replace(self, changes: Sequence[Replacement]) -> None:
        """Replace rows, file by file."""
        for table, names, span, rows in changes:
            files = defaultdict[str, list[Row]](list)
            for path in self._paths(table, span):
                files[path] = [row for row in self._read(path) if names is not None and row[0] not in names]
            for row in rows:
                month = f"/{str(row[1])[:7]}" if table.startswith("clicks") else ""
                files[f"{self._root}/{table}{month}.parquet"].append(row)
            for path, whole in files.items():
                self._write(table, path, whole)

    def _read(self, path: str) -> list[Row]:
        columns = self._parquet.read_table(BytesIO(self._files.cat_file(path))).columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def _write(self, table: str, path: str, rows: Sequence[Row]) -> None:
        """Replace a file; remove it if it has no row."""
        if not rows:
            self._files.rm_file(path)
            return
        file = BytesIO()
        self._parquet.write_table(arrow_columns(TABLES[table], zip(*rows, strict=True)), file)
        if "file" not in self._files.protocol:
            self._files.pipe_file(path, file.getvalue())
            return
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with AtomicFile(path) as whole:
            whole.write(file.getvalue())

    def _paths(self, table: str, span: Span | None) -> list[str]:
        """Return the files that have rows of a span."""
        self._files.invalidate_cache()
        if not table.startswith("clicks"):
            return list(self._files.find(f"{self._root}/{table}.parquet"))
        first, last = (f"{str(day)[:7]}.parquet" for day in span or (date.min, date.max))
        found = self._files.find(f"{self._root}/{table}")
        return [path for path in found if first <= path.rpartition("/")[2] <= last]
