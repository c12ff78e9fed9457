"""Each answer of the wire is what it says, byte for byte, and the wire leaves nothing behind."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from . import wire as wires
from .wire import Answer, Request, Wire, envelope, ok

REQUEST = b"GET /api/v1/urls?page=2&x= HTTP/1.1\r\nHost: wire\r\nApiKey: k\r\n\r\n"


async def dial(wire: Wire) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(wire.base_url.rpartition(":")[2]))


async def exchange(wire: Wire, request: bytes = REQUEST) -> bytes:
    """All bytes that come back until the server closes."""
    reader, writer = await dial(wire)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


async def answered(answer: Answer) -> tuple[bytes, bytes]:
    """The head and the body of an answer that ends its connection."""
    async with Wire(wires.closing(answer)) as wire:
        head, _, body = (await exchange(wire)).partition(b"\r\n\r\n")
    return head, body


async def fetched(wire: Wire) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(wire.base_url, allow_redirects=False) as response,
    ):
        return response.status, await response.read()


async def test_a_request_is_recorded_as_it_arrived() -> None:
    async with Wire(ok(), answers_per_connection=2) as wire:
        reader, writer = await dial(wire)
        writer.write(REQUEST + b"PUT /%2F HTTP/1.1\r\nContent-Length: 8\r\n\r\n" + b'{"a": 1}')
        await wire.arrived(2)
        writer.close()
        await wire.abandoned()
        await reader.read()
    first, second = wire.requests
    assert (first.method, first.target, first.path) == ("GET", "/api/v1/urls?page=2&x=", "/api/v1/urls")
    assert first.query == {"page": ["2"], "x": [""]}
    assert (first.headers["apikey"], first.body) == ("k", b"")
    assert (second.method, second.path, second.json()) == ("PUT", "/%2F", {"a": 1})
    assert wire.connections == first.connection == second.connection == 1
    assert first.at <= second.at


async def test_a_list_is_answered_in_order_and_a_request_past_its_end_fails() -> None:
    wire = Wire([ok(1, keep_alive=False), envelope(404, "no", keep_alive=False)])
    await wire.__aenter__()
    assert b'"data": 1' in await exchange(wire)
    assert b"HTTP/1.1 404 Not Found" in await exchange(wire)
    assert await exchange(wire) == b""
    with pytest.raises(AssertionError, match="past the end of the script: GET /"):
        await wire.__aexit__(None)


async def test_a_function_answers_by_the_request() -> None:
    def script(request: Request) -> Answer | Awaitable[Answer]:
        return later() if request.query["page"] == ["3"] else ok(request.query["page"])

    async def later() -> Answer:
        return ok("later")

    async with Wire(script) as wire, aiohttp.ClientSession() as session:
        for page, data in (("2", ["2"]), ("3", "later")):
            async with session.get(wire.base_url, params={"page": page}) as response:
                assert (await response.json())["data"] == data
    assert wire.connections == 1


async def test_an_error_in_a_script_surfaces_as_the_wire_closes() -> None:
    def script(request: Request) -> Answer:
        raise KeyError(request.method)

    with pytest.raises(KeyError, match="GET"):
        async with Wire(script) as wire:
            assert await exchange(wire) == b""


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (ok({"a": 1}), 200, {"status": 200, "message": "ok", "data": {"a": 1}}),
        (envelope(429, "slow"), 429, {"status": 429, "message": "slow"}),
        (envelope(400, "bad", None, http_status=200), 200, {"status": 400, "message": "bad", "data": None}),
        (wires.no_length(b"[1]"), 200, [1]),
        (wires.delayed(0.01, ok()), 200, {"status": 200, "message": "ok", "data": None}),
    ],
)
async def test_a_well_formed_answer_is_read_by_a_client(answer: Answer, status: int, body: object) -> None:
    async with Wire(answer) as wire:
        got, content = await fetched(wire)
    assert (got, json.loads(content)) == (status, body)


async def test_html_bears_its_retry_after() -> None:
    head, body = await answered(wires.html(503, retry_after=7))
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: ")
    assert b"\r\nContent-Type: text/html; charset=utf-8\r\nRetry-After: 7" in head
    assert body.startswith(b"<html>")


async def test_a_redirect_points_where_it_is_told() -> None:
    head, body = await answered(wires.redirect("http://elsewhere/", 307))
    assert head.startswith(b"HTTP/1.1 307 ")
    assert b"\r\nLocation: http://elsewhere/" in head
    assert body == b""


async def test_a_truncated_body_is_shorter_than_announced() -> None:
    head, body = await answered(wires.truncated(b"{", announce=77))
    assert b"\r\nContent-Length: 77" in head
    assert body == b"{"


async def test_bad_utf8_does_not_decode() -> None:
    _, body = await answered(wires.bad_utf8())
    with pytest.raises(UnicodeDecodeError):
        body.decode()


async def test_deep_nesting_recurses_too_deep_for_a_decoder() -> None:
    _, body = await answered(wires.deep_nesting())
    with pytest.raises(RecursionError):
        json.loads(body)


@pytest.mark.parametrize("size", [10_000, 1_048_576 + 45, 200 * 2**20])
async def test_a_gzip_bomb_is_small_and_inflates_to_a_valid_envelope_of_the_size(size: int) -> None:
    head, body = await answered(wires.gzip_bomb(size))
    assert b"\r\nContent-Encoding: gzip" in head
    assert len(body) < max(size / 900, 1_000)
    inflated = gzip.decompress(body)
    assert len(inflated) == size
    assert json.loads(inflated.replace(b" " * 4096, b"")) == {"status": 200, "message": "ok", "data": None}


async def test_a_gzip_bomb_is_built_once_and_fast() -> None:
    started = time.perf_counter()
    for _ in range(100):
        wires.gzip_bomb()
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("kind", wires.BAD_FRAMINGS)
async def test_bad_framing_is_refused_by_a_client(kind: str) -> None:
    async with Wire(wires.bad_framing(kind)) as wire:
        with pytest.raises(aiohttp.ClientError):
            await fetched(wire)


@pytest.mark.parametrize("before_request", [False, True])
async def test_a_reset_is_a_reset(before_request: bool) -> None:
    async with Wire(wires.reset(before_request=before_request)) as wire:
        with pytest.raises(ConnectionResetError):
            await exchange(wire)
    assert len(wire.requests) == (0 if before_request else 1)


@pytest.mark.parametrize("before_request", [False, True])
async def test_a_hang_up_is_a_clean_end(before_request: bool) -> None:
    async with Wire(wires.hang_up(before_request=before_request)) as wire:
        assert await exchange(wire, b"" if before_request else REQUEST) == b""
    assert len(wire.requests) == (0 if before_request else 1)


async def test_an_answer_on_accept_takes_its_turn_in_a_list() -> None:
    async with Wire(
        [ok(1, keep_alive=False), wires.hang_up(before_request=True), ok(2, keep_alive=False)]
    ) as wire:
        assert b'"data": 1' in await exchange(wire)
        assert await exchange(wire, b"") == b""
        assert b'"data": 2' in await exchange(wire)


async def test_a_slow_loris_drips() -> None:
    async with Wire(wires.slow_loris(0.001)) as wire:
        reader, writer = await dial(wire)
        writer.write(REQUEST)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert [await reader.readexactly(1) for _ in range(5)] == [b"{", b" ", b" ", b" ", b" "]
        writer.close()
        await wire.abandoned()


@pytest.mark.parametrize("headers_sent", [False, True])
async def test_a_stall_lasts_until_the_client_gives_up(headers_sent: bool) -> None:
    async with Wire(wires.stall(headers_sent=headers_sent)) as wire:
        reader, writer = await dial(wire)
        writer.write(REQUEST)
        if headers_sent:
            assert (await reader.readuntil(b"mess")).startswith(b"HTTP/1.1 200 OK\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        assert wire.open_connections == 1
        writer.close()
        await wire.abandoned()


async def test_a_kept_connection_is_dropped_unanswered_after_its_answers() -> None:
    async with Wire(ok(), answers_per_connection=2) as wire, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(wire.base_url) as response:
                await response.read()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.post(wire.base_url)
        assert (len(wire.requests), wire.connections) == (3, 1)


async def test_keep_alive_is_as_said() -> None:
    head, _ = await answered(ok())
    assert b"Connection" not in head
    head, _ = await answered(ok(keep_alive=False))
    assert b"\r\nConnection: close" in head


async def test_connections_and_requests_are_counted_under_load() -> None:
    async with Wire(ok()) as wire, aiohttp.ClientSession() as session:

        async def get() -> int:
            async with session.get(wire.base_url) as response:
                await response.read()
                return response.status

        assert set(await asyncio.gather(*(get() for _ in range(300)))) == {200}
        assert len(wire.requests) == 300
        assert wire.connections == wire.open_connections <= 100


def silent(wire: Wire) -> Awaitable[bytes]:
    return exchange(wire, b"")


def half(wire: Wire) -> Awaitable[bytes]:
    return exchange(wire, REQUEST[:20])


async def deaf(wire: Wire) -> bytes:
    """Ask and do not read, so that the answer cannot be sent."""
    _, writer = await dial(wire)
    writer.write(REQUEST)
    try:
        await writer.drain()
        await wire.arrived(1)
        await asyncio.sleep(0.01)
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("client", [exchange, silent, half, deaf])
@pytest.mark.parametrize(
    "answer",
    [ok(), wires.stall(), wires.slow_loris(0.001), wires.delayed(60, ok()), ok("x" * 10**7), wires.reset()],
    ids=["ok", "stall", "slow loris", "delayed", "large", "reset"],
)
async def test_a_wire_closes_under_its_clients(
    answer: Answer, client: Callable[[Wire], Awaitable[bytes]], debug: bool
) -> None:
    asyncio.get_running_loop().set_debug(debug)
    async with Wire(answer) as wire:
        clients = [asyncio.ensure_future(client(wire)) for _ in range(3)]
        await wire.accepted(3)
    await asyncio.wait(clients, timeout=5)
    assert all(isinstance(c.exception(), ConnectionResetError | None) for c in clients)
    assert wire.open_connections == 0


async def test_a_wire_closes_while_clients_connect() -> None:
    for turns in range(12):
        async with Wire(ok()) as wire:
            clients = [asyncio.ensure_future(exchange(wire)) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
        await asyncio.wait(clients, timeout=5)
        assert all(isinstance(c.exception(), OSError | None) for c in clients)


async def test_an_error_under_the_wire_surfaces_before_its_own() -> None:
    async def failing() -> None:
        async with Wire([]) as wire:
            await exchange(wire)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
