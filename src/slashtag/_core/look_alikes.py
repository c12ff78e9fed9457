"""Slashtags that differ only in case, accents or normal form: the service may take them for one."""

import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def look_alikes(keys: Iterable[T]) -> list[tuple[T, ...]]:
    """Group slashtags, or links, that look alike; what has no slashtag is by itself."""
    groups: dict[object, list[T]] = {}
    for n, key in enumerate(keys):
        slashtag = getattr(key, "slashtag", key)
        groups.setdefault(folded(slashtag) if isinstance(slashtag, str) else n, []).append(key)
    return list(map(tuple, groups.values()))


def look_alikes_together(keys: Iterable[T]) -> list[T]:
    """Move each slashtag, or link, to the first that looks like it: in two batches both may count twice."""
    return list(chain.from_iterable(look_alikes(keys)))


def folded(slashtag: str) -> str:
    """Return a slashtag, or a name, without case, accents and compatibility forms."""
    if slashtag.isascii():
        return slashtag.lower()
    parts = unicodedata.normalize("NFKD", slashtag.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
