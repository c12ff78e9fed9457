"""Requests over aiohttp's connections and parser, without `ClientSession.request`.

More than half of the cost of `ClientSession.request` is for redirects, cookies, middlewares, proxies, traces
and an object per URL, header map and response, none of which our own session uses. Connecting, DNS, TLS,
parsing, decompression and flow control are still aiohttp's.

These parts of aiohttp are not public. They are used only with versions of aiohttp that our tests cover, and
only if `ClientSession` is not mocked or traced; otherwise requests go through `ClientSession.request`
(`session_path`), which gives the same results at a higher cost. Both ways check a connection here before they
use it again.
"""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from .._core.call import Call
from .._credentials import Credentials
from .._version import __version__

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage

#: Set it to 0 to send every request through `ClientSession.request`.
SWITCH = "SLASHTAG_FAST_PATH"

#: Seconds that an idle connection is kept, as in aiohttp's own pool: some networks drop it later.
KEEP_ALIVE = 15.0

#: Status, headers and decompressed body of an answer.
Response = tuple[int, Mapping[str, str], bytes]

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

#: The deadline of an attempt replaces aiohttp's timeouts, which include the wait for a pool slot and do not
#: end a body that arrives very slowly.
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

SWITCHING_PROTOCOLS = 101

#: Header of requests, unless your own aiohttp session has one.
USER_AGENT = ("User-Agent", f"slashtag/{__version__}")

#: Header of a request whose answer no cache may have.
NO_CACHE = ("Cache-Control", "no-cache")


class Attempt:
    """One attempt of the current task to send a call, which ends at the time `at` of the event loop.

    What sends it sets `written`.
    """

    #: Whether a byte of the request may have been written; None if that is not known.
    written: bool | None = False
    _expired = False

    def __init__(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        self.at = at
        self._task = task
        self._cancelling = task.cancelling()

    def expire(self) -> None:
        """Cancel it once."""
        if not self._expired:
            self._expired = True
            self._task.cancel()

    def withdraw_timeout(self) -> bool:
        """Withdraw its cancellation; return False if it was not cancelled, or also by somebody else."""
        return self._expired and self._task.uncancel() <= self._cancelling


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
        pooled = (None if call.freshness.another_connection else self._take()) or await self._connect()
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
            if call.freshness.another_connection and self._idle:
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
        if call.freshness.past_caches:
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


def readable(transport: asyncio.BaseTransport) -> Callable[[], object]:
    """Return a function that checks whether the socket has anything to read: data, EOF or an error.

    The event loop may not have noticed it yet if the caller blocked the loop.
    """
    sock = transport.get_extra_info("socket")
    if not hasattr(select, "poll"):  # Windows
        return lambda: sock.fileno() < 0 or select.select([sock], (), (), 0)[0]
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return partial(poll.poll, 0)


def has_leftover(parser: Any) -> bool:
    """Return whether the parser of a complete answer contains the start of another one.

    Closes the parser. aiohttp would drop these bytes and use the rest as the answer to the next request.
    """
    try:
        return parser.feed_eof() is not None
    except Exception:  # The pure-Python parser raises for some data.
        return True


async def read_head(protocol: ResponseHandler) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
    """Return the head of the next answer, which may be an interim one, and its body as a stream.

    A connection with a 5xx is not used again: it may lead to a backend that fails every request.
    """
    # Not `protocol.read()`, which is this function on a connection of `session_path`.
    message, content = await type(protocol).read(protocol)
    if message.code >= 500:
        protocol.force_close()
    return message, content


async def read_body(content: aiohttp.StreamReader, max_bytes: int) -> bytes:
    """Read until the end, or until there are more than `max_bytes`."""
    chunk = await content.readany()
    if content.at_eof():
        return chunk
    chunks, size = [chunk], len(chunk)
    while size <= max_bytes and (chunk or not content.at_eof()):
        chunk = await content.readany()
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def closed_too_early(key: Any) -> aiohttp.ClientConnectorError:
    """Return the error of a new connection that was closed before the request was sent."""
    return aiohttp.ClientConnectorError(
        key, ConnectionResetError(errno.ECONNRESET, "closed before the request was sent")
    )
