"""Requests that are no HTTP, or none of the service's: an answer to their sender, and nothing on stderr."""

import asyncio

import pytest

from slashtag.sandbox import Sandbox

from .serve import serving

HEADERS = b"apikey: sandboxapikey0123456789\r\napisecret: sandboxsecret01\r\nHost: x\r\n"
BODY = b"POST /api/v1/tags HTTP/1.1\r\n" + HEADERS + b"Content-Type: application/json\r\n"
MALFORMED = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    "no target": b"GET\r\n\r\n",
    "version": b"GET /api/v1/urls HTTP/9.x\r\n\r\n",
    "method": b"G@T /api/v1/urls HTTP/1.1\r\n" + HEADERS + b"\r\n",
    "length": BODY + b"Content-Length: abc\r\n\r\n{}",
    "negative length": BODY + b"Content-Length: -5\r\n\r\n{}",
    "two lengths": BODY + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunk": BODY + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "second chunk": BODY + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n\r\n",
    "gzip": BODY + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
    "NUL in a header": b"GET /api/v1/urls HTTP/1.1\r\nX: a\x00b\r\n" + HEADERS + b"\r\n",
    "huge header": b"GET /api/v1/urls HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n" + HEADERS + b"\r\n",
    "absolute target": b"GET http://[/api HTTP/1.1\r\n" + HEADERS + b"\r\n",
    "JSON": BODY + b'Content-Length: 4\r\n\r\n{"a\xff',
    "half an emoji": BODY + b'Content-Length: 17\r\n\r\n{"name":"\\ud83d"}',
    "deep JSON": BODY + b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000,
    "percent": b"GET /api/v1/stats?url_keys=%zz%&date=%ff HTTP/1.1\r\n" + HEADERS + b"\r\n",
}


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


async def test_a_caller_that_hangs_up_amid_its_body_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as call:
        _, writer = await asyncio.open_connection("127.0.0.1", call.box.port)
        writer.write(BODY + b"Content-Length: 50\r\n\r\n{}")
        await call.arrivals(1)
        writer.close()
        await writer.wait_closed()
        assert (await call.get("urls")).status == 200
    assert caplog.records == []


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("urls", {"GET"}),
        ("urls/spring", {"PUT"}),
        ("tags", {"GET", "POST"}),
        ("stats", {"GET"}),
        ("stats/yearly", {"GET"}),
        ("stats/alltime", {"GET"}),
        ("stats/country/geo", {"GET"}),
    ],
)
async def test_a_method_that_a_path_does_not_have_is_a_405(path: str, allowed: set[str]) -> None:
    async with serving() as call:
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"} - allowed:
            answer = await call.raw(method, f"/api/v1/{path}")
            assert (answer.status, {*answer.headers["Allow"].split(", ")}) == (405, allowed)
            if method != "HEAD":
                body = await answer.json()
                assert (body["status"], body["data"]) == (405, [] if path.startswith("stats") else None)


@pytest.mark.parametrize("path", ["v1/urls/", "v1/urls/a/b", "v1/stats/daily", "v1/", "v1/tags/1", "v2/urls"])
async def test_a_path_that_there_is_not_is_a_404_for_every_method(path: str) -> None:
    async with serving() as call:
        for method in ("GET", "PUT", "DELETE"):
            answer = await call(method, f"/api/{path}")
            assert (answer.status, answer.body["status"]) == (404, 404)
            assert "Allow" not in answer.headers


async def test_yearly_statistics_on_the_paths_of_the_samples_are_no_path_of_their_own() -> None:
    async with serving(paths="samples") as call:
        assert (await call.raw("DELETE", "/api/v1/stats/yearly")).status == 404
        assert (await call.raw("DELETE", "/api/v1/stats")).status == 405
