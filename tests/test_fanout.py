"""Workers over work that leads to more work, and streams over background tasks: their laws."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from slashtag import SessionClosedError
from slashtag._fanout import Stream, Tasks, WorkerPool, results_of

from .support.sending import until


class Boom(Exception):
    pass


async def later(items: Iterable[int], delay: float = 0.0) -> AsyncIterator[int]:
    for item in items:
        await asyncio.sleep(delay)
        yield item


# --- WorkerPool ----------------------------------------------------------------------------------------


class Load:
    """Work that records how much of it is under way."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.now = 0
        self.most = 0
        self.done: list[int] = []
        self.cancelled = 0

    async def __call__(self, item: int) -> list[int]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        self.done.append(item)
        return []


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_workers_reach_their_number_and_never_exceed_it(workers: int, asynchronous: bool) -> None:
    load = Load(0.001)
    await WorkerPool(later(range(40)) if asynchronous else range(40), load, workers).run()
    assert sorted(load.done) == list(range(40))
    assert load.most == workers


async def test_what_follows_comes_before_what_is_new_and_in_its_order() -> None:
    done: list[str] = []

    async def work(item: str) -> list[str] | None:
        done.append(item)
        return [f"{item}{n}" for n in (1, 2)] if len(item) < 3 else None

    await WorkerPool(["a", "b"], work, 1).run()
    assert " ".join(done) == "a a1 a2 a11 a12 a21 a22 b b1 b2 b11 b12 b21 b22"


@pytest.mark.parametrize("seed", range(30))
async def test_every_item_of_any_tree_is_done_once_and_it_ends(seed: int) -> None:
    rng = random.Random(seed)
    workers, roots = rng.randint(1, 6), rng.randint(0, 8)
    planned: list[tuple[int, ...]] = []
    done: list[tuple[int, ...]] = []
    load = Load()

    def tree(node: tuple[int, ...]) -> tuple[int, ...]:
        planned.append(node)
        return node

    async def work(node: tuple[int, ...]) -> list[tuple[int, ...]] | None:
        load.now += 1
        load.most = max(load.most, load.now)
        for _ in range(rng.choice((0, 0, 1, 3))):
            await asyncio.sleep(rng.choice((0, 0, 0.0005)))
        load.now -= 1
        done.append(node)
        if len(node) == 4 or rng.random() < 0.4:
            return None
        return [tree((*node, n)) for n in range(rng.randint(0, 4))]

    async def slowly(nodes: list[tuple[int, ...]]) -> AsyncIterator[tuple[int, ...]]:
        for node in nodes:
            for _ in range(rng.randint(0, 4)):
                await asyncio.sleep(0)
            yield node

    nodes = [tree((n,)) for n in range(roots)]
    async with asyncio.timeout(5):
        await WorkerPool(slowly(nodes) if seed % 2 else nodes, work, workers).run()
    assert sorted(done) == sorted(planned)
    assert load.most <= workers


async def test_the_first_failure_cancels_the_rest_and_is_raised_as_itself() -> None:
    load = Load(60)
    error = Boom("third")

    async def work(item: int) -> list[int]:
        if item == 3:
            await until(lambda: load.now == 7)
            raise error
        return await load(item)

    with pytest.raises(Boom) as caught:
        await WorkerPool(range(100), work, 8).run()
    assert caught.value is error
    assert caught.value.__context__ is None
    assert load.cancelled == 7
    assert load.now == 0


async def test_results_come_in_the_order_of_items_and_one_failure_cancels_the_other_work() -> None:
    load, told = Load(60), list[tuple[int, int | None]]()

    async def late(item: int) -> int:
        for _ in range(5 - item):
            await asyncio.sleep(0)
        return item * item

    async def work(item: int) -> list[int]:
        if item == 3:
            await until(lambda: load.now == 4)
            raise Boom("third")
        return await load(item)

    assert await results_of(late, range(5), lambda *done: told.append(done)) == [0, 1, 4, 9, 16]
    assert told == [(n, 5) for n in range(1, 6)]
    assert await results_of(late, ()) == []
    with pytest.raises(Boom, match="third"):
        await results_of(work, range(5))
    assert (load.cancelled, load.now, load.done) == (4, 0, [])


async def test_of_several_failures_the_first_is_raised() -> None:
    async def work(item: int) -> None:
        try:
            await asyncio.sleep(0.001 if item == 2 else 60)
        except asyncio.CancelledError:
            raise Boom("while being cancelled") from None
        raise Boom("first")

    with pytest.raises(Boom, match="first"):
        await WorkerPool(range(4), work, 4).run()


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failing_source_cancels_the_work(asynchronous: bool) -> None:
    load = Load(60)

    def source() -> Iterator[int]:
        yield from range(3)
        raise Boom

    async def asource() -> AsyncIterator[int]:
        for item in source():
            await asyncio.sleep(0)
            yield item

    with pytest.raises(Boom):
        await WorkerPool(asource() if asynchronous else source(), load, 8).run()
    assert load.cancelled == 3


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_cancelling_a_run_cancels_its_work_and_its_source(asynchronous: bool) -> None:
    load = Load(60)
    ended = False

    async def source() -> AsyncIterator[int]:
        nonlocal ended
        try:
            for item in range(3):
                yield item
            await asyncio.sleep(60)
        finally:
            ended = True

    run = asyncio.create_task(WorkerPool(source() if asynchronous else range(3), load, 5).run())
    await until(lambda: load.now == 3)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert load.cancelled == 3
    assert load.now == 0
    assert ended is asynchronous


# --- Tasks -------------------------------------------------------------------------------------------


async def test_closing_tasks_ends_those_of_their_children_and_starts_none_any_more() -> None:
    parent = Tasks()
    child = Tasks(parent)
    task = child.spawn(asyncio.sleep(60))
    await parent.aclose()
    assert task.cancelled()
    for tasks in (parent, child):
        with pytest.raises(SessionClosedError):
            tasks.spawn(asyncio.sleep(0))
    await parent.aclose()


async def test_dropping_cancels_from_another_thread() -> None:
    tasks = Tasks()
    task = tasks.spawn(asyncio.sleep(60))
    thread = threading.Thread(target=tasks.drop)
    thread.start()
    thread.join()
    await asyncio.wait((task,), timeout=30)
    assert task.cancelled()


# --- Stream ------------------------------------------------------------------------------------------


class Numbers(Stream[int]):
    """Give what its background task brings; `wait` ends once the test lets it."""

    def __init__(self, tasks: Tasks, error: Exception | None = None) -> None:
        super().__init__(tasks)
        self.go = asyncio.Event()
        self.task: asyncio.Task[int] | None = None
        self._error = error

    async def _next(self) -> int:
        if self.task is None:
            self.task = self._tasks.spawn(_bring(self.go, self._error))
        await asyncio.wait((self.task,))
        task, self.task = self.task, None
        return self._outcome(task)


async def _bring(go: asyncio.Event, error: Exception | None) -> int:
    await go.wait()
    if error is not None:
        raise error
    return 1


async def test_a_stream_is_asked_by_one_task_at_a_time() -> None:
    async with Numbers(Tasks()) as numbers:
        first = asyncio.create_task(anext(numbers))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already waiting"):
            await anext(numbers)
        numbers.go.set()
        assert await first == 1
        assert await anext(numbers) == 1
