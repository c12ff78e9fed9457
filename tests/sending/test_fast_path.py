"""Requests of our own sessions bypass `ClientSession.request`, unless it is patched, traced or configured."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler

import slashtag
from slashtag import AsyncSession, OutcomeUnknownError, RetryPolicy, TransportError, UnexpectedResponseError
from slashtag._core.call import Call
from slashtag._sending import fast_path as http1
from slashtag._sending.fast_path import KEEP_ALIVE
from slashtag._sending.health import KEPT

from ..support import wire as wires
from ..support.sending import APIKEY, PAGE, ROWS, TAG, connect, get, post, put, until
from ..support.wire import Connection, Wire, message, ok

ONCE = RetryPolicy(max_attempts=1)
PAGE_BYTES = wires.body_of(200, "ok", PAGE)


def fast_path_of(session: AsyncSession) -> http1.FastPath:
    path = session._transport._fast_path
    assert path is not None
    return path


# --- who sees the requests -----------------------------------------------------------------------------


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods of requests that went through aiohttp's public interface."""
    seen: list[str] = []
    sent = aiohttp.ClientRequest.send

    async def watched(self: aiohttp.ClientRequest, connection: Any) -> aiohttp.ClientResponse:
        seen.append(self.method)
        return await sent(self, connection)

    monkeypatch.setattr(aiohttp.ClientRequest, "send", watched)
    return seen


async def test_requests_pass_by_the_session(seen: list[str]) -> None:
    async with Wire([ok(PAGE), ok(ROWS)]) as wire, connect(wire) as session:
        await get(session)
        await put(session)
    assert seen == []
    assert [request.method for request in wire.requests] == ["GET", "PUT"]


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """As recorders and mocks do."""
    original = aiohttp.ClientSession._request

    async def recorded(self: aiohttp.ClientSession, *args: Any, **options: Any) -> aiohttp.ClientResponse:
        return await original(self, *args, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", recorded)


def stand_in_publicly(monkeypatch: pytest.MonkeyPatch) -> None:
    original = aiohttp.ClientSession.request

    def recorded(self: aiohttp.ClientSession, *args: Any, **options: Any) -> Any:
        return original(self, *args, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "request", recorded)


def trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As instrumentations do that give every session a trace."""
    made = aiohttp.ClientSession.__init__

    def traced(self: aiohttp.ClientSession, *args: Any, **options: Any) -> None:
        made(self, *args, trace_configs=[aiohttp.TraceConfig()], **options)

    monkeypatch.setattr(aiohttp.ClientSession, "__init__", traced)


def replace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As who puts a class of his own in the place of aiohttp's."""
    original = aiohttp.ClientSession._request

    async def _request(self: aiohttp.ClientSession, *args: Any, **options: Any) -> aiohttp.ClientResponse:
        return await original(self, *args, **options)

    # Not inherited from by a statement, which aiohttp warns of.
    monkeypatch.setattr(aiohttp.ClientSession, "__init_subclass__", lambda: None)
    replaced = type("Replaced", (aiohttp.ClientSession,), {"_request": _request})
    monkeypatch.setattr(aiohttp, "ClientSession", replaced)


def another_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "TESTED", False)
    monkeypatch.setattr("slashtag._sending.client_session_path.TESTED", False)


def switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLASHTAG_FAST_PATH", "0")


WATCHED = [stand_in, stand_in_publicly, trace, replace, another_aiohttp, switched_off]


@pytest.mark.parametrize("watch", WATCHED)
async def test_whoever_watches_aiohttp_sees_each_request_and_the_session_says_once_why(
    monkeypatch: pytest.MonkeyPatch,
    seen: list[str],
    caplog: pytest.LogCaptureFixture,
    watch: Callable[[pytest.MonkeyPatch], None],
) -> None:
    caplog.set_level(logging.INFO, "slashtag")
    async with Wire([ok(PAGE), ok(ROWS), ok(PAGE)]) as wire:
        with monkeypatch.context() as patch:
            watch(patch)
            async with connect(wire) as session:
                await get(session)
                await put(session)
        assert seen == ["GET", "PUT"]
        async with connect(wire) as session:
            await get(session)
        assert seen == ["GET", "PUT"]
    told = [record.levelname for record in caplog.records if "ClientSession.request" in record.getMessage()]
    # To switch it off, or to pass a session, is the user's own choice.
    assert told == ["INFO"] * (watch is not switched_off)


async def test_a_header_of_the_user_wins() -> None:
    given = {"User-Agent": "shop/2"}, None
    for headers in given:
        async with Wire(ok(PAGE)) as wire, aiohttp.ClientSession(headers=headers) as http:
            async with connect(wire, http=http) as session:
                await get(session)
            expected = "shop/2" if headers else f"slashtag/{slashtag.__version__}"
            assert wire.requests[0].headers["user-agent"] == expected
    async with Wire(ok(PAGE)) as wire, aiohttp.ClientSession(skip_auto_headers=["user-agent"]) as http:
        async with connect(wire, http=http) as session:
            await get(session)
        assert "user-agent" not in wire.requests[0].headers


def test_these_tests_run_with_a_version_that_is_trusted() -> None:
    assert http1.TESTED, f"read what changed in {aiohttp.__version__}, and raise SERIES"


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (ResponseHandler, "is_connected"),
        (aiohttp.ClientRequest, "send"),
        (aiohttp.http, "HttpResponseParser"),
    ],
)
def test_a_release_without_the_internals_relied_on_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    monkeypatch.delattr(where, name)
    assert not http1._has_internals()


async def test_a_session_says_how_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connect("http://127.0.0.1:1") as session:
        assert "(by connections of aiohttp)" in repr(session)
    switched_off(monkeypatch)
    async with connect("http://127.0.0.1:1") as session:
        assert "(by ClientSession.request)" in repr(session)
    assert "(closed)" in repr(session)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("transport.FastPath.__init__", TypeError("unexpected keyword argument")),
        ("fast_path.FastPath._take", AttributeError("is_connected")),
    ],
    ids=["constructor", "connection"],
)
async def test_if_aiohttp_has_changed_requests_go_through_its_session(
    name: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seen: list[str],
) -> None:
    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(f"slashtag._sending.{name}", broken)
    async with Wire(ok(TAG)) as wire, connect(wire, retry=ONCE) as session:
        for _ in range(3):
            await post(session)
        assert len(wire.requests) == 3
    assert seen == ["POST"] * 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_if_aiohttp_has_changed_behind_the_write_the_outcome_is_unknown(
    monkeypatch: pytest.MonkeyPatch, seen: list[str]
) -> None:
    def broken(*_: Any) -> None:
        raise TypeError("cannot unpack")

    monkeypatch.setattr("slashtag._sending.fast_path.read_head", broken)
    async with Wire(ok(TAG)) as wire, connect(wire, retry=ONCE) as session:
        with pytest.raises(OutcomeUnknownError):
            await post(session)
        await post(session)
        assert len(wire.requests) == 2
    assert seen == ["POST"]


async def test_after_some_minutes_one_get_shows_whether_aiohttp_can_be_used_again(
    monkeypatch: pytest.MonkeyPatch, seen: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    now, broken = [0.0], True
    take = http1.FastPath._take

    def taken(self: http1.FastPath, *args: Any) -> Any:
        if broken:
            raise AttributeError("is_connected")
        return take(self, *args)

    monkeypatch.setattr("slashtag._sending.health.monotonic", lambda: now[0])
    monkeypatch.setattr(http1.FastPath, "_take", taken)
    async with (
        Wire(lambda request: ok(PAGE if request.method == "GET" else TAG)) as wire,
        connect(wire, retry=ONCE) as session,
    ):
        await get(session)
        now[0] += KEPT
        # A write shows nothing: its answer might be lost.
        await post(session)
        await asyncio.gather(get(session), get(session))
        assert len(caplog.records) == 2
        broken = False
        now[0] += KEPT - 1
        await get(session)
        assert seen == ["GET", "POST", "GET", "GET", "GET"]
        assert "(by ClientSession.request)" in repr(session)
        now[0] += 1
        await get(session)
        await post(session)
        assert len(seen) == 5
        assert "(by connections of aiohttp)" in repr(session)


async def test_who_begins_to_watch_sees_the_requests_from_then_on(
    monkeypatch: pytest.MonkeyPatch, seen: list[str]
) -> None:
    async with Wire(ok(PAGE)) as wire, connect(wire) as session:
        await get(session)
        assert seen == []
        stand_in(monkeypatch)
        await get(session)
        assert seen == ["GET"]


async def recorded() -> None: ...


def wrapped() -> None: ...


wrapped.__module__ = "aiohttp.client"
wrapped.__wrapped__ = recorded  # type: ignore[attr-defined]


@pytest.mark.parametrize("function", [recorded, wrapped, None, "no function"])
def test_what_stood_in_before_the_import_is_recognised(function: object) -> None:
    assert http1._original(function) is None
    assert http1._original(aiohttp.ClientSession._request) is aiohttp.ClientSession._request


# --- what is sent --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
async def test_both_ways_send_the_same() -> None:
    async with Wire([ok(PAGE), ok(ROWS)]) as wire, connect(wire) as session:
        await session.urls.page()
        await session.urls.update("ü /,", destination="https://elsewhere.example/ü")
    question, change = wire.requests
    common = {
        "host": wire.base_url.removeprefix("http://"),
        "apikey": APIKEY,
        "apisecret": "wiresecret_0123",
        "accept": "application/json",
        "accept-encoding": question.headers["accept-encoding"],
        "user-agent": f"slashtag/{slashtag.__version__}",
    }
    assert "gzip" in question.headers["accept-encoding"]
    assert question.headers == common
    body = '{"destination":"https://elsewhere.example/ü"}'.encode()
    assert change.headers == common | {"content-type": "application/json", "content-length": str(len(body))}
    assert (change.target, change.body) == ("/api/v1/urls/%C3%BC%20%2F%2C", body)


async def test_another_protocol_is_no_answer() -> None:
    switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n"
    async with Wire([wires.raw(switching, keep_alive=True), ok(PAGE)]) as wire:
        async with connect(wire, retry=ONCE) as session:
            with pytest.raises(UnexpectedResponseError) as told:
                await get(session)
            assert told.value.status == 101
            await get(session)
        assert [request.connection for request in wire.requests] == [1, 2]


@pytest.mark.usefixtures("way")
async def test_what_bears_a_body_or_could_says_how_long_it_is() -> None:
    async with Wire(ok({})) as wire, connect(wire) as session:
        await session._sender.send(Call(method="POST", path="tags", returns=dict))
        await session._sender.send(Call(method="GET", path="tags", returns=dict, body=b"{}"))
    assert [request.headers["content-length"] for request in wire.requests] == ["0", "2"]
    assert [request.body for request in wire.requests] == [b"", b"{}"]


# --- connections at rest -------------------------------------------------------------------------------


class Clock:
    """Stand in for the loop of a path: time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def is_closed(self) -> bool:
        return False


async def with_clock(session: AsyncSession) -> tuple[http1.FastPath, Clock]:
    """Give the session a path, all of whose connections are closed, and the clock of it."""
    await get(session)
    path, clock = fast_path_of(session), Clock()
    path._loop = clock  # type: ignore[assignment]
    while path._idle:
        path._idle.pop().connection.close()
    return path, clock


async def test_connections_that_nobody_needs_are_closed_and_the_last_used_stays() -> None:
    async with Wire(ok(PAGE)) as wire, connect(wire, concurrency=3) as session:
        path, clock = await with_clock(session)
        await until(lambda: wire.open_connections == 0)
        await asyncio.gather(*(get(session) for _ in range(3)))
        assert wire.open_connections == 3
        for _ in range(3):
            clock.now += KEEP_ALIVE / 3
            await get(session)
        await until(lambda: wire.open_connections == 1)
        assert len(path._idle) == 1
        assert wire.connections == 4
        assert session.metrics.retries == 0


async def test_a_connection_that_rested_too_long_is_not_used() -> None:
    async with Wire(ok(PAGE)) as wire, connect(wire) as session:
        _, clock = await with_clock(session)
        await get(session)
        clock.now += KEEP_ALIVE + 1
        await get(session)
        assert [request.connection for request in wire.requests] == [1, 2, 3]


async def test_an_answer_to_no_question_at_rest_is_not_taken_for_the_next_ones() -> None:
    go_on = asyncio.Event()

    async def play(connection: Connection) -> None:
        await connection.send(message(200, PAGE_BYTES))
        await go_on.wait()
        await connection.send(message(408, b""))
        await connection.peer_gone()

    async with Wire([wires.Answer(play), ok(PAGE)]) as wire, connect(wire, retry=ONCE) as session:
        await get(session)
        [pooled] = fast_path_of(session)._idle
        go_on.set()
        await until(lambda: pooled.protocol.should_close)
        await get(session)
        assert [request.connection for request in wire.requests] == [1, 2]


async def test_a_new_connection_that_is_closed_at_once_has_sent_nothing() -> None:
    async with Wire(ok(ROWS)) as wire, connect(wire) as session:
        await put(session)
        path = fast_path_of(session)
        path._idle.pop().connection.close()
        opened = path._connector.connect

        async def closed_at_once(*args: Any) -> Any:
            path._connector.connect = opened  # type: ignore[method-assign]
            connection = await opened(*args)
            assert connection.transport is not None
            connection.transport.close()
            return connection

        path._connector.connect = closed_at_once  # type: ignore[method-assign]
        with pytest.raises(TransportError, match="closed before the request was sent") as told:
            await put(session.with_options(retry=ONCE))
        assert told.value.unsent
        await put(session)
        assert len(wire.requests) == 2


async def test_an_answer_that_is_not_read_to_its_end_gives_no_connection_back() -> None:
    """Whole at the parser is not yet read: aiohttp may have paused the connection for it."""
    large = message(200, wires.body_of(200, "ok", {**PAGE, "more": "k" * 2**20}))
    async with Wire(wires.raw(large, keep_alive=True)) as wire, connect(wire) as session:
        await get(session)
        for _ in range(20):
            with pytest.raises(UnexpectedResponseError, match="larger than"):
                await get(session.with_options(max_response_bytes=1))
            assert fast_path_of(session)._idle == []
            await get(session)
        assert session.metrics.retries == 0


# --- TLS -----------------------------------------------------------------------------------------------


CERTIFICATE, AUTHORITY = (Path(__file__).with_name(f"localhost{name}.pem") for name in ("", "_ca"))


class Secure(Wire):
    """A wire behind TLS, for the name localhost: a certificate of an authority that nobody trusts."""

    async def __aenter__(self) -> Secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.base_url = f"https://localhost:{self._server.sockets[0].getsockname()[1]}"
        return self


async def test_tls_is_verified_before_anything_is_sent() -> None:
    async with Secure(ok(PAGE)) as wire, connect(wire, retry=ONCE) as session:
        with pytest.raises(TransportError, match="certificate") as told:
            await put(session)
        assert told.value.unsent
        assert wire.requests == []


def trusting() -> ssl.SSLContext:
    """A context that trusts the authority of the certificate."""
    return ssl.create_default_context(cafile=AUTHORITY)


def pinning() -> aiohttp.Fingerprint:
    return aiohttp.Fingerprint(b"\0" * 32)


@pytest.mark.parametrize(
    "way", ["connections", "ClientSession", "own session", "another host", "pinned", "proxy"]
)
async def test_a_certificate_that_is_not_valid_is_not_tried_again(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "ClientSession":
        monkeypatch.setenv("SLASHTAG_FAST_PATH", "0")
    async with Secure(ok(PAGE)) as wire, AsyncExitStack() as stack:
        http = None
        if way in ("own session", "another host", "pinned"):
            # Of an authority that is trusted, but for another name; or with another fingerprint.
            checks: Any = {"own session": True, "another host": trusting(), "pinned": pinning()}[way]
            connector = aiohttp.TCPConnector(ssl=checks)
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        if way in ("another host", "pinned"):
            # localhost may have a second address, and aiohttp tells the error of the last one only.
            wire.base_url = wire.base_url.replace("localhost", "127.0.0.1")
        base_url = wire.base_url
        if way == "proxy":
            # Plain HTTP through a proxy whose certificate is not valid.
            http = await stack.enter_async_context(aiohttp.ClientSession(proxy=wire.base_url))
            base_url = "http://127.0.0.1:9/"
        session = await stack.enter_async_context(connect(base_url, http=http))
        for call in (get, put):
            with pytest.raises(TransportError) as told:
                await call(session)
            assert (told.value.unsent, told.value.repeatable, told.value.attempts) == (True, False, 1)
        assert (session.metrics.attempts, wire.requests) == (2, [])


@pytest.mark.parametrize("way", ["reset", "no TLS"])
async def test_another_failure_of_tls_is_tried_again(way: str) -> None:
    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        if way == "no TLS":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    accepted = 0
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    base_url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    twice = RetryPolicy(max_attempts=2, backoff_base=0.001)
    async with server, AsyncSession(base_url, apikey="k" * 20, apisecret="s" * 12, retry=twice) as session:
        with pytest.raises(TransportError) as told:
            await get(session)
    assert (told.value.repeatable, told.value.attempts, accepted) == (True, 2, 2)
