"""Requests over aiohttp's connections and parser, without `ClientSession.request`.

More than half of the cost of `ClientSession.request` is for redirects, cookies, middlewares, proxies, traces
and an object per URL, header map and response, none of which our own session uses. Connecting, DNS, TLS,
parsing, decompression and flow control are still aiohttp's.

These parts of aiohttp are not public. They are used only with versions of aiohttp that our tests cover, and
only if `ClientSession` is not mocked or traced; otherwise requests go through `ClientSession.request`
(`client_session_path`), which gives the same results at a higher cost. Both ways check a connection by
`readable` and `has_leftover` before they use it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from .._core.call import Call
from .._credentials import Credentials
from .attempt import (
    NO_CACHE,
    NO_TIMEOUT,
    Attempt,
    Response,
    closed_too_early,
    has_leftover,
    read_body,
    read_head,
    readable,
)

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

#: Set it to 0 to send every request through `ClientSession.request`.
SWITCH = "SLASHTAG_FAST_PATH"

#: Seconds that an idle connection is kept, as in aiohttp's own pool: some networks drop it later.
KEEP_ALIVE = 15.0

#: The release series of aiohttp whose internals the tests cover: `.ci/run` tests its oldest and newest one.
SERIES = "3.14."

#: The internals of aiohttp that are relied on: attributes of classes, and parameters or names of functions.
_ATTRIBUTES = {
    "aiohttp.client_proto:ResponseHandler": "force_close is_connected read set_response_params should_close",
    "aiohttp.connector:Connection": "close closed protocol release transport",
    "aiohttp.http:HttpResponseParser": "feed_eof",
    "aiohttp:StreamReader": "at_eof readany",
}
_NAMES = {
    "aiohttp:ClientRequest.__init__": "method url headers loop",
    "aiohttp:ClientRequest.send": "conn",
    "aiohttp:TCPConnector.connect": "req traces timeout",
    "aiohttp.client_proto:ResponseHandler.set_response_params": "_parser read_until_eof",
}


def _has_internals() -> bool:
    def found(where: str) -> Any:
        module, _, path = where.partition(":")
        return attrgetter(path)(import_module(module))

    try:
        return all(
            hasattr(found(where), name) for where, names in _ATTRIBUTES.items() for name in names.split()
        ) and all(
            {*names.split()} <= {*found(where).__code__.co_varnames, *found(where).__code__.co_names}
            for where, names in _NAMES.items()
        )
    except (ImportError, AttributeError):
        return False


#: Whether the internals of aiohttp are those that the tests cover.
TESTED = aiohttp.__version__.startswith(SERIES) and _has_internals()

SWITCHING_PROTOCOLS = 101


def _original(function: object) -> object:
    """Return a method of aiohttp, or None if it has been replaced."""
    theirs = isinstance(function, FunctionType) and function.__module__ == "aiohttp.client"
    return function if theirs and not hasattr(function, "__wrapped__") else None


_PRIVATE = _original(aiohttp.ClientSession.__dict__.get("_request"))
_PUBLIC = _original(aiohttp.ClientSession.__dict__.get("request"))


def obstacle(http: aiohttp.ClientSession) -> str:
    """Return why requests have to go through this session; empty if they need not."""
    if not TESTED:
        return f"aiohttp {aiohttp.__version__} differs from the tested series {SERIES}x"
    kind = type(http)
    if getattr(kind, "_request", None) is not _PRIVATE or kind.request is not _PUBLIC:
        return "ClientSession is patched, as by a mock or an instrumentation"
    return "ClientSession is traced" if http.trace_configs else ""


@dataclass(eq=False, slots=True)
class PooledConnection:
    """Connection of aiohttp, kept by FastPath while it is idle."""

    connection: Connection
    protocol: ResponseHandler
    expires: float = 0.0
    _unread: Callable[[], object] | None = None

    def is_reusable(self, now: float) -> bool:
        """Return whether another request can be sent: the connection is open and has no unread data."""
        protocol = self.protocol
        if now > self.expires or not protocol.is_connected() or protocol.should_close:
            return False
        if has_leftover(protocol._parser):
            return False
        if self._unread is None:
            assert protocol.transport is not None
            self._unread = readable(protocol.transport)
        return not self._unread()


class FastPath:
    """Sender of requests to one origin over the connections of our own ClientSession.

    Idle connections are kept here and return to aiohttp's pool only to be closed, because taking one from
    the pool costs as much as sending a request.
    """

    def __init__(self, http: aiohttp.ClientSession, base: URL, credentials: Credentials) -> None:
        self._loop = loop = asyncio.get_running_loop()
        #: Idle connections; the most recently used is reused first.
        self._idle: list[PooledConnection] = []
        assert http.connector is not None
        self._connector = http.connector
        #: Passed to the connector for every connection: all requests go to one origin with the same headers,
        #: among them the credentials, and Host, Accept-Encoding and User-Agent, which aiohttp adds.
        self._template = aiohttp.ClientRequest(
            "GET", base, headers={**http.headers, **credentials.headers}, loop=loop
        )
        self._head = " HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in self._template.headers.items()
        )
        self._closed = False

    async def request(self, call: Call[Any], target: str, attempt: Attempt, max_bytes: int) -> Response:
        """Send a call to an encoded target and read the answer, its body not far beyond `max_bytes`.

        Raises aiohttp.ClientError, OSError, and HttpProcessingError for what is not HTTP.
        """
        pooled = (None if call.again else self._take()) or await self._connect()
        try:
            protocol = pooled.protocol
            transport = protocol.transport
            assert transport is not None
            protocol.set_response_params(read_until_eof=True)  # makes a parser for this answer
            attempt.written = True
            # Not in a variable, which a traceback may show: it has the credentials, and passwords of links.
            transport.write(self._encode(call, target))
            message, content = await read_head(protocol)
            while 100 <= message.code <= 199 and message.code != SWITCHING_PROTOCOLS:
                message, content = await read_head(protocol)
            body = await read_body(content, max_bytes)
        except BaseException:
            pooled.connection.close()
            raise
        # After a 101 the connection uses another protocol.
        if content.at_eof() and message.code != SWITCHING_PROTOCOLS:
            if call.again and self._idle:
                # Instead of the one used before, which may be that of the answer in doubt.
                self._idle.pop().connection.close()
            self._keep(pooled)
        else:
            pooled.connection.close()
        return message.code, message.headers, body

    def _encode(self, call: Call[Any], target: str) -> bytes:
        """Return a request as it is sent."""
        entity = ""
        if call.body is not None:
            entity = f"Content-Type: application/json\r\nContent-Length: {len(call.body)}\r\n"
        elif call.method != "GET":
            entity = "Content-Length: 0\r\n"
        if call.again:
            entity += "{}: {}\r\n".format(*NO_CACHE)
        return f"{call.method} {target}{self._head}{entity}\r\n".encode() + (call.body or b"")

    async def _connect(self) -> PooledConnection:
        connection = await self._connector.connect(self._template, [], NO_TIMEOUT)
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None or transport.is_closing() or protocol.should_close:
            connection.close()
            raise closed_too_early(self._template.connection_key)
        return PooledConnection(connection, protocol)

    def _take(self) -> PooledConnection | None:
        now = self._loop.time()
        while self._idle:
            pooled = self._idle.pop()
            if pooled.is_reusable(now):
                return pooled
            pooled.connection.close()
        return None

    def _keep(self, pooled: PooledConnection) -> None:
        """Keep a connection whose answer was read completely."""
        if self._closed or pooled.protocol.should_close:
            pooled.connection.release()
            return
        now = self._loop.time()
        # The first one has been idle for longest. Without traffic it stays until the service closes it.
        while self._idle and self._idle[0].expires <= now:
            self._idle.pop(0).connection.close()
        pooled.expires = now + KEEP_ALIVE
        self._idle.append(pooled)

    def close(self) -> None:
        """Return all idle connections to the pool, which closes them."""
        self._closed = True
        while self._idle:
            self._idle.pop().connection.release()
