"""Faults: what goes wrong, for which requests, how often."""

import asyncio
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from slashtag.sandbox import Fault

from .serve import serving

TAGS = "/api/v1/tags"


async def test_a_status_comes_in_an_envelope() -> None:
    status = 503
    async with serving(faults=[Fault(kind=str(status), headers={"X-Fault": "yes"})]) as call:
        answer = await call("GET", TAGS)
        assert answer.headers["X-Fault"] == "yes"
        assert (answer.status, answer.body["status"], answer.body["data"]) == (status, status, None)
        assert "Retry-After" not in answer.headers
        assert (call.box.requests[0].status, call.box.requests[0].fault) == (status, str(status))


async def test_half_of_an_answer_is_sent_with_its_length_or_that_of_the_whole() -> None:
    faults = [Fault(kind=f"truncated-{what}", times=1) for what in ("json", "body")]
    async with serving(faults=faults) as call:
        half = await (await call.raw("GET", TAGS)).text()
        with pytest.raises(aiohttp.ClientPayloadError):
            await call("GET", TAGS)
        whole = await (await call.raw("GET", TAGS)).text()
        assert half == whole[: len(whole) // 2]
        assert [(each.status, each.fault) for each in call.box.requests[:2]] == [
            (200, "truncated-json"),
            (200, "truncated-body"),
        ]


@pytest.mark.parametrize("kind", ["reset", "500", "html-502", "stall", "truncated-body", "truncated-json"])
@pytest.mark.parametrize("after_work", [True, False])
async def test_a_write_is_done_or_not_and_its_answer_lost(kind: str, after_work: bool) -> None:
    fault = Fault(kind=kind, method="PUT", after_work=after_work, seconds=0.01)
    async with serving(faults=[fault]) as call:
        call.box.add_url("a")
        with suppress(aiohttp.ClientError, ValueError):
            assert (await call.put("a", slashtag="b")).status >= 500
        # A part of an answer is there only if the request was carried out.
        is_done = after_work or kind.startswith("truncated")
        assert [url.slashtag for url in call.box.truth.urls()] == ["b" if is_done else "a"]


@pytest.mark.parametrize(
    ("kind", "status", "content_type"),
    [
        ("html-200", 200, "text/html"),
        ("html-502", 502, "text/html"),
        ("envelope-400", 200, "application/json"),
    ],
)
async def test_an_answer_may_contradict_its_status(kind: str, status: int, content_type: str) -> None:
    async with serving(faults=[Fault(kind=kind)]) as call:
        response = await call.raw("GET", TAGS)
        assert (response.status, response.content_type) == (status, content_type)
        if kind == "envelope-400":
            assert (await response.json())["status"] == 400


async def test_who_left_a_stall_is_no_longer_in_flight() -> None:
    async with serving(faults=[Fault(kind="stall", times=1)]) as call:
        leaving = asyncio.create_task(call("GET", TAGS))
        await call.arrivals(1)
        leaving.cancel()
        async with asyncio.timeout(10):
            while call.box._tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await call("GET", TAGS)
        assert [arrival.in_flight for arrival in call.box.requests] == [1, 1]


async def statuses(n: int, *faults: Fault, **options: Any) -> list[int | None]:
    async with serving(faults=faults, **options) as call:
        for _ in range(n):
            await call.raw("GET", TAGS)
        return [arrival.status for arrival in call.box.requests]


async def test_every_nth_request_fails_at_most_so_often() -> None:
    assert await statuses(7, Fault(every=3, kind="500")) == [200, 200, 500, 200, 200, 500, 200]
    assert await statuses(7, Fault(every=3, kind="500", times=1)) == [200, 200, 500, 200, 200, 200, 200]


async def test_requests_over_the_limit_count_for_no_fault() -> None:
    async with serving(rate=0.1, burst=1, faults=[Fault(kind="500", every=2)]) as call:
        replies = [await call("GET", TAGS) for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 429, 429]


async def test_the_first_fault_that_is_due_wins_and_all_count() -> None:
    found = await statuses(6, Fault(every=3, kind="500"), Fault(every=2, kind="503"))
    assert found == [200, 503, 500, 503, 200, 500]


async def test_a_share_fails_and_the_same_seed_fails_the_same() -> None:
    fault = Fault(share=0.3, kind="500")
    one, same, other = [await statuses(100, fault, seed=seed) for seed in (1, 1, 2)]
    assert one == same != other
    assert 15 <= one.count(500) <= 45


async def test_only_matching_requests_fail_and_count() -> None:
    async with serving(faults=[Fault(every=2, kind="500", method="GET", path="/api/v1/stats*")]) as call:
        targets = ["/api/v1/stats?tag=t", TAGS, "/api/v1/stats/alltime?tag=t", "/api/v1/stats/alltime"]
        for target in targets:
            await call.raw("GET", target)
        await call.raw("POST", "/api/v1/stats")
        assert [arrival.status for arrival in call.box.requests] == [400, 200, 500, 400, 405]


@pytest.mark.parametrize("kind", ["mystery", "700", "299"])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=kind):
        Fault(kind=kind)


async def test_a_fault_may_name_a_slashtag() -> None:
    faults = [Fault(kind="400", slashtag="a b")]
    async with serving(faults=faults) as call:
        for key in ("a b", "ab"):
            call.box.add_url(key)
        asked = [await call.get("stats/alltime", url_keys=keys) for keys in ("ab", "ab,a b", "a b,ab", "a")]
        assert [answer.status for answer in asked] == [200, 400, 400, 200]
        assert (await call.put("a%20b", redirect_code=302)).status == 400
        assert (await call.put("ab", redirect_code=302)).status == 200
        assert (await call.get("urls")).status == 200
