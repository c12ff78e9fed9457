"""One attempt, its deadline, and what both ways of sending share: `fast_path` and `client_session_path`."""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp

from .._version import __version__

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.http import RawResponseMessage

#: Status, headers and decompressed body of an answer.
Response = tuple[int, Mapping[str, str], bytes]

#: The deadline of an attempt replaces aiohttp's timeouts, which include the wait for a pool slot and do not
#: end a body that arrives very slowly.
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

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
    # Not `protocol.read()`, which is this function on a connection of `client_session_path`.
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
