"""Laws of the errors: one tree, of values that pickle."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import slashtag
from slashtag import NotFoundError, RequestFailedError, SlashtagError, TransportError

#: Each error with its bases.
TREE = """
APIError                 RequestFailedError
AuthenticationError      APIError
BadRequestError          APIError
ConfigurationError       SlashtagError ValueError
ExportError              SlashtagError
InvalidRequestError      SlashtagError ValueError
JournalError             ConfigurationError
NotFoundError            APIError
OutcomeUnknownError      RequestFailedError
PaginationError          SlashtagError
QueueTimeoutError        RequestFailedError TimeoutError
RateLimitError           APIError
RequestFailedError       SlashtagError
RequestTimeoutError      TransportError TimeoutError
ServerError              APIError
SessionClosedError       SlashtagError RuntimeError
SlashtagError            Exception
TagLimitError            APIError
TransportError           RequestFailedError
UnexpectedResponseError  RequestFailedError
UnknownTagError          BadRequestError
"""
KINDS = {name: getattr(slashtag, name) for name in slashtag.__all__ if name.endswith("Error")}
del KINDS["OnError"]


def test_the_errors_are_one_tree() -> None:
    found = {name: [base.__name__ for base in kind.__bases__] for name, kind in KINDS.items()}
    assert found == {name: bases for name, *bases in (line.split() for line in TREE.strip().splitlines())}


def made(kind: Any) -> Any:
    """An error with all members that its kind has."""
    if not issubclass(kind, RequestFailedError):
        return kind("why")
    members: dict[str, Any] = {"session": "shop", "method": "GET", "path": "stats", "attempts": 3}
    own = {"status": 400, "data": [], "retry_after": 1.5, "excerpt": b"no", "unsent": True}
    members |= {name: value for name, value in own.items() if name in kind.__dataclass_fields__}
    return kind("why", **members, headers={"X-Request-Id": "r-1"})


@pytest.mark.parametrize("error", [SlashtagError("a", 1), *map(made, KINDS.values())], ids=repr)
def test_an_error_pickles_with_its_notes(error: SlashtagError) -> None:
    noted = copy.copy(error)
    noted.add_note("while asking for it")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
        assert again.__dict__ == error.__dict__
        assert pickle.loads(pickle.dumps(noted, protocol)).__notes__ == ["while asking for it"]


def test_the_text_says_what_was_asked_and_how_often() -> None:
    assert str(NotFoundError("gone", status=404, method="GET", path="urls")) == "GET urls: 404 gone"
    dropped = TransportError("dropped", session="shop", method="GET", path="urls", attempts=2)
    assert str(dropped) == "shop: GET urls: dropped (after 2 attempts)"
