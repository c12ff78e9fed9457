"""The session of a job on a worker, and the task that runs one part with it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from anyio.from_thread import start_blocking_portal

from .. import AsyncSession, Plan, SessionClosedError, SlashtagError, Statistics

distributed: Any
try:
    distributed = import_module("distributed")
except ImportError:  # `collect` says which extra is missing
    distributed = None
_Plugin: Any = object if distributed is None else distributed.WorkerPlugin


class WorkerSession(_Plugin):  # type: ignore[misc]
    """Worker plugin that holds one session for as long as a job lasts.

    The session runs on an event loop in a thread of its own: the worker goes on talking to the scheduler
    while answers are decoded, and Dask's profiler, which walks the stacks of the worker's own loop a hundred
    times a second, does not slow it down. The first part opens the session, so that missing credentials are
    an error of the job and not of the worker.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.name = f"slashtag-{secrets.token_hex(8)}"
        self._options = dict(options)

    def setup(self, worker: object) -> None:
        """Start the event loop."""
        self._stack = ExitStack()
        uvloop = {"use_uvloop": find_spec("uvloop") is not None}
        self._portal = self._stack.enter_context(start_blocking_portal(backend_options=uvloop))
        self._session: AsyncSession | None = None
        self._parts: set[Future[Any]] = set()

    async def teardown(self, worker: object) -> None:
        """Cancel the parts that run, close the session, and end the loop's thread."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for part in tuple(self._parts):
            part.cancel()
        if self._session is not None:
            self._portal.call(self._session.aclose)
        self._stack.close()

    def run(self, part: Plan[Any]) -> Statistics | SlashtagError:
        """Run a part on the session."""
        try:
            future: Future[Statistics | SlashtagError] = self._portal.start_task_soon(self._run, part)
        except RuntimeError:  # the portal is closed
            raise distributed.Reschedule from None
        self._parts.add(future)
        try:
            return future.result()
        except CancelledError:
            # Either the worker is closing, and another one runs the part, or the job has ended.
            raise distributed.Reschedule from None
        finally:
            self._parts.discard(future)

    async def _run(self, part: Plan[Any]) -> Statistics | SlashtagError:
        try:
            if self._session is None:
                self._session = AsyncSession(**self._options)
            stats: Statistics = await self._session.stats.run(part)
            return stats
        except SlashtagError as error:
            # A value, so that no worker logs the error with the requests it names.
            return error


def run_part(name: str, part: Plan[Any]) -> Statistics | SlashtagError:
    """Run one part of a job on a worker; errors of this library are returned, not raised."""
    session: WorkerSession | None = distributed.get_worker().plugins.get(name)
    if session is None:
        # The part began after the job had ended, so nobody waits for it.
        return SessionClosedError("the job is over")
    return session.run(part)
