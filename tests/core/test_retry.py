"""The table of retry rules, held against the code, and laws of backoff."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import (
    APIError,
    AuthenticationError,
    BadRequestError,
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
from slashtag._core import retry
from slashtag._core.call import Call
from slashtag._core.retry import (
    Used,
    answer_lost,
    backoff,
    final_error,
    gives_up,
    retryable,
    shows_ill_health,
)
from slashtag._resources.urls import Change

CALLS: dict[str, Call[Any]] = {
    "GET": Call(method="GET", path="stats", returns=dict),
    "update, same values": Change(7, slashtag="b", redirect_code=301)._call(),
    "rename by slashtag": Change("a", slashtag="b")._call(),
    "create, `once`": Call(method="POST", path="tags", returns=dict, body=b"{}", repeat="if unsent"),
}
GET, PUT, RENAME, POST = CALLS.values()
ONCE = [Change("a", slashtag="b"), Change("a", redirect_code=301), Change(7, slashtag="b")]


def unsent(kind: type[TransportError]) -> TransportError:
    error = kind("refused")
    error.unsent = True
    return error


def unexpected(status: int, *, repeatable: bool) -> UnexpectedResponseError:
    return UnexpectedResponseError("odd", status=status, repeatable=repeatable)


def between(status: int) -> APIError:
    """An error status without the service's envelope."""
    kind = ServerError if status >= 500 else APIError
    return kind("", status=status, from_service=False)


def gateway(status: int) -> APIError:
    return ServerError("", status=status)


#: The errors of each column of the table, in its order; each test makes them anew.
COLUMNS: list[list[Callable[[], SlashtagError]]] = [
    [lambda: unsent(TransportError), lambda: unsent(RequestTimeoutError)],
    [
        lambda: APIError("", status=408),
        *(partial(ServerError, "", status=status) for status in (500, 501, 503, 505, 507, 511)),
    ],
    [
        lambda: TransportError("dropped"),
        lambda: RequestTimeoutError("late"),
        lambda: unexpected(200, repeatable=True),
        lambda: unexpected(404, repeatable=True),
        *(partial(between, status) for status in (408, 500, 501, 502, 503, 504, 507, 520, 599)),
        *(partial(gateway, status) for status in (502, 504, 520, 522, 524, 529, 530, 598, 599)),
    ],
    [partial(between, status) for status in (400, 403, 405, 413, 414, 418, 431, 451)],
]
#: All other errors: never repeated; the last two lose the answer to a write.
FINAL: dict[str, Callable[[], SlashtagError]] = {
    "400": lambda: BadRequestError("", status=400),
    "401": lambda: AuthenticationError("", status=401),
    "HTML 401": lambda: AuthenticationError("", status=401, from_service=False),
    "404": lambda: NotFoundError("", status=404),
    "414": lambda: APIError("", status=414),
    "tag limit": lambda: TagLimitError("", status=429),
    "rate limit": lambda: RateLimitError("", status=429),
    "HTML rate limit": lambda: RateLimitError("", status=429, from_service=False),
    "redirect": lambda: unexpected(302, repeatable=False),
    "closed": lambda: SessionClosedError(""),
    "paging": lambda: PaginationError(""),
    "too large 200": lambda: unexpected(200, repeatable=False),
    "201": lambda: unexpected(201, repeatable=False),
}
LOST = ("too large 200", "201")


def documented() -> dict[str, list[str]]:
    """The rows of the table that the module states."""
    assert retry.__doc__ is not None
    lines = retry.__doc__.splitlines()
    cells = [re.split(r" {2,}", line) for line in lines]
    return {row[0]: row[1:] for row in cells if len(row) == 2 + len(COLUMNS) and row[0]}


def decided(call: Call[Any], make: Callable[[], SlashtagError]) -> str:
    """What the code does with a call after an error, in the words of the table."""
    again = retryable(call, make())
    unknown = isinstance(final_error(call, make(), 1, lost=answer_lost(make())), OutcomeUnknownError)
    # What is repeated fails, at last, with its last error.
    words = ["repeat"] * again + ["unknown"] * unknown
    return ", then ".join(words) or "fail"


@pytest.mark.parametrize("column", range(len(COLUMNS)))
@pytest.mark.parametrize("name", CALLS)
def test_the_code_decides_as_the_table_says(name: str, column: int) -> None:
    for make in COLUMNS[column]:
        assert decided(CALLS[name], make) == documented()[name][1 + column], make()


@pytest.mark.parametrize("change", ONCE)
def test_a_change_that_is_made_once_follows_the_row_of_creations(change: Change) -> None:
    for make in [make for column in COLUMNS for make in column] + list(FINAL.values()):
        assert decided(change._call(once=True), make) == decided(POST, make)


@pytest.mark.parametrize("name", FINAL)
def test_any_other_error_but_the_rate_limit_is_never_repeated(name: str) -> None:
    make = FINAL[name]
    is_limit = "rate limit" in name  # which is waited for, and is no attempt
    assert all(retryable(call, make()) is is_limit for call in CALLS.values())
    assert answer_lost(make()) is (name in LOST)


def test_what_is_about_the_health_of_the_service() -> None:
    rejected = ("400", "401", "HTML 401", "404", "414", "tag limit", "rate limit", "HTML rate limit")
    healthy = [name for name, make in FINAL.items() if not shows_ill_health(make())]
    assert healthy == [*rejected, "closed", "paging"]
    assert all(shows_ill_health(make()) for column in COLUMNS[:3] for make in column)
    assert not any(shows_ill_health(make()) for make in COLUMNS[3])


@pytest.mark.parametrize(
    "error", [CancelledError(), KeyboardInterrupt(), ValueError(), TimeoutError(), OSError()]
)
def test_only_errors_of_ours_are_retried(error: BaseException) -> None:
    assert not any(retryable(call, error) for call in CALLS.values())


# --- the error in the end ----------------------------------------------------------------------------


ERRORS = [*(make for column in COLUMNS for make in column), *FINAL.values()]


@pytest.mark.parametrize("call", [PUT, RENAME, POST], ids=["PUT", "RENAME", "POST"])
def test_a_write_whose_answer_was_lost_has_an_unknown_outcome_and_another_its_last_error(
    call: Call[Any],
) -> None:
    for error in (make() for make in ERRORS):
        told = final_error(call, error, 3, lost=True)
        assert isinstance(told, OutcomeUnknownError)
        assert (told.attempts, told.method, told.path, told.__cause__) == (3, call.method, call.path, error)
        if not isinstance(error, NotFoundError):
            assert final_error(call, error, 3, lost=False) is error


def test_a_rename_that_is_not_found_after_a_failure_has_an_unknown_outcome() -> None:
    def told(call: Call[Any], attempts: int) -> type[SlashtagError]:
        return type(final_error(call, NotFoundError("", status=404), attempts, lost=False))

    # Before a 404 to a rename that is made once nothing was sent.
    once = Change("a", slashtag="b")._call(once=True)
    assert [told(RENAME, 2), told(RENAME, 1), told(PUT, 2), told(once, 2)] == [
        OutcomeUnknownError,
        NotFoundError,
        NotFoundError,
        NotFoundError,
    ]


# --- how long ----------------------------------------------------------------------------------------

seconds = st.floats(0, 1e9)
policies = st.builds(RetryPolicy, backoff_base=seconds, backoff_cap=seconds)


@given(policies, st.integers(1, 10_000))
def test_backoff_doubles_up_to_its_cap_and_jitter_is_full(policy: RetryPolicy, failures: int) -> None:
    highest = backoff(policy, failures, 1.0)
    assert backoff(policy, failures, 0.0) == 0
    assert backoff(policy, failures, 0.5) == highest / 2
    assert highest == min(policy.backoff_cap, policy.backoff_base * 2 ** min(failures - 1, 64))


@example(RetryPolicy(), Used(), 400.0)
@given(
    policies, st.builds(Used, st.integers(0, 9), st.floats(0, 400), st.floats(0, 1000)), st.floats(0, 2000)
)
def test_a_call_is_given_up_by_what_it_has_used_up(policy: RetryPolicy, used: Used, pause: float) -> None:
    """A pause that the service asks for counts under `max_wait`, any other under `max_elapsed`."""
    failed, limit = ServerError("", status=503), RateLimitError("", status=429)
    told = ServerError("", status=503, retry_after=60.0)
    is_used_up = used.attempts >= 8 or used.spent >= 300
    assert gives_up(policy, used, failed, pause) is (is_used_up or used.spent + pause >= 300)
    assert gives_up(policy, used, limit, pause) is (used.waited + pause > 900)
    assert gives_up(policy, used, told, pause) is (is_used_up or used.waited + pause > 900)
    assert not gives_up(replace(policy, max_wait=None), used, limit, pause)
