"""Requests over the connections and the parser of aiohttp alone, for sessions that are ours.

More than half of what `ClientSession.request` costs is for what such a session has none of: redirects,
cookies, middlewares, proxies, traces, and objects for the URL, the headers and the response of each request.
Connecting, DNS, TLS, the parser, decompression and flow control stay aiohttp's.

These parts of aiohttp are not promised to stay as they are: they are used with the versions that they are
known to fit, and while nobody watches or stands in for `ClientSession`. Otherwise `ClientSession.request`
does the same at its price.
"""

from __future__ import annotations

import asyncio
import errno
import weakref
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from .._core.call import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

#: aiohttp counts the wait for a pool slot in its own timeouts and `sock_read` never ends a body that drips:
#: the attempt's deadline stands in for all of them.
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

#: Seconds that a connection rests before it is closed, as in aiohttp's own pool: some networks forget it.
KEEP_ALIVE = 15.0

_SWITCHING = 101
_KNOWN = aiohttp.__version__.startswith("3.14.")


#: An answer whose body is still to be read: its status, headers and content, and two functions, one of which
#: is then to be called: the first gives the connection back, the second gives it up with the answer.
Opened = tuple[int, "Mapping[str, str]", aiohttp.StreamReader, "Callable[[], object]", "Callable[[], object]"]


def opened_by(response: aiohttp.ClientResponse) -> Opened:
    """Give the same of a response of aiohttp's."""
    return response.status, response.headers, response.content, response.release, response.close


def _own(function: object) -> object:
    """Return a method of aiohttp's, None if another stands in for it already."""
    theirs = isinstance(function, FunctionType) and function.__module__ == "aiohttp.client"
    return function if theirs and not hasattr(function, "__wrapped__") else None


_PRIVATE = _own(aiohttp.ClientSession.__dict__.get("_request"))
_PUBLIC = _own(aiohttp.ClientSession.__dict__.get("request"))


def can_bypass_session(http: aiohttp.ClientSession) -> bool:
    """Tell whether requests may pass by the session: whoever mocks, records or traces it is to see them."""
    kind = type(http)
    untouched = getattr(kind, "_request", None) is _PRIVATE and kind.request is _PUBLIC
    return _KNOWN and untouched and not http.trace_configs


def _about(body: bytes | None) -> str:
    """Give the rest of a head, about the body that follows it."""
    if body is None:
        return "Content-Length: 0\r\n\r\n"
    return f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"


class FastPath:
    """Send requests of a session to one origin.

    A connection is kept between two requests and goes back to aiohttp's pool only to be closed: taking one
    from there costs as much as sending a request on it.
    """

    def __init__(self, http: aiohttp.ClientSession, base: URL) -> None:
        self._loop = loop = asyncio.get_running_loop()
        #: Connections at rest and since when; the last used is taken first.
        self._idle: list[tuple[Connection, float]] = []
        assert http.connector is not None
        self._connector = http.connector
        #: Stands for every request where a connection is asked for: all go to one place with one head.
        self._origin = aiohttp.ClientRequest("GET", base, headers=http.headers, loop=loop)
        lines = [f"{name}: {value}\r\n" for name, value in self._origin.headers.items()]
        self._head = f" HTTP/1.1\r\n{''.join(lines)}"
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(self, call: Call[Any], target: str) -> Opened:
        """Send a call and read the head of its answer; `target` is encoded.

        Raises aiohttp.ClientError, OSError, aiohttp.http.HttpProcessingError for what is not HTTP, ValueError
        for a method that is none.
        """
        method = call.method
        if not method.isalpha():
            raise ValueError(f"{method!r} is not a method of HTTP")
        connection = self._take()
        if connection is None:
            connection = await self._connector.connect(self._origin, [], NO_TIMEOUT)
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None or transport.is_closing() or protocol.should_close:
                gone = ConnectionResetError(errno.ECONNRESET, "closed before the request was sent")
                raise aiohttp.ClientConnectorError(self._origin.connection_key, gone)
            protocol.set_response_params(read_until_eof=True)
            if method == "GET" and call.body is None:
                transport.write(f"GET {target}{self._head}\r\n".encode())
            else:
                # In no variable of its own: a body may bear a password, and some tracebacks show variables.
                transport.write(
                    f"{method} {target}{self._head}{_about(call.body)}".encode() + (call.body or b"")
                )
            while True:
                message, content = await protocol.read()
                code = message.code
                if not 100 <= code <= 199 or code == _SWITCHING:
                    break
        except BaseException:
            connection.close()
            raise
        # What follows a switch to another protocol is not for us.
        release = connection.close if code == _SWITCHING else partial(self._give_back, connection, protocol)
        return code, message.headers, content, release, connection.close

    def _take(self) -> Connection | None:
        while self._idle:
            connection, since = self._idle.pop()
            protocol = connection.protocol
            fresh = self._loop.time() - since <= KEEP_ALIVE
            # What a server says unasked (a 408, say) must not be taken for the answer to the next request.
            if fresh and protocol is not None and protocol.is_connected() and not protocol.should_close:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: Connection, protocol: ResponseHandler) -> None:
        if self._closed or protocol.should_close:
            connection.release()
            return
        now = self._loop.time()
        self._idle.append((connection, now))
        if self._sweeper is None:
            self._sweep_at(now + KEEP_ALIVE)

    def _sweep(self) -> None:
        """Close what has been at rest for too long, or was closed by the other side."""
        self._sweeper = None
        oldest = self._loop.time() - KEEP_ALIVE
        idle, self._idle = self._idle, []
        for connection, since in idle:
            if since <= oldest or connection.closed:
                connection.close()
            else:
                self._idle.append((connection, since))
        if self._idle:
            self._sweep_at(self._idle[0][1] + KEEP_ALIVE)

    def _sweep_at(self, when: float) -> None:
        # Weakly: a session that is dropped without being closed must not be held by its timer.
        lane = weakref.ref(self)

        def sweep() -> None:
            if (alive := lane()) is not None:
                alive._sweep()

        self._sweeper = self._loop.call_at(when, sweep)

    def close(self) -> None:
        """Give all connections back to the pool, which closes them and waits until they are."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        while self._idle:
            self._idle.pop()[0].release()

    def __del__(self) -> None:
        # Dropped, not closed. Not back to the pool, which may have ended before.
        if not self._loop.is_closed():
            for connection, _ in self._idle:
                connection.close()
