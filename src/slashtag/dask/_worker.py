"""The session of a job on a worker, and the task that runs one part with it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from anyio.from_thread import start_blocking_portal

from .. import AsyncSession, Plan, SessionClosedError, SlashtagError, Statistics

distributed: Any = import_module("distributed")


class WorkerSession(distributed.WorkerPlugin):  # type: ignore[misc]
    """Worker plugin that holds one session for as long as a job lasts.

    The session runs on an event loop in a thread of its own: the worker goes on talking to the scheduler
    while answers are decoded, and Dask's profiler, which walks the stacks of the worker's own loop a hundred
    times a second, does not slow it down. Missing credentials are an error of the job and not of the worker.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.name = f"slashtag-{secrets.token_hex(8)}"
        self._options = dict(options)

    def setup(self, worker: object) -> None:
        """Start the event loop."""
        self._stack = ExitStack()
        uvloop = {"use_uvloop": find_spec("uvloop") is not None}
        self._portal = self._stack.enter_context(start_blocking_portal(backend_options=uvloop))
        try:
            self._session: AsyncSession | SlashtagError = AsyncSession(**self._options)
        except SlashtagError as error:
            self._session = error

    async def teardown(self, worker: object) -> None:
        """Close the session, which ends its requests, and the loop's thread."""
        if isinstance(self._session, AsyncSession):
            await asyncio.to_thread(self._portal.call, self._session.aclose)
        await asyncio.to_thread(self._stack.close)

    def run(self, part: Plan[Any]) -> Statistics | SlashtagError:
        """Run a part on the session."""
        if isinstance(self._session, SlashtagError):
            return self._session
        try:
            result: Statistics = self._portal.call(self._session.stats.run, part)
        except SessionClosedError:
            # Either the worker is closing, and another one runs the part, or the job has ended.
            raise distributed.Reschedule from None
        except SlashtagError as error:
            # A value, so that no worker logs the error with the requests it names.
            return error
        return result


def run_part(name: str, part: Plan[Any]) -> Statistics | SlashtagError:
    """Run one part of a job on a worker; errors of this library are returned, not raised."""
    session: WorkerSession | None = distributed.get_worker().plugins.get(name)
    if session is None:
        # The part began after the job had ended, so nobody waits for it.
        return SessionClosedError("the job is over")
    return session.run(part)
