"""Implementation of `collect_each`: one result per slashtag or tag."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .._core.batches import Key, Selector
from .._fanout import Results, Tasks, WorkerPool
from .._models import Statistics
from .batch_search import BatchSearch, Step
from .per_key_run import PerKeyRun

R = TypeVar("R", bound=Statistics)

#: Number of links read ahead to be sorted.
SORTED_AHEAD = 10_000


def collect_each(
    run: PerKeyRun[R],
    selectors: Iterable[Selector] | AsyncIterator[Selector],
    tasks: Tasks,
    workers: int,
) -> Results[tuple[str, R]]:
    """Return the iterator over (slashtag or tag, statistics)."""

    # This must not refer to the iterator, which would then never be garbage-collected.
    async def work(item: Selector | Step) -> Sequence[Step]:
        """Begin a batch or do its next step."""
        if isinstance(item, Selector):
            return await BatchSearch(run, run.begin(item)).start()
        return await item()

    pool: WorkerPool[Selector | Step] = WorkerPool(selectors, work, workers, run.results.wait_for_capacity)
    return Results(tasks, pool, run.results)


async def sort_by_activity(
    keys: AsyncIterable[Key], changed_since: Mapping[str, int] | None = None
) -> AsyncGenerator[Key]:
    """Yield links sorted by activity within blocks of `SORTED_AHEAD`; plain slashtags are not reordered."""
    ahead: list[Key] = []
    async for key in keys:
        ahead.append(key)
        if isinstance(key, str) or len(ahead) == SORTED_AHEAD:
            for link in by_activity(ahead, changed_since):
                yield link
            ahead.clear()
    for link in by_activity(ahead, changed_since):
        yield link


def by_activity(keys: Iterable[Any], changed_since: Mapping[str, int] | None = None) -> list[Any]:
    """Sort links so that those likely to have clicks are adjacent; slashtags keep their order.

    First the links whose `hits` differ most from those of an earlier listing, then those with most hits. The
    order affects only the number of requests of a per-link query, never its results.
    """
    before = changed_since or {}

    def rank(link: Any) -> tuple[int, int]:
        hits = getattr(link, "hits", None)
        if not isinstance(hits, int):
            return 0, 0
        return -abs(hits - before.get(link.slashtag, 0)) if before else 0, -hits

    return sorted(keys, key=rank)
