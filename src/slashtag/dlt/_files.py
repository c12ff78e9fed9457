"""Parquet files of a load, on this machine or in a bucket: by month, and whole."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import dlt
from dlt.common.storages.load_package import ParsedLoadJobFileName

from ..tables import AtomicFile

#: Files of clicks are in a folder for each month of their days; `month` ends in a slash, or is empty.
LAYOUT = "{table_name}/{month}{load_id}.{file_id}.{ext}"
#: Columns whose month decides, in tables of clicks.
_DAYS = ("date", "month")
#: Rows that are split at once.
_BATCH = 500_000
_fsspec: Any = import_module("fsspec")
_LocalFileSystem: Any = import_module("fsspec.implementations.local").LocalFileSystem


def month_of(_schema: str, _table: str, _load: str, file_id: str, _ending: str) -> str:
    """Return the folder of a file, which `split_by_month` has written into the id of the file."""
    return f"{file_id[:7]}/" if file_id[4:5] == "-" == file_id[7:8] else ""


def split_by_month(pipeline: dlt.Pipeline) -> None:
    """Split each normalized file of clicks into one for each month of its days."""
    for load_id in pipeline.list_normalized_load_packages():
        for job in pipeline.get_load_package_info(load_id).jobs["new_jobs"]:
            if job.file_path.endswith(".parquet"):
                _split(Path(job.file_path))


def _split(path: Path) -> None:
    parquet, compute = import_module("pyarrow.parquet"), import_module("pyarrow.compute")
    name = ParsedLoadJobFileName.parse(path.name)
    with ExitStack() as opened:
        file = opened.enter_context(parquet.ParquetFile(path))
        schema = file.schema_arrow
        column = next((name for name in _DAYS if name in schema.names), None)
        if column is None or not file.metadata.num_rows:
            return
        writers: dict[str, Any] = {}
        for batch in file.iter_batches(_BATCH):
            months = compute.strftime(batch.column(column), "%Y-%m")
            for month in months.unique().to_pylist():
                if month not in writers:
                    part = name._replace(file_id=f"{month}-{name.file_id}").file_name()
                    writer = parquet.ParquetWriter(path.with_name(part), schema, compression="zstd")
                    writers[month] = opened.enter_context(writer)
                writers[month].write_batch(batch.filter(compute.equal(months, month)))
    path.unlink()


def remove_earlier(client: Any, load_id: str, tables: tuple[str, ...]) -> None:
    """Remove the files of tables that a load has brought whole, but for those of this load."""
    for table in tables:
        files = client.list_table_files(table)
        if any(load_id in Path(file).name for file in files):
            for file in files:
                if load_id not in Path(file).name:
                    client.fs_client.rm_file(file)


class _WholeFiles(_LocalFileSystem):  # type: ignore[misc]
    """File system of this machine, on which files that dlt writes appear whole or not at all.

    A file cut by a kill or a full disk would be an error to all who read the folder, and to later loads.
    """

    def put_file(self, lpath: str, rpath: str, *_: object, **__: object) -> None:
        """Copy a file."""
        with open(lpath, "rb") as source, AtomicFile(self._strip_protocol(rpath)) as file:
            while data := source.read(2**20):
                file.write(data)

    def write_text(self, path: str, value: str, *_: object, **__: object) -> None:
        """Write a text in UTF-8."""
        with AtomicFile(self._strip_protocol(path)) as file:
            file.write(value.encode())


@contextmanager
def whole_files() -> Generator[None, None, None]:
    """Have dlt write files of this machine whole, for the time of a `with` block."""
    before = _fsspec.get_filesystem_class("file")
    _fsspec.register_implementation("file", _WholeFiles, clobber=True)
    try:
        yield
    finally:
        _fsspec.register_implementation("file", before, clobber=True)
