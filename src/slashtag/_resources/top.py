"""The links with most clicks, found with few requests.

The service counts any 100 links in one request. Batches are counted together; those with most clicks are
halved until the first places are all held by single links: no link has more clicks than its batch.
"""

from collections.abc import Awaitable, Callable, Sequence
from heapq import nlargest
from typing import TypeVar

from msgspec.structs import replace

from .._core.batches import Selector
from .._fanout import results_of
from .._summed_statistics import Statistics

R = TypeVar("R", bound=Statistics)


async def first_places(
    count: Callable[[Selector], Awaitable[R]], batches: Sequence[Selector], n: int
) -> dict[str, R]:
    """Return at most `n` slashtags with most clicks, and their statistics, the most first.

    The order of slashtags in `batches` decides only how many requests it takes: few if those with many clicks
    are adjacent. None of them reconciles if an answer contradicted itself: it may have hidden a first place.
    """
    found = dict[str, R]()
    #: The most clicks that one of a batch can have: those of all. Batches that were counted have some.
    most = dict[Selector, int]()
    reconciles = True

    async def counted(batch: Selector) -> dict[Selector, int]:
        """Return the clicks of a batch, if there are any."""
        nonlocal reconciles
        stats = await count(batch)
        reconciles &= stats.reconciles
        if len(batch.keys) == 1:
            found[batch.url_keys] = stats
        return {batch: stats.total} if stats.total else {}

    async def refined(batch: Selector) -> dict[Selector, int]:
        """Return the halves of a batch, or a slashtag, with their clicks."""
        if len(batch.keys) == 1 or not most[batch]:
            # It had what the other half left, whose clicks since then may hide its own.
            return await counted(batch)
        first, second = batch.halves()
        clicks = await counted(first)
        return clicks | {second: max(0, most[batch] - sum(clicks.values()))}

    for clicks in await results_of(counted, batches):
        most |= clicks
    while True:
        first = nlargest(n, most, key=lambda batch: (most[batch], batch.url_keys in found))
        unknown = [batch for batch in first if batch.url_keys not in found]
        if not unknown:
            names = [batch.url_keys for batch in first]
            return {name: replace(found[name], reconciles=reconciles) for name in names}
        for batch, finer in zip(unknown, await results_of(refined, unknown), strict=True):
            del most[batch]
            most |= finer
