"""The errors, one tree, all picklable, none showing a credential or a link's password.

SlashtagError
├─ ConfigurationError (ValueError)     credentials, base_url, options
├─ InvalidRequestError (ValueError)    refused before anything is sent; says which rule of the service
├─ APIError                            the service answered with an error status
│  ├─ BadRequestError                  400
│  │  └─ UnknownTagError               400 of statistics: the tag does not exist
│  ├─ AuthenticationError              401
│  ├─ NotFoundError                    404
│  ├─ RateLimitError                   429
│  ├─ TagLimitError                    429 of create tag: the account's number of tags; never retried
│  └─ ServerError                      5xx
├─ TransportError                      connection, TLS, truncated body
│  └─ RequestTimeoutError (TimeoutError)  one attempt took longer than `timeout`
├─ OutcomeUnknownError                 a write whose answer was lost: it may have been done
├─ UnexpectedResponseError             3xx, not JSON, not the envelope, too large
├─ SessionClosedError (RuntimeError)   the session was closed
├─ PaginationError                     pages that do not fit together: items could be lost
├─ JournalError                        the journal of a job cannot be written or is damaged
└─ ExportError                         a file cannot be written, or cannot hold what is to be written
"""

from __future__ import annotations

from typing import Any


def _revive(cls: type[SlashtagError], args: tuple[Any, ...], state: dict[str, Any]) -> SlashtagError:
    error = cls.__new__(cls, *args)
    # OSError, and so TimeoutError, leaves them to an __init__, which is not called here.
    error.args = args
    error.__dict__.update(state)
    return error


class SlashtagError(Exception):
    """Be the root of every error that the library raises to its users."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own reduce calls cls(*args), which loses keyword-only fields and notes.
        return _revive, (type(self), self.args, dict(self.__dict__))


class ConfigurationError(SlashtagError, ValueError):
    """Refuse credentials, a base_url or an option that cannot work."""


class InvalidRequestError(SlashtagError, ValueError):
    """Refuse a request before anything is sent; the text says which rule of the service it breaks."""


class SessionClosedError(SlashtagError, RuntimeError):
    """Refuse the use of a closed session."""


class PaginationError(SlashtagError):
    """Listing whose pages do not fit together or do not advance, so that items could be lost."""


class JournalError(SlashtagError):
    """Tell that the journal of a job cannot be written, or is damaged; what it holds stays."""


class ExportError(SlashtagError):
    """Tell that a file cannot be written, say on a full disk, or cannot hold what is to be written."""


class _RequestFailedError(SlashtagError):
    """Carry what every failed request tells: `method`, `path` and how many `attempts` were sent."""

    def __init__(self, message: str, *, method: str = "", path: str = "", attempts: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.method = method
        self.path = path
        self.attempts = attempts

    def __str__(self) -> str:
        text = f"{self.method} {self.path}: {self._detail()}" if self.method else self._detail()
        return f"{text} (after {self.attempts} attempts)" if self.attempts > 1 else text

    def _detail(self) -> str:
        return self.message


class APIError(_RequestFailedError):
    """Tell an error status of the service.

    `status` is the HTTP status, or the envelope's where the HTTP status was 200; `message` and `data` are
    the envelope's; `retry_after` is in seconds, None where the answer did not tell (Errors).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        data: Any = None,
        method: str = "",
        path: str = "",
        attempts: int = 1,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, method=method, path=path, attempts=attempts)
        self.status = status
        self.data = data
        self.retry_after = retry_after

    def _detail(self) -> str:
        return f"{self.status} {self.message}"


class BadRequestError(APIError):
    """Tell that the service refused the request (400)."""


class UnknownTagError(BadRequestError):
    """Tell that the statistics were asked for a tag that does not exist (400)."""


class AuthenticationError(APIError):
    """Tell that the key and secret are not valid or missing (401)."""


class NotFoundError(APIError):
    """Tell that no short URL has the given slashtag or id, or that the path does not exist (404)."""


class RateLimitError(APIError):
    """Tell that the rate limit would make the request wait longer than `RetryPolicy.max_wait` (429).

    `attempts` is 0 where the request was never sent; `retry_after` says in how many seconds to try again.
    """


class TagLimitError(APIError):
    """Tell that the account has its maximum number of tags (429 of create tag)."""


class ServerError(APIError):
    """Tell that the service failed (5xx), after all retries that the policy allows."""


class TransportError(_RequestFailedError):
    """Tell that the connection, TLS or the transfer of the body failed."""

    #: True where the request certainly never reached the service.
    unsent: bool = False


class RequestTimeoutError(TransportError, TimeoutError):
    """Tell that one attempt took longer than the session's `timeout`."""


class OutcomeUnknownError(_RequestFailedError):
    """Tell that the answer to a write was lost: it may have been done, or not."""


class UnexpectedResponseError(_RequestFailedError):
    """Tell that the answer is not what the service is documented to send.

    `status` is the HTTP status, or the envelope's where that is a redirect's; `excerpt` holds the first 200
    bytes, without credentials; `repeatable` is False where asking again cannot help (a redirect, a body over
    `max_response_bytes`).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        excerpt: bytes = b"",
        repeatable: bool = True,
        method: str = "",
        path: str = "",
        attempts: int = 1,
    ) -> None:
        super().__init__(message, method=method, path=path, attempts=attempts)
        self.status = status
        self.excerpt = excerpt
        self.repeatable = repeatable

    def _detail(self) -> str:
        return f"{self.message}; it begins {self.excerpt!r}" if self.excerpt else self.message


def is_fatal(error: SlashtagError) -> bool:
    """Tell whether no other request can fare better."""
    return isinstance(error, AuthenticationError | SessionClosedError | JournalError)
