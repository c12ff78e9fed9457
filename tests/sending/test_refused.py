"""A call that is answered 429 for a reason of its own ends with what is known, and hurts no other."""

from __future__ import annotations

import asyncio

import pytest

from slashtag import AsyncSession, RateLimitError, RetryPolicy, TagLimitError

from ..support.sending import PAGE, connect, get, post, put
from ..support.wire import Answer, Request, Wire, envelope, html, ok


def refuse_writes(request: Request) -> Answer:
    """Answer every write 429, in words that say nothing of tags."""
    return ok(PAGE) if request.method == "GET" else envelope(429, "Too many requests.", None)


async def read_until(session: AsyncSession, task: asyncio.Task[object]) -> int:
    """Read a few times a second until a task is done; return how often. No read may fail."""
    reads = 0
    while not task.done():
        await get(session)
        reads += 1
        await asyncio.sleep(0.01)
    return reads


async def test_a_refused_tag_is_told_after_three_429s_whatever_they_say() -> None:
    async with Wire(refuse_writes) as wire, connect(wire) as session:
        task: asyncio.Task[object] = asyncio.create_task(post(session))
        assert await read_until(session, task) > 3
        with pytest.raises(TagLimitError, match="Too many requests") as told:
            await task
        assert [request.method for request in wire.requests].count("POST") == told.value.attempts == 3
        assert session.metrics.in_flight == session.metrics.waiting == 0


async def test_a_tag_that_is_refused_alone_is_settled_by_one_harmless_request() -> None:
    async with Wire(refuse_writes) as wire, connect(wire) as session:
        with pytest.raises(TagLimitError, match="Too many requests") as told:
            await post(session)
        assert [request.method for request in wire.requests] == ["POST", "POST", "GET", "POST"]
        assert told.value.attempts == 3


async def test_create_tag_meets_the_rate_limit_like_any_call() -> None:
    policy = RetryPolicy(max_wait=1.5)
    async with Wire(html(429)) as wire, connect(wire, retry=policy) as session:
        with pytest.raises(RateLimitError, match=r"answered 429 \d+ times in"):
            await post(session)
        assert len([request for request in wire.requests if request.method == "POST"]) <= 3
        assert session.metrics.in_flight == session.metrics.waiting == 0


async def test_a_refused_call_ends_by_max_wait_and_says_that_others_passed() -> None:
    policy = RetryPolicy(max_wait=1.5)
    async with Wire(refuse_writes) as wire, connect(wire) as session:
        task: asyncio.Task[object] = asyncio.create_task(put(session.with_options(retry=policy)))
        await read_until(session, task)
        with pytest.raises(RateLimitError, match=r"while others were accepted.*Too many requests"):
            await task


@pytest.mark.unmeasured
@pytest.mark.parametrize("retry_after", [None, 60])
@pytest.mark.parametrize("count", [1, 20, 60])
async def test_refused_calls_let_all_others_pass(count: int, retry_after: int | None) -> None:
    def script(request: Request) -> Answer:
        return ok(PAGE) if request.method == "GET" else html(429, retry_after=retry_after)

    async with Wire(script) as wire, connect(wire, retry=RetryPolicy(max_wait=10)) as session:
        refused = [asyncio.create_task(put(session)) for _ in range(count)]
        for _ in range(5):
            await asyncio.gather(*(get(session) for _ in range(20)))
        assert [request.method for request in wire.requests].count("GET") == 100
        for task in refused:
            task.cancel()
        for result in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(result, (asyncio.CancelledError, RateLimitError))
