"""Groups of batches of `collect_each`: their sizes, what is known of one, its progress and delivery."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from .._core.batches import Selector
from .._core.month_filter import Counts
from .._core.plan import Plan, empty_sum
from .._core.windows import TimeSlice
from .._errors import SlashtagError
from .._summed_statistics import RunningSum, Statistics
from .run_state import RunState

R = TypeVar("R", bound=Statistics)

#: The first group has at most so many batches, the next so many times more: so that results come early.
FIRST_GROUP, GROWTH = 10, 4

#: A time slice and the batches that are requested in it.
Part = tuple[TimeSlice, Sequence[Selector]]


class Group(Generic[R]):
    """Batches or tags that are collected together, until their results are in a queue.

    Results that are ordered wait until `earlier` is set: the group before is delivered. Others have none.
    """

    def __init__(
        self,
        selectors: Sequence[Selector],
        plan: Plan[R],
        state: RunState,
        results: asyncio.Queue[tuple[str, R]],
        earlier: asyncio.Event | None,
    ) -> None:
        self.selectors = selectors
        self._plan, self._state, self._results = plan, state, results
        self._earlier = earlier
        #: Set at the end.
        self.is_delivered = asyncio.Event()
        self.names = [name for selector in selectors for name in selector.names]
        self._link_ids = {slashtag: ids for each in selectors for slashtag, ids in each.links if ids}
        #: All-time statistics of each batch, by its slashtags, to compare other answers with.
        self.all_time_counts: dict[tuple[str, ...], Counts] = {}
        #: What is known so far of slashtags and tags with clicks.
        self._sums: dict[str, RunningSum[Any]] = {}
        #: Names whose results are known, those that failed, and those not delivered yet, in their order.
        self._ready: set[str] = set()
        self.failed: set[str] = set()
        self._left = dict.fromkeys(self.names)
        self._delivery = asyncio.Lock()
        #: Names without counts yet by time slice, the sum of these at first, and names told as done.
        self.open: dict[TimeSlice, float] = {}
        self._all_open = 1.0
        self._told = 0

    def select(self, slashtags: Iterable[str]) -> Selector:
        """Return the selector of some of its slashtags."""
        return Selector.of((slashtag, self._link_ids.get(slashtag, ())) for slashtag in slashtags)

    def singles(self, slashtags: Iterable[str]) -> list[Selector]:
        """Return a selector for each of these slashtags."""
        return [self.select([slashtag]) for slashtag in slashtags]

    def begin(self, parts: Iterable[Part]) -> None:
        """Begin to collect time slices, or begin anew."""
        self.open = {time_slice: sum(len(each.names) for each in found) for time_slice, found in parts}
        self._all_open = sum(self.open.values())
        self._sums.clear()

    def add(self, name: str, stats: Statistics) -> None:
        """Add what a slashtag or tag has in a time slice."""
        if name not in self._sums:
            self._sums[name] = empty_sum(self._plan.query, self._plan.span)
        self._sums[name].add(stats)

    def advance(self, time_slice: TimeSlice, open_: float) -> None:
        """Tell progress in proportion to what is known."""
        self.open[time_slice] = open_
        known = 1 - sum(self.open.values()) / self._all_open
        self._tell(int(known * len(self.names)))

    def _tell(self, done: int) -> None:
        for _ in range(self._told, min(done, len(self.names))):
            self._told += 1
            self._state.done()

    def fail(self, time_slice: TimeSlice, selectors: Iterable[Selector], error: SlashtagError) -> None:
        """Report that batches failed, or slashtags alone; raise the error if the others must not continue."""
        for selector in selectors:
            if names := [name for name in selector.names if name not in self.failed | self._ready]:
                self.failed.update(names)
                failed = selector if selector.tag is not None else self.select(names)
                call = self._plan.query._call(failed, time_slice)
                self._state.report_failure(call, error, self._plan._only(failed))

    async def deliver(self, names: Iterable[str]) -> None:
        """Deliver results that are known now; if they are ordered, as far as none is missing before them."""
        self._ready.update(name for name in names if name not in self.failed)
        if self._earlier is not None:
            await self._earlier.wait()
        async with self._delivery:
            for name in list(self._left):
                if name in self._ready:
                    total = self._sums.get(name) or empty_sum(self._plan.query, self._plan.span)
                    if len(self._link_ids.get(name, ())) > 1:
                        total.add_shared([name])
                    await self._results.put((name, total.result()))
                    self._sums.pop(name, None)
                elif name not in self.failed:
                    if self._earlier is not None:
                        return
                    continue
                del self._left[name]

    async def end(self) -> None:
        """Deliver all results, but for those that failed."""
        self._tell(len(self.names))
        await self.deliver(self.names)
        self.is_delivered.set()


async def read_groups(
    selectors: AsyncGenerator[Selector], size: int, first: int
) -> AsyncGenerator[Sequence[Selector]]:
    """Yield batches in groups of at most `size`, at first of `first`; close the generator that is read."""
    group: list[Selector] = []
    async with aclosing(selectors):
        async for selector in selectors:
            group.append(selector)
            if len(group) == size:
                for part in growing(group, first):
                    yield part
                group, first = [], size
    for part in growing(group, first):
        yield part


def growing(batches: Sequence[Selector], first: int) -> Iterator[Sequence[Selector]]:
    """Yield batches in groups, each larger than the one before; few batches in one.

    They are taken from the end, where links with fewest clicks are: the first groups take few requests, and
    hardly more in all, as there is little to be packed together.
    """
    end, size = len(batches), first
    while end:
        start = end - size if end > 2 * size else 0
        yield batches[start:end]
        end, size = start, GROWTH * size
