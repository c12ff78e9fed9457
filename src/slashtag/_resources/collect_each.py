"""Implementation of `collect_each`: batches in groups; rounds of a search; the rest alone; delivery.

1. **Groups** of batches are collected, the first alone, then a few at once: it is small, so that results come
   early. Unless they are `ordered`, they are taken from the end, where links with fewest clicks are.
2. **Rounds**: `_core/search` says, for each window, what to ask next until what each slashtag has is known.
3. **Alone** is asked what a search cannot tell, and every tag.
4. **Delivery**: a slashtag whose windows are all known goes into the queue of results; with `ordered` in the
   order of the input, group by group.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from .._core.batches import Selector
from .._core.limits import MAX_KEYS
from .._core.queries import Plan
from .._core.search.cells import TOTAL, Answer, Label, Question
from .._core.search.search import Search
from .._core.statistics_answers import RangeAnswer
from .._core.windows import TimeSlice, Window
from .._errors import SlashtagError
from .._fanout import in_thread, run_workers
from .._summed_statistics import RangeStats, RunningSum, Statistics
from .run import StatsRun

R = TypeVar("R", bound=Statistics)

#: Batches of the first group, at most, as a share of all and in number, and of each of the others. Twice as
#: many at once save 4 % of the requests, and take twice the time to be packed.
FIRST_SHARE, MOST_FIRST, MOST = 1 / 5, 20, 50
#: Batches times windows of a group, at most, which bounds the memory.
MOST_WINDOWS = 600
#: Groups, and windows of each, under way at once: others fill the pauses between the rounds of one.
GROUPS_AT_ONCE, WINDOWS_AT_ONCE = 2, 2


async def collect_each(
    run: StatsRun, plan: Plan[R], results: asyncio.Queue[tuple[str, R]], *, inferred: bool, ordered: bool
) -> None:
    """Collect what each slashtag or tag of a plan has, and put it into the queue of results."""
    selectors = plan._selectors
    run.total = sum(len(selector.names) for selector in selectors) * len(plan._time_slices)
    has_tags = any(selector.tag is not None for selector in selectors)
    infers = inferred and not has_tags and plan.query._answer_type is RangeAnswer
    if infers:
        most = max(1, min(MOST, MOST_WINDOWS // max(1, len(plan._time_slices))))
        first = max(1, min(MOST_FIRST, most, int(FIRST_SHARE * len(selectors))))
        batches = selectors if ordered else selectors[::-1]
        groups = [batches[:first], *(batches[n : n + most] for n in range(first, len(batches), most))]
        # Each in its own order: a search packs first what has most clicks, or takes a tenth more requests.
        groups = groups if ordered else [group[::-1] for group in groups]
    else:
        # Ordered results wait for the others of their group.
        size = max(1, len(selectors)) if not ordered else MAX_KEYS if has_tags else 1
        groups = [selectors[n : n + size] for n in range(0, len(selectors), size)]
    # Held while a search takes answers apart, in a thread: the event loop would wait longer for several.
    deduction = asyncio.Lock()

    async def collect(selectors: Sequence[Selector]) -> None:
        group = _Group(run, plan, selectors, results, deduction)
        if infers:
            await run_workers(plan._time_slices, group.search, WINDOWS_AT_ONCE)
        else:
            await group.ask_all(deliver=not ordered)
        await group.deliver_all()

    # The first alone: beside others it would take as long as these.
    await run_workers(groups[:1], collect, 1)
    await run_workers(groups[1:], collect, 1 if ordered else GROUPS_AT_ONCE)
    run.tell_failures(plan)


class _Group(Generic[R]):
    """Batches or tags that are collected together, and what is known of them."""

    def __init__(
        self,
        run: StatsRun,
        plan: Plan[R],
        selectors: Sequence[Selector],
        results: asyncio.Queue[tuple[str, R]],
        deduction: asyncio.Lock,
    ) -> None:
        self._run, self._plan, self._selectors = run, plan, selectors
        self._results, self._deduction = results, deduction
        self._names = [name for selector in selectors for name in selector.names]
        self._link_ids = {slashtag: ids for each in selectors for slashtag, ids in each.links if ids}
        #: Names that were delivered, or failed.
        self._ended = set[str]()
        #: What is known of names with clicks, and for how many time slices of each that is all.
        self._sums = dict[str, RunningSum[R]]()
        self._known = Counter[str]()
        #: How many names were told as known, by time slice.
        self._told = dict.fromkeys(plan._time_slices, 0)

    async def ask_all(self, *, deliver: bool) -> None:
        """Request all slashtags or tags one by one; `deliver` each as soon as it is known."""
        singles = (single for selector in self._selectors for single in selector.singles())
        await self._ask_alone(((one, each) for one in singles for each in self._told), deliver=deliver)

    async def search(self, time_slice: TimeSlice) -> None:
        """Find what each slashtag has in a time slice."""
        alone, window = self._run.alone, time_slice.window
        assert window is not None
        batches = [[key for key in each.keys if key not in alone] for each in self._selectors]
        search = Search(filter(None, batches))
        search.unresolved += [name for name in self._names if name in alone]
        rounds = search.rounds()
        while True:
            async with self._deduction:
                questions = await in_thread(next, rounds, ())
            await run_workers(questions, partial(self._answer, time_slice), self._run.workers)
            singles = [self._select([name]) for name in search.unresolved]
            search.unresolved.clear()
            await self._ask_alone((single, time_slice) for single in singles)
            if not questions:
                break
            self._tell(time_slice, len(self._names) - search.open_keys)
        for key, counts in search.results.items():
            self._add(key, stats_of(counts, window))
            await asyncio.sleep(0)

    async def deliver_all(self) -> None:
        """Deliver what was not delivered and did not fail, in the order of the names."""
        for time_slice in self._told:
            self._tell(time_slice, len(self._names))
        for name in self._names:
            await self._deliver(name)

    async def _ask_alone(self, items: Iterable[tuple[Selector, TimeSlice]], *, deliver: bool = False) -> None:
        async def ask(item: tuple[Selector, TimeSlice]) -> None:
            selector, time_slice = item
            (name,) = selector.names
            if name in self._ended:
                return
            try:
                stats = await self._run.ask(self._plan.query, selector, time_slice)
            except SlashtagError as error:
                if name not in self._ended:
                    self._ended.add(name)
                    self._run.fail(selector, self._plan._time_slices, error)
                return
            self._add(name, stats)
            self._tell(time_slice, self._told[time_slice] + 1)
            if deliver and self._known[name] == len(self._told):
                await self._deliver(name)

        await run_workers(items, ask, self._run.workers)

    async def _answer(self, time_slice: TimeSlice, question: Question) -> None:
        """Request the answer to a question of a search; leave it without one if it fails."""
        selector = self._select(question.keys)
        try:
            stats = await self._run.ask(self._plan.query, selector, time_slice)
        except SlashtagError as error:
            if not self._run.may_go_on(error):
                raise
            return
        assert time_slice.window is not None
        question.answer = counts_of(stats, time_slice.window)

    def _select(self, slashtags: Iterable[str]) -> Selector:
        return Selector.of((slashtag, self._link_ids.get(slashtag, ())) for slashtag in slashtags)

    def _add(self, name: str, stats: Any) -> None:
        """Add what a slashtag or tag has in a time slice."""
        if name not in self._sums:
            self._sums[name] = self._plan._empty_sum()
        self._sums[name].add(stats)
        self._known[name] += 1

    async def _deliver(self, name: str) -> None:
        if name not in self._ended:
            self._ended.add(name)
            total = self._sums.pop(name, None) or self._plan._empty_sum()
            if len(self._link_ids.get(name, ())) > 1:
                total.note(shared=[name])
            await self._results.put((name, total.result()))

    def _tell(self, time_slice: TimeSlice, known: int) -> None:
        """Tell how many names are known in a time slice, unless more were told: a batch may be given up."""
        more = min(known, len(self._names)) - self._told[time_slice]
        if more > 0:
            self._told[time_slice] += more
            self._run.done(more)


def counts_of(stats: RangeStats, window: Window) -> Answer:
    """Return counts by dimension and label, without zeros; no usable ones if the days do not add up."""
    if not stats.reconciles:
        return {TOTAL: -1}
    counts: dict[Label, int] = {TOTAL: stats.total_clicks} if stats.total_clicks else {}
    for name in RangeStats.DIMENSIONS:
        # The only day of a window has the total.
        if name != "clicks" or window.first != window.last:
            counts.update(((name, label), count) for label, count in getattr(stats, name).items() if count)
    return counts


def stats_of(counts: Answer, window: Window) -> RangeStats:
    """Return the statistics of one slashtag with clicks."""
    maps: dict[str, Any] = {name: {} for name in RangeStats.DIMENSIONS}
    if window.first == window.last:
        maps["clicks"][window.first] = counts[TOTAL]
    for (name, label), count in counts.items():
        if name:
            maps[name][label] = count
    return RangeStats(total_clicks=counts[TOTAL], days_complete=bool(maps["clicks"]), **maps)
