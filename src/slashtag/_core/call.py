"""One API call as a picklable value, and checks of arguments and options, before anything is sent."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import iscoroutinefunction
from math import inf
from numbers import Real
from types import UnionType
from typing import Any, Generic, Literal, Self, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from .._errors import ConfigurationError, InvalidRequestError
from .freshness import ANY, Freshness

T_co = TypeVar("T_co", covariant=True)

Repeat = Literal["always", "if not done", "if unsent", "never"]
#: Is called with what is done, and the total if that is known.
Progress = Callable[[int, int | None], object]
MAX_SLASHTAG = 100
MAX_PASSWORD = 50
MAX_TAG_NAME = 25
MAX_TAG_DESCRIPTION = 255
#: The document states no bound for integers; this one is safe in every JSON implementation.
MAX_INT = 2**63 - 1
#: An id is any integer that the service gives; as part of a path it is no longer than a slashtag.
MAX_ID = 10**MAX_SLASHTAG - 1

#: Statistics of a period that ended less than this many seconds before the answer may still change: the
#: service counted before the answer arrived, and by its own clock.
SETTLING_SECONDS = 300.0

#: Bytes that percent-encoding leaves as they are; any other becomes three.
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


class Call(Struct, Generic[T_co], frozen=True, kw_only=True):
    """One API call: the request, and the type of the answer's `data`.

    `path` is relative to /api/v1 and already percent-encoded; `params` are not encoded. `repeat` says after
    which failures it may be sent again: all of them, those after which it cannot have been done, only if
    nothing was sent, or none (see `retry.py`). A journal may keep the answer if the call is `replayable` and
    the period that it asks about had ended, at `period_end` (epoch seconds). `freshness` says who may answer
    (see `freshness.py`). `link_ids` are those of its selector, by which a journal knows what it is about.
    `secrets` are strings (a link's password) that no error and no log may show.
    """

    method: str
    path: str
    returns: type[T_co]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeat: Repeat = "always"
    secrets: tuple[str, ...] = ()
    label: str = ""
    replayable: bool = False
    freshness: Freshness = ANY
    period_end: float | None = None
    link_ids: tuple[tuple[int, ...], ...] = ()

    def again(self) -> Self:
        """Return the second request, for an answer in doubt."""
        return replace(self, freshness=self.freshness.again)

    @property
    def keys(self) -> tuple[str, ...]:
        """The slashtags of a statistics call; empty if it selects a tag."""
        joined = dict(self.params).get("url_keys")
        return tuple(joined.split(",")) if joined else ()

    @property
    def tag(self) -> str | None:
        """The tag of a statistics call."""
        return dict(self.params).get("tag")

    def __repr__(self) -> str:
        # Without the body, which may contain a password, and without up to 100 slashtags.
        return f"<Call {self.method} {self.path}{f': {self.label}' if self.label else ''}>"

    __str__ = __repr__

    def __rich_repr__(self) -> Any:
        yield repr(self)


def check_text(name: str, value: object, longest: int | None, *, empty: bool = False) -> str:
    """Return `value` as a plain str, or raise InvalidRequestError, which does not show it."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a str, not {type(value).__name__}")
    if not value and not empty:
        raise InvalidRequestError(f"{name} must not be empty")
    if longest is not None and len(value) > longest:
        raise InvalidRequestError(f"{name} has {len(value)} characters; the service allows {longest}")
    with suppress(UnicodeEncodeError):
        value.encode()
        return str.__str__(value)
    # Raised outside the handler: its context would keep the text, which may be a password.
    raise InvalidRequestError(f"{name} contains a lone surrogate, which has no UTF-8 form")


def check_int(name: str, value: object, low: int, high: int = MAX_INT) -> int:
    """Return `value` as a plain int; raises InvalidRequestError if it is not an int or out of bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequestError(f"{name} must be an int, not {type(value).__name__}")
    if not low <= value <= high:
        bounds = f"from {low} to {high}" if high < MAX_INT else f"at least {low}"
        # Python refuses to format an int of thousands of digits.
        shown = value if abs(value) <= MAX_INT else "too large"
        raise InvalidRequestError(f"{name} is {shown}; it must be {bounds}")
    return int(value)


def path_segment(key: str | int) -> str:
    """Encode a slashtag or id as one path segment of an update."""
    if isinstance(key, int):
        return str(check_int("id", key, 1, MAX_ID))
    check_text("slashtag", key, MAX_SLASHTAG)
    if key.isascii() and key.isdigit():
        raise InvalidRequestError(
            f"the slashtag {key!r} is all digits, which the path cannot distinguish from an "
            "id: another link might be changed; name the link by its id"
        )
    if key in (".", ".."):
        raise InvalidRequestError(f"the slashtag {key!r} cannot be sent in a path; name the link by its id")
    return quote(key, safe="")


class Rule(Struct, frozen=True):
    """What an option must be: its type, a condition that None need not meet, and both in words."""

    kind: type | UnionType
    is_allowed: Callable[[Any], bool]
    words: str


POSITIVE_INT = Rule(int, lambda n: n >= 1, "an int, at least 1")
SECONDS = Rule(Real, lambda s: 0 <= s < inf, "a number of seconds, 0 or more")
FLAG = Rule(bool, lambda _: True, "True or False")


def check_options(rules: Mapping[str, Rule], options: Mapping[str, object]) -> None:
    """Raise ConfigurationError for the first option that breaks its rule, by its name."""
    for name, rule in rules.items():
        if name not in options:
            continue
        value = options[name]
        # A bool is an int to Python.
        is_kind = isinstance(value, rule.kind) and (rule.kind is bool or not isinstance(value, bool))
        if not is_kind or not (value is None or rule.is_allowed(value)):
            raise ConfigurationError(f"{name} must be {rule.words}, not {value!r}")


def check_callback(name: str, callback: object) -> None:
    """Raise TypeError for a coroutine function, which would have to be awaited."""
    if callback is not None and iscoroutinefunction(callback):
        raise TypeError(f"{name} is called, not awaited: pass a plain function, which may start a task")
