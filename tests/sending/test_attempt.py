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


async def test_what_takes_longer_is_ended_and_its_task_is_not_cancelled() -> None:
    watchdog = Watchdog()
    task = asyncio.current_task()
    assert task is not None
    for _ in range(3):
        deadline = await bounded(watchdog, asyncio.sleep(60), 0.01)
        assert deadline.expired
        assert task.cancelling() == 0
        await asyncio.sleep(0)


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
