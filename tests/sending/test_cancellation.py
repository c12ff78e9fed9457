"""A call cancelled at any stage leaves nothing behind, and its cancellation surfaces as itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from slashtag import AsyncSession, RequestTimeoutError, RetryPolicy, SlashtagError
from slashtag.sandbox import Fault, Sandbox

from ..support import wire as wires
from ..support.sending import (
    OPERATIONS,
    PAGE,
    QUICK,
    Operation,
    connect,
    get,
    others,
    turns,
    until,
)
from ..support.wire import Answer, Request, Wire, html, ok

TWICE = RetryPolicy(max_attempts=2, backoff_base=0)
LONG = RetryPolicy(backoff_base=60, backoff_cap=60)


class Stage:
    """Answer as it takes to bring a call to some stage, the last answer for ever; well once healed."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.healed = False

    def script(self, request: Request) -> Answer:
        if self.healed:
            return ok(PAGE)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@asynccontextmanager
async def reached(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Wire, AsyncSession, Callable[[], Awaitable[None]]]]:
    """Give a server, a session, and a function that waits until a call has come to a stage."""
    monkeypatch.setattr("slashtag._sending.sender.random.random", lambda: 1.0)
    options: dict[str, Any] = {"timeout": 60}
    match stage:
        case "place":
            answers, options["concurrency"] = [wires.stall()], 1
        case "pause":
            answers = [html(429, retry_after=1)]
        case "connect":
            answers = [ok(PAGE)]
        case "headers":
            answers = [wires.stall()]
        case "body":
            answers = [wires.stall(headers_sent=True)]
        case "drip":
            answers = [wires.slow_loris()]
        case "backoff":
            answers, options["retry"] = [html(500)], LONG
        case _:
            raise AssertionError(stage)
    script = Stage(answers)
    async with Wire(script.script) as wire:
        url = wire.base_url.replace("http:", "https:") if stage == "connect" else wire.base_url
        async with connect(url, **options) as session:
            blocking: list[asyncio.Task[Any]] = []
            if stage == "place":
                blocking.append(asyncio.create_task(get(session)))
                await wire.arrived(1)

            async def there() -> None:
                metrics = session.metrics
                match stage:
                    case "place" | "pause":
                        await until(lambda: metrics.waiting == 1)
                    case "connect":
                        await wire.accepted(1)
                    case "backoff":
                        await until(lambda: metrics.attempts == 1 and not metrics.in_flight)
                        await turns()
                    case _:
                        await wire.arrived(1)
                        await asyncio.sleep(0.01)

            yield wire, session, there
            for task in blocking:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            assert (session.metrics.in_flight, session.metrics.waiting) == (0, 0)
            if stage != "connect":
                script.healed = True
                async with asyncio.timeout(5):
                    await get(session)


STAGES = ["place", "pause", "connect", "headers", "body", "drip", "backoff"]
WRITES = ["PUT", "rename", "POST"]


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_call_cancelled_at_any_stage_leaves_nothing(
    stage: str, debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_debug(debug)
    async with reached(stage, monkeypatch) as (wire, session, there):
        before = others()
        call = asyncio.create_task(get(session))
        await there()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert call.cancelled()
        await turns()
        assert {task for task in others() - before if "Wire" not in repr(task)} == set()
        if stage in ("connect", "headers", "body", "drip", "lone turn"):
            await until(lambda: wire.open_connections == 0)


@pytest.mark.parametrize("stage", ["headers", "body"])
@pytest.mark.parametrize("name", WRITES)
async def test_a_cancelled_write_is_cancelled_and_not_unknown(
    name: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reached(stage, monkeypatch) as (wire, session, there):
        call = asyncio.create_task(OPERATIONS[name][0](session))
        await there()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert len(wire.requests) == 1


@pytest.mark.parametrize("stage", STAGES)
async def test_an_asyncio_timeout_around_a_call_is_a_timeout_and_not_ours(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reached(stage, monkeypatch) as (_, session, there):
        task = asyncio.current_task()
        assert task is not None

        async def bounded() -> None:
            async with asyncio.timeout(60) as scope:
                expiry = asyncio.ensure_future(expire(scope))
                try:
                    await get(session)
                finally:
                    expiry.cancel()

        async def expire(scope: asyncio.Timeout) -> None:
            await there()
            scope.reschedule(asyncio.get_running_loop().time())

        with pytest.raises(TimeoutError) as told:
            await bounded()
        assert not isinstance(told.value, SlashtagError)
        assert task.cancelling() == 0


async def test_our_timeout_within_an_asyncio_timeout_is_ours() -> None:
    async with Wire(wires.stall()) as wire, connect(wire, timeout=0.03, retry=TWICE) as session:
        async with asyncio.timeout(5) as scope:
            with pytest.raises(RequestTimeoutError):
                await get(session)
        assert not scope.expired()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@pytest.mark.parametrize("seed", range(3))
async def test_calls_cancelled_at_any_instant_leave_nothing(seed: int) -> None:
    """Faults of all kinds, and calls cancelled after a while of their own each."""
    faults = [
        Fault(kind=kind, share=0.1, seconds=0.02, headers={"Retry-After": "0"} if kind == "429" else {})
        for kind in ("500", "429", "reset", "stall", "truncated-body")
    ]
    async with (
        Sandbox(urls=3, clicks=0, tags=0, seed=seed, latency=0.002, faults=faults) as box,
        connect(box, concurrency=5, timeout=0.01) as session,
    ):
        calls = []
        for n in range(150):
            calls.append(asyncio.create_task(get(session.with_options(retry=QUICK))))
            asyncio.get_running_loop().call_later((n * 37 % 100) / 1000, calls[-1].cancel)
        for call in calls:
            with suppress(asyncio.CancelledError, SlashtagError):
                await call
        assert (session.metrics.in_flight, session.metrics.waiting) == (0, 0)
        assert {task for task in others() if "slashtag._" in repr(task)} == set()


@pytest.mark.parametrize("operation", [operation for operation, _ in OPERATIONS.values()])
async def test_a_cancelled_task_can_still_make_a_call_to_clean_up(operation: Operation) -> None:
    data = next(data for one, data in OPERATIONS.values() if one is operation)
    done: list[Any] = []

    async with Wire(wires.delayed(0.01, ok(data))) as wire, connect(wire) as session:

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                done.append(await operation(session))

        task = asyncio.create_task(work())
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(done) == 1
