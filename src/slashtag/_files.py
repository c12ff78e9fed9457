"""The event loop, functions in a thread, durable names of files, paths that are none."""

import asyncio
import logging
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ._errors import ConfigurationError, InvalidRequestError

T = TypeVar("T")

#: Begin of a URL, also as a path has it, with one slash. A single letter is a drive of Windows.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):[/\\]")

#: Schemes of buckets into which files are written.
BUCKETS = ("s3", "gs", "az")

log = logging.getLogger("slashtag")


def object_url(path: str | os.PathLike[str]) -> str | None:
    """Return the URL of an object or folder in a bucket, None for a path on this machine or another URL.

    A Path has lost one of the two slashes. Raises InvalidRequestError for a URL with credentials, which does
    not show them, and for one without a bucket.
    """
    found = _URL.match(os.fspath(path))
    if found is None or (scheme := found[1].lower()) not in BUCKETS:
        return None
    place = os.fspath(path)[found.end() :].lstrip("/")
    if "@" in place.partition("/")[0]:
        raise InvalidRequestError(
            f"{scheme}://... has credentials in it: leave them out, they come from the environment "
            "(AWS_ACCESS_KEY_ID and the like)"
        )
    if not place.strip("/"):
        raise InvalidRequestError(f"{scheme}://... names no bucket")
    return f"{scheme}://{place}"


def check_local_path(path: str | os.PathLike[str]) -> None:
    """Raise InvalidRequestError for a URL, such as that of a bucket, where a file or folder is expected.

    It would be a folder called `s3:` on this machine. The error shows only the scheme: the URL may hold a
    password.
    """
    if found := _URL.match(os.fspath(path)):
        problem = f"{found[1]}://... is a URL, where the path of a file or folder on this machine is needed"
        raise InvalidRequestError(problem)


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop; raises ConfigurationError where there is none, as on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "no asyncio event loop is running: slashtag needs asyncio and cannot run on trio"
        ) from None


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread and wait until it ends, even if cancelled: its file may be closed next."""
    # Not anyio.to_thread: its threads stay alive for seconds, and cancellation does not wait for them.
    pool = ThreadPoolExecutor(1, "slashtag")
    work = asyncio.wrap_future(pool.submit(function))
    pool.shutdown(wait=False)
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        # The caller was cancelled, so nothing else reports a failure.
        if not work.cancelled() and (error := work.exception()) is not None:
            log.warning("failed after it was cancelled: %s", str(error) or type(error).__name__)
        raise
    return work.result()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
