"""Requests that are no HTTP, too long, or one too many; what takes how long."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Sandbox
from slashtag.sandbox.limits import TokenBucket

from .serve import serving

TAGS = "/api/v1/tags"
HEADERS = b"apikey: sandboxapikey0123456789\r\napisecret: sandboxsecret01\r\nHost: x\r\n"
JSON = HEADERS + b"Content-Type: application/json\r\n"
BODY = b"POST /api/v1/tags HTTP/1.1\r\n" + JSON
MALFORMED = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    "no target": b"GET\r\n\r\n",
    "version": b"GET /api/v1/urls HTTP/9.x\r\n\r\n",
    "method": b"G@T /api/v1/urls HTTP/1.1\r\n" + HEADERS + b"\r\n",
    "length": BODY + b"Content-Length: abc\r\n\r\n{}",
    "two lengths": BODY + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunk": BODY + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "second chunk": BODY + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n\r\n",
    "gzip": BODY + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
    "NUL in a header": b"GET /api/v1/urls HTTP/1.1\r\nX: a\x00b\r\n" + HEADERS + b"\r\n",
    "huge header": b"GET /api/v1/urls HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n" + HEADERS + b"\r\n",
    "half an emoji": BODY + b'Content-Length: 17\r\n\r\n{"name":"\\ud83d"}',
    "percent": b"GET /api/v1/stats?url_keys=%zz%&date=%ff HTTP/1.1\r\n" + HEADERS + b"\r\n",
}
NO_TEXT = [b"/api/v1/urls/%FF", b"/api/v1/urls/\xff", b"/api/v1/urls/\xc3\xbc"]


async def status_of(box: Sandbox, sent: bytes) -> int:
    """Send bytes, and return the status of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", box.port)
    writer.write(sent)
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return int(line.split()[1])


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_is_a_400_and_not_logged(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as call:
        assert await status_of(call.box, sent) == 400
        assert (await call.get("urls")).status == 200
    assert caplog.records == []


@pytest.mark.parametrize("target", NO_TEXT)
async def test_bytes_that_are_no_text_are_nobodys_slashtag(target: bytes) -> None:
    async with serving() as call:
        sent = b"PUT " + target + b" HTTP/1.1\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}"
        # The web server may refuse bytes that are not ASCII by itself.
        assert await status_of(call.box, sent) in (404, 400)


async def test_a_caller_that_hangs_up_amid_its_body_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as call:
        _, writer = await asyncio.open_connection("127.0.0.1", call.box.port)
        writer.write(BODY + b"Content-Length: 50\r\n\r\n{}")
        await call.arrivals(1)
        writer.close()
        await writer.wait_closed()
        assert (await call.get("urls")).status == 200
    assert caplog.records == []


async def test_a_405_names_the_methods_of_the_path() -> None:
    async with serving() as call:
        for path, methods in (("tags", {"GET", "POST"}), ("urls/spring", {"PUT"})):
            answer = await call.raw("DELETE", f"/api/v1/{path}")
            assert (answer.status, {*answer.headers["Allow"].split(", ")}) == (405, methods)


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
    async with serving(rate=0.5, burst=2) as call:
        await call.post(name="one")
        replies = [await call.get("stats"), await call.post(name="two"), await call.get("stats")]
        assert [reply.status for reply in replies] == [400, 429, 429]
        assert [reply.body["data"] for reply in replies[1:]] == [None, []]
        assert "tag" not in replies[1].body["message"]
        assert 1 <= int(replies[1].headers["Retry-After"]) <= 2
        assert [arrival.fault for arrival in call.box.requests[2:]] == ["limit"] * 2
        assert [tag.name for tag in call.box.truth.tags()] == ["one"]


async def test_latency_passes_before_each_answer_and_may_change() -> None:
    async with serving(latency=0.3) as call:
        await asyncio.gather(*(call("GET", TAGS) for _ in range(5)))
        # None was answered before the last had arrived.
        assert sorted(arrival.in_flight for arrival in call.box.requests) == [1, 2, 3, 4, 5]
        call.box.latency = 0.0
        await call("GET", TAGS)
        assert call.box.requests[-1].in_flight == 1


@pytest.mark.parametrize("latency", [-0.1, float("inf"), float("nan")])
def test_a_latency_is_seconds(latency: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Sandbox(latency=latency)
