"""Checks of arguments and options, before anything is sent."""

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from math import inf
from numbers import Real
from types import UnionType
from typing import Any

from msgspec import Struct

from .._errors import ConfigurationError, InvalidRequestError
from .limits import MAX_INT

#: Is called with what is done, and the total if that is known.
Progress = Callable[[int, int | None], object]


def check_text(name: str, value: object, longest: int | None, *, empty: bool = False) -> str:
    """Return `value` as a plain str, or raise InvalidRequestError, which does not show it."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a str, not {type(value).__name__}")
    if not value and not empty:
        raise InvalidRequestError(f"{name} must not be empty")
    if longest is not None and len(value) > longest:
        raise InvalidRequestError(f"{name} has {len(value)} characters; the service allows {longest}")
    try:  # faster than `suppress`, where all links of an account are checked one by one
        value.encode()
        return str.__str__(value)
    except UnicodeEncodeError:
        pass
    # Raised outside the handler: its context would keep the text, which may be a password.
    raise InvalidRequestError(f"{name} contains a lone surrogate, which has no UTF-8 form")


def check_int(name: str, value: object, low: int, high: int = MAX_INT) -> int:
    """Return `value` as a plain int; raises InvalidRequestError if it is not an int or out of bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        bounds = f"from {low} to {high}" if high < MAX_INT else f"of at least {low}"
        raise InvalidRequestError(f"{name} must be an int {bounds}, not {value!r}")
    return int(value)


class Rule(Struct, frozen=True):
    """What an option must be: its type; all of it in words; a condition that None need not meet."""

    kind: type | UnionType
    words: str
    is_allowed: Callable[[Any], bool] = lambda _: True


POSITIVE_INT = Rule(int, "an int, at least 1", lambda n: n >= 1)
SECONDS = Rule(Real, "a number of seconds, 0 or more", lambda s: 0 <= s < inf)
POSITIVE_SECONDS = Rule(Real, "a positive number of seconds", lambda s: 0 < s < inf)


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
    """Raise TypeError for what cannot be called, or would have to be awaited."""
    if callback is not None and (not callable(callback) or iscoroutinefunction(callback)):
        raise TypeError(f"{name} must be a plain function: it is called, not awaited, and may start a task")
