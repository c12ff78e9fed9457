"""A call cancelled at any stage leaves nothing behind, and its cancellation surfaces as itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from slashtag import AsyncSession, RequestTimeoutError, RetryPolicy, SlashtagError

from ..support import wire as wires
from ..support.sending import OPERATIONS, PAGE, connect, get, turns, until
from ..support.wire import Answer, Wire, html, ok

#: What the service answers, and options of the session, that bring a call to a stage.
STAGES: dict[str, tuple[Answer, dict[str, Any]]] = {
    "place": (wires.stall(), {"concurrency": 1}),
    "pause": (html(429, retry_after=1), {}),
    "connect": (ok(PAGE), {}),
    "headers": (wires.stall(), {}),
    "body": (wires.stall(headers_sent=True), {}),
    "backoff": (html(500), {"retry": RetryPolicy(backoff_base=6_000, backoff_cap=6_000, max_elapsed=9_000)}),
}


@asynccontextmanager
async def reached(stage: str) -> AsyncIterator[tuple[Wire, AsyncSession, Callable[[], Awaitable[None]]]]:
    """Give a server, a session, and a function that waits until a call has come to a stage."""
    answer, options = STAGES[stage]
    healed = list[Answer]()
    async with Wire(lambda _: healed[0] if healed else answer) as wire:
        # A server that speaks no TLS waits for the rest of a request.
        url = wire.base_url.replace("http:", "https:") if stage == "connect" else wire.base_url
        async with connect(url, **options) as session:
            blocking = [asyncio.create_task(get(session))] if stage == "place" else []
            await until(lambda: len(wire.requests) == len(blocking))

            async def there() -> None:
                metrics = session.metrics
                match stage:
                    case "place" | "pause":
                        await until(lambda: metrics.waiting == 1)
                    case "connect":
                        await until(lambda: wire.connections == 1)
                    case "backoff":
                        await until(lambda: metrics.attempts == 1 and not metrics.in_flight)
                    case _:
                        await wire.arrived(1)
                        await asyncio.sleep(0.01)

            yield wire, session, there
            for task in blocking:
                task.cancel()
                await asyncio.wait([task])
            assert (session.metrics.in_flight, session.metrics.waiting) == (0, 0)
            if stage != "connect":
                healed.append(ok(PAGE))
                async with asyncio.timeout(60):
                    await get(session)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["GET", "PUT"])
async def test_a_call_cancelled_at_any_stage_leaves_nothing_and_no_doubt(name: str, stage: str) -> None:
    async with reached(stage) as (wire, session, there):
        before = asyncio.all_tasks()
        call = asyncio.create_task(OPERATIONS[name][0](session))
        await there()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await turns()
        assert not [task for task in asyncio.all_tasks() - before if "Wire" not in repr(task)]
        if stage in ("connect", "headers", "body"):
            await wire.abandoned()


@pytest.mark.parametrize("stage", STAGES)
async def test_an_asyncio_timeout_around_a_call_is_a_timeout_and_not_ours(stage: str) -> None:
    async with reached(stage) as (_, session, there):

        async def expire(scope: asyncio.Timeout) -> None:
            await there()
            scope.reschedule(asyncio.get_running_loop().time())

        async def bounded() -> None:
            async with asyncio.timeout(60) as scope:
                expiry = asyncio.ensure_future(expire(scope))
                try:
                    await get(session)
                finally:
                    expiry.cancel()

        with pytest.raises(TimeoutError) as told:
            await bounded()
        assert not isinstance(told.value, SlashtagError)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_cancelled_task_can_still_make_calls_to_clean_up() -> None:
    async with Wire([ok(PAGE), wires.stall()]) as wire, connect(wire) as session:

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await get(session)
                with pytest.raises(RequestTimeoutError):
                    await get(session.with_options(timeout=0.3, retry=RetryPolicy(max_attempts=1)))

        task = asyncio.create_task(work())
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.metrics.attempts == 2


async def test_a_cancellation_wins_over_a_timeout_at_the_same_time() -> None:
    async with reached("headers") as (_, session, there):
        call = asyncio.create_task(get(session))
        await there()
        session._sender.transport._end_late(1e9)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
