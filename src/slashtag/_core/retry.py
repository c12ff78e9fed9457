"""Retry rules: which calls are repeated after which errors, and which error is raised in the end.

                      `repeat`       nothing     error of the   answer lost, or 404,    other 4xx from
                                     was sent    service:       408, 5xx from           something in
                                                 408, 5xx       something in between    between
GET                   "always"       repeat      repeat         repeat                  fail
update, same values   "always"       repeat      repeat         repeat, then unknown    unknown
rename by slashtag    "if not done"  repeat      repeat         unknown                 unknown
create, `once`        "if unsent"    repeat      fail           unknown                 unknown
slashtag that failed  "never"        fail        fail           fail                    fail

"unknown" is OutcomeUnknownError. An error comes from something in between (a proxy, a gateway) if it lacks
the service's envelope, or has a gateway status: 502, 504, 520 and above. An unreadable 2xx also counts as a
lost answer; one that is too large, or has an undocumented 2xx status, is never repeated. All other errors of
the service, redirects, any 401, and a certificate that is not valid fail. If a repeated rename does not find
the link, it is unknown. `session.request` repeats PUT and DELETE "always", POST and PATCH "if unsent"; a 404
from something in between is to it like another 4xx.

Anything is repeated after a rate-limit 429, which is no attempt: it waits for `max_wait` at most.
"""

from numbers import Real
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from .._errors import (
    APIError,
    NotFoundError,
    OutcomeUnknownError,
    QueueTimeoutError,
    RateLimitError,
    RequestFailedError,
    ServerError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
)
from .call import Call
from .checks import POSITIVE_INT, POSITIVE_SECONDS, SECONDS, Rule, check_options
from .throttle.ticket import Ticket


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Limits on how often and how long a request is retried.

    `max_attempts`: attempts, not counting those answered 429, which `max_wait` limits. `max_elapsed`
    (seconds): the time of these attempts and of backoff, and the time without any answer in the session after
    which all that wait fail; not of waiting for admission. The nth backoff is random, up to
    `backoff_base` * 2**(n - 1) and at most `backoff_cap` (seconds). `max_wait` (seconds): waiting for
    admission, and as the service asks by a 429 or the Retry-After of a 503; None: no limit.
    """

    # If a service fails one request in four, a query of 500 requests succeeds in 99 of 100 cases with 8
    # attempts, and in 6 of 10 with 5.
    max_attempts: int = 8
    max_elapsed: float = 300.0
    backoff_base: float = 0.25
    backoff_cap: float = 20.0
    max_wait: float | None = 900.0

    def __post_init__(self) -> None:
        check_options(_RULES, asdict(self))


_RULES: dict[str, Rule] = {
    "max_attempts": POSITIVE_INT,
    # The first attempt has to end within it too.
    "max_elapsed": POSITIVE_SECONDS,
    **dict.fromkeys(("backoff_base", "backoff_cap"), SECONDS),
    "max_wait": Rule(Real | None, SECONDS.words, SECONDS.is_allowed),
}


class Used(Struct, eq=False):
    """What a call has used up of its policy."""

    attempts: int = 0  # requests sent, without those answered 429
    spent: float = 0.0  # seconds of these, and of backoff
    waited: float = 0.0  # seconds of waiting for admission, or because the service asks to wait


def gives_up(policy: RetryPolicy, used: Used, error: SlashtagError | None, seconds: float) -> bool:
    """Return whether a call is not sent again after an error, and a pause of so many seconds."""
    if asks_to_wait(error):
        if policy.max_wait is not None and used.waited + seconds > policy.max_wait:
            return True
        seconds = 0.0
    out_of_time = used.spent + seconds >= policy.max_elapsed
    return not isinstance(error, RateLimitError) and (out_of_time or used.attempts >= policy.max_attempts)


def asks_to_wait(error: SlashtagError | None) -> bool:
    """Return whether the service asks to wait before the next attempt."""
    return isinstance(error, RateLimitError) or pause_of_503(error) > 0


def backoff(policy: RetryPolicy, failures: int, jitter: float) -> float:
    """Return the seconds to wait after the nth failure (from 1): full jitter, random in 0..1."""
    # The exponent is bounded: 2.0**1024 overflows.
    return jitter * min(policy.backoff_cap, policy.backoff_base * 2.0 ** min(failures - 1, 64))


def pause_of_503(error: SlashtagError | None) -> float:
    """Return the Retry-After of a 503, in seconds, which makes the backoff longer, and is no part of it."""
    return (error.retry_after or 0.0) if isinstance(error, ServerError) and error.status == 503 else 0.0


def shows_ill_health(error: BaseException) -> bool:
    """Return whether an error is about the service's health and not about the request."""
    if isinstance(error, APIError):
        return isinstance(error, ServerError) or error.status == 408
    return isinstance(error, TransportError | UnexpectedResponseError)


def answer_lost(error: BaseException) -> bool:
    """Return whether a write may have been done although the service's answer to it did not arrive."""
    if isinstance(error, TransportError):
        return not error.unsent
    if isinstance(error, APIError):
        if error.status in (401, 429):
            return False
        return not error.from_service or error.status in (502, 504) or error.status >= 520
    return isinstance(error, UnexpectedResponseError) and (200 <= error.status < 300 or error.status >= 400)


def retryable(call: Call[Any], error: BaseException) -> bool:
    """Return whether a call may be sent again after an error, by the table above."""
    if isinstance(error, RateLimitError):
        return True
    if call.repeat == "never" or not getattr(error, "repeatable", True):
        return False
    if isinstance(error, TransportError) and error.unsent:
        return True
    if not shows_ill_health(error):
        return False
    return call.repeat == "always" or (call.repeat == "if not done" and not answer_lost(error))


def not_admitted(
    policy: RetryPolicy, error: SlashtagError | None, lasted: float, seconds: float
) -> SlashtagError:
    """Return the error of a call that waits no longer, after its last one, if any.

    `lasted`: seconds in which nothing was answered; `seconds`: those that it would wait more.
    """
    if error is not None and not isinstance(error, RateLimitError):
        return error
    if lasted >= policy.max_elapsed:
        return TransportError(f"not sent: nothing was answered for {lasted:.0f} s", unsent=True)
    text = f"given up, as max_wait is {policy.max_wait:g} s"
    text += f" and it would wait {seconds:.1f} s more" * (seconds > 0)
    if error is None:
        text += " in the session's queue; nothing was answered 429 to it"
        return QueueTimeoutError(text, retry_after=seconds or None)
    text += f"; the service says: {error.message!r}"
    return RateLimitError(text, status=429, retry_after=seconds or None, headers=error.headers)


def final_error(
    call: Call[Any], error: SlashtagError, attempts: int, session: str = "", *, lost: bool
) -> SlashtagError:
    """Return the error to raise for a call, which it names; `lost`: the answer to an attempt was lost.

    `session`: its name.
    """
    if isinstance(error, RequestFailedError):
        error.method, error.path, error.attempts, error.session = call.method, call.path, attempts, session
    renamed = call.repeat == "if not done" and isinstance(error, NotFoundError) and attempts > 1
    if call.method == "GET" or not (lost or renamed):
        return error
    told = error._detail() if isinstance(error, RequestFailedError) else error
    unknown = OutcomeUnknownError(
        f"the answer was lost, so it may have been done; the last error: {told}",
        method=call.method,
        path=call.path,
        attempts=attempts,
        session=session,
        headers=getattr(error, "headers", {}),
    )
    unknown.__cause__ = error
    return unknown


#: 429s of create tag, which others do not share, that mean that no more tags are allowed.
TAG_REJECTIONS = 3


def tag_limit(call: Call[Any], error: RateLimitError, ticket: Ticket) -> TagLimitError | None:
    """Return the error of a 429 that means that no more tags are allowed, whatever its message says.

    The third 429 of create tag does, if another request was sent after the second and accepted.
    """
    is_seen = ticket.rejects >= TAG_REJECTIONS and ticket.refusals
    if not is_seen or (call.method, call.path) != ("POST", "tags"):
        return None
    return TagLimitError(
        f"answered 429 {ticket.rejects} times while other requests were accepted, so this is not the rate "
        f"limit: the account may have all the tags it is allowed; the service says: {error.message!r}",
        status=error.status,
        data=error.data,
        retry_after=error.retry_after,
        from_service=error.from_service,
        headers=error.headers,
    )
