"""One exchange, byte by byte: every failure is one of ours, and what is sent arrives as it is."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from base64 import b64encode
from typing import Any

import aiohttp
import pytest

from slashtag import (
    ConfigurationError,
    RequestTimeoutError,
    RetryPolicy,
    SessionClosedError,
    TransportError,
    UnexpectedResponseError,
    __version__,
)

from ..support import wire as wires
from ..support.sending import APIKEY, APISECRET, OPERATIONS, PAGE, connect, get, post, put
from ..support.wire import Answer, Connection, Wire, html, ok

ONCE = RetryPolicy(max_attempts=1)
OWN_OR_GIVEN = pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])


async def test_every_request_bears_both_credentials_and_nothing_that_it_need_not() -> None:
    for operation, data in OPERATIONS.values():
        async with Wire(ok(data)) as wire, connect(wire) as session:
            await operation(session)
        (request,) = wire.requests
        body = {"content-type": "application/json", "content-length": str(len(request.body))}
        assert request.headers == {
            "host": wire.base_url.removeprefix("http://"),
            "apikey": APIKEY,
            "apisecret": APISECRET,
            "accept": "application/json",
            "accept-encoding": request.headers["accept-encoding"],
            "user-agent": f"slashtag/{__version__}",
        } | (body | {"connection": "close"} if request.body else {})
        assert "gzip" in request.headers["accept-encoding"]


@OWN_OR_GIVEN
async def test_a_redirect_is_not_followed_and_its_target_receives_nothing(given: bool) -> None:
    async with Wire([]) as other, aiohttp.ClientSession() as http:
        async with (
            Wire(wires.redirect(f"{other.base_url}/api/v1/urls", 307)) as wire,
            connect(wire, http=http if given else None) as session,
        ):
            for operation, _ in OPERATIONS.values():
                with pytest.raises(UnexpectedResponseError):
                    await operation(session)
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


# --- the time and the size of an answer ----------------------------------------------------------------


def endless(length: int | None, interval: float = 0) -> Answer:
    """Send a body for ever: a length that never comes, or none; slowly, or as fast as it is taken."""

    async def play(connection: Connection) -> None:
        await connection.send(wires.message(200, b"", length=length))
        while not connection.writer.is_closing():
            await asyncio.sleep(interval)
            await connection.send(b" " if interval else b" " * 65_536)

    return Answer(play)


@pytest.mark.parametrize("answer", [wires.stall(), wires.stall(headers_sent=True), endless(10**9, 0.005)])
async def test_an_answer_that_is_not_whole_in_time_is_a_timeout_of_ours(answer: Answer) -> None:
    async with Wire(answer) as wire, connect(wire, timeout=0.4, retry=ONCE) as session:
        with pytest.raises(RequestTimeoutError):
            await get(session)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        await wire.abandoned()


async def test_each_attempt_ends_at_its_own_time() -> None:
    ended = list[float]()
    async with Wire(wires.stall()) as wire, connect(wire, retry=ONCE) as session:

        async def end(timeout: float) -> None:
            with pytest.raises(RequestTimeoutError):
                await get(session.with_options(timeout=timeout))
            ended.append(timeout)

        await asyncio.gather(*map(end, (0.3, 0.1, 0.2)))
    assert ended == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("size", [1_000, 300_000])
async def test_a_body_of_exactly_max_response_bytes_is_read(size: int) -> None:
    body = wires.body_of(200, "ok", PAGE).ljust(size)
    async with Wire(wires.response(200, body)) as wire, connect(wire, max_response_bytes=size) as session:
        await get(session)
        with pytest.raises(UnexpectedResponseError) as told:
            await get(session.with_options(max_response_bytes=size - 1))
        assert (told.value.attempts, told.value.excerpt) == (1, body[:200])


@OWN_OR_GIVEN
@pytest.mark.parametrize(
    "answer",
    [
        endless(None),
        endless(10**10),
        wires.response(200, gzip.compress(b" " * 2**26, 1), [("Content-Encoding", "gzip")]),
    ],
    ids=["endless", "huge", "gzip bomb"],
)
async def test_too_large_a_body_is_left_at_the_limit_with_little_memory(answer: Answer, given: bool) -> None:
    async with (
        Wire(answer) as wire,
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
        await wire.abandoned()
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
        async with http.get(wire.base_url) as response:
            await response.read()
        assert [request.headers.get("apikey") for request in wire.requests] == [APIKEY, "x" * 20, None]


@pytest.mark.parametrize(
    "options",
    [
        {"raise_for_status": True},
        {"base_url": "https://elsewhere.example/deeper/"},
        {"headers": {"apikey": "stale", "APISECRET": "stale", "Content-Type": "text/plain"}},
        {"cookies": {"a": "b"}},
        {"timeout": aiohttp.ClientTimeout(total=0.001)},
        {"auto_decompress": False},
        {"read_bufsize": 16},
        {"json_serialize": lambda _: "broken"},
    ],
)
async def test_the_settings_of_a_given_session_do_no_harm(options: dict[str, Any]) -> None:
    headers = [("Set-Cookie", "c=d"), ("Content-Encoding", "deflate")]
    slow = wires.delayed(0.02, wires.response(200, zlib.compress(wires.body_of(200, "ok", PAGE)), headers))
    async with (
        Wire([slow, html(500), slow, ok({"rows_updated": 1})]) as wire,
        aiohttp.ClientSession(**options) as http,
        connect(wire, http=http) as session,
    ):
        await get(session)
        await get(session)
        await put(session)
        assert session.metrics.statuses == {200: 3, 500: 1}
    for request in wire.requests:
        assert (request.headers["apikey"], request.headers["apisecret"]) == (APIKEY, APISECRET)
        assert request.path.startswith("/api/v1/urls")
    assert wire.requests[-1].headers["content-type"] == "application/json"


async def test_an_error_of_a_given_sessions_middleware_which_makes_calls_too_surfaces_as_itself() -> None:
    async def broken(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if session.metrics.in_flight > 1:
            return await handler(request)
        await get(session)
        raise RuntimeError("the owner's own")

    async with (
        Wire(ok(PAGE)) as wire,
        aiohttp.ClientSession(middlewares=[broken]) as http,
        connect(wire, http=http) as session,
    ):
        with pytest.raises(RuntimeError, match="the owner's own"):
            await get(session)
        assert session.metrics.in_flight == 0


@pytest.mark.parametrize("name", ["GET", "PUT", "POST"])
@pytest.mark.parametrize("is_given_closed", [False, True])
async def test_over_a_given_session_nothing_is_in_doubt_once_either_is_closed(
    is_given_closed: bool, name: str
) -> None:
    async with (
        Wire(wires.stall()) as wire,
        aiohttp.ClientSession() as http,
        connect(wire, http=http) as session,
    ):
        await (http.close() if is_given_closed else session.aclose())
        with pytest.raises(SessionClosedError):
            await OPERATIONS[name][0](session)
        assert wire.requests == []


# --- a proxy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "login"),
    [
        ("name:p€ss", "name:p€ss"),
        ("name:p%E2%82%ACss", "name:p€ss"),
        ("name:a@b:c", "name:a@b:c"),
        ("name:a%2Fb%40%3A%25", "name:a/b@:%"),
        ("日本:%", "日本:%"),
        ("name", "name:"),
    ],
)
async def test_user_and_password_of_a_proxy_are_sent_in_utf_8_to_the_proxy_alone(
    written: str, login: str
) -> None:
    sent = f"Basic {b64encode(login.encode()).decode()}"
    async with Wire(lambda request: html(407) if request.method == "CONNECT" else ok(PAGE)) as proxy:
        address = proxy.base_url.replace("//", f"//{written}@")
        async with connect("http://links.example", proxy=address, allow_http=True) as session:
            await get(session)
        async with connect("https://links.example", proxy=address) as session:
            with pytest.raises(TransportError) as told:
                await post(session)
    assert (told.value.unsent, told.value.attempts) == (True, 5)
    plain, *tunnels = proxy.requests
    assert (plain.headers["proxy-authorization"], plain.headers["apikey"]) == (sent, APIKEY)
    for request in tunnels:
        assert request.headers["proxy-authorization"] == sent
        assert "apikey" not in request.headers


@pytest.mark.parametrize(
    "proxy",
    [
        "http://name:hunter2/3@proxy.example:3128",
        "http://name:hunter2#3@proxy.example:3128",
        "http://name:1?hunter2@proxy.example:3128",
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
    monkeypatch.setenv("http_proxy", "http://name:hunter2€@127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    async with (
        aiohttp.ClientSession(trust_env=True) as http,
        connect("http://links.example", http=http, allow_http=True) as session,
    ):
        with pytest.raises(ConfigurationError) as told:
            await get(session)
    assert "hunter2" not in f"{told.value!r} {told.value.__context__!r} {told.value.__cause__!r}"
