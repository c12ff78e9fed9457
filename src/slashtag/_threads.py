"""Blocking functions in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger("slashtag")


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
