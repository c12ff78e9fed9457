"""One HTTP exchange over aiohttp, with a limited body size; raises only slashtag errors."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from .._core.call import UNRESERVED, Call
from .._core.response import Scrubber
from .._errors import (
    ConfigurationError,
    RequestTimeoutError,
    SessionClosedError,
    SlashtagError,
    TransportError,
    UnexpectedResponseError,
)
from .fast_path import SWITCH, Attempt, FastPath, PooledConnection, can_bypass_session
from .session_path import DroppedError, SessionPath, describe, is_unsent

log = logging.getLogger("slashtag")


class RawResponse(NamedTuple):
    """Status, headers and decompressed body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Watchdog:
    """One timer for all attempts, which cancels those that take longer than `seconds`.

    All deadlines have the same length, so they expire in the order in which they were set: a dict keeps
    that order and drops a finished one in constant time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.closed = False
        self._running: dict[Attempt, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, now: float) -> Attempt:
        """Start an attempt of the current task."""
        task = asyncio.current_task(loop)
        assert task is not None
        attempt = Attempt(task, now + self.seconds)
        self._running[attempt] = None
        if self._timer is None:
            self._timer = loop.call_at(attempt.at, self._expire, loop)
        return attempt

    def stop(self, attempt: Attempt) -> None:
        """Remove the deadline of an attempt."""
        self._running.pop(attempt, None)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer = None
        while self._running:
            attempt = next(iter(self._running))
            if attempt.at > now:
                self._timer = loop.call_at(attempt.at, self._expire, loop)
                return
            self._cancel(attempt)

    def close(self) -> None:
        """Stop the timer and cancel all running attempts, as if they had expired."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._running:
            self._cancel(next(iter(self._running)))

    def _cancel(self, attempt: Attempt) -> None:
        del self._running[attempt]
        attempt.expired = True
        attempt.task.cancel()


class Transport:
    """HTTP transport to one base URL with one pair of credentials, in one event loop.

    `http` returns the aiohttp session; `headers` are sent with each request if that session is the user's,
    None if it is ours and has them; `base` ends in /api/v1/.
    """

    def __init__(
        self,
        http: Callable[[], aiohttp.ClientSession],
        base: URL,
        headers: CIMultiDict[str] | None,
        secrets: Iterable[str],
        *,
        direct: bool = True,
    ) -> None:
        self._http = http
        self._owns_http = headers is None
        self._base = base
        self._origin, self._path = str(base.origin()), base.raw_path
        self._secrets = secrets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session_path = SessionPath(headers)
        self._fast_path: FastPath | None = None
        self._use_fast_path = self._owns_http and direct and os.environ.get(SWITCH) != "0"

    def bind(self, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """Bind the connections to the first event loop that calls this, and return it.

        Raises ConfigurationError in another loop, where aiohttp would fail after sending the request.
        """
        if self._loop is None:
            # The user's session already belongs to a loop.
            self._loop = loop if self._owns_http else getattr(self._http(), "_loop", loop)
        if self._loop is not loop:
            raise ConfigurationError(
                "the session belongs to another event loop: make one session for each loop and thread"
            )
        return loop

    @property
    def is_bound(self) -> bool:
        """Whether an event loop has used the session."""
        return self._loop is not None

    def target(self, call: Call[Any]) -> str:
        """Return the encoded path and query of a call, at a third of the cost of yarl."""
        path = self._path + call.path
        if not call.params:
            return path
        return f"{path}?{'&'.join([f'{_quoted(name)}={_quoted(value)}' for name, value in call.params])}"

    async def exchange(
        self, call: Call[Any], max_bytes: int, watchdog: Watchdog, now: float, *, fresh: bool
    ) -> RawResponse:
        """Send a call once and read the complete answer in time; `fresh`: over a new connection.

        Raises TransportError (`unsent` if the service cannot have received anything), UnexpectedResponseError
        for a decompressed body over `max_bytes`, SessionClosedError.
        """
        assert self._loop is not None
        attempt = watchdog.start(self._loop, now)
        attempt.fresh = fresh
        try:
            return await self._exchange(call, max_bytes, attempt)
        except BaseException as error:
            if not attempt.expired:
                if attempt.stale and isinstance(error, TransportError):
                    error.stale = True
                raise
            # Withdraw it even if the error is another one: a middleware of the user may have replaced it.
            if not attempt.take_back() or not isinstance(error, asyncio.CancelledError):
                raise
        finally:
            watchdog.stop(attempt)
        if watchdog.closed:
            raise _closed_error(call, attempt)
        unsent = attempt.written is False
        text = f"no {'connection' if unsent else 'complete answer'} within {watchdog.seconds:g} s"
        failure = RequestTimeoutError(text, method=call.method, path=call.path)
        failure.unsent = unsent
        raise failure

    async def _exchange(self, call: Call[Any], max_bytes: int, attempt: Attempt) -> RawResponse:
        http = self._http()
        target = self.target(call)
        on_fast_path = self._use_fast_path and can_bypass_session(http)
        failure: SlashtagError
        try:
            response: PooledConnection | aiohttp.ClientResponse
            if on_fast_path:
                if self._fast_path is None:
                    self._fast_path = FastPath(http, self._base)
                response = await self._fast_path.request(call, target, attempt)
            else:
                # Encoded already: yarl must neither decode nor normalise it.
                url = URL(self._origin + target, encoded=True)
                response = await self._session_path.request(http, call, url, attempt)
            content = response.content
            try:
                body = await content.readany()
                if not content.at_eof():
                    body = await _read_rest(content, body, max_bytes)
            finally:
                if content.at_eof():
                    response.release()
                else:
                    response.close()
            if len(body) <= max_bytes:
                return RawResponse(response.status, response.headers, body)
            failure = UnexpectedResponseError(
                f"the body is larger than max_response_bytes ({max_bytes})",
                status=response.status,
                excerpt=self._scrubber(call).excerpt(body),
                repeatable=False,
                method=call.method,
                path=call.path,
            )
        except DroppedError as error:
            failure = self._failure(call, *error.args)
        except (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError) as error:
            failure = self._failure(call, describe(error), is_unsent(error, attempt))
        except (TypeError, AttributeError, LookupError) as error:
            if not on_fast_path:
                raise
            # aiohttp internals differ from those that the fast path was tested with.
            log.warning("requests go through ClientSession.request from now on: %r", error)
            self._use_fast_path = False
            self.close()
            if not attempt.written:
                return await self._exchange(call, max_bytes, attempt)
            failure = self._failure(call, "the answer could not be read")
        except (RuntimeError, AssertionError):
            # aiohttp asserts that its connector exists.
            if not http.closed:
                raise
            failure = _closed_error(call, attempt)
        if isinstance(failure, TransportError) and http.closed:
            failure = _closed_error(call, attempt)
        # Raised outside the handlers: aiohttp's errors contain the request headers with the credentials.
        raise failure

    def close(self) -> None:
        """Close idle connections of the fast path."""
        if self._fast_path is not None:
            self._fast_path.close()

    def _failure(self, call: Call[Any], text: str, unsent: bool = False) -> TransportError:
        error = TransportError(self._scrubber(call).text(text), method=call.method, path=call.path)
        error.unsent = unsent
        return error

    def _scrubber(self, call: Call[Any]) -> Scrubber:
        return Scrubber([*self._secrets, *call.secrets])


def _closed_error(call: Call[Any], attempt: Attempt) -> SlashtagError:
    """Return the error of a call whose session was closed during an attempt."""
    if attempt.written is False:
        return SessionClosedError("the session is closed; nothing was sent")
    text = "the session was closed during the request"
    if call.method == "GET":
        return SessionClosedError(text)
    # A lost answer: the write may have been done.
    return TransportError(text, method=call.method, path=call.path)


#: Bytes allowed unencoded in a query: unreserved in RFC 3986, and the comma between slashtags.
_PLAIN = UNRESERVED + b","


def _quoted(text: str) -> str:
    return text if text.isascii() and not text.encode().translate(None, _PLAIN) else _quoted_by_yarl(text)


@lru_cache(maxsize=256)  # the same date ranges are requested for many slashtags
def _quoted_by_yarl(text: str) -> str:
    return URL.build(query={"q": text}).raw_query_string.removeprefix("q=")


async def _read_rest(content: aiohttp.StreamReader, first: bytes, max_bytes: int) -> bytes:
    """Read until the end, or until there are more than `max_bytes`."""
    chunks = [first]
    size = len(first)
    while size <= max_bytes:
        chunk = await content.readany()
        if not chunk and content.at_eof():
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
