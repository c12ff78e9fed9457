"""Requests through `ClientSession.request`: for a session of the user, or without the fast path."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import aiohttp
from yarl import URL

from .._core.call import Call
from .._credentials import Credentials, Proxy
from .attempt import (
    NO_CACHE,
    NO_TIMEOUT,
    USER_AGENT,
    Attempt,
    Response,
    closed_too_early,
    has_leftover,
    read_body,
    read_head,
    readable,
)
from .fast_path import TESTED

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection


class _StaleError(Exception):
    """Refusal of a reused connection, for a new one, before anything was written."""


class _DroppedError(Exception):
    """Cover of aiohttp's error of a dropped connection, after which aiohttp would repeat GET and PUT."""


class SessionPath:
    """Sender of requests to one origin through a ClientSession.

    `proxy`: of our own session; `is_given`: the session is the user's.
    """

    def __init__(self, origin: URL, credentials: Credentials, proxy: Proxy | None, *, is_given: bool) -> None:
        self._origin = str(origin)
        self._credentials = credentials
        self._proxy = proxy
        self._is_given = is_given
        #: The connections that have carried a request of ours, with the parser of its answer.
        self._parsers: WeakKeyDictionary[ResponseHandler, Any] = WeakKeyDictionary()

    async def request(
        self, http: aiohttp.ClientSession, call: Call[Any], target: str, attempt: Attempt, max_bytes: int
    ) -> Response:
        """Send a call to an encoded target and read the answer, its body not far beyond `max_bytes`.

        Raises aiohttp.ClientError, OSError, and RuntimeError if the session is closed.
        """
        if http.closed:
            raise RuntimeError("the aiohttp session is closed")
        # Unknown until the middleware runs: mocks and recorders never call it.
        attempt.written = None
        # Keep the user's middlewares and add ours as the innermost, next to the connection.
        theirs = getattr(http, "_middlewares", ())
        options: dict[str, Any] = {
            "allow_redirects": False,
            "middlewares": (*theirs, partial(self._middleware, call, attempt)),
            "data": call.body,
        }
        if self._is_given:
            options |= {"timeout": NO_TIMEOUT, "raise_for_status": False, "auto_decompress": True}
        # Encoded already: yarl must neither decode nor normalise it.
        url = URL(self._origin + target, encoded=True)
        try:
            # The headers are not in a variable, which a traceback may show.
            response = await http.request(call.method, url, **self._headers(call, http), **options)
        except _DroppedError as dropped:
            raise dropped.args[0] from None
        content = response.content
        try:
            body = await read_body(content, max_bytes)
        finally:
            if content.at_eof():
                response.release()
            else:
                response.close()
        return response.status, response.headers, body

    def _headers(self, call: Call[Any], http: aiohttp.ClientSession) -> dict[str, Any]:
        """Return the options of a request with the headers of the call, for the service and for the proxy."""
        headers = self._credentials.headers
        name, text = USER_AGENT
        unwanted = {each.lower() for each in (*http.headers, *http.skip_auto_headers)}
        if name.lower() not in unwanted:
            headers[name] = text
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        if call.again:
            headers |= (NO_CACHE,)
        if self._proxy is None:
            return {"headers": headers}
        if self._origin.startswith("https:"):
            return {"headers": headers, "proxy_headers": self._proxy.headers.copy()}
        # Without a tunnel the proxy reads the request itself.
        return {"headers": headers | self._proxy.headers}

    async def _middleware(
        self,
        call: Call[Any],
        attempt: Attempt,
        request: aiohttp.ClientRequest,
        handler: aiohttp.ClientHandlerType,
    ) -> aiohttp.ClientResponse:
        """Record whether the request was written; raise _DroppedError for a dropped connection."""
        # aiohttp calls `send` with the connection: the only place between connecting and writing.
        if TESTED and isinstance(request, aiohttp.ClientRequest):
            vars(request)["send"] = partial(self._send, call, attempt, request)
            attempt.written = bool(attempt.written)
        while True:
            try:
                return await handler(request)
            except _StaleError:
                continue  # aiohttp has closed it and takes another connection
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                raise _DroppedError(error) from None

    async def _send(
        self, call: Call[Any], attempt: Attempt, request: aiohttp.ClientRequest, connection: Connection
    ) -> aiohttp.ClientResponse:
        """Write the request if the connection is still good."""
        protocol, transport = connection.protocol, connection.transport
        parser = None if protocol is None else self._parsers.get(protocol)
        if protocol is None or transport is None or transport.is_closing():
            raise closed_too_early(request.connection_key) if parser is None else _StaleError
        # For a new connection all that have carried requests are closed: one may have the answer in doubt.
        if parser is None:
            vars(protocol)["read"] = partial(read_head, protocol)
        elif call.again or has_leftover(parser) or readable(transport)():
            raise _StaleError
        self._parsers[protocol] = protocol._parser
        attempt.written = True
        return await type(request).send(request, connection)
