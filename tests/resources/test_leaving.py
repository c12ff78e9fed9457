"""Whoever leaves an iterator, at whatever point and in whatever way, leaves nothing behind.

All under the debug mode of asyncio; the guard of every test looks for tasks, connections and complaints too.
"""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from slashtag import (
    AsyncSession,
    Change,
    DateRange,
    Day,
    SessionClosedError,
)
from slashtag.sandbox import Sandbox
from tests.resources.accounts import client
from tests.support.sending import until

Make = Callable[[AsyncSession], Any]
Way = Callable[[AsyncSession, Make, int], Awaitable[object]]

KEYS = [f"s{n}" for n in range(15)]
QUARTER = DateRange("2024-01-01", "2024-03-31")


async def later(items: list[str]) -> AsyncIterator[str]:
    for item in items:
        await asyncio.sleep(0.0005)
        yield item


MAKERS: dict[str, tuple[Make, int]] = {
    "links": (lambda api: aiter(api.urls.list(pagesize=3)), 15),
    "pages": (lambda api: api.urls.list(pagesize=3).pages(), 5),
    "tags": (lambda api: aiter(api.tags.list(pagesize=3, prefetch=2)), 9),
    "each, ordered": (lambda api: api.stats.collect_each(Day("2024-02-01"), keys=KEYS[:8], ordered=True), 8),
    "each, guided": (lambda api: api.stats.collect_each(QUARTER, keys=KEYS[:12]), 12),
    "each of a listing": (
        lambda api: api.stats.collect_each(Day("2024-02-01"), keys=api.urls.list(pagesize=5)),
        15,
    ),
    "updates": (lambda api: api.urls.update_many(Change(key, redirect_code=302) for key in KEYS), 15),
    "each of a generator": (lambda api: api.stats.collect_each(Day("2024-02-01"), keys=later(KEYS[:8])), 8),
}


class Left(Exception):
    pass


async def bare_break(api: AsyncSession, make: Make, n: int) -> object:
    await take(make(api), n)
    return None


async def take(iterator: Any, n: int) -> None:
    if not n:
        await give_up_at_once(iterator)
        return
    async for _ in iterator:
        n -= 1
        if not n:
            break


async def give_up_at_once(iterator: Any) -> None:
    """Leave before the first item, with the first requests under way."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await anext(iterator)


async def break_in_async_with(api: AsyncSession, make: Make, n: int) -> object:
    async with make(api) as iterator:
        await take(iterator, n)
    return iterator


async def aclose(api: AsyncSession, make: Make, n: int) -> object:
    iterator = make(api)
    for _ in range(n):
        await anext(iterator)
    if not n:
        await give_up_at_once(iterator)
    await iterator.aclose()
    await iterator.aclose()
    assert [item async for item in iterator] == []
    return iterator


async def dropped_while_asked(api: AsyncSession, make: Make, n: int) -> object:
    iterator = make(api)
    for _ in range(n):
        await anext(iterator)
    asking = asyncio.ensure_future(anext(iterator, None))
    await asyncio.sleep(0)
    del iterator
    asking.cancel()
    await asyncio.wait((asking,))
    return None


async def cancelled_consumer(api: AsyncSession, make: Make, n: int) -> object:
    reached = asyncio.Event()

    async def consume() -> None:
        taken = 0
        if not n:
            reached.set()
        async for _ in make(api):
            taken += 1
            if taken == n:
                reached.set()

    consumer = asyncio.create_task(consume())
    await reached.wait()
    await asyncio.sleep(0)
    consumer.cancel()
    await asyncio.wait((consumer,))
    return None


async def never_iterated(api: AsyncSession, make: Make, n: int) -> object:
    sent, iterator = api.metrics.requests, make(api)
    async with make(api):
        pass
    assert api.metrics.requests == sent
    return iterator


WAYS: list[Way] = [
    bare_break,
    break_in_async_with,
    aclose,
    dropped_while_asked,
    cancelled_consumer,
    never_iterated,
]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    # In a thread of its own, so that all tasks of the test's loop are the client's.
    with Sandbox(urls=0, clicks=0, tags=0, latency=0.002) as box:
        for n, key in enumerate(KEYS):
            box.add_url(key, created_at=f"2023-01-01T00:{n // 60:02d}:{n % 60:02d}")
            box.add_click(key, "2024-02-01T12:00:00")
        for n in range(9):
            box.add_tag(f"t{n}", created_at=f"2023-01-01T00:00:{n:02d}")
        yield box


@pytest.fixture(autouse=True)
async def _debug(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    # It remembers where each future was made, which would take most of the time of these tests.
    monkeypatch.setattr(traceback.StackSummary, "extract", lambda *_, **__: traceback.StackSummary())
    loop = asyncio.get_running_loop()
    before = loop.get_debug()
    loop.set_debug(True)
    # Whatever is left ends without the garbage collector's help: no cycle of references keeps it going.
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    loop.set_debug(before)


async def nothing_is_left(api: AsyncSession) -> None:
    """Fail if anything goes on in this loop; a search in a thread may have to end first."""
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert (api.metrics.in_flight, api.metrics.waiting) == (0, 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", MAKERS)
async def test_leaving_leaves_nothing(box: Sandbox, kind: str, way: Way) -> None:
    make, total = MAKERS[kind]
    amounts = 0, total // 2 + 1, total
    async with client(box, concurrency=4) as api:
        for amount in amounts:
            held = await way(api, make, amount)
            await nothing_is_left(api)
            # The session is as good as before.
            assert len(await api.urls.list(pagesize=50).to_list()) == len(KEYS)
            del held
    for amount in amounts:
        async with client(box, concurrency=4) as api:
            held = await way(api, make, amount)
        await nothing_is_left(api)
        del held


async def impatiently(iterator: Any) -> AsyncIterator[Any]:
    patience = 0.0
    while True:
        try:
            async with asyncio.timeout(patience):
                item = await anext(iterator)
        except TimeoutError:
            patience = (patience + 0.0007) % 0.003
        except StopAsyncIteration:
            return
        else:
            yield item


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_consumer_that_gives_up_again_and_again_misses_nothing(box: Sandbox, kind: str) -> None:
    make, total = MAKERS[kind]
    async with client(box, concurrency=4) as api:
        whole = [item async for item in make(api)]
        iterator = make(api)
        items = [item async for item in impatiently(iterator)]
        assert len(items) == total
        assert sorted(items, key=repr) == sorted(whole, key=repr)
        await nothing_is_left(api)


@pytest.mark.parametrize(
    ("kind", "asked"),
    # The results of a group of slashtags are ready at once.
    [(kind, asked) for kind in MAKERS for asked in (0, 1, 3) if not asked or not kind.startswith("each")],
)
async def test_a_session_closed_under_a_consumer_is_an_error_and_no_cancellation(
    box: Sandbox, kind: str, asked: int
) -> None:
    make, _ = MAKERS[kind]

    reached = 0

    async def consume() -> None:
        nonlocal reached
        async for _ in make(api):
            reached += 1

    async with client(box, concurrency=1) as api:
        consumer = asyncio.create_task(consume())
        await asyncio.sleep(0)
        while reached < asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(SessionClosedError):
        await consumer
    await nothing_is_left(api)


async def test_a_failure_in_the_background_that_nobody_asks_for_is_told_to_nobody(box: Sandbox) -> None:
    async with client(box) as api:
        each = api.stats.collect_each(Day("2024-02-01"), keys=KEYS, progress=_fail)
        await give_up_at_once(each)
        await asyncio.sleep(0.02)
        del each
        await nothing_is_left(api)


def _fail(*_: object) -> None:
    raise Left
