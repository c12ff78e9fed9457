"""Reads share connections; each write has a new one, and so knows whether it left; TLS comes first."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slashtag import (
    OutcomeUnknownError,
    RequestTimeoutError,
    RetryPolicy,
    SessionClosedError,
    TransportError,
    UnexpectedResponseError,
)

from ..support import wire as wires
from ..support.sending import OPERATIONS, PAGE, connect, get, put, until
from ..support.wire import Wire, html, message, ok

ONCE = RetryPolicy(max_attempts=1)
TWICE = RetryPolicy(max_attempts=2, backoff_base=0.001)
WRITES = [name for name in OPERATIONS if name != "GET"]
CERTIFICATE, AUTHORITY = (Path(__file__).with_name(f"localhost{name}.pem") for name in ("", "_ca"))


# --- which connection ----------------------------------------------------------------------------------


async def test_reads_share_a_connection_and_each_write_and_retry_has_a_new_one() -> None:
    async with Wire([ok(PAGE), ok(PAGE), html(500), ok(PAGE), ok(PAGE)]) as wire, connect(wire) as session:
        for _ in range(4):
            await get(session)
        assert [request.connection for request in wire.requests] == [1, 1, 1, 2, 1]
    for name in WRITES:
        operation, data = OPERATIONS[name]
        async with Wire([ok(PAGE), *[ok(data)] * 3]) as wire, connect(wire) as session:
            await get(session)
            for _ in range(3):
                await operation(session)
            assert [request.connection for request in wire.requests] == [1, 2, 3, 4]
            await until(lambda wire=wire: wire.open_connections == 1)


class Closing:
    """A server in a thread: it answers each request and then ends the connection, when a test says so.

    A thread, as the event loop of the test must not see the end before the next request is sent.
    """

    def __init__(self, behind: bytes, data: object) -> None:
        self.behind, self.data = behind, data
        self.requests = 0
        self.go_on, self.gone = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                if not connection.recv(65536):
                    continue
                self.requests += 1
                connection.sendall(message(200, wires.body_of(200, "ok", self.data)))
                self.go_on.wait(5)
                self.go_on.clear()
                if self.behind:
                    connection.sendall(self.behind)
            self.gone.set()

    def end_connection(self) -> None:
        """End the connection while the loop is held up."""
        self.gone.clear()
        self.go_on.set()
        assert self.gone.wait(5)
        # Closed is not yet arrived: on a busy machine the system delivers it later.
        loop: Any = asyncio.get_running_loop()
        clients = loop._selector.get_map().keys() - {loop._ssock.fileno()}
        assert not clients or select.select(clients, [], [], 5)[0]

    def __enter__(self) -> Closing:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


@pytest.mark.parametrize("behind", [b"", message(408, b"")], ids=["FIN", "408"])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_what_ended_a_connection_while_the_loop_was_held_up_costs_no_answer(
    name: str, behind: bytes
) -> None:
    operation, data = OPERATIONS[name]
    with Closing(behind, data) as server:
        async with connect(server) as session:
            for _ in range(5):
                await operation(session)
                server.end_connection()
            assert server.requests == 5
            assert name == "GET" or session.metrics.attempts == 5


async def test_an_answer_that_is_not_read_to_its_end_gives_no_connection_back() -> None:
    large = message(200, wires.body_of(200, "ok", {**PAGE, "more": "k" * 2**20}))
    async with Wire(wires.raw(large, keep_alive=True)) as wire, connect(wire) as session:
        await get(session)
        for _ in range(5):
            with pytest.raises(UnexpectedResponseError, match="larger than"):
                await get(session.with_options(max_response_bytes=1))
            await get(session)
        assert session.metrics.retries == 0
        assert wire.open_connections == 1


@pytest.mark.parametrize("code", [100, 102, 103, 199])
async def test_interim_answers_are_skipped(code: int) -> None:
    interim = b"HTTP/1.1 %d Odd\r\n\r\n" % code
    enough = wires.raw(interim * 3 + message(200, wires.body_of(200, "ok", PAGE)), keep_alive=True)
    endless = wires.raw(interim * 10_000, keep_alive=True)
    async with Wire([enough, enough, endless]) as wire, connect(wire, retry=ONCE) as session:
        await get(session)
        await get(session)
        with pytest.raises(RequestTimeoutError):
            await get(session.with_options(timeout=0.05))
        assert wire.connections == 1


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


@pytest.mark.parametrize("hangs", [deaf, silent])
async def test_a_connection_that_hangs_before_anything_is_written_is_no_unknown_outcome(
    hangs: Callable[[], Any],
) -> None:
    with hangs() as url:
        async with connect(url, timeout=0.05, retry=TWICE) as session:
            calls = [operation(session) for operation, _ in OPERATIONS.values()]
            for told in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(told, RequestTimeoutError)
                assert told.unsent or told.method == "GET"
                assert told.attempts == 2  # nothing was sent, so everything may be repeated


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize("hangs", [deaf, silent])
async def test_a_session_that_is_closed_while_it_connects_ends_at_once(
    hangs: Callable[[], Any], given: bool
) -> None:
    with hangs() as url:
        async with aiohttp.ClientSession() as http:
            session = connect(url, timeout=60, http=http if given else None)
            calls = {
                name: asyncio.create_task(operation(session)) for name, (operation, _) in OPERATIONS.items()
            }
            await until(lambda: session.metrics.in_flight == len(calls))
            await asyncio.sleep(0.01)
            async with asyncio.timeout(5):
                await session.aclose()
                await asyncio.wait(calls.values())
    for name, call in calls.items():
        # Whether a write left over a session of the user is not known.
        is_unknown = given and name != "GET"
        assert type(call.exception()) is (OutcomeUnknownError if is_unknown else SessionClosedError)


# --- TLS -----------------------------------------------------------------------------------------------


class Secure(Wire):
    """A wire behind TLS, for the name localhost: a certificate of an authority that nobody trusts."""

    async def __aenter__(self) -> Secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.base_url = f"https://localhost:{self._server.sockets[0].getsockname()[1]}"
        return self


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
    async with Secure(ok(PAGE)) as wire, AsyncExitStack() as stack:
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


@pytest.mark.parametrize("way", ["reset", "no TLS"])
async def test_another_failure_of_tls_is_tried_again(way: str) -> None:
    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if way == "no TLS":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, connect(url, retry=TWICE) as session:
        for operation in (get, put):
            with pytest.raises(TransportError) as told:
                await operation(session)
            assert (told.value.repeatable, told.value.unsent, told.value.attempts) == (True, True, 2)
