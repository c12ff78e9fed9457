"""Targets that are too long, requests that are one too many, and what takes how long."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox.limits import TokenBucket

from .serve import TAGS, serving


async def test_a_target_up_to_the_limit_is_read_and_a_longer_one_is_an_html_414() -> None:
    async with serving() as call:
        start = f"{TAGS}?x="
        assert (await call("GET", start + "y" * (8190 - len(start)))).status == 200
        response = await call.raw("GET", start + "y" * (8191 - len(start)))
        assert (response.status, response.content_type) == (414, "text/html")
        assert [arrival.status for arrival in call.box.requests] == [200, 414]


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=200), st.floats(0.5, 50), st.integers(1, 20))
def test_a_bucket_lets_in_its_burst_and_its_rate_and_no_more(
    pauses: list[float], rate: float, burst: int
) -> None:
    bucket, now, times = TokenBucket(rate, burst), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if (wait := bucket.admit(now)) is None:
            times.append(now)
        else:
            now += wait + 1e-9
            assert bucket.admit(now) is None  # who waits as told is let in
            times.append(now)
    for i, first in enumerate(times):
        assert all(n <= burst + rate * (last - first) + 1e-6 for n, last in enumerate(times[i:], 1))


async def test_a_request_too_many_is_a_429_and_not_carried_out() -> None:
    async with serving(rate=0.01, burst=2) as call:
        await call.post(name="one")
        replies = [await call.get("stats"), await call.post(name="two"), await call.get("stats")]
        assert [reply.status for reply in replies] == [400, 429, 429]
        assert [reply.body["data"] for reply in replies[1:]] == [None, []]
        assert "tag" not in replies[1].body["message"]
        assert 90 <= int(replies[1].headers["Retry-After"]) <= 100
        assert [arrival.fault for arrival in call.box.requests[2:]] == ["limit"] * 2
        assert [tag.name for tag in call.box.truth.tags()] == ["one"]


async def test_latency_passes_before_each_answer_and_may_change() -> None:
    async with serving(latency=1.0) as call:
        await asyncio.gather(*(call("GET", TAGS) for _ in range(5)))
        # None was answered before the last had arrived.
        assert sorted(arrival.in_flight for arrival in call.box.requests) == [1, 2, 3, 4, 5]
        call.box.latency = 0.0
        await call("GET", TAGS)
        assert call.box.requests[-1].in_flight == 1
