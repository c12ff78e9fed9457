"""aiohttp's connections: whether one can be reused, the head of its answer, and what its errors mean.

Both ways of sending, `fast_path` and `session_path`, check a connection here before they use it.
"""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.http import HttpProcessingError

from .attempt import Attempt

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.http import RawResponseMessage

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

#: Header of a request whose answer no cache may have.
NO_CACHE = ("Cache-Control", "no-cache")

_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientSSLError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


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


def is_unsent(error: BaseException, attempt: Attempt) -> bool:
    """Return whether nothing was sent; if that is not known, whether the error says so."""
    return isinstance(error, _NOT_CONNECTED) if attempt.written is None else not attempt.written


def describe(error: BaseException) -> str:
    """Return the text of an aiohttp error, without data that the server sent."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        # Garbage framing is raised with a made-up status 400.
        return f"the answer is not HTTP ({_first_words(error.message)})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the service closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the body was cut short or broken ({_first_words(str(error))})"
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{text}; raise the limit on open files (ulimit -n), or lower concurrency"
    return text


def _first_words(text: str) -> str:
    """Return the start of an aiohttp message, before the repr of data that the server sent."""
    return text.removeprefix("400, message:").lstrip().partition("\n")[0].partition(":")[0]
