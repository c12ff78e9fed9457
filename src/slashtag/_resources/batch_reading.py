"""Batches of slashtags and links that are read asynchronously, and the order in which they are read."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from typing import Any

from anyio import CancelScope

from .._core.batches import Batcher, Key, Selector
from .._core.look_alikes import look_alikes_together
from .._fanout import AsyncReadable

#: Number of links read ahead to be sorted.
SORTED_AHEAD = 10_000


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


Sort = Callable[[list[Any]], list[Any]]


async def read_batches(
    keys: AsyncIterable[Key],
    batcher: Batcher,
    *,
    sort: Sort | None = None,
    in_order: bool = False,
) -> AsyncGenerator[Selector]:
    """Yield batches of slashtags that are read asynchronously; close what these are read from.

    For a job they are read first: which batches it makes again depends on all of them.
    """
    try:
        if batcher.made_by_job is not None:
            found = [key async for key in keys]
            if not in_order:
                found = look_alikes_together(found)
            for batch in batcher.batches(sort(found) if sort else found, in_order=in_order):
                yield batch
            return
        async for key in sorted_ahead(keys, sort) if sort else keys:
            for batch in batcher.add(key):
                yield batch
        for batch in batcher.remainder():
            yield batch
    finally:
        if isinstance(keys, AsyncReadable):
            # Shielded: the run may have been cancelled.
            with CancelScope(shield=True):
                await keys.aclose()


async def sorted_ahead(keys: AsyncIterable[Key], sort: Sort) -> AsyncGenerator[Key]:
    """Yield links sorted within blocks; slashtags as they come."""
    block: list[Key] = []
    async for key in keys:
        block.append(key)
        if isinstance(key, str) or len(block) == SORTED_AHEAD:
            for link in sort(block):
                yield link
            block.clear()
    for link in sort(block):
        yield link


def by_activity(keys: Iterable[Any], earlier_hits: Mapping[str, int | None] | None = None) -> list[Any]:
    """Sort links so that those likely to have clicks are adjacent; slashtags keep their order.

    First the links whose `hits` differ most from those of an earlier listing, then those with most hits. The
    order affects only the number of requests of a per-link query, never its results.
    """
    before = earlier_hits or {}

    def rank(link: Any) -> tuple[int, int]:
        hits = getattr(link, "hits", None)
        if not isinstance(hits, int):
            return 0, 0
        return -abs(hits - (before.get(link.slashtag) or 0)) if before else 0, -hits

    return sorted(keys, key=rank)
