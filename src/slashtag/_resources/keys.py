"""Slashtags and links as they are given: read before anything is sent, and in which order requested."""

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from anyio import CancelScope

from .._core.batches import Key
from .._fanout import AsyncReadable


async def read_keys(keys: AsyncIterable[Key]) -> list[Key]:
    """Return all slashtags, or links, of an asynchronous iterable; close it."""
    iterator = aiter(keys)
    try:
        return [key async for key in iterator]
    finally:
        if isinstance(iterator, AsyncReadable):
            # Shielded: the run may have been cancelled.
            with CancelScope(shield=True):
                await iterator.aclose()


def by_activity(keys: Iterable[Any], earlier_hits: Mapping[str, int | None] | None = None) -> list[Any]:
    """Sort links so that those likely to have clicks are adjacent; slashtags keep their order.

    First the links whose `hits` differ most from those of an earlier listing, then those with most hits. The
    order affects only the number of requests, never a result.
    """
    before = earlier_hits or {}

    def rank(link: Any) -> tuple[int, int]:
        hits = getattr(link, "hits", None)
        if not isinstance(hits, int):
            return 0, 0
        return -abs(hits - (before.get(link.slashtag) or 0)) if before else 0, -hits

    return sorted(keys, key=rank)
