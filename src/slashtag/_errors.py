"""Error classes. All can be pickled; none contains credentials or a link's password. See docs/python.md."""

import copyreg
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from multidict import CIMultiDict

#: Headers in which services and gateways name a request, so that their logs can be searched for it.
REQUEST_IDS = ("X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Amzn-RequestId", "X-Trace-Id", "CF-Ray")


class SlashtagError(Exception):
    """Base class of all errors of this library."""

    #: Whether every other request would fail as well: SessionClosedError, JournalError, AuthenticationError.
    is_fatal: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception.__reduce__ calls cls(*args), which loses keyword-only fields and notes. `args` is in the
        # state for OSError, and so TimeoutError, which sets it in __init__.
        return copyreg.__newobj__, (type(self), *self.args), {**self.__dict__, "args": self.args}  # type: ignore[attr-defined]


class ConfigurationError(SlashtagError, ValueError):
    """Invalid credentials, base_url or option, or use in another event loop."""


class InvalidRequestError(SlashtagError, ValueError):
    """Request that breaks a rule of the service, named in the message; it was not sent."""


class SessionClosedError(SlashtagError, RuntimeError):
    """Use of a session that is closed, or was closed before the request was sent or answered."""

    is_fatal = True


class PaginationError(SlashtagError):
    """Inconsistent or repeated pages of a listing, so that items could be lost."""


class JournalError(ConfigurationError):
    """Journal that cannot be opened, is in use, damaged, or of another job; it is left as it is."""

    is_fatal = True


class ExportError(SlashtagError):
    """File that cannot be written, say on a full disk; values that a file or data frame cannot hold."""


@dataclass(eq=False, repr=False)
class RequestFailedError(SlashtagError):
    """Base class of requests that failed: an error status, no answer, or one that is not documented.

    `session`: the name of the session, if it has one; `method`, `path`; `attempts`: how often it was sent;
    `headers`: of the last answer its Date, Server, Content-Type, Retry-After and request id, whose names may
    be written in upper or lower case.
    """

    message: str
    _: KW_ONLY
    session: str = ""
    method: str = ""
    path: str = ""
    attempts: int = 1
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def request_id(self) -> str | None:
        """The id of the request in an answer's headers, None without one: a support team may ask for it."""
        return next((self.headers[name] for name in REQUEST_IDS if name in self.headers), None)

    def __post_init__(self) -> None:
        self.headers = CIMultiDict(self.headers)
        super().__init__(self.message)

    def __str__(self) -> str:
        text = f"{self.method} {self.path}: {self._detail()}" if self.method else self._detail()
        text = f"{self.session}: {text}" if self.session else text
        return f"{text} (after {self.attempts} attempts)" if self.attempts > 1 else text

    def _detail(self) -> str:
        return self.message


@dataclass(eq=False, repr=False, kw_only=True)
class APIError(RequestFailedError):
    """Error status of an answer.

    `status` is the HTTP status, or the envelope's if the HTTP status was 200; `message` and `data` are the
    envelope's; `retry_after` is in seconds, None if the answer has none; `from_service` is False if the
    answer lacks the service's envelope, so a proxy or gateway may have sent it. See docs/service.md, Errors.
    """

    status: int
    data: Any = None
    retry_after: float | None = None
    from_service: bool = True

    def _detail(self) -> str:
        return f"{self.status} {self.message}"


class BadRequestError(APIError):
    """Request refused by the service (400)."""


class UnknownTagError(BadRequestError):
    """Statistics request for a tag that does not exist (400)."""


class AuthenticationError(APIError):
    """Invalid or missing key and secret (401)."""

    is_fatal = True


class NotFoundError(APIError):
    """Unknown slashtag, id or path (404)."""


class RateLimitError(APIError):
    """Request answered 429 whose wait would exceed `RetryPolicy.max_wait`.

    `attempts` does not count what was answered 429; `retry_after`: seconds after which to try again.
    """


class TagLimitError(APIError):
    """Maximum number of tags reached: its message says so, or only this request is answered 429."""


class ServerError(APIError):
    """Failure of the service (5xx), after all retries allowed by the policy."""


@dataclass(eq=False, repr=False, kw_only=True)
class TransportError(RequestFailedError):
    """Failure of the connection, of TLS or of the transfer of the body.

    `unsent` is True if nothing of the request was sent; `repeatable` is False if a retry cannot help: the
    certificate of the service, or of the proxy, is not valid.
    """

    unsent: bool = False
    repeatable: bool = True


class RequestTimeoutError(TransportError, TimeoutError):
    """Attempt that took longer than the session's `timeout`."""


@dataclass(eq=False, repr=False, kw_only=True)
class QueueTimeoutError(RequestFailedError, TimeoutError):
    """Request that waited in the session's queue longer than `RetryPolicy.max_wait` and met no 429.

    `retry_after`: seconds after which the session sends again, None if that is unknown.
    """

    retry_after: float | None = None
    unsent: bool = True


class OutcomeUnknownError(RequestFailedError):
    """Write whose answer was lost, so it may have been done."""


@dataclass(eq=False, repr=False, kw_only=True)
class UnexpectedResponseError(RequestFailedError):
    """Answer that is not documented.

    `status` is the HTTP status, or the envelope's if that is a redirect's; `excerpt` holds the first 200
    bytes, without credentials; `repeatable` is False if a retry cannot help (a redirect, a body over
    `max_response_bytes`, an answer of a cache where none may answer).
    """

    status: int
    excerpt: bytes = b""
    repeatable: bool = True

    def _detail(self) -> str:
        # Of a page of HTML the message has the text.
        if not self.excerpt or self.excerpt.lstrip().startswith(b"<"):
            return self.message
        return f"{self.message}; it begins {self.excerpt[:80].decode(errors='replace')!r}"
