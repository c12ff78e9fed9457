"""Faults: what goes wrong, for which requests, how often."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from slashtag.sandbox import Fault

from .serve import TAGS, serving


@pytest.mark.parametrize(
    ("kind", "status", "content_type", "in_body"),
    [
        ("503", 503, "application/json", '"status":503'),
        ("envelope-400", 200, "application/json", '"status":400'),
        ("html-200", 200, "text/html", "<h1>"),
        ("html-502", 502, "text/html", "<h1>"),
    ],
)
async def test_an_answer_may_fail_and_contradict_its_status(
    kind: str, status: int, content_type: str, in_body: str
) -> None:
    async with serving(faults=[Fault(kind=kind, headers={"X-Fault": "yes"})]) as call:
        response = await call.raw("GET", TAGS)
        assert (response.status, response.content_type) == (status, content_type)
        assert in_body in await response.text()
        assert response.headers["X-Fault"] == "yes"
        assert (call.box.requests[0].status, call.box.requests[0].fault) == (status, kind)


async def test_half_of_an_answer_is_sent_with_its_length_or_that_of_the_whole() -> None:
    faults = [Fault(kind=f"truncated-{what}", times=1) for what in ("json", "body")]
    async with serving(faults=faults) as call:
        half = await (await call.raw("GET", TAGS)).text()
        with pytest.raises(aiohttp.ClientPayloadError):
            await call("GET", TAGS)
        whole = await (await call.raw("GET", TAGS)).text()
        assert half == whole[: len(whole) // 2]
        assert [arrival.fault for arrival in call.box.requests] == ["truncated-json", "truncated-body", None]


@pytest.mark.parametrize("kind", ["reset", "500", "html-502", "stall", "truncated-body", "truncated-json"])
@pytest.mark.parametrize("after_work", [True, False])
async def test_a_write_is_done_or_not_and_its_answer_lost(kind: str, after_work: bool) -> None:
    fault = Fault(kind=kind, method="POST", after_work=after_work, seconds=0.01)
    async with serving(faults=[fault]) as call:
        error: Exception | None = None
        try:
            assert (await call.post(name="new")).status >= 500
        except (aiohttp.ClientError, ValueError) as failed:
            error = failed
        assert isinstance(error, aiohttp.ClientConnectionError) == (kind in ("reset", "stall"))
        # A part of an answer is there only if the request was carried out.
        is_done = after_work or kind.startswith("truncated")
        assert [tag.name for tag in call.box.truth.tags()] == ["new"] * is_done


async def statuses(n: int, *faults: Fault, seed: int = 1) -> list[int | None]:
    async with serving(faults=faults, seed=seed) as call:
        for _ in range(n):
            await call.raw("GET", TAGS)
        return [arrival.status for arrival in call.box.requests]


async def test_every_nth_request_fails_at_most_so_often() -> None:
    nth = Fault(every=3, kind="500")
    assert await statuses(7, nth) == [200, 200, 500, 200, 200, 500, 200]
    assert await statuses(7, Fault(every=3, kind="500", times=1)) == [200, 200, 500, 200, 200, 200, 200]
    # The first that is due wins, and all count.
    assert await statuses(6, nth, Fault(every=2, kind="503")) == [200, 503, 500, 503, 200, 500]


async def test_requests_over_the_limit_count_for_no_fault() -> None:
    fault = Fault(kind="500", every=2, times=1)
    async with serving(rate=5, burst=1, retry_after=None, faults=[fault]) as call:
        await call("GET", TAGS)
        while (reply := await call("GET", TAGS)).status == 429:
            assert "Retry-After" not in reply.headers
            await asyncio.sleep(0.05)
        assert reply.status == 500


async def test_a_share_fails_and_the_same_seed_fails_the_same() -> None:
    fault = Fault(share=0.3, kind="500")
    one, same, other = [await statuses(100, fault, seed=seed) for seed in (1, 1, 2)]
    assert one == same != other
    assert 15 <= one.count(500) <= 45


async def test_only_matching_requests_fail_and_count_until_faults_are_set_anew() -> None:
    faults = [Fault(every=2, kind="500", method="GET", path="/api/v1/stats*")]
    async with serving(faults=faults) as call:
        for target in ("stats", "tags", "stats/alltime", "stats/yearly"):
            await call.get(target)
        await call("POST", "/api/v1/stats")
        call.box.faults = faults
        await call.get("stats")
        assert [arrival.status for arrival in call.box.requests] == [400, 200, 500, 400, 404, 400]


@pytest.mark.parametrize("kind", ["mystery", "700", "299"])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=kind):
        Fault(kind=kind)


async def test_middleware_sees_each_request_and_may_answer_it() -> None:
    async with serving() as call:
        usual, asked = call.box.middleware, list[str]()
        call.box.middleware = lambda arrival, answer: asked.append(arrival.path) or answer()
        assert (await call.post(name="new")).status == 200
        call.box.middleware = usual
        assert (await call.get("tags")).status == 200
        assert asked == [TAGS]
