"""Reads share connections; each write has a new one, and so knows whether it left; TLS comes first."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from slashtag import OutcomeUnknownError, RequestTimeoutError, RetryPolicy, SessionClosedError, TransportError

from ..support.processes import python
from ..support.sending import APIKEY, APISECRET, OPERATIONS, PAGE, connect, get, put, until
from ..support.wire import Answer, Connection, Wire, html, ok

TWICE = RetryPolicy(max_attempts=2, backoff_base=0.001)
CERTIFICATE, AUTHORITY = (Path(__file__).with_name(f"localhost{name}.pem") for name in ("", "_ca"))


async def test_reads_share_a_connection_and_each_write_and_retry_has_a_new_one() -> None:
    async with Wire([ok(PAGE), ok(PAGE), html(500), ok(PAGE), ok(PAGE)]) as wire, connect(wire) as session:
        for _ in range(4):
            await get(session)
        assert [request.connection for request in wire.requests] == [1, 1, 1, 2, 1]
        # A retry also goes past caches.
        caches = [request.headers.get("cache-control") for request in wire.requests]
        assert caches == [None, None, None, "no-cache", None]
    for name in OPERATIONS.keys() - {"GET"}:
        operation, data = OPERATIONS[name]
        async with Wire([ok(PAGE), *[ok(data)] * 3]) as wire, connect(wire) as session:
            await get(session)
            for _ in range(3):
                await operation(session)
            assert [request.connection for request in wire.requests] == [1, 2, 3, 4]
            await until(lambda wire=wire: wire.open_connections == 1)


# --- whether a write left ------------------------------------------------------------------------------


@contextmanager
def deaf() -> Iterator[str]:
    """A port where connecting hangs: its backlog is full."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[str]:
    """A port where the TLS handshake hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def refusing() -> Iterator[str]:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("fails", [deaf, silent, refusing])
async def test_what_fails_before_anything_is_written_is_tried_again_and_no_unknown_outcome(
    fails: Callable[[], Any],
) -> None:
    with fails() as url:
        async with connect(url, timeout=0.05, retry=TWICE) as session:
            calls = [operation(session) for operation, _ in OPERATIONS.values()]
            for told in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(told, TransportError if fails is refusing else RequestTimeoutError)
                assert told.unsent or told.method == "GET"
                assert told.attempts == 2


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
async def test_a_session_that_is_closed_while_it_connects_ends_at_once(given: bool) -> None:
    with deaf() as url:
        async with aiohttp.ClientSession() as http:
            session = connect(url, http=http if given else None)
            calls = {
                name: asyncio.create_task(operation(session)) for name, (operation, _) in OPERATIONS.items()
            }
            await until(lambda: session.metrics.in_flight == len(calls))
            await asyncio.sleep(0.01)
            async with asyncio.timeout(60):
                await session.aclose()
                await asyncio.wait(calls.values())
    for name, call in calls.items():
        # Whether a write left over a session of the user is not known.
        is_unknown = given and name != "GET"
        assert type(call.exception()) is (OutcomeUnknownError if is_unknown else SessionClosedError)


# --- TLS -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["own session", "given session", "another host", "pinned", "proxy"])
async def test_a_certificate_that_is_not_valid_is_told_before_anything_is_sent_and_not_tried_again(
    way: str,
) -> None:
    checks: dict[str, Any] = {
        "given session": True,
        # Of an authority that is trusted, but for another name; or with another fingerprint.
        "another host": ssl.create_default_context(cafile=AUTHORITY),
        "pinned": aiohttp.Fingerprint(b"\0" * 32),
    }
    # For the name localhost, of an authority that nobody trusts.
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    async with Wire(ok(PAGE), tls) as wire, AsyncExitStack() as stack:
        base_url, options = wire.base_url, dict[str, Any]()
        if way in ("another host", "pinned"):
            # localhost may have a second address, and aiohttp tells the error of the last one only.
            base_url = base_url.replace("localhost", "127.0.0.1")
        if way in checks:
            connector = aiohttp.TCPConnector(ssl=checks[way])
            options["http"] = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        if way == "proxy":
            # Plain HTTP through a proxy whose certificate is not valid.
            base_url, options = "http://127.0.0.1:9/", {"proxy": wire.base_url, "allow_http": True}
        session = await stack.enter_async_context(connect(base_url, **options))
        for call in (get, put):
            with pytest.raises(TransportError) as told:
                await call(session)
            assert (told.value.unsent, told.value.repeatable, told.value.attempts) == (True, False, 1)
        assert (session.metrics.attempts, wire.requests) == (2, [])


async def test_a_tunnel_shows_the_login_to_the_proxy_alone_and_the_credentials_to_the_service_alone() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def play(connection: Connection) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(service.base_url).port)
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pass_on(connection.reader, writer), pass_on(reader, connection.writer))

    async with Wire(ok(PAGE), tls) as service, Wire(Answer(play)) as proxy:
        environment = {
            **os.environ,
            # aiohttp reads which authorities are trusted once in a process.
            "SSL_CERT_FILE": str(AUTHORITY),
            "SLASHTAG_BASE_URL": service.base_url,
            "SLASHTAG_PROXY": proxy.base_url.replace("//", "//name:word@"),
            "SLASHTAG_APIKEY": APIKEY,
            "SLASHTAG_APISECRET": APISECRET,
        }
        ran = await asyncio.to_thread(python, "-m", "slashtag", "tags", "list", env=environment)
    assert ran.returncode == 0, ran.stderr
    (asked,), (request,) = proxy.requests, service.requests
    assert "proxy-authorization" in asked.headers
    assert "apikey" not in asked.headers
    assert "proxy-authorization" not in request.headers
    assert request.headers["apisecret"] == APISECRET


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["hang-up", "no TLS"])
async def test_another_failure_of_tls_is_tried_again(answer: bytes) -> None:
    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, connect(url, retry=TWICE) as session:
        for operation in (get, put):
            with pytest.raises(TransportError) as told:
                await operation(session)
            assert (told.value.repeatable, told.value.unsent, told.value.attempts) == (True, True, 2)
