"""One HTTP exchange over aiohttp, with a limited body size; raises only slashtag errors.

Request                           Connection  Because
--------------------------------  ----------  ------------------------------------------------------------
a read                            pooled      aiohttp sends it once more itself if a resting one was dropped
a write                           new         what fails before it was written has not been sent
a read once more (`Call.again`)   new         a pooled one may be at fault, or where it leads
any, over a session of the user   theirs      whether a write was written is then not known
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from math import inf
from typing import Any

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from .._core.call import Call
from .._core.scrubber import Scrubber
from .._credentials import Credentials, Proxy
from .._errors import (
    ConfigurationError,
    RequestTimeoutError,
    SessionClosedError,
    SlashtagError,
    TransportError,
    UnexpectedResponseError,
)
from .._fanout import running_loop
from .._version import __version__

#: The deadline of an attempt is ours: aiohttp's ends no attempt when the session is closed.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError)
# A pinned certificate is checked by aiohttp.
_NOT_TRUSTED = (ssl.CertificateError, aiohttp.ServerFingerprintMismatch)


@dataclass(eq=False, repr=False)
class Response:
    """Answer with its decompressed body; it may echo a secret, so that no repr shows it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _BodyOfOneUse(aiohttp.BytesIOPayload):
    """Body that aiohttp does not send once more by itself after a dropped connection, as it would for PUT."""

    @property
    def consumed(self) -> bool:
        return True


#: Makes the URL of a text. There are few; to parse each anew costs a hundredth of a request.
_encoded = lru_cache(partial(URL, encoded=True))


async def _note_written(http: object, context: Any, params: object) -> None:
    context.trace_request_ctx.append(True)


@dataclass(eq=False, repr=False)
class Transport:
    """HTTP transport to one service with one pair of credentials, in one event loop.

    `base` ends in /api/v1/; `given` is the user's aiohttp session, never closed here.
    """

    base: URL
    credentials: Credentials
    given: aiohttp.ClientSession | None = None
    proxy: Proxy | None = None
    closed: bool = False
    #: The event loop that has used the session.
    loop: asyncio.AbstractEventLoop | None = None

    def __post_init__(self) -> None:
        #: Our own sessions, by whether each request has a new connection.
        self._own = dict[bool, aiohttp.ClientSession]()
        #: When the attempts under way end at the latest, in loop time, and their tasks. One timer ends them
        #: all, as a timer and an asyncio.Timeout for each cost a tenth of a request.
        self._ends: dict[object, tuple[float, asyncio.Task[Any]]] = {}
        self._next_end = inf
        self._timer: asyncio.Handle | None = None
        password = getattr(self.proxy, "password", None)
        self.scrubber = Scrubber((self.credentials.apikey, self.credentials.apisecret, password))
        self._base = str(self.base)
        #: Those that our aiohttp sessions lack: a proxy would get theirs too when it is asked for a tunnel.
        self._headers = CIMultiDict(self.credentials.headers if self.given or self.proxy else {})
        #: Of every request.
        self._options: dict[str, Any] = {"allow_redirects": False}
        if self.given:  # which may have others
            self._options |= {"timeout": _NO_TIMEOUT, "raise_for_status": False, "auto_decompress": True}
        if self.proxy:
            if self.base.scheme == "http":  # without a tunnel the proxy reads the request itself
                self._headers.update(self.proxy.headers)
            else:
                self._options["proxy_headers"] = self.proxy.headers

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the event loop, that which first uses the session; raises ConfigurationError in another."""
        loop = running_loop()
        self.loop = self.loop or loop
        if self.loop is not loop:
            raise ConfigurationError(
                "the session belongs to another event loop: make one session for each loop and thread"
            )
        return loop

    def stop(self) -> None:
        """Refuse requests from now on; raises ConfigurationError in another event loop."""
        if self.loop:
            self.bind()
        self.closed = True

    @property
    def _is_closed(self) -> bool:
        return self.closed or bool(self.given and self.given.closed)

    def _http(self, *, is_fresh: bool) -> aiohttp.ClientSession:
        """Return the aiohttp session whose connections are pooled, or new for each request."""
        if self.given:
            return self.given
        if is_fresh not in self._own:
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_note_written)
            headers = {"Accept": "application/json", "User-Agent": f"slashtag/{__version__}"}
            self._own[is_fresh] = aiohttp.ClientSession(
                # Admission limits requests in flight, so the pool needs no limit.
                connector=aiohttp.TCPConnector(limit=0, force_close=is_fresh),
                headers=headers if self.proxy else headers | self.credentials.headers,
                timeout=_NO_TIMEOUT,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace] if is_fresh else None,
                proxy=getattr(self.proxy, "url", None),
            )
        return self._own[is_fresh]

    def url(self, call: Call[Any]) -> URL:
        """Return the URL of a call, whose path is encoded already."""
        path = self._base + call.path
        # From a dict it is made faster, but a name may come twice.
        params = dict(call.params)
        url = _encoded(path).extend_query(params if len(params) == len(call.params) else call.params)
        query = url.raw_query_string
        # Some servers read a plus sign in a query as one.
        return URL(f"{path}?{query.replace('+', '%20')}", encoded=True) if "+" in query else url

    async def exchange(self, call: Call[Any], now: float, timeout: float, max_bytes: int) -> Response:
        """Send a call once; return its answer.

        `timeout`: seconds from `now`. Raises TransportError (`unsent` if the service cannot have received
        anything), UnexpectedResponseError for a body over `max_bytes`, and SessionClosedError.
        """
        is_fresh = call.method != "GET" or call.again
        # Is no longer empty once the request may have been written; None: that is not known.
        written: list[bool] | None = [] if is_fresh and not self.given else None
        if self._is_closed:
            raise SessionClosedError("the session is closed")
        task = asyncio.current_task()
        assert task is not None  # which every coroutine runs in
        attempt, end, others = object(), now + timeout, task.cancelling()
        self._ends[attempt] = end, task
        if end < self._next_end:
            self._end_late(-inf)  # which sets the timer anew
        is_late = False
        try:
            try:
                response = await self._send(call, is_fresh, written, max_bytes)
            finally:
                # The cancellation of an attempt that was taken out is ours, unless others cancelled it too.
                is_late = self._ends.pop(attempt, None) is None and task.uncancel() <= others
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not is_late:
                raise
            failure = self._failure(call, error, written, f"{timeout:.3g} s" if is_late else "")
            if failure is None:
                raise  # such as one of the user's middleware
        else:
            if len(response.body) <= max_bytes:
                return response
            scrub = self.scrubber.adding(call.secrets)
            failure = UnexpectedResponseError(
                f"the body is larger than max_response_bytes ({max_bytes})",
                status=response.status,
                excerpt=scrub.excerpt(response.body),
                repeatable=False,
                headers=scrub.headers(response.headers),
            )
        # Raised outside the handlers: aiohttp's errors have the request with its headers.
        raise failure

    async def _send(
        self, call: Call[Any], is_fresh: bool, written: list[bool] | None, max_bytes: int
    ) -> Response:
        headers = self._headers.copy() if is_fresh else self._headers
        data = None
        if call.again:
            headers["Cache-Control"] = "no-cache"
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            data = _BodyOfOneUse(BytesIO(call.body))
        response = await self._http(is_fresh=is_fresh).request(
            call.method,
            self.url(call),
            headers=headers,
            data=data,
            trace_request_ctx=written,
            **self._options,
        )
        content = response.content
        chunks: list[bytes] = []
        size = 0
        try:
            while size <= max_bytes and not content.at_eof():
                chunk = await content.readany()
                chunks.append(chunk)
                size += len(chunk)
        finally:
            if not content.at_eof():
                response.close()
        return Response(response.status, response.headers, b"".join(chunks))

    def _failure(
        self, call: Call[Any], error: BaseException, written: list[bool] | None, late: str
    ) -> SlashtagError | None:
        """Return the error of an attempt that another one ended, None if that is not about a connection.

        `late`: how long the attempt was allowed to take, if that ended it.
        """
        unsent = isinstance(error, _NOT_CONNECTED) if written is None else not written
        if self._is_closed:
            # A write that may have been received has to end as one whose answer was lost.
            kind = SessionClosedError if unsent or call.method == "GET" else TransportError
            return kind("the session was closed during the request")
        if isinstance(error, UnicodeError):
            return ConfigurationError("a header of your http session, or its proxy's, cannot be encoded")
        if not (late or isinstance(error, aiohttp.ClientError | HttpProcessingError | OSError)):
            return None
        is_untrusted = isinstance(error, _NOT_TRUSTED)
        hint = ""
        if not (self.given or self.proxy) and {"HTTPS_PROXY", "https_proxy"} & os.environ.keys():
            hint = "; HTTPS_PROXY is not used: if the network needs it, set proxy= or SLASHTAG_PROXY"
        if late:
            text = f"no {'connection' if unsent else 'complete answer'} within {late}{hint}"
            return RequestTimeoutError(text, unsent=unsent)
        text = self.scrubber.adding(call.secrets).text(describe(error)) + hint
        return TransportError(text, unsent=unsent or is_untrusted, repeatable=not is_untrusted)

    def _end_late(self, now: float) -> None:
        """Cancel the attempts whose time is over, and come again when that of the next one is."""
        loop = running_loop()
        now = max(now, loop.time())  # a timer may come late, and uvloop's a little early
        for attempt, (end, task) in list(self._ends.items()):
            if end <= now:
                del self._ends[attempt]
                task.cancel()
        if self._timer:
            self._timer.cancel()
        self._next_end = end = min((end for end, _ in self._ends.values()), default=inf)
        if end < inf:
            self._timer = loop.call_at(end, self._end_late, end)

    async def aclose(self) -> None:
        """End the attempts under way and close all connections, unless the aiohttp session is the user's."""
        self._end_late(inf)
        for http in self._own.values():
            await http.close()


def describe(error: BaseException) -> str:
    """Return the text of an aiohttp error, without data that the server sent."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    text = str(getattr(error, "message", error)) or type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError | HttpProcessingError):
        # Garbage is raised with a made-up status 400. Behind the next colon is what the server sent.
        words = text.removeprefix("400, message:").lstrip().partition("\n")[0].partition(":")[0]
        return f"the answer is cut short, or not HTTP ({words})"
    if isinstance(error, ssl.CertificateError):
        return (
            f"{text}; compare the host in base_url with the certificate, and this machine's clock with the "
            "time; for a company's own authority set SSL_CERT_FILE to a file that has its certificate too"
        )
    return text
