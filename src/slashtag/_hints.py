"""Hints for names that are misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a question about the name that is most like the one given; empty if none is."""
    close = get_close_matches(given, [name for name in names if name], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
