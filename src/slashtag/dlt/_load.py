"""Runs of a pipeline: one at a time, after pending data of an earlier one, with this library's errors."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dlt
from dlt.common.pipeline import get_dlt_pipelines_dir
from dlt.common.runtime.telemetry import stop_telemetry
from dlt.pipeline.exceptions import PipelineStepFailed
from msgspec import Struct

from .. import ExportError, SlashtagError
from .._internal import HAS_LOCKS, lock_file, remove_journal

#: Destinations that are a file or folder, and the default dataset in each.
LOCAL = {"duckdb": "slashtag", "sqlite": "main", "filesystem": "slashtag"}


class Loaded(Struct, frozen=True):
    """Result of a load: rows that were passed on, by table, and seconds."""

    rows: dict[str, int]
    seconds: float


def local_pipeline(
    destination: str,
    path: str | os.PathLike[str] | None = None,
    *,
    dataset: str | None = None,
    pipelines_dir: str | os.PathLike[str] | None = None,
) -> dlt.Pipeline:
    """Return a pipeline into a file, a folder or another destination, with its own working folder.

    `destination` is "duckdb", "sqlite" or "filesystem" with a `path`, or another destination of dlt's without
    one, set in dlt's configuration. dlt's telemetry is off unless its configuration turns it on.
    """
    _quiet()
    if (destination in LOCAL) != (path is not None):
        needs = "needs the path of its file or folder" if path is None else "takes no path"
        raise TypeError(f"{destination} {needs}")
    target: Any = destination
    name = dataset or LOCAL.get(destination, "slashtag")
    if path is not None:
        path = Path(path).absolute()
        if destination == "duckdb":
            target = dlt.destinations.duckdb(str(path))
            if path.stem == name:
                # DuckDB could not tell the database from the schema in it.
                name += "_data"
        elif destination == "sqlite":
            target = dlt.destinations.sqlalchemy(f"sqlite:///{path}")
        else:
            target = dlt.destinations.filesystem(path.as_uri())
            # Merging into plain files only appends: readers tell rows apart by the load that brought them.
            _set_default("normalize.parquet_normalizer.add_dlt_load_id", "true")
            _set_default("normalize.loader_file_format", "parquet")
    where = hashlib.sha256(f"{destination}\0{path or ''}\0{name}".encode()).hexdigest()[:12]
    folder = Path(pipelines_dir) if pipelines_dir else Path(get_dlt_pipelines_dir())
    return dlt.pipeline(
        "slashtag", pipelines_dir=str(folder / f"slashtag-{where}"), destination=target, dataset_name=name
    )


def load(pipeline: dlt.Pipeline, source: Any) -> Loaded:
    """Load the pending data of an interrupted run, then a source.

    Raises errors of the source; ExportError if another load of this pipeline is running or the destination
    fails.
    """
    began = time.monotonic()
    with _locked(pipeline), _unwrapped(pipeline), warnings.catch_warnings():
        # Warnings of dlt and of drivers about how they load.
        warnings.simplefilter("ignore")
        pipeline.sync_destination()
        if pipeline.has_pending_data:
            pipeline.run()
        pipeline.run(source)
        for journal in Path(pipeline.working_dir).glob("slashtag-*.journal"):
            remove_journal(journal)
        trace = pipeline.last_trace
        info = None if trace is None else trace.last_normalize_info
        counts = {} if info is None else info.row_counts
        rows = {table: count for table, count in counts.items() if not table.startswith("_dlt")}
    return Loaded(rows, time.monotonic() - began)


@contextmanager
def _locked(pipeline: dlt.Pipeline) -> Generator[None, None, None]:
    """Refuse a second load with a pipeline's folder."""
    folder = Path(pipeline.pipelines_dir)
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "slashtag.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not lock_file(handle) and HAS_LOCKS:
            raise ExportError("another load of this pipeline is under way")
        yield
    finally:
        os.close(handle)


@contextmanager
def _unwrapped(pipeline: dlt.Pipeline) -> Generator[None, None, None]:
    """Raise errors of this library as themselves, and others as ExportError."""
    try:
        yield
    except PipelineStepFailed as failed:
        cause: BaseException = failed
        while not isinstance(cause, SlashtagError) and (deeper := cause.__cause__ or cause.__context__):
            cause = deeper
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
        if isinstance(cause, SlashtagError):
            raise cause from None
        lines = str(cause).strip().splitlines()
        raise ExportError(
            f"{pipeline.destination.destination_name} failed: {lines[0] if lines else type(cause).__name__}"
        ) from failed


def _quiet() -> None:
    """Turn dlt's telemetry and warnings off unless its configuration says otherwise."""
    _set_default("runtime.dlthub_telemetry", "false")
    _set_default("runtime.log_level", "ERROR")
    # dlt may have read its configuration before.
    stop_telemetry()
    dlt.current.run_context().initialize_runtime()


def _set_default(name: str, value: str) -> None:
    if not dlt.config.get(name, str):
        os.environ[name.upper().replace(".", "__")] = value
