"""One HTTP exchange over aiohttp, with a limited body size; raises only slashtag errors."""

import asyncio
import errno
import logging
import os
import ssl
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp.http import HttpProcessingError
from yarl import URL

from .._core.batches import UNRESERVED
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
from .._files import running_loop
from .attempt import NO_TIMEOUT, USER_AGENT, Attempt, Response
from .client_session_path import SessionPath
from .fast_path import SWITCH, TESTED, FastPath, obstacle
from .health import Finding

log = logging.getLogger("slashtag")

_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientSSLError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
# A pinned certificate is checked by aiohttp.
_NOT_TRUSTED = (ssl.CertificateError, aiohttp.ServerFingerprintMismatch)


@dataclass(eq=False, repr=False)
class Transport:
    """HTTP transport to one service with one pair of credentials, in one event loop.

    `base` ends in /api/v1/; `given` is the user's aiohttp session, never closed here. Without it, one is
    created at first use, with `proxy`.
    """

    base: URL
    credentials: Credentials
    given: aiohttp.ClientSession | None = None
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        self.closed = False
        #: The event loop that has used the session.
        self.loop: asyncio.AbstractEventLoop | None = None
        #: The aiohttp session that we created.
        self._own: aiohttp.ClientSession | None = None
        self._attempts: set[Attempt] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self.scrubber = Scrubber(
            (
                self.credentials.apikey,
                self.credentials.apisecret,
                None if self.proxy is None else self.proxy.password,
            )
        )
        self._session_path = SessionPath(
            self.base.origin(), self.credentials, self.proxy, is_given=self.given is not None
        )
        self._fast_path: FastPath | None = None
        self._told_obstacle = False
        self._is_direct = self.given is None and self.proxy is None and os.environ.get(SWITCH) != "0"
        #: That parts of aiohttp could not be used, of late or before: one GET then shows whether they can.
        self._is_unusable = Finding()
        self._was_unusable = False

    @property
    def way(self) -> str:
        """How requests are sent: over aiohttp's connections, or through `ClientSession.request`."""
        is_usable = self._is_direct and not self._is_unusable
        bypasses = is_usable and (TESTED if self._own is None else not obstacle(self._own))
        return "connections of aiohttp" if bypasses else "ClientSession.request"

    def bind(self) -> None:
        """Bind the connections to the first event loop in which this is called.

        Raises ConfigurationError in another loop, where aiohttp would fail after sending the request, and
        without an asyncio loop, as on trio.
        """
        loop = running_loop()
        if self.loop is None:
            # The user's session already belongs to a loop.
            self.loop = getattr(self.given, "_loop", loop)
        if self.loop is not loop:
            raise ConfigurationError(
                "the session belongs to another event loop: make one session for each loop and thread"
            )

    def stop(self) -> None:
        """Refuse requests from now on; raises ConfigurationError in another event loop."""
        if self.loop is not None:
            self.bind()
        self.closed = True

    def http(self) -> aiohttp.ClientSession:
        """Return the aiohttp session, which belongs to the running event loop."""
        if self.closed:
            raise SessionClosedError("the session is closed")
        if self.given is not None:
            return self.given
        if self._own is None:
            self._own = aiohttp.ClientSession(
                # Admission limits requests in flight, so the pool needs no limit.
                connector=aiohttp.TCPConnector(limit=0),
                # Not the credentials: aiohttp sends these headers to a proxy too.
                headers=dict([("Accept", "application/json"), USER_AGENT]),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=NO_TIMEOUT,
                proxy=None if self.proxy is None else self.proxy.url,
            )
        return self._own

    def target(self, call: Call[Any]) -> str:
        """Return the encoded path and query of a call, at a third of the cost of yarl."""
        path = self.base.raw_path + call.path
        if not call.params:
            return path
        return f"{path}?{'&'.join([f'{_quoted(name)}={_quoted(value)}' for name, value in call.params])}"

    async def exchange(
        self,
        call: Call[Any],
        now: float,
        timeout: float,
        max_bytes: int,
        *,
        is_cut: bool = False,
    ) -> Response:
        """Send a call once; return the status, the headers and the decompressed body of the answer.

        `timeout`: seconds from `now`, `is_cut` if they are what is left of a policy's `max_elapsed`.
        Raises TransportError (`unsent` if the service cannot have received anything), UnexpectedResponseError
        for a body over `max_bytes`, and SessionClosedError.
        """
        assert self.loop is not None
        attempt = Attempt(self.loop, now + timeout)
        self._attempts.add(attempt)
        if attempt.at < self._timer_at:
            self._expire()
        try:
            return await self._exchange(call, max_bytes, attempt)
        except BaseException as error:
            _hide_frames(error)
            # In any case: a middleware of the user may have replaced the error.
            timed_out = attempt.withdraw_timeout()
            if not (timed_out and isinstance(error, asyncio.CancelledError)):
                raise
        finally:
            self._attempts.discard(attempt)
        if self.closed:
            raise _closed_error(call, attempt)
        unsent = attempt.written is False
        text = f"no {'connection' if unsent else 'complete answer'} within {timeout:.3g} s"
        raise RequestTimeoutError(text + ", the rest of max_elapsed" * is_cut, unsent=unsent)

    async def _exchange(self, call: Call[Any], max_bytes: int, attempt: Attempt) -> Response:
        http = self.http()
        target = self.target(call)
        may_bypass = self._is_direct and not self._is_unusable
        why = obstacle(http) if may_bypass else ""
        # Not a write, whose outcome might then be unknown.
        on_fast_path = may_bypass and not why and not (self._was_unusable and call.method != "GET")
        if is_probe := on_fast_path and self._was_unusable:
            self._is_unusable.note()  # until its answer is there
        if why and not self._told_obstacle:
            self._told_obstacle = True
            log.info("requests go through ClientSession.request, at twice the cost: %s", why)
        failure: SlashtagError
        try:
            if on_fast_path:
                if self._fast_path is None:
                    self._fast_path = FastPath(http, self.base, self.credentials)
                response = await self._fast_path.request(call, target, attempt, max_bytes)
                if is_probe:
                    self._was_unusable = False
                    self._is_unusable.forget()
            else:
                response = await self._session_path.request(http, call, target, attempt, max_bytes)
            status, headers, body = response
            if len(body) <= max_bytes:
                return response
            scrub = self.scrubber.adding(call.secrets)
            failure = UnexpectedResponseError(
                f"the body is larger than max_response_bytes ({max_bytes})",
                status=status,
                excerpt=scrub.excerpt(body),
                repeatable=False,
                headers=scrub.headers(headers),
            )
        except (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError) as error:
            text = self.scrubber.adding(call.secrets).text(describe(error))
            # Where it is not known whether anything was written, the error may say so.
            unsent = isinstance(error, _NOT_CONNECTED) if attempt.written is None else not attempt.written
            is_untrusted = isinstance(error, _NOT_TRUSTED)
            failure = TransportError(text, unsent=unsent or is_untrusted, repeatable=not is_untrusted)
        except UnicodeError:
            # aiohttp takes the password of a proxy in Latin-1. The error has it.
            text = "a header of your http session, or the user or password of its proxy, cannot be encoded"
            failure = ConfigurationError(text)
        except (TypeError, AttributeError, LookupError) as error:
            if not on_fast_path:
                raise
            # aiohttp internals differ from those that the fast path was tested with.
            log.warning("requests go through ClientSession.request for some minutes: %r", error)
            self._was_unusable = True
            self._is_unusable.note()
            self._close_idle()
            self._fast_path = None
            if not attempt.written:
                return await self._exchange(call, max_bytes, attempt)
            failure = TransportError("the answer could not be read")
        except (RuntimeError, AssertionError):
            # aiohttp asserts that its connector exists.
            if not http.closed:
                raise
            failure = _closed_error(call, attempt)
        if isinstance(failure, TransportError) and http.closed:
            failure = _closed_error(call, attempt)
        # Raised outside the handlers: aiohttp's errors contain the request headers with the credentials.
        raise failure

    def _expire(self) -> None:
        """End the attempts whose time is over; one timer for all takes a quarter of one for each."""
        assert self.loop is not None
        now = self.loop.time()
        for attempt in self._attempts:
            if attempt.at <= now:
                attempt.expire()
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = min((attempt.at for attempt in self._attempts if attempt.at > now), default=inf)
        self._timer = self.loop.call_at(self._timer_at, self._expire) if self._timer_at < inf else None

    def _close_idle(self) -> None:
        if self._fast_path is not None:
            self._fast_path.close()

    async def aclose(self) -> None:
        """End the attempts under way and close all connections, unless the aiohttp session is the user's."""
        for attempt in self._attempts:
            attempt.expire()
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._close_idle()
        finally:
            if self._own is not None:
                await self._own.close()


def _hide_frames(error: BaseException) -> None:
    """Drop the functions of this package and of aiohttp from what an error's traceback has below an attempt.

    Their variables have the headers of the request, and so the credentials, and some tracebacks show
    variables. It is for what is not raised here, such as a cancellation or an error of a user's middleware,
    whose own functions stay.
    """
    todo, seen = [error], set[int]()
    while todo:
        each = todo.pop()
        # What was caught by others, such as an error that the caller handles meanwhile, stays as it is.
        if id(each) not in seen and each.__traceback__ is not None and _is_hidden(each.__traceback__):
            seen.add(id(each))
            each.__traceback__ = _visible(each.__traceback__)
            todo += filter(None, (each.__cause__, each.__context__))


def _is_hidden(entry: TracebackType) -> bool:
    return str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0] in (
        __name__.partition(".")[0],
        "aiohttp",
    )


def _visible(entry: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the entries that are hidden."""
    while entry is not None and _is_hidden(entry):
        entry = entry.tb_next
    if entry is not None:
        entry.tb_next = _visible(entry.tb_next)
    return entry


def _closed_error(call: Call[Any], attempt: Attempt) -> SlashtagError:
    """Return the error of a call whose session was closed during an attempt."""
    if attempt.written is False:
        return SessionClosedError("the session is closed; nothing was sent")
    text = "the session was closed during the request"
    if call.method == "GET":
        return SessionClosedError(text)
    # A lost answer: the write may have been done.
    return TransportError(text)


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
    if isinstance(error, ssl.CertificateError):
        return (
            f"{text}; compare the host in base_url with the certificate, and this machine's clock with the "
            "time; for a company's own authority set SSL_CERT_FILE to a file that has its certificate too"
        )
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{text}; raise the limit on open files (ulimit -n), or lower concurrency"
    return text


def _first_words(text: str) -> str:
    """Return the start of an aiohttp message, before the repr of data that the server sent."""
    return text.removeprefix("400, message:").lstrip().partition("\n")[0].partition(":")[0]


#: Bytes allowed unencoded in a query: unreserved in RFC 3986, and the comma between slashtags.
_PLAIN = UNRESERVED + b","


def _quoted(text: str) -> str:
    return text if text.isascii() and not text.encode().translate(None, _PLAIN) else _quoted_by_yarl(text)


@lru_cache(maxsize=256)  # the same date ranges are requested for many slashtags
def _quoted_by_yarl(text: str) -> str:
    return URL.build(query={"q": text}).raw_query_string.removeprefix("q=")
