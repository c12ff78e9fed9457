"""A server of S3 on the loopback, and the rows of a warehouse in its bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import duckdb

from .warehouses import Target


@contextmanager
def s3_server(bucket: str) -> Iterator[Any]:
    """Serve S3 with an empty bucket, to which the environment points; give a file system on it."""
    # Imported where they are used, as that takes a second in each process that collects tests.
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        named = {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "DEFAULT_REGION": "us-east-1"}
        named["ENDPOINT_URL"] = f"http://{host}:{port}"
        with patch.dict(os.environ, {f"AWS_{name}": value for name, value in named.items()}):
            s3fs.S3FileSystem.clear_instance_cache()
            system = s3fs.S3FileSystem()
            if system.exists(bucket):  # moto keeps it
                system.rm(bucket, recursive=True)
            system.mkdir(bucket)
            yield system
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()


def rows_in_bucket(target: Target, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of clicks by day: of each slashtag and day, those that the last load has brought."""
    import s3fs

    with duckdb.connect() as database:
        database.register_filesystem(s3fs.S3FileSystem(skip_instance_cache=True))
        files = f"read_parquet('{target.arguments['path']}/slashtag/{table}/*/*.parquet')"
        latest = "rank() OVER (PARTITION BY slashtag, date ORDER BY _dlt_load_id DESC) = 1"
        return database.sql(f"SELECT slashtag, date, clicks, final FROM {files} QUALIFY {latest}").fetchall()
