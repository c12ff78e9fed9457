"""Requests over aiohttp's connections and parser, without `ClientSession.request`.

More than half of the cost of `ClientSession.request` is for redirects, cookies, middlewares, proxies, traces
and an object per URL, header map and response, none of which our own session uses. Connecting, DNS, TLS,
parsing, decompression and flow control are still aiohttp's.

These parts of aiohttp are not public. They are used only with versions of aiohttp that our tests cover, and
only if `ClientSession` is not mocked or traced; otherwise requests go through `ClientSession.request`
(`session_path`), which gives the same results at a higher cost.
"""

from __future__ import annotations

import asyncio
import errno
import re
import select
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import istr
from yarl import URL

from .._core.call import Call

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage

#: The deadline of an attempt replaces aiohttp's timeouts, which include the wait for a pool slot and do not
#: end a body that arrives very slowly.
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

#: Whether our tests cover the version of aiohttp; `.ci/run` tests the oldest and the newest.
TESTED = aiohttp.__version__ in {"3.14.1", "3.14.2", "3.14.3", "3.14.4", "3.14.5"}

#: Set it to 0 to send every request through `ClientSession.request`.
SWITCH = "SLASHTAG_FAST_PATH"

#: Seconds that an idle connection is kept, as in aiohttp's own pool: some networks drop it later.
KEEP_ALIVE = 15.0

_KEEP_ALIVE_HEADER = istr("Keep-Alive")
_TIMEOUT = re.compile(r'(?:^|,)\s*timeout\s*=\s*"?([0-9]{1,9})"?\s*(?:,|$)', re.IGNORECASE)

SWITCHING_PROTOCOLS = 101

#: Interim answers (1xx) before an answer: a real service sends one or two.
MAX_INTERIM = 16


class Attempt:
    """One attempt of the current task: its deadline and the state of its connection."""

    # Defaults of the class, not slots: most attempts set only two of them.
    expired = False
    #: Whether a byte of the request may have been written; None if that is not known.
    written: bool | None = False
    #: Whether to open a new connection instead of reusing one.
    fresh = False
    #: Whether the connection had carried an earlier request.
    reused = False
    #: Whether a reused connection was lost before any byte of the answer.
    stale = False

    def __init__(self, task: asyncio.Task[Any], at: float) -> None:
        self.task = task
        self.at = at
        self._cancelling = task.cancelling()

    def take_back(self) -> bool:
        """Withdraw the cancellation of an expired deadline; return False if there was another one."""
        return self.task.uncancel() <= self._cancelling


def _original(function: object) -> object:
    """Return a method of aiohttp, or None if it has been replaced."""
    theirs = isinstance(function, FunctionType) and function.__module__ == "aiohttp.client"
    return function if theirs and not hasattr(function, "__wrapped__") else None


_PRIVATE = _original(aiohttp.ClientSession.__dict__.get("_request"))
_PUBLIC = _original(aiohttp.ClientSession.__dict__.get("request"))


def can_bypass_session(http: aiohttp.ClientSession) -> bool:
    """Return False if ClientSession is patched or traced."""
    kind = type(http)
    untouched = getattr(kind, "_request", None) is _PRIVATE and kind.request is _PUBLIC
    return TESTED and untouched and not http.trace_configs


def is_plain(http: aiohttp.ClientSession) -> bool:
    """Return whether a session has only settings that the fast path supports."""
    settings = vars(http)
    return (
        settings["_request_class"] is aiohttp.ClientRequest
        and settings["_response_class"] is aiohttp.ClientResponse
        and isinstance(settings["_connector"], aiohttp.TCPConnector)
        and not settings["_middlewares"]
        and settings["_default_proxy"] is None
        and settings["_default_proxy_auth"] is None
        and settings["_default_auth"] is None
        and settings["_auto_decompress"] is True
        and not settings["_trust_env"]
        and http.version == aiohttp.HttpVersion11
    )


class PooledConnection:
    """aiohttp connection and its current response, with the members of aiohttp.ClientResponse that are used.

    Call `release` after the complete body, otherwise `close`.
    """

    __slots__ = ("_unread", "connection", "content", "expires", "headers", "owner", "protocol", "status")

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader

    def __init__(self, connection: Connection, protocol: ResponseHandler) -> None:
        self.connection = connection
        self.protocol = protocol
        #: Where the connection goes after the response; None while it is idle.
        self.owner: FastPath | None = None
        self.expires = 0.0
        self._unread: Callable[[], object] | None = None

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

    def release(self) -> None:
        """Return the connection after the complete body."""
        owner, self.owner = self.owner, None
        # After a 101 the connection uses another protocol.
        if owner is None or self.status == SWITCHING_PROTOCOLS:
            self.connection.close()
        else:
            owner.give_back(self)

    def close(self) -> None:
        """Discard the response and close the connection."""
        self.owner = None
        self.connection.close()


class FastPath:
    """Sender of requests to one origin over the connections of one ClientSession with plain settings.

    Idle connections are kept here and return to aiohttp's pool only to be closed, because taking one from
    the pool costs as much as sending a request.
    """

    def __init__(self, http: aiohttp.ClientSession, base: URL) -> None:
        self._loop = loop = asyncio.get_running_loop()
        #: Idle connections; the most recently used is reused first.
        self._idle: list[PooledConnection] = []
        if not is_plain(http):
            raise LookupError("the session has settings that the fast path does not support")
        assert http.connector is not None
        self._connector = http.connector
        #: Passed to the connector for every connection: all requests go to one origin with the same headers.
        self._origin = aiohttp.ClientRequest("GET", base, headers=http.headers, loop=loop)
        lines = [f"{name}: {value}\r\n" for name, value in self._origin.headers.items()]
        self._head = f" HTTP/1.1\r\n{''.join(lines)}"
        self._closed = False

    async def request(self, call: Call[Any], target: str, attempt: Attempt) -> PooledConnection:
        """Send a call and read the head of its answer; `target` is encoded.

        Raises aiohttp.ClientError, OSError, and HttpProcessingError for what is not HTTP.
        """
        pooled = None if attempt.fresh else self._take()
        if pooled is None:
            pooled = await self._connect()
        else:
            attempt.reused = True
        try:
            protocol = pooled.protocol
            transport = protocol.transport
            assert transport is not None
            protocol.set_response_params(read_until_eof=True)
            entity = ""
            if call.body is not None:
                entity = f"Content-Type: application/json\r\nContent-Length: {len(call.body)}\r\n"
            elif call.method != "GET":
                entity = "Content-Length: 0\r\n"
            head = f"{call.method} {target}{self._head}{entity}\r\n".encode()
            attempt.written = True
            # Not joined in a variable: a body may hold a password, and some tracebacks show variables.
            transport.write(head + call.body if call.body else head)
            message, pooled.content = await read_head(protocol)
        except BaseException as error:
            if attempt.reused and lost_before_answer(error):
                attempt.stale = True
            pooled.connection.close()
            raise
        pooled.status, pooled.headers, pooled.owner = message.code, message.headers, self
        return pooled

    async def _connect(self) -> PooledConnection:
        connection = await self._connector.connect(self._origin, [], NO_TIMEOUT)
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None or transport.is_closing() or protocol.should_close:
            connection.close()
            gone = ConnectionResetError(errno.ECONNRESET, "closed before the request was sent")
            raise aiohttp.ClientConnectorError(self._origin.connection_key, gone)
        return PooledConnection(connection, protocol)

    def _take(self) -> PooledConnection | None:
        now = self._loop.time()
        while self._idle:
            pooled = self._idle.pop()
            if pooled.is_reusable(now):
                return pooled
            pooled.connection.close()
        return None

    def give_back(self, pooled: PooledConnection) -> None:
        """Keep a connection whose response was read completely."""
        if self._closed or pooled.protocol.should_close:
            pooled.connection.release()
            return
        now = self._loop.time()
        # The first one has been idle for longest. Without traffic it stays until the service closes it.
        while self._idle and self._idle[0].expires <= now:
            self._idle.pop(0).connection.close()
        pooled.expires = now + keep_alive(pooled.headers)
        self._idle.append(pooled)

    def close(self) -> None:
        """Return all idle connections to the pool, which closes them."""
        self._closed = True
        while self._idle:
            self._idle.pop().connection.release()

    def __del__(self) -> None:
        # Dropped without being closed. The pool may already be gone.
        if not self._loop.is_closed():
            for pooled in self._idle:
                pooled.connection.close()


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


def keep_alive(headers: Any) -> float:
    """Return the seconds that a connection may be idle after an answer with these headers."""
    text = headers.get(_KEEP_ALIVE_HEADER)
    found = None if text is None else _TIMEOUT.search(text)
    if found is None:
        return KEEP_ALIVE
    seconds = int(found[1])
    # The service counts from when it sent the answer, and a request takes time to arrive.
    return min(KEEP_ALIVE, max(seconds - 1.0, seconds / 2))


async def read_head(protocol: ResponseHandler) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
    """Return the head of the answer, after interim ones, and its body as a stream.

    Raises HttpProcessingError after more than MAX_INTERIM interim answers.
    """
    message = None
    for _ in range(MAX_INTERIM + 1):
        try:
            message, content = await protocol.read()
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if message is None:
                raise
            raise aiohttp.ServerDisconnectedError(message) from None  # the answer had begun
        if not 100 <= message.code <= 199 or message.code == SWITCHING_PROTOCOLS:
            return message, content
    raise HttpProcessingError(message="too many interim answers")


def lost_before_answer(error: BaseException) -> bool:
    """Return whether a connection was lost before any byte of the answer."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Its message is the incomplete answer if there is one, otherwise a str.
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError)
