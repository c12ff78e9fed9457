"""Find the slashtags that count without asking for each: groups with few clicks stay closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from .._core.split import Month, halves
from .._fanout import WorkerPool
from .._models import RangeStats

#: Groups that are opened at once where all must be.
WORKERS = 32


class Group(Struct, frozen=True):
    """Hold slashtags and the clicks that they have together, by month or under one key for the span.

    The sum of the counts is at least what any of the slashtags has in the span.
    """

    keys: tuple[str, ...]
    counts: Mapping[Month, int]

    @property
    def bound(self) -> int:
        """Give the most clicks that one of the slashtags can have."""
        return sum(self.counts.values())


Weigh = Callable[[Sequence[str]], Awaitable[Mapping[Month, int]]]
Measure = Callable[[Group], Awaitable[RangeStats]]


class Search:
    """Open groups until what is looked for is certain.

    `weigh` counts the clicks of some slashtags together, `measure` the days of a single one. `settled` says
    that no more clicks arrive: one half of a group is then the group less its other half, which saves half of
    the requests, so that opening a group fully never costs more than asking for each slashtag.
    """

    def __init__(self, weigh: Weigh, measure: Measure, *, settled: bool) -> None:
        self._weigh = weigh
        self._measure = measure
        self._settled = settled

    async def singles(self, groups: Iterable[Group]) -> list[Group]:
        """Open all groups; return every slashtag that may have clicks, alone, the largest bound first."""
        found: list[Group] = []

        async def work(group: Group) -> list[Group] | None:
            if len(group.keys) > 1:
                return await self._open(group)
            found.append(group)
            return None

        await WorkerPool([group for group in groups if group.bound], work, WORKERS).run()
        return sorted(found, key=_largest_first)

    async def top(self, groups: Iterable[Group], places: int) -> list[tuple[str, RangeStats]]:
        """Return the slashtags with most clicks, exactly, and their days; those without clicks have no place.

        The group with the largest bound is opened until none that is left can hold a better slashtag than
        the last one in place.
        """
        closed = list(groups)
        known: dict[str, RangeStats] = {}

        async def work(group: Group) -> None:
            if len(group.keys) == 1:
                known[group.keys[0]] = await self._measure(group)
            else:
                closed.extend(await self._open(group))

        while places > 0:
            totals = sorted((stats.total for stats in known.values()), reverse=True)
            least = totals[places - 1] if len(totals) >= places else 0
            closed = sorted((group for group in closed if group.bound > least), key=_largest_first)
            if not closed:
                break
            wave, closed = closed[:places], closed[places:]
            await WorkerPool(wave, work, places).run()
        ranked = sorted(known.items(), key=lambda item: (-item[1].total, item[0]))
        return [(key, stats) for key, stats in ranked if stats.total][:places]

    async def _open(self, group: Group) -> list[Group]:
        """Return the halves of a group that have clicks."""
        left, right = halves(group.keys)
        counts = await self._weigh(left)
        rest = {month: n - counts.get(month, 0) for month, n in group.counts.items()}
        if not self._settled or any(n < 0 for n in rest.values()) or counts.keys() - rest.keys():
            # What has come since would be missing on the other side.
            rest = dict(await self._weigh(right))
        parts = (Group(tuple(left), counts), Group(tuple(right), rest))
        return [part for part in parts if part.bound]


def _largest_first(group: Group) -> tuple[int, str]:
    return -group.bound, group.keys[0]
