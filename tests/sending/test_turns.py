"""What holds up the loop is done one by one, and what follows from each is done before the next."""

from __future__ import annotations

import asyncio
import time
from itertools import groupby, pairwise
from typing import Any

import pytest

from slashtag import RetryPolicy
from slashtag._sending import sender as send
from slashtag._sending.fast_path import FastPath
from slashtag._sending.turns import PASSES, Turns

from ..support import wire as wires
from ..support.sending import PAGE, TAG, connect, get
from ..support.wire import Request, Wire, ok


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no pass be too long, however busy the machine is."""
    monkeypatch.setattr("slashtag._sending.turns.PATIENCE", 60.0)


async def test_whoever_waits_goes_on_alone_and_in_order() -> None:
    turns = Turns()
    done: list[str] = []
    passes = 0

    async def hold(name: str) -> None:
        await turns.wait()
        done.append(f"{name} {passes}")

    tasks = [asyncio.create_task(hold(name)) for name in "abc"]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        passes += 1
    order = [entry.split()[0] for entry in done]
    at = [int(entry.split()[1]) for entry in done]
    assert order == ["a", "b", "c"]
    assert all(later - earlier > PASSES for earlier, later in pairwise(at))


async def test_a_turn_that_nobody_else_wants_costs_no_pass() -> None:
    turns = Turns()
    for _ in range(3):
        waiting = turns.wait()
        with pytest.raises(StopIteration):
            waiting.send(None)
        for _turn in range(PASSES + 2):
            await asyncio.sleep(0)


async def test_who_is_cancelled_in_the_line_holds_up_nobody() -> None:
    turns = Turns()
    waiting = [asyncio.create_task(turns.wait()) for _ in range(5)]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting, return_exceptions=True)
        await turns.wait()
    assert [task.cancelled() for task in waiting][1::2] == [False, False]


async def test_turns_do_not_multiply_what_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag._sending.turns.PATIENCE", 0.005)
    loop, turns = asyncio.get_running_loop(), Turns()
    passes = 0

    def hog() -> None:
        nonlocal passes, again
        passes += 1
        time.sleep(0.01)
        again = loop.call_soon(hog)

    again = loop.call_soon(hog)
    await asyncio.gather(*(turns.wait() for _ in range(50)))
    again.cancel()
    assert passes <= 8


async def test_an_answer_to_a_write_waits_for_nothing() -> None:
    """What was done is to be known, also by a caller who is cancelled meanwhile."""
    async with Wire(ok(TAG | {"padding": "x" * send.LARGE})) as wire, connect(wire) as session:
        session._wiring.shared.decoding._taken = True
        async with asyncio.timeout(5):
            assert (await session.tags.create("spring")).name == "spring"


async def test_what_follows_from_the_first_of_many_pages_is_sent_before_the_last_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    parse, request = send.parse, FastPath.request

    def parsed(*args: Any) -> Any:
        events.append("decoded")
        return parse(*args)

    def requested(self: FastPath, *args: Any) -> Any:
        events.append("sent")
        return request(self, *args)

    monkeypatch.setattr(send, "parse", parsed)
    monkeypatch.setattr(FastPath, "request", requested)
    together = asyncio.Event()

    async def answer(asked: Request) -> wires.Answer:
        number = int(asked.query["page"][0])
        if number >= 8:  # the ramp is over: eight are under way
            if len(wire.requests) == 15:
                together.set()
            await together.wait()
        link = {"id": number, "slashtag": f"a{number}", "destination": "x" * send.LARGE}
        return ok({"page": number, "pageSize": 1, "items": [link] if number < 60 else []})

    async with Wire(answer) as wire, connect(wire, concurrency=8) as session:
        pages = [page.page async for page in session.urls.list(prefetch=8, pagesize=1).pages()]
    assert pages == list(range(1, 60))
    runs = [len(list(group)) for event, group in groupby(events) if event == "decoded"]
    assert max(runs) <= 3


async def test_the_wait_for_a_turn_is_no_time_of_the_request() -> None:
    async with (
        Wire(ok(PAGE | {"padding": "x" * send.LARGE})) as wire,
        connect(wire, timeout=0.5, retry=RetryPolicy(max_attempts=1)) as session,
    ):
        turns = session._wiring.shared.decoding
        turns._taken = True
        asking = asyncio.create_task(get(session))
        await asyncio.sleep(0.8)
        assert not asking.done()
        assert turns._next()
        await asking
