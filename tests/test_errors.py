"""Laws of the errors: one tree, of values that pickle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import slashtag
from slashtag import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ExportError,
    InvalidRequestError,
    JournalError,
    NotFoundError,
    OutcomeUnknownError,
    PaginationError,
    QueueTimeoutError,
    RateLimitError,
    RequestFailedError,
    RequestTimeoutError,
    ServerError,
    SessionClosedError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
    UnknownTagError,
    _errors,
)

#: Each error with the public bases that it has by the design.
TREE: dict[type[SlashtagError], tuple[type[BaseException], ...]] = {
    ConfigurationError: (SlashtagError, ValueError),
    InvalidRequestError: (SlashtagError, ValueError),
    RequestFailedError: (SlashtagError,),
    APIError: (RequestFailedError,),
    BadRequestError: (APIError,),
    UnknownTagError: (BadRequestError,),
    AuthenticationError: (APIError,),
    NotFoundError: (APIError,),
    RateLimitError: (APIError,),
    TagLimitError: (APIError,),
    ServerError: (APIError,),
    TransportError: (RequestFailedError,),
    RequestTimeoutError: (TransportError, TimeoutError),
    QueueTimeoutError: (RequestFailedError, TimeoutError),
    OutcomeUnknownError: (RequestFailedError,),
    UnexpectedResponseError: (RequestFailedError,),
    SessionClosedError: (SlashtagError, RuntimeError),
    PaginationError: (SlashtagError,),
    JournalError: (SlashtagError,),
    ExportError: (SlashtagError,),
}

REQUEST = {"method": "GET", "path": "stats", "attempts": 3}
API = {**REQUEST, "status": 400, "data": [], "retry_after": 1.5}


def unsent() -> TransportError:
    return TransportError("refused", unsent=True, **REQUEST)  # type: ignore[arg-type]


ERRORS: list[SlashtagError] = [
    *(kind("why") for kind in TREE if not issubclass(kind, APIError | UnexpectedResponseError)),
    *(kind("why", **API) for kind in TREE if issubclass(kind, APIError)),
    RequestTimeoutError("late", **REQUEST),  # type: ignore[arg-type]
    QueueTimeoutError("late", retry_after=1.5, unsent=False, **REQUEST),  # type: ignore[arg-type]
    OutcomeUnknownError("lost", **REQUEST),  # type: ignore[arg-type]
    UnexpectedResponseError("odd", status=200, excerpt=b"<html>", repeatable=False, **REQUEST),  # type: ignore[arg-type]
    unsent(),
    SlashtagError(),
    SlashtagError("a", 1),
]


def state(error: BaseException) -> tuple[Any, ...]:
    return type(error), str(error), repr(error), error.args, error.__dict__


def public_bases(kind: type) -> Iterator[type]:
    for base in kind.__bases__:
        yield from public_bases(base) if base.__name__.startswith("_") else (base,)


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_has_its_place_in_the_tree(kind: type[SlashtagError]) -> None:
    assert tuple(public_bases(kind)) == TREE[kind]


def test_the_tree_is_all_of_them() -> None:
    public = {value for name, value in vars(slashtag).items() if name.endswith("Error") and name != "OnError"}
    assert public == {*TREE, SlashtagError}
    defined = {v for n, v in vars(_errors).items() if n.endswith("Error") and not n.startswith("_")}
    assert defined == public


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_error_pickles_with_its_notes(error: SlashtagError) -> None:
    noted = copy.copy(error)
    noted.add_note("while asking for it")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert state(pickle.loads(pickle.dumps(error, protocol))) == state(error)
        assert pickle.loads(pickle.dumps(noted, protocol)).__notes__ == ["while asking for it"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFoundError("gone", status=404), "404 gone"),
        (NotFoundError("gone", status=404, method="GET", path="urls"), "GET urls: 404 gone"),
        (
            NotFoundError("gone", status=404, method="GET", path="urls", attempts=2),
            "GET urls: 404 gone (after 2 attempts)",
        ),
        (TransportError("gone", session="shop", method="GET", path="urls"), "shop: GET urls: gone"),
        (RateLimitError("not sent", status=429, attempts=0), "429 not sent"),
        (TransportError("dropped", method="GET", path="urls"), "GET urls: dropped"),
        (UnexpectedResponseError("odd", status=200), "odd"),
        (UnexpectedResponseError("odd", status=200, excerpt=b"no"), "odd; it begins 'no'"),
        (InvalidRequestError("no"), "no"),
    ],
)
def test_the_text_says_what_was_asked_and_how_often(error: SlashtagError, text: str) -> None:
    assert str(error) == text
