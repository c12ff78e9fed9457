"""A server that answers with exactly the bytes that a test scripts, or with none: for the sending layer.

    async with Wire([reset(), html(502), ok({"items": []})]) as wire:
        ...  # send to wire.base_url
    assert [request.method for request in wire.requests] == ["GET", "GET", "GET"]

A script is one answer (given to every request), a list of answers (one a request, in order of arrival; a
request past its end fails the test as the wire closes), or a function of the request that returns an answer.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from .sending import until

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One request as it arrived: the target undecoded, header names in lower case, connections from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Connection:
    """One accepted connection, as an answer sees it."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def request(self) -> Request | None:
        """Read a request, or None where the client closes before a whole one has come."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            method, target, _version = first.split(" ", 2)
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        except asyncio.IncompleteReadError:
            return None
        return Request(method, target, headers, body, self.number)


@dataclass(frozen=True)
class Answer:
    """What happens to one request; the connection is closed then, unless it is kept alive."""

    play: Callable[[Connection], Awaitable[None]]
    keep_alive: bool = False


Script = Answer | Sequence[Answer] | Callable[[Request], Answer | Awaitable[Answer]]


def raw(data: bytes, *, keep_alive: bool = False) -> Answer:
    """Send these bytes."""
    return Answer(lambda connection: connection.send(data), keep_alive)


def message(status: int, body: bytes, headers: Headers = (), *, length: int | None = -1) -> bytes:
    """A response as bytes; `length` stands in for the true Content-Length (None: no such header)."""
    known = status in HTTPStatus._value2member_map_
    given = {"Content-Type": "application/json"} | dict(headers)
    if length is not None:
        given["Content-Length"] = str(len(body) if length < 0 else length)
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if known else 'Odd'}"]
    lines += [f"{name}: {value}" for name, value in given.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def body_of(status: int, text: str, data: Any = ...) -> bytes:
    """The service's JSON envelope; without `data` where none is given."""
    members = {"status": status, "message": text}
    return json.dumps(members if data is ... else members | {"data": data}).encode()


def response(status: int, body: bytes, headers: Headers = ()) -> Answer:
    """A well-formed response."""
    return raw(message(status, body, headers), keep_alive=True)


def envelope(
    status: int, text: str, data: Any = ..., http_status: int | None = None, headers: Headers = ()
) -> Answer:
    """The service's envelope, under another HTTP status where `http_status` says so."""
    return response(http_status or status, body_of(status, text, data), headers)


def ok(data: Any = None, headers: Headers = ()) -> Answer:
    """A success of the service."""
    return envelope(200, "ok", data, headers=headers)


def html(status: int, retry_after: int | None = None) -> Answer:
    """A proxy's error page."""
    page = f"<html><body><h1>{status}</h1></body></html>".encode()
    told = [] if retry_after is None else [("Retry-After", str(retry_after))]
    return response(status, page, [("Content-Type", "text/html"), *told])


def redirect(location: str, status: int = 302) -> Answer:
    """A redirect with an empty body."""
    return response(status, b"", [("Location", location)])


def reset() -> Answer:
    """Break the connection with a RST."""

    async def play(connection: Connection) -> None:
        sock: socket.socket = connection.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.writer.transport.abort()

    return Answer(play)


def hang_up() -> Answer:
    """Close cleanly with no answer."""
    return raw(b"")


def truncated(body: bytes = b'{"status": 200, "mess') -> Answer:
    """Announce more bytes than are sent, then close."""
    return raw(message(200, body, length=10_000))


def stall(*, headers_sent: bool = False) -> Answer:
    """Send nothing, or the headers and half a body, and wait for the client to give up."""

    async def play(connection: Connection) -> None:
        if headers_sent:
            await connection.send(message(200, b'{"status": 200, "mess', length=1_000))
        while await connection.reader.read(65536):
            pass

    return Answer(play)


def delayed(seconds: float, answer: Answer) -> Answer:
    """Another answer, later."""

    async def play(connection: Connection) -> None:
        await asyncio.sleep(seconds)
        await answer.play(connection)

    return Answer(play, answer.keep_alive)


@dataclass
class Wire:
    """Serve a script on loopback, by TLS where a context is given. `connections`: how many were accepted."""

    script: Script
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list, init=False)
    connections: int = field(default=0, init=False)
    base_url: str = field(default="", init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _failures: list[Exception] = field(default_factory=list, init=False)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        address, port = self._server.sockets[0].getsockname()
        self.base_url = f"https://localhost:{port}" if self.tls else f"http://{address}:{port}"
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

    async def arrived(self, count: int) -> None:
        """Wait until this many requests have arrived."""
        await until(lambda: len(self.requests) >= count)

    async def abandoned(self) -> None:
        """Wait until no connection is open."""
        await until(lambda: not self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(Connection(self.connections, reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        is_open = True
        while is_open and (request := await connection.request()) is not None:
            self.requests.append(request)
            try:
                answer = await self._answer(request)
            except Exception as error:
                self._failures.append(error)
                # A refusal: what is not answered would be sent again for minutes.
                answer = envelope(400, f"{error!r}")
            await answer.play(connection)
            is_open = answer.keep_alive

    async def _answer(self, request: Request) -> Answer:
        if isinstance(self.script, Answer):
            return self.script
        if callable(self.script):
            given = self.script(request)
            return await given if inspect.isawaitable(given) else given
        if len(self.requests) > len(self.script):
            raise AssertionError(f"a request past the end of the script: {request.method} {request.target}")
        return self.script[len(self.requests) - 1]
