"""Faults: what goes wrong, for which requests, how often."""

import asyncio
from contextlib import suppress
from time import perf_counter
from typing import Any

import aiohttp
import pytest

from slashtag.sandbox import Fault

from .serve import serving

TAGS = "/api/v1/tags"


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 429])
async def test_a_status_comes_in_an_envelope(status: int) -> None:
    async with serving(faults=[Fault(kind=str(status), headers={"X-Fault": "yes"})]) as call:
        answer = await call("GET", TAGS)
        assert answer.headers["X-Fault"] == "yes"
        assert (answer.status, answer.body["status"], answer.body["data"]) == (status, status, None)
        assert "Retry-After" not in answer.headers
        assert (call.box.requests[0].status, call.box.requests[0].fault) == (status, str(status))


async def test_truncated_json_has_the_length_it_says() -> None:
    async with serving(faults=[Fault(kind="truncated-json", times=1)]) as call:
        half = await (await call.raw("GET", TAGS)).text()
        whole = await (await call.raw("GET", TAGS)).text()
        assert half == whole[: len(whole) // 2]


async def test_a_truncated_body_is_shorter_than_announced() -> None:
    async with serving(faults=[Fault(kind="truncated-body")]) as call:
        with pytest.raises(aiohttp.ClientPayloadError):
            await call("GET", TAGS)
        assert (call.box.requests[0].status, call.box.requests[0].fault) == (200, "truncated-body")


@pytest.mark.parametrize("kind", ["reset", "500", "html-502", "stall", "truncated-body", "truncated-json"])
async def test_after_its_work_a_write_is_done_and_its_answer_lost(kind: str) -> None:
    async with serving(faults=[Fault(kind=kind, method="PUT", after_work=True, seconds=0.01)]) as call:
        call.box.add_url("a")
        try:
            lost = (await call.put("a", slashtag="b")).status >= 500
        except (aiohttp.ClientError, ValueError):
            lost = True
        assert lost
        assert [url.slashtag for url in call.box.truth.urls()] == ["b"]


@pytest.mark.parametrize("kind", ["reset", "500", "stall"])
async def test_before_its_work_a_write_is_not_done(kind: str) -> None:
    async with serving(faults=[Fault(kind=kind, method="PUT", seconds=0.01)]) as call:
        call.box.add_url("a")
        with suppress(aiohttp.ClientError):
            await call.put("a", slashtag="b")
        assert [url.slashtag for url in call.box.truth.urls()] == ["a"]


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


async def test_a_stall_ends_when_the_sandbox_does() -> None:
    async with serving(faults=[Fault(kind="stall")]) as call:
        waiting = asyncio.create_task(call("GET", TAGS))
        await call.arrivals(1)
        began = perf_counter()
        await call.box.stop()
        assert perf_counter() - began < 10
        with pytest.raises(aiohttp.ClientError):
            await waiting


async def statuses(n: int, *faults: Fault, **options: Any) -> list[int | None]:
    async with serving(faults=faults, **options) as call:
        for _ in range(n):
            await call.raw("GET", TAGS)
        return [arrival.status for arrival in call.box.requests]


async def test_every_nth_request_fails_at_most_so_often() -> None:
    assert await statuses(7, Fault(every=3, kind="500")) == [200, 200, 500, 200, 200, 500, 200]
    assert await statuses(7, Fault(every=3, kind="500", times=1)) == [200, 200, 500, 200, 200, 200, 200]


async def test_the_first_fault_that_is_due_wins_and_all_count() -> None:
    found = await statuses(6, Fault(every=3, kind="500"), Fault(every=2, kind="503"))
    assert found == [200, 503, 500, 503, 200, 500]


@pytest.mark.unmeasured
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


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind="500", path="/stats"),
        Fault(kind="500", method="get"),
        Fault(kind="500", slashtag="nobody"),
        Fault(kind="500", path="/api/v1/urls", every=2, method="PUT"),
    ],
)
async def test_a_fault_that_matches_nothing_is_told(fault: Fault, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(faults=[fault, Fault(kind="500", every=9)]) as call:
        await call.get("urls")
        assert caplog.records == []
        call.box.faults = [fault]
        assert len(caplog.records) == 1
        assert repr(fault) in caplog.text
        # Nothing arrived since.
    assert len(caplog.records) == 1
    async with serving(faults=[fault]) as call:
        await call.get("tags")
    assert len(caplog.records) == 2
