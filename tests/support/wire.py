"""A server that answers with exactly the bytes that a test scripts, or with none: for the sending layer.

    async with Wire([reset(), html(502), ok({"items": []})]) as wire:
        ...  # send to wire.base_url
    assert [request.method for request in wire.requests] == ["GET", "GET", "GET"]

A script is one answer (given to every request), an iterable of answers (one a request, in order of arrival; a
request past its end fails the test as the wire closes), or a function of the request that returns an answer.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One request as it arrived: the target undecoded, header names in lower case, connections from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    at: float

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One accepted connection, as an answer sees it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with a RST instead of a FIN."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def peer_gone(self) -> None:
        """Wait until the client closes, whatever else it sends."""
        while await self.reader.read(65536):
            pass

    async def request(self) -> Request | None:
        """Read a request, or None where the client closes before a whole one has come."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            method, target, _version = first.split(" ", 2)
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        except asyncio.IncompleteReadError:
            return None
        return Request(method, target, headers, body, self.number, asyncio.get_running_loop().time())


@dataclass(frozen=True)
class Answer:
    """What happens to one request. `on_accept`: to a new connection, before its request is read."""

    play: Callable[[Connection], Awaitable[None]]
    keep_alive: bool = False
    on_accept: bool = False


Script = Answer | Iterable[Answer] | Callable[[Request], Answer | Awaitable[Answer]]


def raw(data: bytes, *, keep_alive: bool = False) -> Answer:
    """Send these bytes and close; `keep_alive` leaves the connection open."""
    return Answer(lambda connection: connection.send(data), keep_alive=keep_alive)


def message(status: int, body: bytes, headers: Headers = (), *, length: int | None = -1) -> bytes:
    """A response as bytes; `length` stands in for the true Content-Length (None: no such header)."""
    known = status in HTTPStatus._value2member_map_
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if known else 'Odd'}"]
    if "content-type" not in {name.lower() for name, _ in headers}:
        lines.append("Content-Type: application/json")
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length < 0 else length}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def body_of(status: int, text: str, data: Any = ...) -> bytes:
    """The service's JSON envelope; without `data` where none is given."""
    members = {"status": status, "message": text}
    return json.dumps(members if data is ... else members | {"data": data}).encode()


def response(status: int, body: bytes, headers: Headers = (), *, keep_alive: bool = True) -> Answer:
    """A well-formed response; without `keep_alive` it says `Connection: close`."""
    said = () if keep_alive else (("Connection", "close"),)
    return raw(message(status, body, [*headers, *said]), keep_alive=keep_alive)


def envelope(
    status: int,
    text: str,
    data: Any = ...,
    http_status: int | None = None,
    headers: Headers = (),
    *,
    keep_alive: bool = True,
) -> Answer:
    """The service's envelope, under another HTTP status where `http_status` says so."""
    return response(http_status or status, body_of(status, text, data), headers, keep_alive=keep_alive)


def ok(data: Any = None, headers: Headers = (), *, keep_alive: bool = True) -> Answer:
    """A success of the service."""
    return envelope(200, "ok", data, headers=headers, keep_alive=keep_alive)


def html(status: int = 502, retry_after: int | str | None = None, *, keep_alive: bool = True) -> Answer:
    """A proxy's error page."""
    headers = [("Content-Type", "text/html; charset=utf-8")]
    if retry_after is not None:
        headers.append(("Retry-After", str(retry_after)))
    page = f"<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>".encode()
    return response(status, page, headers, keep_alive=keep_alive)


def redirect(location: str, status: int = 302) -> Answer:
    """A redirect with an empty body."""
    return response(status, b"", [("Location", location)])


def reset(*, before_request: bool = False) -> Answer:
    """Break the connection with a RST: once the request is read, or as soon as the connection is accepted."""

    async def play(connection: Connection) -> None:
        connection.reset()

    return Answer(play, on_accept=before_request)


def hang_up(*, before_request: bool = False) -> Answer:
    """Close cleanly with no answer."""

    async def play(connection: Connection) -> None:
        connection.writer.close()

    return Answer(play, on_accept=before_request)


def truncated(body: bytes = b'{"status": 200, "mess', announce: int = 10_000, status: int = 200) -> Answer:
    """Announce more bytes than are sent, then close."""
    return raw(message(status, body, length=announce))


def no_length(body: bytes = b'{"status": 200, "mess', status: int = 200) -> Answer:
    """Send a body that only the closing of the connection ends, so that a cut cannot be told from an end."""
    return raw(message(status, body, [("Connection", "close")], length=None))


def bad_utf8() -> Answer:
    """An envelope whose message is not UTF-8."""
    return response(200, b'{"status": 200, "message": "\xff\xfe\xc3(", "data": null}')


def deep_nesting(depth: int = 100_000) -> Answer:
    """Valid JSON, nested deeper than decoders recurse."""
    return response(200, b'{"status": 200, "message": "ok", "data": ' + b"[" * depth + b"]" * depth + b"}")


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BAD_FRAMINGS = {
    "status line": b"\x16\x03\x01 this is not HTTP\r\n\r\n",
    "status code": b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\n{}",
    "header": _HEAD + b"no colon here\r\nContent-Length: 2\r\n\r\n{}",
    "length": _HEAD + b"Content-Length: -5\r\n\r\n{}",
    "two lengths": _HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunk size": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
    "chunk cut": _HEAD + b'Transfer-Encoding: chunked\r\n\r\n40\r\n{"status": 200, "mess',
    "gzip": _HEAD + b"Content-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip",
    "head cut": _HEAD[:40],
}


def bad_framing(kind: str = "status line") -> Answer:
    """Break HTTP itself, in one of the ways that `BAD_FRAMINGS` names, then close."""
    return raw(BAD_FRAMINGS[kind])


@lru_cache
def _bomb(inflated_size: int) -> bytes:
    """A valid envelope padded with blanks; a full flush lets one compressed block be repeated."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    head, block, tail = b'{"status": 200, "message": "ok", "data": null', b" " * 2**20, b"}"
    blocks, rest = divmod(inflated_size - len(head) - len(tail), len(block))
    out = deflate.compress(head + block[:rest]) + deflate.flush(zlib.Z_FULL_FLUSH)
    out += (deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)) * blocks
    out += deflate.compress(tail) + deflate.flush()
    crc = zlib.crc32(head + block[:rest])
    for _ in range(blocks):
        crc = zlib.crc32(block, crc)
    header = b"\x1f\x8b\x08\0\0\0\0\0\2\xff"
    return header + out + struct.pack("<II", zlib.crc32(tail, crc), inflated_size % 2**32)


def gzip_bomb(inflated_size: int = 200 * 2**20) -> Answer:
    """A small gzip body that inflates, about a thousandfold, to a valid envelope of this many bytes."""
    return response(200, _bomb(inflated_size), [("Content-Encoding", "gzip")])


def slow_loris(interval: float = 0.01) -> Answer:
    """Send the headers, then a byte of body every `interval` seconds for ever."""

    async def play(connection: Connection) -> None:
        await connection.send(message(200, b"{", length=10**9))
        while not connection.writer.is_closing():
            await asyncio.sleep(interval)
            await connection.send(b" ")

    return Answer(play)


def stall(*, headers_sent: bool = False) -> Answer:
    """Send nothing, or the headers and half a body, and wait for the client to give up."""

    async def play(connection: Connection) -> None:
        if headers_sent:
            await connection.send(message(200, b'{"status": 200, "mess', length=1_000))
        await connection.peer_gone()

    return Answer(play)


def delayed(seconds: float, answer: Answer) -> Answer:
    """Another answer, later."""

    async def play(connection: Connection) -> None:
        await asyncio.sleep(seconds)
        await answer.play(connection)

    return Answer(play, keep_alive=answer.keep_alive)


def closing(answer: Answer) -> Answer:
    """Another answer, then close without having said so."""
    return Answer(answer.play)


@dataclass
class Wire:
    """Serve a script on loopback.

    After `answers_per_connection` answers, the next request on that connection is dropped: read, kept in
    `requests`, and the connection closed with no answer. `connections` counts all that were accepted.
    """

    script: Script
    answers_per_connection: int | None = None
    requests: list[Request] = field(default_factory=list, init=False)
    connections: int = field(default=0, init=False)
    base_url: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._answers: Iterator[Answer] = iter(())
        self._next: Answer | None = None
        if isinstance(self.script, Answer):
            self._answers = itertools.repeat(self.script)
        elif not callable(self.script):
            self._answers = iter(self.script)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[Exception] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**20)
        host, port = self._server.sockets[0].getsockname()
        self.base_url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Stop accepting first, so that connections being accepted have their tasks when tasks are ended.
        for sock in self._server.sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
        for _turn in range(3):
            await asyncio.sleep(0)
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        self._server.close()
        await self._server.wait_closed()
        if self._failures and kind is None:
            raise self._failures[0]

    @property
    def open_connections(self) -> int:
        return len(self._tasks)

    async def accepted(self, count: int, timeout: float = 60) -> None:
        """Wait until this many connections have been accepted."""
        await self._until(lambda: self.connections >= count, timeout)

    async def arrived(self, count: int, timeout: float = 60) -> None:
        """Wait until this many requests have arrived."""
        await self._until(lambda: len(self.requests) >= count, timeout)

    async def abandoned(self, timeout: float = 60) -> None:
        """Wait until no connection is open."""
        await self._until(lambda: not self._tasks, timeout)

    async def _until(self, reached: Callable[[], bool], timeout: float) -> None:
        async with asyncio.timeout(timeout):
            while not reached():
                self._changed.clear()
                await self._changed.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._changed.set()
        task = asyncio.create_task(self._serve(Connection(self.connections, reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    async def _serve(self, connection: Connection) -> None:
        try:
            with suppress(ConnectionError):
                await self._converse(connection)
                connection.writer.close()
                await connection.writer.wait_closed()
        except Exception as error:
            self._failures.append(error)
        finally:
            # Up to Python 3.11.2 the transport of TLS cannot abort once the client has closed it.
            with suppress(AttributeError):
                connection.writer.transport.abort()
            # A reset that nobody asks for would be told as an error once the connection is collected.
            with suppress(ConnectionError):
                await connection.writer.wait_closed()

    async def _converse(self, connection: Connection) -> None:
        self._next = self._next or next(self._answers, None)
        if self._next is not None and self._next.on_accept:
            answer, self._next = self._next, None
            await answer.play(connection)
            return
        for answered in itertools.count():
            request = await connection.request()
            if request is None:
                return
            self.requests.append(request)
            self._changed.set()
            if answered == self.answers_per_connection:
                return
            answer = await self._answer(request)
            await answer.play(connection)
            if not answer.keep_alive:
                return

    async def _answer(self, request: Request) -> Answer:
        if callable(self.script):
            given = self.script(request)
            return await given if inspect.isawaitable(given) else given
        answer, self._next = self._next or next(self._answers, None), None
        if answer is None:
            raise AssertionError(f"a request past the end of the script: {request.method} {request.target}")
        return answer
