"""What lives on a worker: one session for a job, and the parts that it asks."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from .._errors import ConfigurationError, SessionClosedError, SlashtagError
from .._session import AsyncSession

P = TypeVar("P")
T = TypeVar("T")

Pair = tuple[str, str]
#: Runs on the worker and returns the apikey and apisecret.
GetCredentials = Callable[[], Pair | Awaitable[Pair]]
Work = Callable[[AsyncSession, P], Awaitable[T]]

distributed: Any
try:
    distributed = import_module("distributed")
except ImportError:  # told by who needs it
    distributed = None
_Plugin: Any = object if distributed is None else distributed.WorkerPlugin


class Done(Struct, Generic[T], frozen=True):
    """Hold what a part brought; a failure is a value too, so that no worker logs what it was asked.

    `session` names the session that asked, `requests` and `throttled` are its counts so far.
    """

    value: T | None
    error: SlashtagError | None
    session: str
    requests: int
    throttled: int


class Sessions(_Plugin):  # type: ignore[misc]
    """Keep one session on each worker for as long as a job lasts.

    It is opened by the first part, on the worker's event loop, so that what is wrong with the credentials
    is an error of the job and not of the worker. Only `credentials`, a callable, is pickled, never what it
    returns.
    """

    def __init__(
        self, base_url: str | None, credentials: GetCredentials | None, options: Mapping[str, Any]
    ) -> None:
        self.name = f"slashtag-{secrets.token_hex(8)}"
        self._base_url = base_url
        self._credentials = credentials
        self._options = dict(options)

    def setup(self, worker: object) -> None:
        """Begin on a worker."""
        self._id = secrets.token_hex(8)
        self._session: AsyncSession | None = None
        self._opening = asyncio.Lock()
        self._parts: set[asyncio.Task[Any]] = set()
        self._over = asyncio.Event()

    async def teardown(self, worker: object) -> None:
        """End on a worker: cancel the parts that run, close the session."""
        self._over.set()
        parts = list(self._parts)
        for part in parts:
            part.cancel()
        if parts:
            await asyncio.wait(parts)
        if self._session is not None:
            await self._session.aclose()

    async def run(self, work: Work[P, T], part: P) -> Done[T]:
        """Do a part on the worker's session."""
        if self._over.is_set():
            return _late()
        task = asyncio.ensure_future(self._do(work, part))
        self._parts.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            if self._over.is_set():
                return _late()
            # The worker is being closed: another one does it.
            raise distributed.Reschedule from None
        finally:
            self._parts.discard(task)

    async def _do(self, work: Work[P, T], part: P) -> Done[T]:
        value = error = session = None
        try:
            session = await self._open()
            value = await work(session, part)
        except SlashtagError as raised:
            error = raised
        metrics = None if session is None else session.metrics
        return Done(
            value,
            error,
            self._id,
            0 if metrics is None else metrics.attempts,
            0 if metrics is None else metrics.throttled,
        )

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
            # It may well ask a service of its own.
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


async def run_part(name: str, work: Work[P, T], part: P) -> Done[T]:
    """Do one part of a job: the task that is sent to workers."""
    sessions = cast("Sessions | None", distributed.get_worker().plugins.get(name))
    return _late() if sessions is None else await sessions.run(work, part)


def _late() -> Done[Any]:
    """Tell of a part that was begun as its job ended, to nobody, in a way that no worker logs."""
    return Done(None, SessionClosedError("the job is over"), "", 0, 0)
