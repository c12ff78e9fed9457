"""What a request target may hold, and how it is read."""

import asyncio
from urllib.parse import quote

import pytest

from .serve import serving

AWKWARD = [
    "a/b",
    "what?",
    "no#1",
    "100%",
    "two words",
    "c++",
    "50%25",
    "%2F",
    "../up",
    "..",
    "été-夏",
    "a&b=c",
]


@pytest.mark.parametrize("slashtag", AWKWARD)
async def test_a_path_segment_is_decoded_exactly_once(slashtag: str) -> None:
    async with serving() as call:
        call.box.add_url(slashtag)
        segment = quote(slashtag, safe="")
        assert (await call.put(segment, redirect_code=302)).data == {"rows_updated": 1}
        assert call.box.truth.urls()[0].redirect_code == 302
        assert call.box.requests[-1].path == f"/api/v1/urls/{segment}"


@pytest.mark.parametrize("slashtag", AWKWARD)
async def test_a_slashtag_in_url_keys_is_decoded_exactly_once(slashtag: str) -> None:
    async with serving() as call:
        call.box.add_url(slashtag)
        call.box.add_click(slashtag, "2024-01-01")
        target = f"/api/v1/stats/alltime?url_keys=x,{quote(slashtag, safe='')}%2Cy"
        assert (await call("GET", target)).data["clicks_total"] == 1


@pytest.mark.parametrize("target", [b"/api/v1/urls/%FF", b"/api/v1/urls/\xff", b"/api/v1/urls/\xc3\xbc"])
async def test_bytes_that_are_no_text_are_nobodys_slashtag(target: bytes) -> None:
    async with serving() as call:
        reader, writer = await asyncio.open_connection("127.0.0.1", call.box.port)
        headers = f"Host: x\r\napikey: {call.box.apikey}\r\napisecret: {call.box.apisecret}\r\n"
        headers += "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
        writer.write(b"PUT " + target + b" HTTP/1.1\r\n" + headers.encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        # The web server may refuse bytes that are not ASCII by itself.
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.0 400"))


async def test_a_plus_in_a_query_is_a_space() -> None:
    async with serving() as call:
        call.box.add_url("two words")
        call.box.add_click("two words", "2024-01-01")
        assert (await call("GET", "/api/v1/stats/alltime?url_keys=two+words")).data["clicks_total"] == 1
        target = "/api/v1/stats?url_keys=a&date=2024-01-01T00:00:00+00:00"
        assert "ISO 8601" in (await call("GET", target)).body["message"]


async def test_a_target_up_to_the_limit_is_read_and_a_longer_one_is_an_html_414() -> None:
    async with serving() as call:
        start = "/api/v1/tags?x="
        assert (await call("GET", start + "y" * (8190 - len(start)))).status == 200
        response = await call.raw("GET", start + "y" * (8191 - len(start)))
        assert (response.status, response.content_type) == (414, "text/html")
        assert "<h1>414 " in await response.text()
        assert [arrival.status for arrival in call.box.requests] == [200, 414]
