"""One exchange, byte by byte: every failure is one of ours, and what is sent arrives as it is."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from base64 import b64encode
from typing import Any

import aiohttp
import pytest

from slashtag import (
    AsyncSession,
    ConfigurationError,
    OutcomeUnknownError,
    RetryPolicy,
    SessionClosedError,
    SlashtagError,
    TransportError,
    UnexpectedResponseError,
    __version__,
)
from slashtag.sandbox import Sandbox

from ..support import wire as wires
from ..support.sending import APIKEY, APISECRET, OPERATIONS, PAGE, connect, get, put, run_out, turns
from ..support.wire import Answer, Wire, html, ok

ONCE = RetryPolicy(max_attempts=1)


async def failure(answer: Answer, **options: Any) -> SlashtagError:
    """What a GET fails with after one attempt."""
    async with Wire(answer) as wire, connect(wire, **{"retry": ONCE} | options) as session:
        with pytest.raises(SlashtagError) as told:
            await get(session)
        assert session.metrics.in_flight == session.metrics.waiting == 0
    return told.value


# --- what is sent --------------------------------------------------------------------------------------


async def test_every_request_bears_both_credentials_and_nothing_that_it_need_not() -> None:
    for operation, data in OPERATIONS.values():
        async with Wire(ok(data)) as wire, connect(wire) as session:
            await operation(session)
        (request,) = wire.requests
        body = {"content-type": "application/json", "content-length": str(len(request.body))}
        body |= {"connection": "close"}
        assert request.headers == {
            "host": wire.base_url.removeprefix("http://"),
            "apikey": APIKEY,
            "apisecret": APISECRET,
            "accept": "application/json",
            "accept-encoding": request.headers["accept-encoding"],
            "user-agent": f"slashtag/{__version__}",
        } | (body if request.body else {})
        assert "gzip" in request.headers["accept-encoding"]


async def test_a_second_request_goes_past_caches() -> None:
    async with Wire([html(500), ok(PAGE)]) as wire, connect(wire) as session:
        await get(session)
    assert [request.headers.get("cache-control") for request in wire.requests] == [None, "no-cache"]


# --- redirects, cookies, the environment ---------------------------------------------------------------


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_its_target_receives_nothing(status: int, given: bool) -> None:
    async with Wire([]) as other, aiohttp.ClientSession() as http:
        async with (
            Wire(wires.redirect(f"{other.base_url}/api/v1/urls", status)) as wire,
            connect(wire, http=http if given else None) as session,
        ):
            for operation, _ in OPERATIONS.values():
                with pytest.raises(UnexpectedResponseError, match="redirects are never followed") as told:
                    await operation(session)
                assert (told.value.status, told.value.attempts, told.value.repeatable) == (status, 1, False)
            assert len(wire.requests) == len(OPERATIONS)
        assert other.connections == 0


async def test_cookies_are_neither_kept_nor_sent() -> None:
    async with (
        Wire(ok(PAGE, headers=[("Set-Cookie", "a=b; Path=/")])) as wire,
        # By a name: aiohttp keeps no cookies of an address.
        connect(wire.base_url.replace("127.0.0.1", "localhost")) as session,
    ):
        await get(session)
        await get(session)
    assert "cookie" not in wire.requests[1].headers


async def test_the_environment_sets_no_proxy_but_a_failure_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Wire([]) as proxy, Wire([ok(PAGE)]) as wire:
        for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.base_url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with connect(wire) as session:
            await get(session)
        assert proxy.connections == 0
    async with connect(wire, retry=ONCE) as session:
        with pytest.raises(TransportError, match="SLASHTAG_PROXY"):
            await get(session)


# --- broken answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (wires.reset(), "reset"),
        (wires.hang_up(), "the service closed the connection without an answer"),
        (wires.truncated(), "the body was cut short or broken"),
        (wires.bad_framing(), "the answer is not HTTP"),
        (wires.bad_framing("gzip"), "the body was cut short or broken"),
    ],
)
async def test_a_transport_error_says_what_happened(answer: Answer, text: str) -> None:
    error = await failure(answer)
    assert type(error) is TransportError
    assert str(error).startswith("GET urls: ")
    assert text in str(error)


async def test_a_body_in_many_pieces_is_read_whole() -> None:
    body = wires.body_of(200, "ok", PAGE | {"padding": "x" * 300_000})

    async def play(connection: wires.Connection) -> None:
        await connection.send(wires.message(200, b"", [("Transfer-Encoding", "chunked")], length=None))
        for start in range(0, len(body), 50_000):
            piece = body[start : start + 50_000]
            await connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)
        await connection.send(b"0\r\n\r\n")

    async with Wire(Answer(play, keep_alive=True)) as wire, connect(wire) as session:
        for _ in range(2):
            assert (await session.urls.page()).items == []
        assert session.metrics.bytes_received == 2 * len(body)
        assert wire.connections == 1


# --- the size of a body --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1_000, 300_000])
async def test_a_body_of_exactly_max_response_bytes_is_read(size: int) -> None:
    body = wires.body_of(200, "ok", PAGE).ljust(size)
    async with Wire(wires.response(200, body)) as wire:
        async with connect(wire, max_response_bytes=size) as session:
            await get(session)
        async with connect(wire, max_response_bytes=size - 1) as session:
            with pytest.raises(UnexpectedResponseError, match=rf"max_response_bytes \({size - 1}\)") as told:
                await get(session)
    assert not told.value.repeatable
    assert told.value.attempts == 1
    assert told.value.excerpt == body[:200]


async def test_the_answer_to_a_write_that_is_too_large_is_lost() -> None:
    async with (
        Wire([wires.response(200, b" " * 1_000)]) as wire,
        connect(wire, max_response_bytes=100) as session,
    ):
        with pytest.raises(OutcomeUnknownError):
            await put(session)


@pytest.mark.parametrize("endless", [False, True])
async def test_an_answer_without_end_is_left_at_the_limit(endless: bool) -> None:
    announced = 10**10

    async def play(connection: wires.Connection) -> None:
        length = None if endless else announced
        await connection.send(wires.message(200, b"", length=length))
        while not connection.writer.is_closing():
            await connection.send(b" " * 65_536)

    async with Wire(Answer(play)) as wire, connect(wire, max_response_bytes=2**20) as session:
        async with asyncio.timeout(5):
            with pytest.raises(UnexpectedResponseError):
                await get(session)
            await wire.abandoned()


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
async def test_a_gzip_bomb_is_stopped_with_little_memory(given: bool) -> None:
    bomb = wires.gzip_bomb()
    async with (
        Wire(bomb) as wire,
        aiohttp.ClientSession() as http,
        connect(wire, max_response_bytes=2**20, http=http if given else None) as session,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(UnexpectedResponseError) as told:
                await get(session)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert len(wire.requests) == 1
    assert peak < 16 * 2**20
    assert len(told.value.excerpt) <= 200


# --- a given aiohttp session ---------------------------------------------------------------------------


async def test_a_given_session_is_sent_with_the_credentials_of_each_request_and_left_open() -> None:
    async with Wire(ok(PAGE)) as wire, aiohttp.ClientSession() as http:
        async with connect(wire, http=http) as session:
            await get(session)
        async with connect(wire, http=http, apikey="x" * 20, apisecret="y" * 12) as session:
            await get(session)
        assert not http.closed
        async with http.get(wire.base_url) as response:
            await response.read()
        keys = [request.headers.get("apikey") for request in wire.requests]
        assert keys == [APIKEY, "x" * 20, None]
        assert not {"apikey", "apisecret"} & set(http.headers)


@pytest.mark.parametrize(
    "options",
    [
        {"raise_for_status": True},
        {"base_url": "https://elsewhere.example/deeper/"},
        {"headers": {"apikey": "stale", "APISECRET": "stale", "Content-Type": "text/plain"}},
        {"cookies": {"a": "b"}},
        {"timeout": aiohttp.ClientTimeout(total=0.001)},
        {"auto_decompress": False},
        {"connector_owner": False},
        {"read_bufsize": 16},
        {"json_serialize": lambda _: "broken"},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_the_settings_of_a_given_session_do_no_harm(options: dict[str, Any]) -> None:
    headers = [("Set-Cookie", "c=d"), ("Content-Encoding", "deflate")]
    slow = wires.delayed(0.02, wires.response(200, zlib.compress(wires.body_of(200, "ok", PAGE)), headers))
    async with Wire([slow, html(500), slow, wires.envelope(200, "ok", {"rows_updated": 1})]) as wire:
        http = aiohttp.ClientSession(**options)
        try:
            async with connect(wire, http=http) as session:
                await get(session)
                await get(session)
                await put(session)
        finally:
            if not options.get("connector_owner", True):
                assert http.connector is not None
                await http.connector.close()
            await http.close()
        for request in wire.requests:
            assert (request.headers["apikey"], request.headers["apisecret"]) == (APIKEY, APISECRET)
            assert request.target.startswith("/api/v1/urls")
        assert wire.requests[-1].headers["content-type"] == "application/json"


async def test_the_limit_of_a_given_connector_bounds_what_is_in_flight() -> None:
    for limits, most in (({"limit": 3}, 3), ({"limit": 0, "limit_per_host": 2}, 2), ({"limit": 0}, 5)):
        async with Sandbox(urls=5, clicks=0, tags=0, latency=0.005) as box:
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(**limits)) as http,
                connect(box, http=http, concurrency=5) as session,
            ):
                await asyncio.gather(*(get(session) for _ in range(40)))
            assert max(arrival.in_flight for arrival in box.requests) == most


async def test_the_middlewares_of_a_given_session_are_kept() -> None:
    async def mark(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.headers["X-Marked"] = "yes"
        return await handler(request)

    async with (
        Wire(ok(PAGE)) as wire,
        aiohttp.ClientSession(middlewares=[mark]) as http,
        connect(wire, http=http) as session,
    ):
        await get(session)
    assert wire.requests[0].headers["x-marked"] == "yes"


async def test_an_error_of_a_given_session_that_is_not_a_connections_surfaces_as_itself() -> None:
    async def broken(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        raise RuntimeError("the owner's own")

    async with (
        Wire([]) as wire,
        aiohttp.ClientSession(middlewares=[broken]) as http,
        connect(wire, http=http) as session,
    ):
        with pytest.raises(RuntimeError, match="the owner's own"):
            await get(session)
        assert session.metrics.in_flight == 0


@pytest.mark.parametrize(
    ("written", "login"),
    [
        ("name:p€ss", "name:p€ss"),
        ("name:p%E2%82%ACss", "name:p€ss"),
        ("name:pässwörd", "name:pässwörd"),
        ("name:a@b:c", "name:a@b:c"),
        ("name:a%2Fb%40%3A%25", "name:a/b@:%"),
        ("日本:%", "日本:%"),
        ("name", "name:"),
        (":pass", ":pass"),
    ],
)
async def test_user_and_password_of_a_proxy_are_sent_in_utf_8(written: str, login: str) -> None:
    async with Wire(ok(PAGE)) as proxy:
        address = proxy.base_url.replace("//", f"//{written}@")
        async with connect("http://links.example", proxy=address, allow_http=True) as session:
            await get(session)
            await get(session)
    sent = f"Basic {b64encode(login.encode()).decode()}"
    assert [{**request.headers}["proxy-authorization"] for request in proxy.requests] == [sent, sent]


async def test_the_login_of_a_proxy_is_for_the_proxy_alone() -> None:
    async with Wire(html(407)) as proxy:
        address = proxy.base_url.replace("//", "//name:p€ss@")
        async with connect("https://links.example", proxy=address) as session:
            with pytest.raises(TransportError, match="the proxy answered 407"):
                await get(session)
    for request in proxy.requests:
        assert request.headers["proxy-authorization"] == f"Basic {b64encode('name:p€ss'.encode()).decode()}"
        assert "apikey" not in request.headers


@pytest.mark.parametrize(
    "proxy",
    [
        "http://name:hunter2/3@proxy.example:3128",
        "http://name:12/hunter2@proxy.example:3128",
        "http://name:hunter2#3@proxy.example:3128",
        "http://name:1?hunter2@proxy.example:3128",
        "http://na%3Ame:hunter2@proxy.example:3128",
        "http://name:hunter2@proxy.example:0",
        "http://name:hunter2@proxy.example:99999",
        "http://name:hunter2@proxy.example:x",
        "http://name:hunter2\udce4@proxy.example:3128",
        "socks5://name:hunter2@proxy.example:1080",
    ],
)
def test_a_proxy_that_cannot_work_is_refused_without_being_shown(proxy: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        connect("https://links.example", proxy=proxy)
    assert "hunter2" not in f"{told.value!r} {told.value.__context__!r}"


async def test_a_password_that_aiohttp_cannot_encode_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Wire([]) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.replace("//", "//name:hunter2€@"))
        monkeypatch.delenv("no_proxy", raising=False)
        async with (
            aiohttp.ClientSession(trust_env=True) as http,
            connect("http://links.example", http=http, allow_http=True) as session,
        ):
            with pytest.raises(ConfigurationError) as told:
                await get(session)
    assert "hunter2" not in f"{told.value!r} {told.value.__context__!r} {told.value.__cause__!r}"
    assert not proxy.requests


async def test_a_proxys_refusal_is_told_and_nothing_was_sent() -> None:
    async with Wire(html(407)) as proxy, aiohttp.ClientSession(proxy=proxy.base_url) as http:
        async with connect("https://links.example", http=http) as session:
            with pytest.raises(TransportError, match="the proxy answered 407") as told:
                await session.tags.create("spring")
        assert told.value.unsent
        assert told.value.attempts == len(proxy.requests) == 5
        assert not any("apikey" in request.headers for request in proxy.requests)


@pytest.mark.parametrize(("name", "kind"), [("GET", SessionClosedError), ("PUT", OutcomeUnknownError)])
@pytest.mark.parametrize("headers_sent", [False, True])
async def test_a_given_session_that_is_closed_under_a_request_is_told(
    headers_sent: bool, name: str, kind: type[SlashtagError]
) -> None:
    async with Wire(wires.stall(headers_sent=headers_sent)) as wire:
        http = aiohttp.ClientSession()
        async with connect(wire, http=http) as session:
            call = asyncio.create_task(OPERATIONS[name][0](session))
            await wire.arrived(1)
            await asyncio.sleep(0.01)
            await http.close()
            await turns()
            # aiohttp does not wake who reads a body; the timeout does.
            run_out(session)
            with pytest.raises(kind):
                await call
            assert session.metrics.in_flight == 0


# --- connections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 2, 7])
async def test_concurrency_is_never_exceeded_at_the_server(concurrency: int) -> None:
    async with Sandbox(urls=5, clicks=0, tags=0, latency=0.015) as box:
        async with connect(box, concurrency=concurrency) as session:
            views: list[AsyncSession] = [session, session.with_options(timeout=3)]
            await asyncio.gather(*(get(views[n % 2]) for n in range(40)))
        assert max(arrival.in_flight for arrival in box.requests) == concurrency
