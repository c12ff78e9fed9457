"""What lives on a worker: one session for a job, and the parts that it asks."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from .._errors import ConfigurationError, SessionClosedError, SlashtagError
from .._fanout import log_late_failure
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

    It is opened by the first part, so that what is wrong with the credentials is an error of the job and not
    of the worker, on an event loop in a thread of its own: while answers are decoded the worker still talks
    to the scheduler, and Dask's profiler, which walks the stacks of the worker's own loop a hundred times a
    second, does not slow it down. Only `credentials`, a callable, is pickled, never what it
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
        self._loop = _new_loop()
        Thread(target=_serve, args=(self._loop,), name="slashtag", daemon=True).start()
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
            await _aside(self._loop, self._session.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def run(self, work: Work[P, T], part: P) -> Done[T]:
        """Do a part on the worker's session."""
        if self._over.is_set():
            return _late()
        task = asyncio.ensure_future(_aside(self._loop, self._do(work, part)))
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


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    return cast("asyncio.AbstractEventLoop", uvloop.new_event_loop())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _aside(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of another thread; if this is cancelled, it is, and its end awaited."""
    here = asyncio.get_running_loop()
    ended: asyncio.Future[asyncio.Task[T]] = here.create_future()
    begun: list[asyncio.Task[T]] = []

    def begin() -> None:
        begun.append(loop.create_task(work))
        begun[0].add_done_callback(lambda task: here.call_soon_threadsafe(ended.set_result, task))

    def cancel() -> None:
        begun[0].cancel()

    loop.call_soon_threadsafe(begin)
    try:
        await asyncio.wait((ended,))
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(cancel)
        while not ended.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((ended,))
        log_late_failure(begun[0])
        raise
    return ended.result().result()


async def run_part(name: str, work: Work[P, T], part: P) -> Done[T]:
    """Do one part of a job: the task that is sent to workers."""
    sessions = cast("Sessions | None", distributed.get_worker().plugins.get(name))
    return _late() if sessions is None else await sessions.run(work, part)


def _late() -> Done[Any]:
    """Tell of a part that was begun as its job ended, to nobody, in a way that no worker logs."""
    return Done(None, SessionClosedError("the job is over"), "", 0, 0)
