"""Implementation of `collect_each`: batches in groups; rounds of a search; the rest alone; delivery.

1. **Groups** of batches are collected one after the other, a few at once: the first is small, so that results
   come early, and taken from the end, where links with fewest clicks are.
2. **Rounds**: `_core/search` says, for each window, what to ask next until what each slashtag has is known.
3. **Alone** is asked what a search cannot tell, what differs in case only, and every tag.
4. **Delivery**: a slashtag whose windows are all known goes into the queue of results; with `ordered` in the
   order of the input, group by group.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.batches import FEW_KEYS, Selector, without
from .._core.limits import MAX_KEYS, SETTLING_SECONDS
from .._core.plan import Plan, empty_sum
from .._core.search.cells import TOTAL, Answer, Cell, Label, Question
from .._core.search.search import Search
from .._core.statistics_answers import RangeAnswer
from .._core.windows import TimeSlice, Window, midnight
from .._errors import SlashtagError
from .._fanout import MOST_WAITING, run_workers
from .._files import in_thread
from .._summed_statistics import RangeStats, RunningSum, Statistics
from .run_state import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)

#: Batches of the first group, at most, as a share of all and in number; each group is GROWTH times larger
#: than the one before, up to MOST batches. Twice as many at once save 4 % of the requests, and take twice the
#: time to be packed.
FIRST_SHARE, MOST_FIRST, GROWTH, MOST = 1 / 5, 20, 4, 50
#: Batches times windows of a group, at most, which bounds the memory.
MOST_WINDOWS = 600
#: Groups, and windows of each, under way at once: others fill the pauses between the rounds of one.
GROUPS_AT_ONCE, WINDOWS_AT_ONCE = 2, 4
#: While days are searched that are not over, so many clicks may come, at most, in so many seconds: the
#: busiest batches are asked slashtag by slashtag instead.
MOST_EXPECTED, SEARCH_SECONDS = 1.0, 30.0


class EachRun(Generic[R]):
    """One run of `collect_each`, whose results come in a queue."""

    def __init__(
        self, fetcher: StatsFetcher, state: RunState, *, inferred: bool, ordered: bool, workers: int
    ) -> None:
        self._fetcher, self._state, self._workers = fetcher, state, workers
        self._inferred, self._ordered = inferred, ordered
        self.results: asyncio.Queue[tuple[str, R]] = asyncio.Queue(MOST_WAITING)
        # Held while a search takes answers apart, in a thread: the event loop would wait longer for several.
        self._deduction = asyncio.Lock()

    async def run(self, plan: Plan[R]) -> None:
        """Collect and deliver the results of a plan."""
        self._plan = plan
        selectors = plan._selectors
        self._state.total = sum(len(selector.names) for selector in selectors)
        has_tags = any(selector.tag is not None for selector in selectors)
        self._infers = self._inferred and not has_tags and plan.query._answer_type is RangeAnswer
        if self._infers:
            most = max(1, min(MOST, MOST_WINDOWS // max(1, len(plan._time_slices))))
            groups = growing(selectors, most, from_end=not self._ordered)
        else:
            # Ordered results wait for the others of their group.
            size = len(selectors) if not self._ordered else MAX_KEYS if has_tags else 1
            groups = [selectors[n : n + size] for n in range(0, len(selectors), size)]
        # The first alone: beside others it would take as long as these.
        await run_workers(groups[:1], self._collect, 1)
        await run_workers(groups[1:], self._collect, 1 if self._ordered else GROUPS_AT_ONCE)
        self._state.tell_failures(plan, of_names=True)

    async def _collect(self, selectors: Sequence[Selector]) -> None:
        group = _Group(self._plan, selectors)
        try:
            if self._infers:
                search = partial(self._search, group)
                await run_workers(self._plan._time_slices, search, WINDOWS_AT_ONCE)
            else:
                singles = (one for selector in selectors for one in selector.singles())
                await self._ask_alone(group, ((one, each) for one in singles for each in group.open))
        except SlashtagError as error:
            if self._state.end is None or error.is_fatal:
                raise
            known = group.failed.union(group.names) - group.left
            for selector in selectors if self._plan else ():
                left = [selector] if selector.tag in group.left else without([selector], known)
                for each in left:
                    group.failed.update(each.names)
                    self._state.fail(each, self._plan._time_slices, error)
        for time_slice, open_names in group.open.items():
            self._state.done(group.count(time_slice, open_names))
        for name in group.names:
            await self._deliver(group, name)

    async def _deliver(self, group: "_Group[R]", name: str) -> None:
        """Deliver a result, if it is complete and was not delivered."""
        if name in group.left and name not in group.failed:
            group.left.discard(name)
            await self.results.put((name, group.result(name)))

    async def _ask_alone(self, group: "_Group[R]", items: Iterable[tuple[Selector, TimeSlice]]) -> None:
        """Request slashtags or tags one by one; deliver those whose last time slice it is."""

        async def ask(item: tuple[Selector, TimeSlice]) -> None:
            selector, time_slice = item
            (name,) = selector.names
            if name in group.failed:
                return
            try:
                stats = await self._state.ask(self._fetcher, self._plan._request(selector, time_slice))
            except SlashtagError as error:
                if name not in group.failed:
                    group.failed.add(name)
                    self._state.fail(selector, self._plan._time_slices, error)
                return
            group.add(name, stats)
            self._state.done(group.count(time_slice, 1))
            if not self._infers and not self._ordered and group.is_complete(name):
                await self._deliver(group, name)

        await run_workers(items, ask, self._workers)

    async def _search(self, group: "_Group[R]", time_slice: TimeSlice) -> None:
        """Find what each slashtag of a group has in a time slice."""
        window = time_slice.window
        assert window is not None
        alone = self._state.alone | group.alone
        batches = [[key for key in each.keys if key not in alone] for each in group.selectors]
        search = Search(filter(None, batches), few=FEW_KEYS)
        search.unresolved += [name for name in group.names if name in alone]
        rounds, is_first = search.rounds(), True
        while True:
            async with self._deduction:
                questions = await in_thread(partial(next, rounds, ()))
            await run_workers(questions, partial(self._answer, group, time_slice), self._workers)
            if questions and is_first:
                search.mark_unresolved(busy(questions, window, datetime.now(UTC)))
            is_first = False
            singles = [group.select([name]) for name in search.take_unresolved()]
            await self._ask_alone(group, [(single, time_slice) for single in singles])
            if not questions:
                break
            self._state.done(group.count(time_slice, group.open[time_slice] - search.open_keys))
        for key, counts in search.results.items():
            group.add(key, stats_of(counts, window))
            await asyncio.sleep(0)

    async def _answer(self, group: "_Group[R]", time_slice: TimeSlice, question: Question) -> None:
        """Request the answer to a question of a search; leave it without one if it fails."""
        selector, window = group.select(question.keys), time_slice.window
        request = self._plan._request(selector, time_slice)
        if question.again:
            request = replace(request, call=replace(request.call, again=True))
        try:
            stats = await self._state.ask(self._fetcher, request, is_result=False)
        except SlashtagError as error:
            if not self._state.may_go_on(error):
                raise
            return
        assert window is not None
        question.answer = counts_of(stats, window)


class _Group(Generic[R]):
    """Batches or tags that are collected together, and what is known of them."""

    def __init__(self, plan: Plan[R], selectors: Sequence[Selector]) -> None:
        self._plan, self.selectors = plan, selectors
        self.names = [name for selector in selectors for name in selector.names]
        self._link_ids = {slashtag: ids for each in selectors for slashtag, ids in each.links if ids}
        #: Slashtags that differ in case only: the service may take them for one.
        alike = Counter(name.casefold() for name in self.names)
        self.alone = {name for name in self.names if alike[name.casefold()] > 1}
        self.left, self.failed = set(self.names), set[str]()
        #: What is known of names with clicks, and for how many time slices of each that is all.
        self._sums: dict[str, RunningSum[R]] = {}
        self._known = Counter[str]()
        #: Names without counts yet, by time slice, and how many were told as done.
        self.open = dict.fromkeys(plan._time_slices, len(self.names))
        self._told = 0

    def select(self, slashtags: Iterable[str]) -> Selector:
        """Return the selector of some of its slashtags."""
        return Selector.of((slashtag, self._link_ids.get(slashtag, ())) for slashtag in slashtags)

    def add(self, name: str, stats: Any) -> None:
        """Add what a slashtag or tag has in a time slice."""
        if name not in self._sums:
            self._sums[name] = empty_sum(self._plan.query, self._plan.span)
        self._sums[name].add(stats)
        self._known[name] += 1

    def is_complete(self, name: str) -> bool:
        """Return whether each time slice of a name is known."""
        return self._known[name] == len(self.open)

    def result(self, name: str) -> R:
        """Return the sum of a name, and forget it."""
        total = self._sums.pop(name, None) or empty_sum(self._plan.query, self._plan.span)
        if len(self._link_ids.get(name, ())) > 1:
            total.add_shared([name])
        return total.result()

    def count(self, time_slice: TimeSlice, known: int) -> int:
        """Count names as known in a time slice; return how many more to tell as done, in proportion."""
        # Batches that are given up have more open names than was thought.
        self.open[time_slice] = max(0, self.open[time_slice] - known)
        done = len(self.names) - -(-sum(self.open.values()) // len(self.open))
        more, self._told = max(0, done - self._told), max(done, self._told)
        return more


def growing(batches: Sequence[Selector], most: int, *, from_end: bool) -> list[Sequence[Selector]]:
    """Return batches in groups, each larger than the one before."""
    groups: list[Sequence[Selector]] = []
    left, size = batches, max(1, min(MOST_FIRST, most, int(FIRST_SHARE * len(batches))))
    while left:
        groups.append(left[-size:] if from_end else left[:size])
        left = left[:-size] if from_end else left[size:]
        size = min(most, GROWTH * size)
    return groups


def busy(questions: Sequence[Question], window: Window, now: datetime) -> list[Cell]:
    """Return the busiest batches: of the others at most MOST_EXPECTED clicks come during a search.

    A search repairs what one late click has changed.
    """
    if window.period_end < now.timestamp() - SETTLING_SECONDS:
        return []
    zone = window.start.tzinfo or UTC
    today = midnight((now - timedelta(seconds=SETTLING_SECONDS)).astimezone(zone).date(), zone)
    begin = max(today, window.start)
    # Not by the first minutes of a day.
    share = SEARCH_SECONDS / max(3600.0, (now - begin).total_seconds())
    clicks, found = 0.0, list[Cell]()
    since = {each: clicks_since(begin.date(), each.answer or {}) for each in questions}
    for question in sorted(questions, key=lambda each: since[each]):
        clicks += share * since[question]
        found += question.cells if clicks > MOST_EXPECTED else ()
    return found


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


def clicks_since(day: date, counts: Answer) -> int:
    """Return the clicks from a day on, all of them if there are no days."""
    days = [(label, count) for (name, label), count in counts.items() if name == "clicks"]
    since = sum(count for label, count in days if isinstance(label, date) and label >= day)
    return since if days else max(0, counts.get(TOTAL, 0))


def stats_of(counts: Answer, window: Window) -> RangeStats:
    """Return the statistics of one slashtag with clicks."""
    maps: dict[str, Any] = {name: {} for name in RangeStats.DIMENSIONS}
    if window.first == window.last:
        maps["clicks"][window.first] = counts[TOTAL]
    for (name, label), count in counts.items():
        if name:
            maps[name][label] = count
    return RangeStats(total_clicks=counts[TOTAL], days_complete=bool(maps["clicks"]), **maps)
