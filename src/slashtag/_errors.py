"""The tree of errors. All can be pickled; none shows a credential or a link's password.

SlashtagError
├─ ConfigurationError (ValueError)     credentials, base_url, options
├─ InvalidRequestError (ValueError)    refused before anything is sent; names the rule of the service
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
├─ UnexpectedResponseError             3xx, not JSON, not the envelope, too large, a 404 of a proxy
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
    """Root of every error that the library raises to its users."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own reduce calls cls(*args), which loses keyword-only fields and notes.
        return _revive, (type(self), self.args, dict(self.__dict__))


class ConfigurationError(SlashtagError, ValueError):
    """Credentials, a base_url or an option that cannot work, or use in another event loop."""


class InvalidRequestError(SlashtagError, ValueError):
    """A request that breaks a rule of the service, which the text names; nothing was sent."""


class SessionClosedError(SlashtagError, RuntimeError):
    """The session is closed, or was closed before the request was sent or answered."""


class PaginationError(SlashtagError):
    """Listing whose pages do not fit together or do not advance, so that items could be lost."""


class JournalError(SlashtagError):
    """The journal of a job cannot be written, or is damaged; its contents are left as they are."""


class ExportError(SlashtagError):
    """A file that cannot be written, for example on a full disk, or cannot hold the values."""


class _RequestFailedError(SlashtagError):
    """A failed request: its `method`, `path` and the number of `attempts` that were sent."""

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
    """An error status.

    `status` is the HTTP status, or the envelope's if the HTTP status was 200; `message` and `data` are the
    envelope's; `retry_after` is in seconds, None if the answer has none; `from_service` is False if the
    answer lacks the service's envelope, so that a proxy or gateway may have sent it (Errors).
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
        from_service: bool = True,
    ) -> None:
        super().__init__(message, method=method, path=path, attempts=attempts)
        self.status = status
        self.data = data
        self.retry_after = retry_after
        self.from_service = from_service

    def _detail(self) -> str:
        return f"{self.status} {self.message}"


class BadRequestError(APIError):
    """The service refused the request (400)."""


class UnknownTagError(BadRequestError):
    """Statistics were requested for a tag that does not exist (400)."""


class AuthenticationError(APIError):
    """The key and secret are not valid or missing (401)."""


class NotFoundError(APIError):
    """No short URL has the given slashtag or id, or the service does not know the path (404)."""


class RateLimitError(APIError):
    """The rate limit would make the request wait longer than `RetryPolicy.max_wait` (429).

    `attempts` is 0 if the request was never sent; `retry_after`: seconds until it makes sense to try again.
    """


class TagLimitError(APIError):
    """The account has its maximum number of tags (429 of create tag)."""


class ServerError(APIError):
    """The service failed (5xx), after all retries that the policy allows."""


class TransportError(_RequestFailedError):
    """The connection, TLS or the transfer of the body failed."""

    #: True if nothing of the request was sent.
    unsent: bool = False


class RequestTimeoutError(TransportError, TimeoutError):
    """One attempt took longer than the session's `timeout`."""


class OutcomeUnknownError(_RequestFailedError):
    """The answer to a write was lost: it may have been done, or not."""


class UnexpectedResponseError(_RequestFailedError):
    """The answer is not one that the service is documented to send.

    `status` is the HTTP status, or the envelope's if that is a redirect's; `excerpt` holds the first 200
    bytes, without credentials; `repeatable` is False if a repetition cannot help (a redirect, a body over
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
    """Return whether every other request would fail as well."""
    return isinstance(error, AuthenticationError | SessionClosedError | JournalError)
