"""Checks of options and of callbacks, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from math import inf
from numbers import Real
from types import UnionType
from typing import Any

from msgspec import Struct

from .._errors import ConfigurationError


class Rule(Struct, frozen=True):
    """What an option must be: its type, a condition unless it is None, and both in words."""

    kind: type | UnionType
    is_allowed: Callable[[Any], bool]
    words: str


POSITIVE_INT = Rule(int, lambda n: n >= 1, "an int, at least 1")
SECONDS = Rule(Real, lambda s: 0 <= s < inf, "a number of seconds, 0 or more")
FLAG = Rule(bool, lambda _: True, "True or False")


def check_options(rules: Mapping[str, Rule], options: Mapping[str, object]) -> None:
    """Raise ConfigurationError for the first option that breaks its rule, by its name."""
    for name in rules.keys() & options.keys():
        rule, value = rules[name], options[name]
        # A bool is an int to Python.
        is_kind = isinstance(value, rule.kind) and (rule.kind is bool or not isinstance(value, bool))
        if not is_kind or not (value is None or rule.is_allowed(value)):
            raise ConfigurationError(f"{name} must be {rule.words}, not {value!r}")


def check_callback(name: str, callback: object) -> None:
    """Raise TypeError for a coroutine function, which would have to be awaited."""
    if callback is not None and iscoroutinefunction(callback):
        raise TypeError(f"{name} is called, not awaited: pass a plain function, which may start a task")
