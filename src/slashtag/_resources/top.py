"""The links with most clicks, found with few requests.

The service counts any 100 links in one request. Batches are counted together; those with most clicks are
halved until the first places are all held by single links: no link has more clicks than its batch.
"""

from collections.abc import Awaitable, Callable, Sequence
from heapq import nlargest
from typing import TypeVar

from .._core.batches import Selector
from .._fanout import results_of
from .._summed_statistics import Statistics

R = TypeVar("R", bound=Statistics)


async def first_places(
    count: Callable[[Selector], Awaitable[R]], batches: Sequence[Selector], n: int
) -> dict[str, R]:
    """Return at most `n` slashtags with most clicks, and their statistics, the most first.

    The order of slashtags in `batches` decides only how many requests it takes: few if those with many clicks
    are adjacent.
    """
    found: dict[str, R] = {}
    #: The most clicks that one of a batch can have: those of all. Batches that were counted have some.
    most: dict[Selector, int] = {}

    async def counted(batch: Selector) -> dict[Selector, int]:
        """Return the clicks of a batch, if there are any."""
        stats = await count(batch)
        if len(batch.keys) == 1:
            found[batch.keys[0]] = stats
        return {batch: stats.total} if stats.total else {}

    async def refined(batch: Selector) -> dict[Selector, int]:
        """Return the halves of a batch, or a slashtag, with their clicks."""
        if len(batch.keys) == 1 or not most[batch]:
            # It had what the other half left, whose clicks since then may hide its own.
            return await counted(batch)
        first, second = batch.halves()
        clicks = await counted(first)
        return clicks | {second: max(0, most[batch] - sum(clicks.values()))}

    def is_known(batch: Selector) -> bool:
        slashtag, *others = batch.keys
        return not others and slashtag in found

    for clicks in await results_of(counted, batches):
        most |= clicks
    while True:
        first = nlargest(n, most, key=lambda batch: (most[batch], is_known(batch)))
        unknown = [batch for batch in first if not is_known(batch)]
        if not unknown:
            return {batch.keys[0]: found[batch.keys[0]] for batch in first}
        for batch, finer in zip(unknown, await results_of(refined, unknown), strict=True):
            del most[batch]
            most |= finer
