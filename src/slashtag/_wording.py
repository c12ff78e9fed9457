"""Parts of messages: numbers with their nouns, and what a wrong name may have been."""

from collections.abc import Iterable
from difflib import get_close_matches


def many(n: int, one: str) -> str:
    """Return a count with its noun."""
    return f"{n:,} {one if n == 1 else f'{one}s'}"


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a question about the name that is most like the one given, in any case; empty if none is."""
    by_folded = {name.casefold(): name for name in names}
    close = get_close_matches(given.casefold(), by_folded, 1)
    return f" (did you mean {by_folded[close[0]]!r}?)" if close else ""
