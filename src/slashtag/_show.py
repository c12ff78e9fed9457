"""Representations of values, short ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import cast

from msgspec import Struct

#: Entries of a map in a repr.
ENTRIES = 5


def many(n: int, one: str, more: str | None = None) -> str:
    """Return a count with its noun; `more` is the plural if it is not formed with s."""
    return f"{n:,} {one if n == 1 else more or f'{one}s'}"


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a question about the name that is most like the one given; empty if none is."""
    close = get_close_matches(given, [name for name in names if name], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def short_repr(record: Struct) -> str:
    """Return the repr of a record: numbers and flags first, then maps, long ones cut."""
    names = sorted(record.__struct_fields__, key=lambda name: isinstance(getattr(record, name), dict))
    shown = (f"{name}={_cut(getattr(record, name))}" for name in names)
    return f"{type(record).__name__}({', '.join(shown)})"


def _cut(member: object) -> str:
    """Return the repr of a member; that of a long map shows its first entries."""
    whole = repr(member)
    counts = cast("dict[object, int]", member) if isinstance(member, dict) else {}
    if len(counts) <= ENTRIES:
        return whole
    # The labels with most clicks; days and years from the first on.
    keys = sorted(counts, key=lambda key: -counts[key]) if isinstance(next(iter(counts)), str) else counts
    shown = ", ".join(f"{key!r}: {counts[key]!r}" for key in islice(keys, ENTRIES))
    return f"{{{shown}, ... {len(counts) - ENTRIES:,} more}}"
