"""Workers, and streams over background tasks: their laws."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from slashtag import ExportError, SessionClosedError
from slashtag._fanout import Tasks, in_thread, results_of, run_workers

from .support.sending import PAGE, connect, until
from .support.wire import Wire, delayed, ok


class Boom(Exception):
    pass


# --- workers -------------------------------------------------------------------------------------------


class Load:
    """Work that records how much of it is under way."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.now = self.most = self.cancelled = 0
        self.done = list[int]()

    async def __call__(self, item: int) -> None:
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


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("items", [0, 1, 5, 40])
async def test_workers_do_every_item_once_and_reach_their_number(workers: int, items: int) -> None:
    load = Load(0.001)
    await run_workers(iter(range(items)), load, workers)
    assert sorted(load.done) == list(range(items))
    assert load.most == min(workers, items)


async def test_items_are_taken_when_a_worker_is_free() -> None:
    taken = list[int]()

    async def work(item: int) -> None:
        assert len(taken) <= item + 3
        await asyncio.sleep(0)

    def source() -> Iterator[int]:
        for n in range(50):
            taken.append(n)
            yield n

    await run_workers(source(), work, 3)
    assert len(taken) == 50


async def test_the_first_failure_cancels_the_rest_and_is_raised_as_itself() -> None:
    load, error = Load(60), Boom("third")

    async def work(item: int) -> None:
        if item == 3:
            await until(lambda: load.now == 7)
            raise error
        try:
            await load(item)
        except asyncio.CancelledError:
            raise Boom("while being cancelled") from None

    with pytest.raises(Boom) as caught:
        await run_workers(range(100), work, 8)
    assert caught.value is error
    assert caught.value.__context__ is None
    assert (load.cancelled, load.now) == (7, 0)


@pytest.mark.parametrize("failing", [1, 3, 9])
async def test_a_failing_source_cancels_the_work(failing: int) -> None:
    load = Load()

    def source() -> Iterator[int]:
        yield from range(failing)
        raise Boom

    with pytest.raises(Boom):
        await run_workers(source(), load, 3)
    assert load.now == 0


async def test_results_come_in_the_order_of_items() -> None:
    async def late(item: int) -> int:
        for _ in range(5 - item):
            await asyncio.sleep(0)
        return item * item

    assert await results_of(late, range(5)) == [0, 1, 4, 9, 16]


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
    await asyncio.to_thread(tasks.drop)
    await asyncio.wait((task,), timeout=30)
    assert task.cancelled()


# --- Stream ------------------------------------------------------------------------------------------


async def test_a_stream_is_asked_by_one_task_at_a_time() -> None:
    page = ok(PAGE | {"items": [{"id": 1, "slashtag": "a"}]})
    async with Wire(delayed(0.02, page)) as wire, connect(wire) as session:
        pages = session.urls.list().pages()
        first = asyncio.create_task(anext(pages))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already waiting"):
            await anext(pages)
        assert [link.id for link in (await first).items] == [1]
        assert await anext(pages, None) is None


async def test_a_function_in_a_thread_ends_before_its_caller_that_is_cancelled_and_its_failure_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on, ended = threading.Event(), list[int]()

    def work() -> None:
        go_on.wait(60)
        ended.append(1)
        raise ExportError("the disk is full")

    call = asyncio.ensure_future(in_thread(work))
    for _ in range(3):
        await asyncio.sleep(0.01)
        call.cancel()
    assert not call.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (ended, "the disk is full" in caplog.text) == ([1], True)
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)
