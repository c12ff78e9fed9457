"""Checks on an aiohttp connection before it is reused, and a bounded read of an answer's head."""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import istr

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.http import RawResponseMessage

#: Seconds that an idle connection is kept, as in aiohttp's own pool: some networks drop it later.
KEEP_ALIVE = 15.0

_HEADER = istr("Keep-Alive")
_TIMEOUT = re.compile(r'(?:^|,)\s*timeout\s*=\s*"?([0-9]{1,9})"?\s*(?:,|$)', re.IGNORECASE)

SWITCHING_PROTOCOLS = 101

#: Interim answers (1xx) before an answer: a real service sends one or two.
MAX_INTERIM = 16


def readable(transport: asyncio.BaseTransport) -> Callable[[], object]:
    """Return a function that checks whether the socket has anything to read: data, EOF or an error.

    The event loop may not have noticed it yet if the caller blocked the loop.
    """
    sock = transport.get_extra_info("socket")
    if not hasattr(select, "poll"):  # Windows
        return lambda: select.select([sock], (), (), 0)[0]
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
    text = headers.get(_HEADER)
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
