"""Worker pools, background tasks and iterators over their results.

All task groups and background tasks of the package are created here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from ._errors import SessionClosedError

W = TypeVar("W")
T = TypeVar("T")
R = TypeVar("R")

Source = Iterable[W] | AsyncIterator[W]
Work = Callable[[W], Awaitable[Iterable[W] | None]]


class _Waiters:
    """Queue of tasks that wait to be woken, oldest first."""

    def __init__(self) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._futures)

    async def wait(self) -> None:
        """Wait until woken."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        await future

    def wake(self, tasks: int = 1) -> None:
        """Wake a number of tasks, not counting those that were cancelled while waiting."""
        while tasks > 0 and self._futures:
            future = self._futures.popleft()
            if not future.done():
                future.set_result(None)
                tasks -= 1


class WorkerPool(Generic[W]):
    """Worker pool that runs `work(item)` for every item with up to `workers` tasks; follow-up items go first.

    `work(item)` may return follow-up items. Workers are started one by one as needed. `before_next`, if
    given, is awaited before the next item of the source is taken. `feed`, a Stream that the source reads
    from, is closed at the end.
    """

    def __init__(
        self,
        source: Source[W],
        work: Work[W],
        workers: int,
        before_next: Callable[[], Awaitable[None]] | None = None,
        feed: AsyncIterable[Any] | None = None,
    ) -> None:
        self._source = source if isinstance(source, AsyncIterator) else iter(source)
        self._work = work
        self._workers = workers
        self._before_next = before_next
        self._feed = feed
        self._alive = 0
        self._busy = 0
        self._fetching = False
        self._exhausted = False
        self._ready: deque[W] = deque()
        self._idle = _Waiters()

    async def run(self) -> None:
        """Process all items; the first failure cancels the others and is raised without an ExceptionGroup."""
        failure: BaseException
        try:
            async with anyio.create_task_group() as group:
                self._start_worker(group)
            return
        except BaseExceptionGroup as errors:
            failure = first_of(errors)
        finally:
            if isinstance(self._feed, Stream):
                await self._feed.aclose()
        raise failure

    def _start_worker(self, group: TaskGroup) -> None:
        self._alive += 1
        group.start_soon(self._serve, group)

    async def _serve(self, group: TaskGroup) -> None:
        while True:
            if self._ready:
                item = self._ready.popleft()
            elif self._exhausted:
                if not self._busy:
                    self._idle.wake(len(self._idle))
                    return
                await self._idle.wait()
                continue
            elif self._fetching:
                await self._idle.wait()
                continue
            else:
                try:
                    item = await self._fetch()
                except StopAsyncIteration:
                    self._exhausted = True
                    continue
            if self._alive < self._workers:
                self._start_worker(group)
            self._busy += 1
            try:
                more = await self._work(item)
            finally:
                self._busy -= 1
            if more:
                follow = list(more)
                self._ready.extendleft(reversed(follow))
                self._idle.wake(len(follow))
            elif not self._busy:
                self._idle.wake(len(self._idle))

    async def _fetch(self) -> W:
        """Return the next item of the source; raises StopAsyncIteration once there is none."""
        source = self._source
        if self._before_next is None and not isinstance(source, AsyncIterator):
            for item in source:
                return item
            raise StopAsyncIteration
        # Two workers must not await an async source at once.
        self._fetching = True
        try:
            if self._before_next is not None:
                await self._before_next()
            if isinstance(source, AsyncIterator):
                return await anext(source)
            for item in source:
                return item
            raise StopAsyncIteration
        finally:
            self._fetching = False
            self._idle.wake(1)


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure; the others are results of the cancellation that it caused."""
    first: BaseException | BaseExceptionGroup[BaseException] = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return first_of(cast("BaseExceptionGroup[BaseException]", first))
    return first


class Tasks:
    """Background tasks of iterators; closing the session cancels them all."""

    def __init__(self, parent: Tasks | None = None) -> None:
        self._parent = parent
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task whose failure is raised when it is awaited, and never reported by the event loop."""
        if self._closed or (self._parent is not None and self._parent._closed):
            coroutine.close()
            raise SessionClosedError("the session is closed")
        task = asyncio.get_running_loop().create_task(coroutine)
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


class Stream(Generic[T]):
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

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(f"{type(self).__name__} is read with `async for`")

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
        """Cancel the tasks and wait until they have ended; safe to repeat."""
        self._closed = True
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # After `break` nobody calls aclose(). Garbage collection may run in another thread.
        tasks: Tasks | None = self.__dict__.get("_tasks")
        if tasks is not None:
            tasks.drop()


class ResultQueue(Generic[T]):
    """Queue of results between workers and the consumer of a Stream."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ready: deque[T] = deque()
        self._held = 0
        self._consumer: asyncio.Future[None] | None = None
        self._producers = _Waiters()

    def put(self, item: T) -> None:
        """Add a result without waiting, even if the queue is full."""
        self._ready.append(item)
        self.wake()

    def hold(self, results: int) -> None:
        """Set the number of results outside the queue that count towards the capacity."""
        self._held = results
        if not self._full:
            self._producers.wake()

    def take(self) -> T | None:
        """Return a result, or None if there is none."""
        if not self._ready:
            return None
        item = self._ready.popleft()
        if not self._full:
            self._producers.wake()
        return item

    async def wait(self) -> None:
        """Wait until there may be a result."""
        self._consumer = asyncio.get_running_loop().create_future()
        try:
            await self._consumer
        finally:
            self._consumer = None

    def wake(self, _: object = None) -> None:
        """Make the consumer check the queue again."""
        if self._consumer is not None and not self._consumer.done():
            self._consumer.set_result(None)

    async def wait_for_capacity(self) -> None:
        """Wait until the queue has fewer results than its capacity."""
        while self._full:
            await self._producers.wait()

    @property
    def _full(self) -> bool:
        return len(self._ready) + self._held >= self._capacity


class Results(Stream[T]):
    """Stream of a worker pool's results."""

    def __init__(self, tasks: Tasks, pool: WorkerPool[Any], results: ResultQueue[T]) -> None:
        super().__init__(tasks)
        self._pool = pool
        self._results = results
        self._runner: asyncio.Task[None] | None = None

    async def _next(self) -> T:
        if self._runner is None:
            self._runner = self._tasks.spawn(self._pool.run())
            self._runner.add_done_callback(self._results.wake)
        while True:
            item = self._results.take()
            if item is not None:
                return item
            if self._runner.done():
                self._outcome(self._runner)
                raise StopAsyncIteration
            await self._results.wait()
