"""One HTTP exchange over aiohttp: request and body, under a cap, with every failure told as one of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from errno import EMFILE, ENFILE
from functools import lru_cache
from typing import Any, NamedTuple

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from .._core.call import Call
from .._core.response import EXCERPT_BYTES, SCRUBBED_BYTES, Scrubber
from .._core.selectors import UNRESERVED
from .._errors import SessionClosedError, SlashtagError, TransportError, UnexpectedResponseError
from .fast_path import NO_TIMEOUT, FastPath, can_bypass_session, opened_by


class RawResponse(NamedTuple):
    """Hold what came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _DroppedError(Exception):
    """Stand in for aiohttp's connection errors, on which it would silently send GET and PUT once more."""

    def __init__(self, text: str, unsent: bool) -> None:
        super().__init__(text)
        self.text = text
        self.unsent = unsent


async def no_resend(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Turn a dropped connection into an error that aiohttp does not answer with a second request."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        dropped = _DroppedError(_describe(error), _unsent(error))
    raise dropped


def _unsent(error: BaseException) -> bool:
    return isinstance(
        error,
        aiohttp.ClientConnectorError
        | aiohttp.ClientSSLError
        | aiohttp.ClientHttpProxyError
        | aiohttp.InvalidURL,
    )


def _describe(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        # Garbage framing is raised with a made-up status 400.
        return f"the answer is not HTTP ({_gist(error.message)})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the service closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the body was cut short or broken ({_gist(str(error))})"
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
        return f"{text}; raise the limit on open files (ulimit -n), or lower concurrency"
    return text


def _gist(text: str) -> str:
    """Give the beginning of an aiohttp message: what follows is the repr of what the server sent."""
    return text.removeprefix("400, message:").lstrip().partition("\n")[0].partition(":")[0]


def closed_under_way(call: Call[Any]) -> SlashtagError:
    """Give the error of a call whose session was closed under it; a write may have been done."""
    text = "the session was closed while a request was on its way"
    if call.method == "GET":
        return SessionClosedError(text)
    return TransportError(text, method=call.method, path=call.path)


class Transport:
    """Carry calls to one base URL with one pair of credentials.

    `http` gives the aiohttp session; `headers` are sent with each request where that session is not ours
    and does not have them; `base` ends in /api/v1/.
    """

    def __init__(
        self,
        http: Callable[[], aiohttp.ClientSession],
        base: URL,
        headers: CIMultiDict[str] | None,
        secrets: tuple[str, ...],
    ) -> None:
        self._http = http
        self._base = base
        self._headers = headers
        self._secrets = secrets
        self._urls: dict[str, URL] = {}
        self._lane: FastPath | None = None

    def _endpoint(self, call: Call[Any]) -> URL:
        """Build the URL of a call without its query; those of GETs are few and are kept."""
        url = self._urls.get(call.path)
        if url is None:
            # The path is encoded already: yarl must neither decode nor normalise it.
            url = URL(f"{self._base}{call.path}", encoded=True)
            if call.method == "GET":
                self._urls[call.path] = url
        return url

    def url(self, call: Call[Any]) -> URL:
        """Build the URL of a call."""
        url = self._endpoint(call)
        if not call.params:
            return url
        params = dict(call.params)  # yarl takes it faster than pairs, of which none repeats in our calls
        return url.extend_query(params if len(params) == len(call.params) else call.params)

    def target(self, call: Call[Any]) -> str:
        """Give what `url(call).raw_path_qs` would, for a third of its price where nothing needs encoding."""
        path = self._endpoint(call).raw_path
        if not call.params:
            return path
        return f"{path}?{'&'.join([f'{_quoted(name)}={_quoted(value)}' for name, value in call.params])}"

    async def exchange(self, call: Call[Any], max_bytes: int) -> RawResponse:
        """Send a call once and read its answer whole.

        Raises TransportError (`unsent` where nothing can have reached the service),
        UnexpectedResponseError for a decoded body over `max_bytes`, SessionClosedError.
        """
        http = self._http()
        failure: SlashtagError
        try:
            if self._headers is None and can_bypass_session(http):
                if self._lane is None:
                    self._lane = FastPath(http, self._base)
                opened = await self._lane.request(call, self.target(call))
            else:
                response = await http.request(call.method, self.url(call), **self._options(http, call))
                opened = opened_by(response)
            status, headers, content, release, close = opened
            try:
                body = await content.readany()
                if not content.at_eof():
                    body = await _read_rest(content, body, max_bytes)
            finally:
                if content.at_eof():
                    release()
                else:
                    close()
            if len(body) <= max_bytes:
                return RawResponse(status, headers, body)
            failure = UnexpectedResponseError(
                f"the body is larger than max_response_bytes ({max_bytes})",
                status=status,
                excerpt=self._scrubber(call).data(body[:SCRUBBED_BYTES])[:EXCERPT_BYTES],
                repeatable=False,
                method=call.method,
                path=call.path,
            )
        except _DroppedError as error:
            failure = self._failure(call, error.text, unsent=error.unsent)
        except (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError) as error:
            failure = self._failure(call, _describe(error), unsent=_unsent(error))
        except RuntimeError:
            if not http.closed:
                raise
            failure = SessionClosedError("the aiohttp session is closed")
        if isinstance(failure, TransportError) and not failure.unsent and http.closed:
            failure = closed_under_way(call)
        # Raised here, not in a handler: aiohttp's errors carry the request's headers, credentials and all.
        raise failure

    def close(self) -> None:
        """Give up the connections that are at rest."""
        if self._lane is not None:
            self._lane.close()

    def _options(self, http: aiohttp.ClientSession, call: Call[Any]) -> dict[str, Any]:
        if self._headers is None and call.body is None:
            return _OWN
        options = dict(_OWN)
        if call.body is not None:
            options |= {"data": call.body, "headers": {"Content-Type": "application/json"}}
        if self._headers is not None:
            # The owner's middlewares stay, ours goes innermost, where the connection is.
            theirs = getattr(http, "_middlewares", ())
            options |= {
                "headers": {**self._headers, **options.get("headers", {})},
                "middlewares": (*theirs, no_resend),
                "timeout": NO_TIMEOUT,
                "raise_for_status": False,
                "auto_decompress": True,
            }
        return options

    def _failure(self, call: Call[Any], text: str, *, unsent: bool) -> TransportError:
        error = TransportError(self._scrubber(call).text(text), method=call.method, path=call.path)
        error.unsent = unsent
        return error

    def _scrubber(self, call: Call[Any]) -> Scrubber:
        return Scrubber([*self._secrets, *call.secrets])


#: What stays as it is in a query: what RFC 3986 does not reserve, and the comma between slashtags.
_PLAIN = UNRESERVED + b","
_FEW = 200


def _quoted(text: str) -> str:
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    return _quoted_again(text) if len(text) <= _FEW else _quoted_by_yarl(text)


def _quoted_by_yarl(text: str) -> str:
    return URL.build(query={"q": text}).raw_query_string.removeprefix("q=")


#: The same spans of time are asked for with many slashtags.
_quoted_again = lru_cache(maxsize=256)(_quoted_by_yarl)


_OWN: dict[str, Any] = {"allow_redirects": False}


async def _read_rest(content: aiohttp.StreamReader, first: bytes, max_bytes: int) -> bytes:
    """Read on until the end or until more than `max_bytes` are there."""
    chunks = [first]
    size = len(first)
    while size <= max_bytes:
        chunk = await content.readany()
        if not chunk and content.at_eof():
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
