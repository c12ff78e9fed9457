"""Worker pools, background tasks and iterators over their results."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from ._core.checks import Progress
from ._errors import SessionClosedError, SlashtagError
from ._files import running_loop

W = TypeVar("W")
T = TypeVar("T")
R = TypeVar("R")

Source = Iterable[W] | AsyncIterator[W]
Work = Callable[[W], Awaitable[Iterable[W] | None]]

#: Most results that wait for their consumer.
MOST_WAITING = 64
_END = object()


class WorkerPool(Generic[W]):
    """Worker pool that runs `work(item)` for every item with up to `workers` tasks; follow-up items go first.

    `work(item)` may return follow-up items. Workers are started as needed and end when they find nothing to
    do. At the end the source is closed if it has `aclose`.
    """

    def __init__(self, source: Source[W], work: Work[W], workers: int) -> None:
        self._source = source if isinstance(source, AsyncIterator) else each_of(source)
        self._work = work
        self._workers = workers
        self._follow_ups: deque[W] = deque()
        #: Whether a worker may ask the source for an item: one at a time may, until its end.
        self._may_ask = True
        self._alive = 0
        #: Workers that have been started and have taken no item yet.
        self._starting = 0

    async def run(self) -> None:
        """Process all items; the first failure cancels the others and is raised without an ExceptionGroup."""
        failure: BaseException
        try:
            async with anyio.create_task_group() as group:
                self._start_workers(group)
            return
        except BaseExceptionGroup as errors:
            # The others are results of the cancellation that it caused.
            failure = errors.exceptions[0]
        finally:
            if (close := getattr(self._source, "aclose", None)) is not None:
                await close()
        raise failure

    def _start_workers(self, group: TaskGroup) -> None:
        """Start one worker for each follow-up item and one for the source, up to the maximum."""
        missing = len(self._follow_ups) + self._may_ask - self._starting
        for _ in range(min(missing, self._workers - self._alive)):
            self._alive += 1
            self._starting += 1
            group.start_soon(self._serve, group)

    async def _serve(self, group: TaskGroup) -> None:
        self._starting -= 1
        while self._follow_ups or self._may_ask:
            try:
                item = self._follow_ups.popleft() if self._follow_ups else await self._next()
            except StopAsyncIteration:
                continue
            self._start_workers(group)
            more = await self._work(item)
            if more:
                self._follow_ups.extend(more)
        self._alive -= 1

    async def _next(self) -> W:
        """Return the next item of the source; raises StopAsyncIteration once there is none."""
        self._may_ask = False  # and for good if there is none
        item = await anext(self._source)
        self._may_ask = True
        return item


async def results_of(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], progress: Progress | None = None
) -> list[R]:
    """Return the results of `work(item)` in the order of the items; all are under way at once.

    The first failure cancels the others and is raised as it is; with asyncio.gather these would go on.
    `progress` is called with (items done, total).
    """
    given = list(items)
    found: dict[int, R] = {}

    async def keep(n: int) -> None:
        found[n] = await work(given[n])
        if progress is not None:
            progress(len(found), len(given))

    await WorkerPool(range(len(given)), keep, len(given)).run()
    return [found[n] for n in range(len(given))]


async def each_of(items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield items as if they were read asynchronously."""
    for item in items:
        yield item


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
        task.add_done_callback(_read_failure)
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


def _read_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


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

    def __init__(self, tasks: Tasks, pool: WorkerPool[Any], queue: asyncio.Queue[T]) -> None:
        super().__init__(tasks)
        self._pool = pool
        #: Results that wait for their consumer, and the mark of the end if there was room for it.
        self._queue: asyncio.Queue[Any] = queue
        self._runner: asyncio.Task[None] | None = None

    async def to_dict(self: Results[tuple[str, R]]) -> dict[str, R]:
        """Return all results by slashtag or tag, once the last is there; they are held in memory."""
        return {key: value async for key, value in self}

    async def _next(self) -> T:
        if self._runner is None:
            self._runner = self._tasks.spawn(self._pool.run())
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
