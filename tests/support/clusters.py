"""Dask clusters on this machine, for tests of what runs on them, and what an export of a year wrote there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed
import pyarrow.parquet as parquet

from slashtag.sandbox import Sandbox


@contextmanager
def local_cluster(workers: int, threads: int = 2) -> Iterator[Any]:
    """Run a cluster whose workers come back however often they are killed."""
    # Dask looks some time after a worker was lost whether it is there again, and gives up its place where it
    # is not: also where it was there, and was killed once more just then.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
    ):
        yield cluster


def keys_of(box: Sandbox) -> list[str]:
    return list(dict.fromkeys(link.slashtag for link in box.truth.urls()))


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    tables = [parquet.read_table(file) for file in sorted(folder.glob("part-*.parquet"))]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def true_rows(box: Sandbox, keys: Iterable[str] | None = None) -> list[tuple[Any, ...]]:
    """The truth of 2023 for these keys, or all."""
    return [
        (key, day, clicks)
        for key in (keys_of(box) if keys is None else keys)
        for day, clicks in box.truth.range("2023-01-01", "2023-12-31", keys=[key]).clicks.items()
    ]
