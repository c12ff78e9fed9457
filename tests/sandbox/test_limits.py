"""The limit alone, by a clock of our own, and in front of the service."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Sandbox
from slashtag.sandbox.limits import TokenBucket

from .serve import serving

TAGS = "/api/v1/tags"
gaps = st.lists(st.floats(0, 0.5), min_size=1, max_size=200)


def admitted(limiter: TokenBucket, pauses: list[float]) -> list[float]:
    now, times = 0.0, list[float]()
    for pause in pauses:
        now += pause
        if limiter.admit(now) is None:
            times.append(now)
    return times


@given(gaps, st.floats(0.5, 50), st.integers(1, 20))
def test_a_bucket_lets_in_its_burst_and_its_rate_and_no_more(
    pauses: list[float], rate: float, burst: int
) -> None:
    times = admitted(TokenBucket(rate, burst), pauses)
    for i, first in enumerate(times):
        assert all(n <= burst + rate * (last - first) + 1e-6 for n, last in enumerate(times[i:], 1))


def test_who_waits_as_told_is_let_in() -> None:
    limiter, now, refused = TokenBucket(3, 2), 0.0, 0
    for _ in range(50):
        wait = limiter.admit(now)
        if wait is not None:
            refused += 1
            assert wait > 0
            now += wait + 1e-9
            assert limiter.admit(now) is None
    assert refused > 5


async def test_a_request_too_many_is_a_429_that_does_not_speak_of_tags() -> None:
    async with serving(rate=0.5, burst=2) as call:
        replies = [
            await call("GET", TAGS),
            await call.get("stats"),
            await call("GET", TAGS),
            await call.get("stats"),
        ]
        assert [reply.status for reply in replies] == [200, 400, 429, 429]
        assert replies[2].body == {
            "status": 429,
            "message": "Too many requests. Please slow down.",
            "data": None,
        }
        assert replies[3].body["data"] == []
        assert 1 <= int(replies[2].headers["Retry-After"]) <= 2
        assert [(arrival.status, arrival.fault) for arrival in call.box.requests[2:]] == [(429, "limit")] * 2


async def test_a_refused_request_is_not_carried_out() -> None:
    async with serving(rate=0.1, burst=1) as call:
        await call.post(name="one")
        assert (await call.post(name="two")).status == 429
        assert [tag.name for tag in call.box.truth.tags()] == ["one"]


async def test_latency_passes_before_each_answer_and_may_change() -> None:
    async with serving(latency=(0.2, 0.3)) as call:
        await asyncio.gather(*(call("GET", TAGS) for _ in range(5)))
        # None was answered before the last had arrived.
        assert sorted(arrival.in_flight for arrival in call.box.requests) == [1, 2, 3, 4, 5]
        assert call.box.latency == (0.2, 0.3)
        call.box.latency = 0.0
        await call("GET", TAGS)
        assert call.box.requests[-1].in_flight == 1


@pytest.mark.parametrize("latency", [-0.1, (0.3, 0.2), (0, float("inf")), float("nan")])
async def test_a_latency_is_seconds_or_bounds(latency: float | tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Sandbox(latency=latency)
    async with serving() as call:
        with pytest.raises(ValueError, match="seconds"):
            call.box.latency = latency
        assert call.box.latency == 0.0
