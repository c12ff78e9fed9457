"""The watchdog ends what takes too long, with one timer, and knows its own cancellations from others'."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from slashtag._sending.attempt import Attempt, Watchdog


async def bounded(watchdog: Watchdog, work: Awaitable[Any], seconds: float = 60) -> Attempt:
    """What the sending layer does with a deadline."""
    loop = asyncio.get_running_loop()
    deadline = watchdog.start(loop, loop.time() + seconds)
    try:
        await work
    except asyncio.CancelledError:
        if not deadline.expired or not deadline.take_back():
            raise
    finally:
        watchdog.stop(deadline)
    return deadline


def timers() -> int:
    """Count the timers of the loop that are not cancelled."""
    return sum(not timer.cancelled() for timer in asyncio.get_running_loop()._scheduled)


async def test_what_ends_in_time_is_left_alone() -> None:
    watchdog = Watchdog()
    deadline = await bounded(watchdog, asyncio.sleep(0))
    watchdog.close()
    assert not deadline.expired


async def test_what_takes_longer_is_ended_and_its_task_is_not_cancelled() -> None:
    watchdog = Watchdog()
    task = asyncio.current_task()
    assert task is not None
    for _ in range(3):
        deadline = await bounded(watchdog, asyncio.sleep(60), 0.01)
        assert deadline.expired
        assert task.cancelling() == 0
        await asyncio.sleep(0)


async def test_each_attempt_has_its_whole_time() -> None:
    watchdog = Watchdog()
    loop = asyncio.get_running_loop()
    ends: list[float] = []

    async def attempt(after: float) -> float:
        await asyncio.sleep(after)
        began = loop.time()
        deadline = await bounded(watchdog, asyncio.sleep(60), 0.1)
        assert deadline.expired
        ends.append(loop.time())
        return loop.time() - began

    lengths = await asyncio.gather(*(attempt(0.02 * n) for n in range(6)))
    assert min(lengths) >= 0.099
    assert ends == sorted(ends)


async def test_an_earlier_deadline_does_not_wait_for_a_later_one() -> None:
    watchdog = Watchdog()
    later = asyncio.create_task(bounded(watchdog, asyncio.Event().wait(), 60))
    await asyncio.sleep(0)
    assert (await bounded(watchdog, asyncio.sleep(60), 0.01)).expired
    assert not later.done()
    watchdog.close()
    assert (await later).expired
    assert timers() == 0


@pytest.mark.parametrize("first", ["cancelled", "expired"])
async def test_who_cancels_as_well_wins(first: str) -> None:
    watchdog = Watchdog()
    task = asyncio.create_task(bounded(watchdog, asyncio.Event().wait()))
    await asyncio.sleep(0)
    for step in ("cancelled", "expired") if first == "cancelled" else ("expired", "cancelled"):
        if step == "cancelled":
            task.cancel()
        else:
            watchdog.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert task.cancelling() == 1


async def test_an_outer_timeout_at_the_same_instant_is_told_as_such() -> None:
    watchdog = Watchdog()
    loop = asyncio.get_running_loop()

    async def both() -> None:
        async with asyncio.timeout(60) as outer:
            loop.call_soon(outer.reschedule, loop.time())
            loop.call_soon(watchdog.close)
            await bounded(watchdog, asyncio.Event().wait())

    with pytest.raises(TimeoutError):
        await both()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_call_within_a_cancelled_task_is_bounded_too() -> None:
    watchdog = Watchdog()
    seen: list[Attempt] = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(await bounded(watchdog, asyncio.sleep(60), 0.01))

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen[0].expired


async def test_closing_ends_what_is_under_way() -> None:
    watchdog = Watchdog()
    tasks = [asyncio.create_task(bounded(watchdog, asyncio.Event().wait())) for _ in range(3)]
    await asyncio.sleep(0)
    watchdog.close()
    watchdog.close()
    assert all(deadline.expired for deadline in await asyncio.gather(*tasks))
    assert timers() == 0
