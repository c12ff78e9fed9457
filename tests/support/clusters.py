"""Dask clusters on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import distributed


@contextmanager
def local_cluster(workers: int, threads: int = 2, *, processes: bool = True) -> Iterator[Any]:
    """Run a cluster whose workers come back however often they are killed."""
    # Dask looks some time after a worker was lost whether it is there again, and gives up its place where it
    # is not: also where it was there, and was killed once more just then.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=workers,
            processes=processes,
            threads_per_worker=threads,
            host="127.0.0.1",
            protocol="tcp://",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
    ):
        yield cluster
