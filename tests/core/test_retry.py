"""The decision table of retries, and laws of backoff."""

from __future__ import annotations

from asyncio import CancelledError
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    NotFoundError,
    OutcomeUnknownError,
    PaginationError,
    RateLimitError,
    RequestTimeoutError,
    RetryPolicy,
    ServerError,
    SessionClosedError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
)
from slashtag._core.call import Call
from slashtag._core.change import Change
from slashtag._core.retry import answer_lost, backoff, final_error, is_failure, retryable

GET: Call[Any] = Call(method="GET", path="stats", returns=dict)
PUT: Call[Any] = Call(method="PUT", path="urls/7", returns=dict, body=b"{}")
RENAME: Call[Any] = Call(method="PUT", path="urls/a", returns=dict, body=b"{}", repeatable=False, rename=True)
POST: Call[Any] = Call(method="POST", path="tags", returns=dict, body=b"{}", repeatable=False)


def unsent() -> TransportError:
    error = TransportError("refused")
    error.unsent = True
    return error


def unexpected(status: int, *, repeatable: bool) -> UnexpectedResponseError:
    return UnexpectedResponseError("odd", status=status, repeatable=repeatable)


# How an error is told: may GET, PUT, a rename and POST be sent again; may a write have been done; is the
# service ill. (An error is made anew for each test.)
TABLE: dict[str, tuple[Any, str, bool, bool]] = {
    "not sent": (unsent, "GET PUT RENAME POST", False, True),
    "hang-up": (lambda: TransportError("dropped"), "GET PUT", True, True),
    "timeout": (lambda: RequestTimeoutError("late"), "GET PUT", True, True),
    "undecodable 200": (lambda: unexpected(200, repeatable=True), "GET PUT", True, True),
    "too large 200": (lambda: unexpected(200, repeatable=False), "", True, True),
    "redirect": (lambda: unexpected(302, repeatable=False), "", False, True),
    "201": (lambda: unexpected(201, repeatable=False), "", True, True),
    "500": (lambda: ServerError("", status=500), "GET PUT RENAME", False, True),
    "501": (lambda: ServerError("", status=501), "", False, True),
    "502": (lambda: ServerError("", status=502), "GET PUT", True, True),
    "503": (lambda: ServerError("", status=503), "GET PUT RENAME", False, True),
    "504": (lambda: ServerError("", status=504), "GET PUT", True, True),
    "408": (lambda: APIError("", status=408), "GET PUT RENAME", False, True),
    "400": (lambda: BadRequestError("", status=400), "", False, False),
    "401": (lambda: AuthenticationError("", status=401), "", False, False),
    "404": (lambda: NotFoundError("", status=404), "", False, False),
    "414": (lambda: APIError("", status=414), "", False, False),
    "tag limit": (lambda: TagLimitError("", status=429), "", False, False),
    # A 429 goes back to the queue and is no failure.
    "rate limit": (lambda: RateLimitError("", status=429), "", False, False),
    "closed": (lambda: SessionClosedError(""), "", False, False),
    "paging": (lambda: PaginationError(""), "", False, False),
}
CALLS = {"GET": GET, "PUT": PUT, "RENAME": RENAME, "POST": POST}


@pytest.mark.parametrize("name", TABLE)
def test_what_may_be_sent_again(name: str) -> None:
    error, again, _, _ = TABLE[name]
    assert [kind for kind, call in CALLS.items() if retryable(call, error())] == again.split()


@pytest.mark.parametrize(
    "change", [Change("a", slashtag="b"), Change("a", redirect_code=301), Change(7, slashtag="b")]
)
@pytest.mark.parametrize("name", TABLE)
def test_a_change_that_is_made_once_is_sent_again_when_a_creation_is(name: str, change: Change) -> None:
    error = TABLE[name][0]
    assert retryable(change.call(once=True), error()) is retryable(POST, error())


@pytest.mark.parametrize("name", TABLE)
def test_after_what_a_write_may_have_been_done(name: str) -> None:
    error, _, lost, _ = TABLE[name]
    assert answer_lost(error()) is lost


@pytest.mark.parametrize("name", TABLE)
def test_what_speaks_of_the_health_of_the_service(name: str) -> None:
    error, _, _, ill = TABLE[name]
    assert is_failure(error()) is ill


@pytest.mark.parametrize(
    "error", [CancelledError(), KeyboardInterrupt(), ValueError(), TimeoutError(), OSError()]
)
def test_only_errors_of_ours_are_retried(error: BaseException) -> None:
    assert not any(retryable(call, error) for call in CALLS.values())


# --- the error in the end ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("lost", [False, True])
def test_a_get_fails_with_its_last_error(name: str, lost: bool) -> None:
    error = TABLE[name][0]()
    assert final_error(GET, error, 3, lost=lost) is error


@pytest.mark.parametrize("call", [PUT, RENAME, POST], ids=["PUT", "RENAME", "POST"])
@pytest.mark.parametrize("name", TABLE)
def test_a_write_whose_answer_was_lost_has_an_unknown_outcome(name: str, call: Call[Any]) -> None:
    error = TABLE[name][0]()
    told = final_error(call, error, 3, lost=True)
    assert isinstance(told, OutcomeUnknownError)
    assert (told.attempts, told.method, told.path, told.__cause__) == (3, call.method, call.path, error)
    assert str(error) in str(told)


@pytest.mark.parametrize("call", [PUT, RENAME, POST], ids=["PUT", "RENAME", "POST"])
@pytest.mark.parametrize("name", [name for name in TABLE if name != "404"])
def test_a_write_whose_answers_came_fails_with_the_last_one(name: str, call: Call[Any]) -> None:
    error = TABLE[name][0]()
    assert final_error(call, error, 3, lost=False) is error


def test_a_rename_that_is_not_found_after_a_failure_has_an_unknown_outcome() -> None:
    def told(call: Call[Any], attempts: int) -> type[SlashtagError]:
        return type(final_error(call, NotFoundError("", status=404), attempts, lost=False))

    # Before a 404 to a rename that is made once nothing was sent.
    once = Change("a", slashtag="b").call(once=True)
    assert [told(RENAME, 2), told(RENAME, 1), told(PUT, 2), told(once, 2)] == [
        OutcomeUnknownError,
        NotFoundError,
        NotFoundError,
        NotFoundError,
    ]


@pytest.mark.parametrize("name", [name for name in TABLE if name not in ("closed", "paging")])
def test_the_error_tells_its_attempts(name: str) -> None:
    assert final_error(GET, TABLE[name][0](), 4, lost=False).attempts == 4  # type: ignore[attr-defined]


# --- how long ----------------------------------------------------------------------------------------

seconds = st.floats(0, 1e9)
policies = st.builds(RetryPolicy, backoff_base=seconds, backoff_cap=seconds)


@given(policies, st.integers(1, 10_000), st.floats(0, 1))
def test_backoff_stays_within_its_bounds(policy: RetryPolicy, failures: int, share: float) -> None:
    assert 0 <= backoff(policy, failures, share) <= policy.backoff_cap


@given(policies, st.integers(1, 50))
def test_jitter_is_full(policy: RetryPolicy, failures: int) -> None:
    highest = backoff(policy, failures, 1.0)
    assert backoff(policy, failures, 0.0) == 0
    assert backoff(policy, failures, 0.5) == highest / 2
    assert highest == min(policy.backoff_cap, policy.backoff_base * 2 ** (failures - 1))


@given(policies, st.integers(1, 50))
def test_backoff_never_shrinks(policy: RetryPolicy, failures: int) -> None:
    assert backoff(policy, failures + 1, 1.0) >= backoff(policy, failures, 1.0)


def test_the_defaults_are_the_documented_ones() -> None:
    assert RetryPolicy() == RetryPolicy(
        max_attempts=8, max_elapsed=300.0, backoff_base=0.25, backoff_cap=20.0, max_wait=None
    )


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_policy_makes_at_least_one_attempt(attempts: int) -> None:
    with pytest.raises(ConfigurationError, match="max_attempts"):
        RetryPolicy(max_attempts=attempts)


@pytest.mark.parametrize("name", ["max_elapsed", "backoff_base", "backoff_cap", "max_wait"])
@pytest.mark.parametrize("value", [-1, -0.001, inf, nan])
def test_a_policy_counts_in_finite_seconds(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RetryPolicy(**{name: value})  # type: ignore[arg-type]
