"""Connections are reused only while they are good, on both ways of sending, and a write knows if it left."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from benchmarks.chaos import rounds

from slashtag import OutcomeUnknownError, RequestTimeoutError, RetryPolicy, SessionClosedError

from ..support import wire as wires
from ..support.sending import OPERATIONS, PAGE, TAG, connect, get, post, put, until
from ..support.wire import Answer, Connection, Wire, message, ok

ONCE = RetryPolicy(max_attempts=1)
PAGE_BYTES = wires.body_of(200, "ok", PAGE)
pytestmark = pytest.mark.usefixtures("way")


# --- what was unread while the caller held up the loop -------------------------------------------------


class Closing:
    """A server in a thread: it answers each request and then ends the connection, when a test says so.

    A thread, as the event loop of the test must not see the end before the next request is sent.
    """

    def __init__(self, behind: bytes, data: object) -> None:
        self.behind = behind
        self.data = data
        self.requests = 0
        self.go_on = threading.Event()
        self.gone = threading.Event()
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
        assert select.select(clients, [], [], 5)[0]

    def close(self) -> None:
        self.go_on.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


@contextmanager
def closing(behind: bytes, data: object) -> Iterator[Closing]:
    server = Closing(behind, data)
    try:
        yield server
    finally:
        server.close()


@pytest.mark.unmeasured
@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize("behind", [b"", message(408, b"")], ids=["FIN", "408"])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_what_ended_a_connection_while_the_loop_was_held_up_is_seen_before_the_next_request(
    name: str, behind: bytes, given: bool
) -> None:
    operation, data = OPERATIONS[name]
    with closing(behind, data) as server:
        async with (
            aiohttp.ClientSession() as http,
            connect(server, retry=ONCE, http=http if given else None) as session,
        ):
            for _ in range(5):
                await operation(session)
                server.end_connection()
            assert session.metrics.attempts == server.requests == 5
            assert session.metrics.retries == 0


async def test_the_end_of_a_connection_is_seen_where_select_has_no_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows."""
    monkeypatch.delattr(select, "poll")
    operation, data = OPERATIONS["GET"]
    with closing(b"", data) as server:
        async with connect(server, retry=ONCE) as session:
            for _ in range(3):
                await operation(session)
                server.end_connection()
            assert session.metrics.attempts == server.requests == 3


@pytest.mark.parametrize(
    "behind",
    [message(408, b""), b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", b"HTTP/1.1 200 OK\r\nX: ", b"HT"],
)
async def test_bytes_behind_an_answer_end_the_connection(behind: bytes) -> None:
    """Otherwise what follows them could be taken for the answer to the next request."""

    async def play(connection: Connection) -> None:
        await connection.send(message(200, PAGE_BYTES) + behind)
        await connection.peer_gone()

    async with Wire([Answer(play), ok(PAGE)]) as wire, connect(wire, retry=ONCE) as session:
        await get(session)
        await get(session)
        assert [request.connection for request in wire.requests] == [1, 2]


@pytest.mark.parametrize("code", [100, 102, 103, 199])
async def test_interim_answers_are_skipped(code: int) -> None:
    interim = b"HTTP/1.1 %d Odd\r\n\r\n" % code
    enough = wires.raw(interim * 3 + message(200, PAGE_BYTES), keep_alive=True)
    endless = wires.raw(interim * 10_000, keep_alive=True)
    async with Wire([enough, enough, endless]) as wire, connect(wire, retry=ONCE) as session:
        await get(session)
        await get(session)
        with pytest.raises(RequestTimeoutError):
            await get(session.with_options(timeout=0.05))
        assert wire.connections == 1


# --- a reused connection that is lost as the request is written ----------------------------------------


@pytest.mark.parametrize("name", ["PUT", "rename", "POST"])
async def test_a_write_that_lost_a_reused_connection_is_unknown(name: str) -> None:
    operation, data = OPERATIONS[name]
    async with Wire(ok(data), answers_per_connection=1) as wire, connect(wire, retry=ONCE) as session:
        await operation(session)
        with pytest.raises(OutcomeUnknownError):
            await operation(session)
        assert len(wire.requests) == 2


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


@pytest.mark.unmeasured
@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize("hangs", [deaf, silent])
async def test_a_connection_that_hangs_before_anything_is_written_is_no_unknown_outcome(
    hangs: Callable[[], Any], given: bool
) -> None:
    with hangs() as url:
        async with (
            aiohttp.ClientSession() as http,
            connect(
                url, timeout=0.05, retry=RetryPolicy(max_attempts=2), http=http if given else None
            ) as session,
        ):
            calls = [operation(session) for operation, _ in OPERATIONS.values()]
            for told in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(told, RequestTimeoutError)
                assert "no connection within 0.05 s" in str(told)
                assert told.unsent
                assert told.attempts == 2  # nothing was sent, so everything may be repeated


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize("hangs", [deaf, silent])
async def test_a_session_that_is_closed_while_it_connects_has_sent_nothing(
    hangs: Callable[[], Any], given: bool
) -> None:
    with hangs() as url:
        async with aiohttp.ClientSession() as http:
            session = connect(url, timeout=60, http=http if given else None)
            calls = [asyncio.create_task(operation(session)) for operation, _ in OPERATIONS.values()]
            await until(lambda: session.metrics.in_flight == len(calls))
            await asyncio.sleep(0.01)
            async with asyncio.timeout(5):
                await session.aclose()
                errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in errors] == [SessionClosedError] * len(calls)


async def test_a_write_that_waits_for_a_given_pool_has_not_left() -> None:
    async with (
        Wire(wires.stall()) as wire,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=2)) as http,
        connect(wire, http=http, timeout=0.1, retry=ONCE) as session,
    ):
        holders = [asyncio.create_task(http.get(wire.base_url)) for _ in range(2)]
        await wire.arrived(2)
        with pytest.raises(RequestTimeoutError) as told:
            await post(session)
        assert told.value.unsent
        for holder in holders:
            holder.cancel()
        await asyncio.wait(holders)
        assert len(wire.requests) == 2


@pytest.mark.parametrize("close", [False, True])
async def test_a_middleware_that_sends_twice_has_sent(close: bool) -> None:
    """The first request left, though the second finds no connection."""

    async def again(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        await handler(request)
        if close:
            await http.close()
            return await handler(request)
        raise aiohttp.ClientConnectorError(request.connection_key, OSError(111, "Connection refused"))

    async with (
        Wire(ok(TAG)) as wire,
        aiohttp.ClientSession(middlewares=[again]) as http,
        connect(wire, http=http, retry=ONCE) as session,
    ):
        with pytest.raises(OutcomeUnknownError):
            await post(session)
        assert len(wire.requests) == 1


async def test_with_another_aiohttp_nothing_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows whether a write left, it may have been done; connections are reused unseen."""
    monkeypatch.setattr("slashtag._sending.fast_path.TESTED", False)
    monkeypatch.setattr("slashtag._sending.client_session_path.TESTED", False)
    async with Wire(ok(PAGE)) as wire, connect(wire) as session:
        await get(session)
        await get(session)
        assert wire.connections == 1
    with deaf() as url:
        async with connect(url, timeout=0.05, retry=ONCE) as session:
            with pytest.raises(OutcomeUnknownError):
                await put(session)


# --- everything at once --------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(2))
async def test_no_answer_reaches_another_caller_and_no_write_is_done_twice(seed: int) -> None:
    outcome = await rounds(400, seed)
    assert outcome.wrong == outcome.doubled == outcome.left_open == []
    assert outcome.answered > 100
    assert outcome.unknown
