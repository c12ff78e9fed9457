"""One API call as a picklable value, and how slashtags and limits are checked before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from .._errors import InvalidRequestError, SlashtagError

T_co = TypeVar("T_co", covariant=True)

REDIRECT_CODES = (301, 302, 303, 304, 307, 308)
MAX_PAGESIZE = 500
MAX_SLASHTAG = 100
MAX_PASSWORD = 50
MAX_TAG_NAME = 25
MAX_TAG_DESCRIPTION = 255
#: What the document calls an integer has no stated bound; JSON that all sides read has this one.
MAX_INT = 2**63 - 1


class Call(Struct, Generic[T_co], frozen=True, kw_only=True):
    """Hold one API call: what is sent and what type its `data` decodes to.

    `path` is relative to /api/v1 and already percent-encoded; `params` are not encoded. `repeatable` says
    whether it may be sent again where it may have been done; `rename` that it may after an error that the
    service told, but not after a lost answer: a repetition would not find the slashtag any more. `secrets`
    are strings (a link's password) that no error and no log may show.
    """

    method: str
    path: str
    returns: type[T_co]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeatable: bool = True
    rename: bool = False
    secrets: tuple[str, ...] = ()
    label: str = ""
    #: The wall clock's time (seconds) from which on an answer stays the same; inf: never.
    settled_at: float = inf

    @property
    def keys(self) -> tuple[str, ...]:
        """Give the slashtags that a statistics call asks for; empty where it asks for a tag."""
        joined = dict(self.params).get("url_keys")
        return tuple(joined.split(",")) if joined else ()

    @property
    def tag(self) -> str | None:
        """Give the tag that a statistics call asks for."""
        return dict(self.params).get("tag")

    def __repr__(self) -> str:
        # The body may bear a password, and 100 slashtags help nobody.
        return f"<Call {self.method} {self.path}{f': {self.label}' if self.label else ''}>"

    __str__ = __repr__

    def __rich_repr__(self) -> Any:
        yield "method", self.method
        yield "path", self.path
        yield "label", self.label


class Failure(Struct, frozen=True):
    """Hold what `on_error` gets: the call that failed for good and its error."""

    call: Call[Any]
    error: SlashtagError


def json_body(members: Mapping[str, object]) -> bytes:
    """Encode a request body, refusing text that has no UTF-8 form."""
    with suppress(UnicodeEncodeError):
        return msgspec.json.encode(members)
    # Raised outside: as its context the other error would keep the text, which may be a password.
    raise InvalidRequestError("text with a lone surrogate cannot be sent as JSON")


def check_text(name: str, value: object, longest: int | None, *, empty: bool = False) -> str:
    """Return `value`, as a plain str, if it is one within the documented limit (Limits)."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a str, not {type(value).__name__}")
    if not value and not empty:
        raise InvalidRequestError(f"{name} must not be empty")
    if longest is not None and len(value) > longest:
        raise InvalidRequestError(f"{name} has {len(value)} characters; the service allows {longest}")
    return str.__str__(value)


def check_int(name: str, value: object, low: int, high: int = MAX_INT) -> int:
    """Return `value`, as a plain int, if it is one within the bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequestError(f"{name} must be an int, not {type(value).__name__}")
    if not low <= value <= high:
        bounds = f"from {low} to {high}" if high < MAX_INT else f"at least {low}"
        # Python writes no int of thousands of digits.
        shown = value if abs(value) <= MAX_INT else "too large"
        raise InvalidRequestError(f"{name} is {shown}; it must be {bounds}")
    return int(value)


def path_segment(key: str | int) -> str:
    """Encode the slashtag or id of PUT /urls/:SLASHTAG | :ID as one path segment (Update a short URL)."""
    if isinstance(key, int):
        return str(check_int("id", key, 1))
    check_text("slashtag", key, MAX_SLASHTAG)
    if key.isascii() and key.isdigit():
        raise InvalidRequestError(
            f"the slashtag {key!r} is all digits, which the path cannot tell from an id: "
            "another link might be changed; pass the link's id as an int"
        )
    if key in (".", ".."):
        raise InvalidRequestError(
            f"the slashtag {key!r} cannot be sent in a path; pass the link's id as an int"
        )
    try:
        return quote(key, safe="")
    except UnicodeEncodeError:
        raise InvalidRequestError(f"the slashtag {key!r} has no UTF-8 form") from None
