"""Workers, functions in a thread, background tasks and iterators over their results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any, Generic, Self, TypeVar, TypeVarTuple

from ._errors import ConfigurationError, SessionClosedError, SlashtagError

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

#: Most results that wait for their consumer.
MOST_WAITING = 64
_END = object()


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop; raises ConfigurationError where there is none, as on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "no asyncio event loop is running: slashtag needs asyncio and cannot run on trio"
        ) from None


async def run_workers(items: Iterable[T], work: Callable[[T], Awaitable[object]], workers: int) -> None:
    """Run `work(item)` for every item, up to `workers` at a time; each takes the next item when it is free.

    The first failure cancels the others and is raised as it is.
    """
    source = iter(items)
    firsts = list(islice(source, 2))
    source, left = chain(firsts, source), workers - 1  # that may still begin
    if len(firsts) < 2 or workers == 1:
        # Without a task, which costs half as much as a request.
        for item in source:
            await work(item)
        return

    async def serve() -> None:
        nonlocal left
        for item in source:
            if left:
                left -= 1
                group.create_task(serve())
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(serve())
        return
    except BaseExceptionGroup as errors:
        # The others are results of the cancellation that it caused.
        failure = errors.exceptions[0]
    raise failure


async def results_of(work: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the results of `work(item)` in the order of the items; all are under way at once.

    The first failure cancels the others and is raised as it is; with asyncio.gather these would go on.
    """
    given = list(items)
    found: dict[int, R] = {}

    async def keep(n: int) -> None:
        found[n] = await work(given[n])

    await run_workers(range(len(given)), keep, len(given))
    return [found[n] for n in sorted(found)]


async def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a function in a thread and wait until it ends, even if cancelled: its file may be closed next."""
    work = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        if error := work.exception():  # the caller was cancelled: nothing else tells it
            logging.getLogger("slashtag").warning("failed after it was cancelled: %s", error)
        raise
    return work.result()


class Tasks:
    """Background tasks of the session, of one of its listings, or of one iterator over either.

    Tasks belong to their parents too: closing the session or a listing cancels those of its iterators.
    """

    def __init__(self, parent: Tasks | None = None) -> None:
        self._parent = parent
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether these tasks, or those of the session, are closed."""
        return self._closed or (self._parent is not None and self._parent.closed)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task whose failure is raised when it is awaited, and never reported by the event loop."""
        try:
            if self.closed:
                raise SessionClosedError("the session is closed")
            task = running_loop().create_task(coroutine)
        except SlashtagError:
            coroutine.close()
            raise
        self._adopt(task)
        # A failure that was read is not reported.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    def _adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._parent is not None:
            self._parent._adopt(task)

    def drop(self) -> None:
        """Cancel all tasks without waiting for them; any thread may call this."""
        for task in list(self._tasks):
            loop = task.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

    async def aclose(self) -> None:
        """Cancel all tasks and wait until they have ended; safe to repeat."""
        self._closed = True
        left = [task for task in self._tasks if not task.done() and task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


class AsyncReadable:
    """Base of classes that are read with `async for`, and closed by `aclose` or `async with`."""

    async def aclose(self) -> None:
        """Cancel requests under way and wait until they have ended; safe to repeat."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Stream(AsyncReadable, Generic[T]):
    """Async iterator over the results of background tasks.

    Not an async generator: leaving a loop early must cancel the tasks without breaking the consumer. It is
    closed by `aclose`, `async with` or the session, or when it is garbage-collected.
    """

    def __init__(self, tasks: Tasks) -> None:
        # Tasks must not refer to the stream, or it would never be garbage-collected.
        self._tasks = Tasks(tasks)
        self._closed = False
        self._awaited = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._closed:
            raise StopAsyncIteration
        if self._awaited:
            raise RuntimeError("another task is already waiting for the next item of this iterator")
        self._awaited = True
        try:
            return await self._next()
        except (asyncio.CancelledError, GeneratorExit):
            # Keep the tasks: the consumer may continue, for example after its own timeout.
            raise
        except BaseException:
            await self.aclose()
            raise
        finally:
            self._awaited = False

    async def _next(self) -> T:
        """Return the next item or raise StopAsyncIteration."""
        raise NotImplementedError

    @staticmethod
    def _outcome(task: asyncio.Task[R]) -> R:
        """Return the result of a task; raise SessionClosedError, not CancelledError, if it was cancelled."""
        if task.cancelled():
            raise SessionClosedError("the session or the iterator was closed while the next item was awaited")
        return task.result()

    async def aclose(self) -> None:
        self._closed = True
        await self._tasks.aclose()

    def __del__(self) -> None:
        # After `break` nobody calls aclose(). Garbage collection may run in another thread.
        tasks: Tasks | None = self.__dict__.get("_tasks")
        if tasks is not None:
            tasks.drop()


class Results(Stream[T]):
    """Async iterator over results as they complete: `async for`, and `aclose` or `async with` to leave early.

    Made by `stats.collect_each` and `urls.update_many`. Raises what the requests raise.
    """

    def __init__(
        self, tasks: Tasks, run: Callable[[], Coroutine[Any, Any, None]], queue: asyncio.Queue[T]
    ) -> None:
        super().__init__(tasks)
        self._run = run
        #: Results that wait for their consumer, and the mark of the end if there was room for it.
        self._queue: asyncio.Queue[Any] = queue
        self._runner: asyncio.Task[None] | None = None

    async def to_dict(self: Results[tuple[str, R]]) -> dict[str, R]:
        """Return all results by slashtag or tag, once the last is there; they are held in memory."""
        async with self:  # at a deadline nothing else would end its requests
            return {key: value async for key, value in self}

    async def _next(self) -> T:
        if self._runner is None:
            self._runner = self._tasks.spawn(self._run())
            self._runner.add_done_callback(partial(_mark_end, self._queue))
        if not (self._runner.done() and self._queue.empty()):
            item: T = await self._queue.get()
            if item is not _END:
                return item
        self._outcome(self._runner)
        raise StopAsyncIteration


def _mark_end(queue: asyncio.Queue[Any], _: object) -> None:
    with suppress(asyncio.QueueFull):
        queue.put_nowait(_END)
