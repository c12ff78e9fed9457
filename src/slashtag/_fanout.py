"""Bounded workers over work that may lead to more work; the only task groups, the only background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from ._errors import SessionClosedError

W = TypeVar("W")
T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger("slashtag")

Source = Iterable[W] | AsyncIterator[W]
Work = Callable[[W], Awaitable[Iterable[W] | None]]


class WorkerPool(Generic[W]):
    """Hold what is to be done: items of a source, and before them what earlier items led to.

    `work(item)` returns the items that follow from it, if any. Workers come one by one, as there is work,
    up to `workers`. `gate`, if given, is awaited before the source is asked again. A Stream that the source
    reads from, given as `feed`, is closed when the run ends.
    """

    def __init__(
        self,
        source: Source[W],
        work: Work[W],
        workers: int,
        gate: Callable[[], Awaitable[None]] | None = None,
        feed: AsyncIterable[Any] | None = None,
    ) -> None:
        self._source = source if isinstance(source, AsyncIterator) else iter(source)
        self._work = work
        self._workers = workers
        self._gate = gate
        self._feed = feed
        self._alive = 0
        self._busy = 0
        self._fetching = False
        self._exhausted = False
        self._ready: deque[W] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()

    async def run(self) -> None:
        """Do all the work; the first failure cancels the rest and is raised as itself."""
        failure: BaseException
        try:
            async with anyio.create_task_group() as group:
                self._join(group)
            return
        except BaseExceptionGroup as errors:
            failure = first_of(errors)
        finally:
            if isinstance(self._feed, Stream):
                await self._feed.aclose()
        raise failure

    def _join(self, group: TaskGroup) -> None:
        self._alive += 1
        group.start_soon(self._serve, group)

    async def _serve(self, group: TaskGroup) -> None:
        while True:
            if self._ready:
                item = self._ready.popleft()
            elif self._exhausted:
                if not self._busy:
                    self._wake(len(self._idle))
                    return
                await self._rest()
                continue
            elif self._fetching:
                await self._rest()
                continue
            else:
                try:
                    item = await self._fetch()
                except StopAsyncIteration:
                    self._exhausted = True
                    continue
            if self._alive < self._workers:
                self._join(group)
            self._busy += 1
            try:
                more = await self._work(item)
            finally:
                self._busy -= 1
            if more:
                follow = list(more)
                self._ready.extendleft(reversed(follow))
                self._wake(len(follow))
            elif not self._busy:
                self._wake(len(self._idle))

    async def _fetch(self) -> W:
        """Take the next item of the source; raises StopAsyncIteration once there is none."""
        source = self._source
        if self._gate is None and not isinstance(source, AsyncIterator):
            for item in source:
                return item
            raise StopAsyncIteration
        # An async source must not be asked by two workers at once.
        self._fetching = True
        try:
            if self._gate is not None:
                await self._gate()
            if isinstance(source, AsyncIterator):
                return await anext(source)
            for item in source:
                return item
            raise StopAsyncIteration
        finally:
            self._fetching = False
            self._wake(1)

    async def _rest(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        await turn

    def _wake(self, workers: int) -> None:
        while workers > 0 and self._idle:
            turn = self._idle.popleft()
            if not turn.done():
                turn.set_result(None)
                workers -= 1


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that came first; what its cancellation of the others raised does not matter."""
    first: BaseException | BaseExceptionGroup[BaseException] = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return first_of(cast("BaseExceptionGroup[BaseException]", first))
    return first


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread and wait for its end, also when cancelled: its file may be closed next."""
    # Not in one of the loop's own threads, which would stay.
    pool = ThreadPoolExecutor(1, "slashtag")
    work = asyncio.wrap_future(pool.submit(function))
    pool.shutdown(wait=False)
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        log_late_failure(work)
        raise
    return work.result()


def log_late_failure(work: asyncio.Future[Any]) -> None:
    """Log how something failed whose caller was cancelled meanwhile: nobody else gets to see it."""
    if not work.cancelled() and (error := work.exception()) is not None:
        log.warning("failed after it was cancelled: %s", str(error) or type(error).__name__)


class Tasks:
    """Own the tasks behind what users iterate, so that closing the session leaves none."""

    def __init__(self, parent: Tasks | None = None) -> None:
        self._parent = parent
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task; its failure is told by whoever awaits it, not by the event loop."""
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
        """Cancel what is left without waiting for it, from any thread."""
        for task in list(self._tasks):
            loop = task.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

    async def aclose(self) -> None:
        """Cancel what is left and wait until it has ended; safe to repeat."""
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
    """Be an async iterator over what background tasks put out.

    Not an async generator: leaving a loop early must cancel what is under way without breaking the
    consumer. It is left by `aclose`, by `async with`, by the session's end, or by being dropped.
    """

    def __init__(self, tasks: Tasks) -> None:
        # Nothing that a task holds may hold the stream, or it would never be dropped.
        self._tasks = Tasks(tasks)
        self._closed = False
        self._asked = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._closed:
            raise StopAsyncIteration
        if self._asked:
            raise RuntimeError("the iterator is already asked for its next item by another task")
        self._asked = True
        try:
            return await self._next()
        except (asyncio.CancelledError, GeneratorExit):
            # What is under way stays: the consumer may go on, say after a timeout of its own.
            raise
        except BaseException:
            await self.aclose()
            raise
        finally:
            self._asked = False

    async def _next(self) -> T:
        """Give the next item or raise StopAsyncIteration."""
        raise NotImplementedError

    @staticmethod
    def _outcome(task: asyncio.Task[R]) -> R:
        """Return what a task brought; if somebody closed it, that does not cancel the consumer."""
        if task.cancelled():
            raise SessionClosedError("the session or the iterator was closed while the next item was awaited")
        return task.result()

    async def aclose(self) -> None:
        """Cancel what is under way and wait until it has ended; safe to repeat."""
        self._closed = True
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # `break` leaves a loop without aclose(): the iterator is dropped, maybe by another thread.
        tasks: Tasks | None = self.__dict__.get("_tasks")
        if tasks is not None:
            tasks.drop()


class ResultQueue(Generic[T]):
    """Carry results from workers to the consumer of a Stream, at most `room` of them waiting."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._ready: deque[T] = deque()
        self._held = 0
        self._consumer: asyncio.Future[None] | None = None
        self._producers: deque[asyncio.Future[None]] = deque()

    def put(self, item: T) -> None:
        """Add a result; never waits, as its work is done already."""
        self._ready.append(item)
        self.wake()

    def hold(self, results: int) -> None:
        """Count results that wait elsewhere for their turn to be put."""
        self._held = results
        self._let_go_on()

    def take(self) -> T | None:
        """Take a result, if there is one."""
        if not self._ready:
            return None
        item = self._ready.popleft()
        self._let_go_on()
        return item

    async def wait(self) -> None:
        """Wait until there may be a result."""
        self._consumer = asyncio.get_running_loop().create_future()
        try:
            await self._consumer
        finally:
            self._consumer = None

    def wake(self, _: object = None) -> None:
        """Make the consumer look again."""
        if self._consumer is not None and not self._consumer.done():
            self._consumer.set_result(None)

    async def room(self) -> None:
        """Wait until fewer results than the room has wait for the consumer."""
        while self._full:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._producers.append(turn)
            await turn

    @property
    def _full(self) -> bool:
        return len(self._ready) + self._held >= self._room

    def _let_go_on(self) -> None:
        while self._producers and not self._full:
            turn = self._producers.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class Results(Stream[T]):
    """Be the Stream of what the workers of an agenda put into an outbox."""

    def __init__(self, tasks: Tasks, agenda: WorkerPool[Any], outbox: ResultQueue[T]) -> None:
        super().__init__(tasks)
        self._agenda = agenda
        self._outbox = outbox
        self._runner: asyncio.Task[None] | None = None

    async def _next(self) -> T:
        if self._runner is None:
            self._runner = self._tasks.spawn(self._agenda.run())
            self._runner.add_done_callback(self._outbox.wake)
        while True:
            item = self._outbox.take()
            if item is not None:
                return item
            if self._runner.done():
                self._outcome(self._runner)
                raise StopAsyncIteration
            await self._outbox.wait()
