"""The part of a job that runs on a worker: one session for the job, and the parts sent with it."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

from anyio.from_thread import start_blocking_portal
from msgspec import Struct

from .. import AsyncSession, ConfigurationError, SessionClosedError, SlashtagError

P = TypeVar("P")
T = TypeVar("T")

Pair = tuple[str, str]
#: Runs on the worker and returns the apikey and apisecret.
GetCredentials = Callable[[], Pair | Awaitable[Pair]]
Work = Callable[[AsyncSession, P], Awaitable[T]]

distributed: Any
try:
    distributed = import_module("distributed")
except ImportError:  # a Job says which extra is missing
    distributed = None
_Plugin: Any = object if distributed is None else distributed.WorkerPlugin


class Done(Struct, Generic[T], frozen=True):
    """Result of a part; a failure is a value too, so that no worker logs what was requested.

    `session` names the worker's session, `requests` and `throttled` are its counts so far.
    """

    value: T | None
    error: SlashtagError | None
    session: str = ""
    requests: int = 0
    throttled: int = 0


class Sessions(_Plugin):  # type: ignore[misc]
    """Worker plugin that keeps one session for as long as a job lasts.

    The session runs on an event loop in a thread of its own: the worker goes on talking to the scheduler
    while answers are decoded, and Dask's profiler, which walks the stacks of the worker's own loop a hundred
    times a second, does not slow it down. It is opened by the first part, so that wrong credentials are an
    error of the job and not of the worker. Only `credentials`, a callable, is pickled, never its result.
    """

    def __init__(
        self, base_url: str | None, credentials: GetCredentials | None, options: Mapping[str, Any]
    ) -> None:
        self.name = f"slashtag-{secrets.token_hex(8)}"
        self._base_url = base_url
        self._credentials = credentials
        self._options = dict(options)

    def setup(self, worker: object) -> None:
        """Start the event loop."""
        self._id = secrets.token_hex(8)
        self._stack = ExitStack()
        uvloop = {"use_uvloop": find_spec("uvloop") is not None}
        self._portal = self._stack.enter_context(start_blocking_portal(backend_options=uvloop))
        self._session: AsyncSession | None = None
        self._opening = asyncio.Lock()
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

    def run(self, work: Work[P, T], part: P) -> Done[T]:
        """Run a part on the session."""
        try:
            future: Future[Done[T]] = self._portal.start_task_soon(self._do, work, part)
        except RuntimeError:  # the portal is closed
            raise distributed.Reschedule from None
        self._parts.add(future)
        try:
            return future.result()
        except CancelledError:
            # The worker is being closed, so another one runs it; or the job is over, and nobody waits.
            raise distributed.Reschedule from None
        finally:
            self._parts.discard(future)

    async def _do(self, work: Work[P, T], part: P) -> Done[T]:
        value = error = None
        try:
            value = await work(await self._open(), part)
        except SlashtagError as raised:
            error = raised
        if self._session is None:
            return Done(value, error, self._id)
        metrics = self._session.metrics
        return Done(value, error, self._id, metrics.attempts, metrics.throttled)

    async def _open(self) -> AsyncSession:
        async with self._opening:
            if self._session is None:
                apikey, apisecret = (None, None) if self._credentials is None else await self._ask()
                self._session = AsyncSession(
                    self._base_url, apikey=apikey, apisecret=apisecret, **self._options
                )
            return self._session

    async def _ask(self) -> Pair:
        get = self._credentials
        assert get is not None
        try:
            # It may block, say on a request to a service of secrets.
            found = get() if inspect.iscoroutinefunction(get) else await asyncio.to_thread(get)
            apikey, apisecret = await found if inspect.isawaitable(found) else found
        except SlashtagError:
            raise
        except Exception as error:
            # Its text may show what it read.
            raise ConfigurationError(
                f"credentials= failed on a worker ({type(error).__name__}); it returns (apikey, apisecret)"
            ) from None
        return apikey, apisecret


def run_part(name: str, work: Work[P, T], part: P) -> Done[T]:
    """Run one part of a job: the task that is sent to workers."""
    sessions: Sessions | None = distributed.get_worker().plugins.get(name)
    if sessions is None:
        # It began as its job ended, so nobody waits for it.
        return Done(None, SessionClosedError("the job is over"))
    return sessions.run(work, part)
