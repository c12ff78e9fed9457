"""Implementation of `collect_each`: groups of batches are searched window by window, then delivered.

`_core.search` decides what is requested and what the answers say, `_core.month_filter` which months are
skipped.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime, tzinfo
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.batches import Selector, look_alikes
from .._core.call import SETTLING_SECONDS
from .._core.contradictions import RangeAnswer
from .._core.month_filter import Counts, MonthFilter
from .._core.queries import AllTime, DateRange, Plan
from .._core.search.cells import TOTAL, Answer, Label, Question
from .._core.search.confirmation import Check
from .._core.search.search import Rounds, Search
from .._core.windows import RangeEnd, TimeSlice, Window, split_at
from .._errors import SlashtagError, UnexpectedResponseError
from .._fanout import MOST_WAITING, Results, Tasks, WorkerPool
from .._summed_statistics import RangeStats, RunningSum, Statistics
from .collect import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)

#: A batch with more than a click for so many slashtags on days that are not over is requested one by one: in
#: a window that has other days too, and without such.
BUSY, BUSY_TODAY = 6, 3
#: Batches of at most so many slashtags, too: they save too little.
FEW_TODAY = 20
#: Minimum number of windows for which all-time statistics are requested first.
FILTERED_FROM = 3
#: Batches of at most so many slashtags are requested one by one, which takes fewer requests.
FEW_KEYS = 3
#: Requests of a round that are sent first where none succeeds.
FEW_AT_FIRST = 16
#: Batches that are searched together, and the most of them times windows, which bounds the memory.
GROUP, GROUP_WINDOWS = 200, 600
#: Groups, and windows of each, under way at once: others fill the pauses between the rounds of one.
GROUPS_AT_ONCE, WINDOWS_AT_ONCE = 2, 4

#: A time slice and the batches that are requested in it.
Part = tuple[TimeSlice, Sequence[Selector]]

log = logging.getLogger("slashtag")


class WrongMonthsError(Exception):
    """All-time statistics of a batch that contradict its statistics of a month."""


class NoAnswersError(Exception):
    """The last of several failures, without an answer between them."""

    def __init__(self, error: SlashtagError) -> None:
        self.error = error


class Group:
    """Batches or tags that are collected together; `sums` are those of slashtags and tags with clicks."""

    def __init__(self, selectors: Sequence[Selector]) -> None:
        self.selectors = selectors
        self.names = [name for selector in selectors for name in selector.names]
        self._link_ids = {slashtag: ids for each in selectors for slashtag, ids in each.links if ids}
        self.sums: dict[str, RunningSum[Any]] = {}
        self.failed: set[str] = set()
        #: Names without counts yet by time slice, the sum of these at first, and names told as done.
        self.open: dict[TimeSlice, int] = {}
        self.all_open = 1
        self.told = 0
        #: All-time statistics of each batch, by its slashtags, to compare other answers with.
        self.all_time_counts: dict[tuple[str, ...], Counts] = {}
        #: The first search, which verifies for the others that the service counts what it is asked.
        self.leader: Search | None = None
        self.has_verified = asyncio.Event()

    def select(self, keys: Iterable[str]) -> Selector:
        """Return the selector of some of its slashtags."""
        return Selector.of((slashtag, self._link_ids.get(slashtag, ())) for slashtag in keys)

    def singles(self, keys: Iterable[str]) -> list[Selector]:
        """Return a selector for each of these slashtags."""
        return [self.select([key]) for key in keys]


class EachRun(Generic[R]):
    """One run of `collect_each`."""

    def __init__(
        self,
        fetcher: StatsFetcher,
        plan: Plan[R],
        state: RunState,
        *,
        zone: tzinfo,
        now: datetime,
        range_end: RangeEnd,
        inferred: bool,
        ordered: bool,
        workers: int,
    ) -> None:
        self._fetcher, self._plan, self._state = fetcher, plan, state
        self._workers, self._ordered = workers, ordered
        #: Periods that end before this (epoch seconds) are over by every clock.
        self._over = now.timestamp() - SETTLING_SECONDS
        self._range_end: RangeEnd = range_end
        has_tags = any(selector.tag is not None for selector in plan.selectors)
        self._infers = inferred and not has_tags and plan.query.answer_type is RangeAnswer
        width = len(plan.time_slices)
        self._filter: MonthFilter | None = None
        if self._infers and isinstance(plan.query, DateRange) and width >= FILTERED_FROM:
            self._filter = MonthFilter(plan.query, zone, now, range_end)
        is_joint = self._infers or has_tags
        self._size = max(1, min(GROUP, GROUP_WINDOWS // max(1, width))) if is_joint else 1
        self._results: asyncio.Queue[tuple[str, R]] = asyncio.Queue(MOST_WAITING)
        #: Set once the group that was begun last has been delivered; each group waits for the one before.
        self._delivered = asyncio.Event()
        self._delivered.set()

    def start(self, batches: AsyncGenerator[Selector] | None, tasks: Tasks) -> Results[tuple[str, R]]:
        """Return the iterator over (slashtag or tag, statistics), of the plan or of `batches`."""
        selectors, size, results = self._plan.selectors, self._size, self._results
        groups: AsyncGenerator[Sequence[Selector]] | list[tuple[Selector, ...]]
        groups = [selectors[n : n + size] for n in range(0, len(selectors), size)]
        if batches is not None:
            groups = read_groups(batches, size)
        pool = WorkerPool(groups, self._collect, GROUPS_AT_ONCE)
        return Results(tasks, pool, results)

    async def _collect(self, selectors: Sequence[Selector]) -> None:
        """Collect and deliver a group."""
        earlier, self._delivered = self._delivered, asyncio.Event()
        delivered, plan, group = self._delivered, self._plan, Group(selectors)
        if not await self._collect_months(group):
            infers, whole = self._may_infer, [(time_slice, selectors) for time_slice in plan.time_slices]
            await self._collect_parts(group, whole)
            if infers and not self._may_infer:  # what was found about the service meanwhile
                await self._collect_parts(group, whole)
        self._tell(group, len(group.names))
        if self._ordered:
            await earlier.wait()
        for name in group.names:
            if name not in group.failed:
                total = group.sums.pop(name, None) or plan.query.running_sum(plan.span)
                await self._results.put((name, total.result()))
        delivered.set()

    async def _collect_months(self, group: Group) -> bool:
        """Collect a group without months that are empty; return False if all-time statistics do not help."""
        months, traits = self._filter, self._fetcher.traits
        if months is None or traits.all_time_is_wrong or not self._may_infer:
            return False
        failed: list[Selector] = []

        async def learn(selector: Selector) -> None:
            if traits.all_time_is_wrong or len(failed) > len(group.all_time_counts) + 2:
                return
            call = AllTime().call(selector, months.all_time_slice)
            call = replace(call, freshness="new connection", repeat="never")
            try:
                stats = await self._fetcher.fetch(call, is_result=False)
            except SlashtagError as error:
                if error.is_fatal:
                    raise
                failed.append(selector)
                log.info("all-time statistics of %s cannot be used to skip months: %s", selector, error)
                return
            if not stats.reconciles:  # nor are those of other batches of use then
                traits.all_time_is_wrong = True
                log.info("all-time statistics of %s do not add up: no months are skipped", selector)
            group.all_time_counts[selector.keys] = stats.clicks_breakdown

        await WorkerPool(group.selectors, learn, self._workers).run()
        # One failure in many is no reason for other windows: a journal has those of an earlier run.
        traits.all_time_is_wrong |= len(failed) >= len(group.all_time_counts)
        parts: list[Part] = []
        for window, time_slice in months.time_slices.items():
            empty = {
                keys for keys, clicks in group.all_time_counts.items() if not months.is_active(window, clicks)
            }
            if active := [each for each in group.selectors if each.keys not in empty]:
                parts.append((time_slice, active))
        is_less = sum(len(active) for _, active in parts) < len(group.selectors) * len(self._plan.time_slices)
        if is_less and not traits.all_time_is_wrong:
            try:
                await self._collect_parts(group, parts)
            except WrongMonthsError:
                traits.all_time_is_wrong = True
                log.warning("days differ from all-time statistics; every window is requested from now on")
            # A service that does not count what it is asked has wrong all-time statistics, too.
            if not traits.all_time_is_wrong and self._may_infer:
                return True
        group.all_time_counts.clear()
        return False

    async def _collect_parts(self, group: Group, parts: Sequence[Part]) -> None:
        """Collect time slices of a group."""
        group.open = {time_slice: sum(len(each.names) for each in found) for time_slice, found in parts}
        group.all_open = sum(group.open.values())
        group.sums.clear()

        async def collect(part: Part) -> None:
            time_slice, selectors = part
            try:
                if not self._may_infer:
                    await self._ask_alone(group, time_slice, singles(selectors))
                elif time_slice.period_end < self._over:
                    await self._search(group, part)
                else:
                    await self._collect_present(group, part)
            except NoAnswersError as failed:
                self._fail(group, time_slice, selectors, failed.error)

        await WorkerPool(parts, collect, WINDOWS_AT_ONCE).run()

    @property
    def _may_infer(self) -> bool:
        """Whether to request several slashtags at once."""
        return self._infers and self._fetcher.traits.is_additive

    async def _collect_present(self, group: Group, part: Part) -> None:
        """Collect a time slice that is not over; only its days that are over are inferred.

        The others change while they are counted, so no answer can be subtracted from another one. Of a batch
        with few clicks on them smaller and smaller parts are requested, until those with clicks stand alone.
        """
        time_slice, selectors = part
        past, present = split_at(time_slice, self._over, self._range_end)
        shares: dict[Selector, list[Selector]] = {}
        query, busy = self._plan.query, BUSY_TODAY if past is None else BUSY
        failures_before = self._state.failures

        async def ask(selector: Selector) -> None:
            if len(selector.keys) <= FEW_TODAY:
                return
            try:
                call = query.call(selector, present)
                stats = await self._fetcher.fetch(call, present.window, is_result=False)
            except SlashtagError as error:
                if not self._state.may_split(error, failures_before, always=True):
                    raise NoAnswersError(error) from None
                return
            self._state.succeeded()
            if stats.reconciles and busy * stats.total <= len(selector.keys):
                shares[selector] = shares_of(selector, stats.total)

        await WorkerPool(selectors, ask, self._workers).run()
        alone = singles(each for each in selectors if each not in shares)
        left = [each for parts in shares.values() for each in parts]
        group.open[time_slice] = len(alone)
        group.open[present] = sum(len(each.keys) for each in left)
        await self._ask_alone(group, time_slice, alone)
        if past is not None and shares:
            group.open[past] = 0
            await self._search(group, (past, tuple(shares)))
        await self._ask_alone(group, present, left)

    async def _ask_alone(self, group: Group, time_slice: TimeSlice, selectors: Iterable[Selector]) -> None:
        """Request slashtags or tags one by one, and of several at once smaller parts if they have clicks."""
        query = self._plan.query

        async def ask(selector: Selector) -> Sequence[Selector]:
            if group.failed.issuperset(selector.names):
                return ()
            is_alone, call = len(selector.names) == 1, query.call(selector, time_slice)
            try:
                stats = await self._fetcher.fetch(call, time_slice.window, is_result=is_alone)
            except SlashtagError as error:
                if not (is_alone or error.is_fatal):
                    return selector.singles()
                if not self._state.may_go_on(error):
                    raise NoAnswersError(error) from None
                self._fail(group, time_slice, (selector,), error)
                return ()
            self._state.succeeded()
            if not is_alone and (stats.total or not stats.reconciles):
                return shares_of(selector, max(1, stats.total))
            self._compare(group, selector, stats, time_slice.window)
            if is_alone:
                self._add(group, selector.names[0], stats)
            self._advance(group, time_slice, group.open[time_slice] - len(selector.names))
            return ()

        await WorkerPool(selectors, ask, self._workers).run()

    async def _search(self, group: Group, part: Part) -> None:
        """Search the batches of a time slice, and request alone what cannot be inferred."""
        (time_slice, selectors), query, traits = part, self._plan.query, self._fetcher.traits
        window = time_slice.window
        assert window is not None
        unusable: list[SlashtagError] = []

        async def ask(question: Question | Check) -> None:
            selector = group.select(question.keys)
            fresh = "new connection" if question.is_repeated else "no cache" if question.is_part else "any"
            call = replace(query.call(selector, time_slice), freshness=fresh)
            try:
                stats = await self._fetcher.fetch(call, window, is_result=False)
            except SlashtagError as error:
                if isinstance(error, UnexpectedResponseError) and not error.repeatable and error.status < 300:
                    # No retry helps: a cache that cannot be passed has answered, say.
                    unusable.append(error)
                    search.is_usable = False
                    return
                if not self._state.may_split(error, failures_before, always=True):
                    raise NoAnswersError(error) from None
                return
            self._state.succeeded()
            self._compare(group, selector, stats, window)
            question.answer = counts_of(stats, window)

        batches = [look_alikes(selector.keys) for selector in selectors]
        # A whole batch shows whether its all-time statistics are right.
        search = Search(batches, few=0 if group.all_time_counts else FEW_KEYS)
        rounds, failures_before = search.rounds(), self._state.failures
        leader = group.leader = group.leader or search
        try:
            while round_ := await next_round(rounds):
                if leader.is_verified:
                    group.has_verified.set()
                failures_before = self._state.failures
                self._advance(group, time_slice, search.open_keys)
                # Where no request succeeds a few show whether to send the others, which else count as failed.
                few = len(round_) if self._state.is_answered else FEW_AT_FIRST
                await WorkerPool(round_[:few], ask, self._workers).run()
                if any(question.answer is not None for question in round_[:few]):
                    await WorkerPool(round_[few:], ask, self._workers).run()
                # Before the next round: if nothing is answered, none is sent.
                await self._ask_alone(group, time_slice, group.singles(search.take_unresolved()))
                if search is not leader:
                    await group.has_verified.wait()
                    search.is_verified |= leader.is_verified
        finally:
            if search is leader:
                group.has_verified.set()
        if unusable:
            log.warning("slashtags are requested alone: %s", unusable[0])
        elif not search.is_usable:
            if traits.is_additive:
                traits.is_additive = False
                self._fetcher.metrics.inconsistent += 1
                log.warning(
                    "statistics of several slashtags do not add up; they are requested alone from now on"
                )
            return
        await self._ask_alone(group, time_slice, group.singles(search.take_unresolved()))
        for key, found in search.results.items():
            self._add(group, key, stats_of(found, window))
        self._advance(group, time_slice, 0)

    def _compare(self, group: Group, selector: Selector, stats: Statistics, window: Window | None) -> None:
        """Raise WrongMonthsError if a batch has other clicks than its all-time statistics."""
        expected, months = group.all_time_counts.get(selector.keys), self._filter
        if expected is None or months is None or window is None:
            return
        if months.contradicts(window, stats.total, expected):
            raise WrongMonthsError

    def _advance(self, group: Group, time_slice: TimeSlice, open_: int) -> None:
        """Tell progress in proportion to what is known of a group."""
        group.open[time_slice] = open_
        known = 1 - sum(group.open.values()) / group.all_open
        self._tell(group, int(known * len(group.names)))

    def _tell(self, group: Group, done: int) -> None:
        for _ in range(group.told, min(done, len(group.names))):
            group.told += 1
            self._state.done()

    def _add(self, group: Group, name: str, stats: Statistics) -> None:
        if name not in group.sums:
            group.sums[name] = self._plan.query.running_sum(self._plan.span)
        group.sums[name].add(stats)

    def _fail(
        self, group: Group, time_slice: TimeSlice, selectors: Iterable[Selector], error: SlashtagError
    ) -> None:
        """Report that batches failed, or slashtags alone; raise the error if the others must not continue."""
        for selector in selectors:
            keys = tuple(key for key in selector.keys if key not in group.failed)
            if keys or not group.failed.issuperset(selector.names):
                group.failed.update(selector.names)
                failed = selector if selector.tag is not None else group.select(keys)
                call = self._plan.query.call(failed, time_slice)
                self._state.report_failure(call, error, self._plan.only(failed))


def singles(selectors: Iterable[Selector]) -> list[Selector]:
    """Return a selector for each slashtag or tag."""
    return [one for selector in selectors for one in selector.singles()]


def shares_of(selector: Selector, clicks: int) -> list[Selector]:
    """Split slashtags with so many clicks into parts with about one click each; none without clicks."""
    links = selector.links
    size = max(1, len(links) // max(2, clicks))
    return [Selector.of(links[n : n + size]) for n in range(0, len(links) if clicks else 0, size)]


async def next_round(rounds: Rounds) -> Sequence[Question | Check]:
    """Return the next round of a search, none at the end; other tasks have a turn at each pause."""
    for round_ in rounds:
        if round_:
            return round_
        await asyncio.sleep(0)
    return []


async def read_groups(selectors: AsyncGenerator[Selector], size: int) -> AsyncGenerator[Sequence[Selector]]:
    """Yield batches in groups; close the generator from which they are read."""
    group: list[Selector] = []
    async with aclosing(selectors):
        async for selector in selectors:
            group.append(selector)
            if len(group) == size:
                yield group
                group = []
    if group:
        yield group


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
