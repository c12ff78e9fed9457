"""A server of S3 on the loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


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
