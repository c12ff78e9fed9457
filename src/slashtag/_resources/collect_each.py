"""Implementation of `collect_each`: groups of batches are searched window by window, then delivered.

`_core.search` decides what is requested and what the answers say, `_core.month_filter` which months are
skipped. Slashtags and tags that are requested alone are delivered one by one.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.batches import Selector, look_alikes
from .._core.call import SETTLING_SECONDS
from .._core.contradictions import RangeAnswer
from .._core.month_filter import Counts, MonthFilter
from .._core.queries import AllTime, DateRange, Plan
from .._core.search.cells import TOTAL, Answer, Label, Question
from .._core.search.search import Search
from .._core.windows import RangeEnd, TimeSlice, Window, midnight
from .._errors import SlashtagError, UnexpectedResponseError
from .._fanout import MOST_WAITING, Results, Tasks, WorkerPool
from .._files import in_thread
from .._summed_statistics import RangeStats, RunningSum, Statistics
from .collect import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)

#: Clicks that may be expected, at most, while days are searched that are not over; the batches with most clicks
#: are then requested link by link.
MOST_EXPECTED = 1.0
#: A search takes at most about so many times as long as its first round.
DURATION = 10
#: Minimum number of windows for which all-time statistics are requested first.
FILTERED_FROM = 3
#: Batches of at most so many slashtags are requested one by one, which takes fewer requests.
FEW_KEYS = 3
#: Requests of a round that are sent first where none succeeds.
FEW_AT_FIRST = 16
#: Batches that are searched together, and the most of them times windows, which bounds the memory.
GROUP, GROUP_WINDOWS = 200, 600
#: The first group has so many, the next this many times more: so that there are results early.
FIRST_GROUP, GROWTH = 10, 4
#: Groups, and windows of each, under way at once: others fill the pauses between the rounds of one.
GROUPS_AT_ONCE, WINDOWS_AT_ONCE = 2, 4
#: Share of a slashtag's progress that the answer for its batch is.
FIRST_SHARE = 0.25

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
    """Batches or tags that are collected together; `earlier` is set once the group before is delivered."""

    def __init__(self, selectors: Sequence[Selector], earlier: asyncio.Event) -> None:
        self.selectors, self.earlier = selectors, earlier
        names = [name for selector in selectors for name in selector.names]
        #: Names that were not delivered, in their order.
        self.left = dict.fromkeys(names)
        #: The sums of slashtags and tags with clicks, and in how many windows each is known, if it is asked alone.
        self.sums: dict[str, RunningSum[Any]] = {}
        self.windows = dict.fromkeys(names, 0)
        #: Names whose results are known, and those that failed.
        self.ready: set[str] = set()
        self.failed: set[str] = set()
        #: Held while results are delivered.
        self.delivery = asyncio.Lock()
        #: Names without counts yet by time slice, the sum of these at first, and names told as done.
        self.open: dict[TimeSlice, float] = {}
        self.all_open = 1.0
        self.told = 0
        #: All-time statistics of each batch, by its slashtags, to compare other answers with.
        self.all_time_counts: dict[tuple[str, ...], Counts] = {}


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
        self._workers, self._ordered, self._now = workers, ordered, now.timestamp()
        has_tags = any(selector.tag is not None for selector in plan.selectors)
        self._infers = inferred and not has_tags and plan.query.answer_type is RangeAnswer
        width = len(plan.time_slices)
        self._filter: MonthFilter | None = None
        if self._infers and isinstance(plan.query, DateRange) and width >= FILTERED_FROM:
            self._filter = MonthFilter(plan.query, zone, now, range_end)
        self._size = max(1, min(GROUP, GROUP_WINDOWS // max(1, width))) if self._infers or has_tags else 1
        self._results: asyncio.Queue[tuple[str, R]] = asyncio.Queue(MOST_WAITING)
        #: Set once the group that was begun last has been delivered; each group waits for the one before.
        self._delivered = asyncio.Event()
        self._delivered.set()
        # Held while answers are taken apart, in a thread: one search at a time, or the event loop waits longer.
        self._deduction = asyncio.Lock()

    def start(self, batches: AsyncGenerator[Selector] | None, tasks: Tasks) -> Results[tuple[str, R]]:
        """Return the iterator over (slashtag or tag, statistics), of the plan or of `batches`."""
        first = self._size if self._ordered or not self._infers else FIRST_GROUP
        groups = read_groups(as_read(self._plan.selectors) if batches is None else batches, self._size, first)
        return Results(tasks, WorkerPool(groups, self._collect, GROUPS_AT_ONCE), self._results)

    async def _collect(self, selectors: Sequence[Selector]) -> None:
        """Collect and deliver a group."""
        group = Group(selectors, self._delivered)
        delivered = self._delivered = asyncio.Event()
        if self._may_infer:
            if not await self._collect_months(group):
                await self._collect_parts(group, [(each, selectors) for each in self._plan.time_slices])
            if self._may_infer:
                group.ready.update(group.windows)
        if not self._may_infer:  # from the beginning, or because of what was found about the service
            await self._collect_alone(group)
        self._tell(group, len(group.windows))
        await self._deliver(group)
        delivered.set()

    async def _deliver(self, group: Group) -> None:
        """Deliver the results that are known; if they are ordered, as far as none is missing before them."""
        if self._ordered:
            await group.earlier.wait()
        async with group.delivery:
            for name in list(group.left):
                if name in group.ready:
                    total = group.sums.get(name) or self._plan.query.running_sum(self._plan.span)
                    await self._results.put((name, total.result()))
                    group.sums.pop(name, None)
                elif name not in group.failed:
                    if self._ordered:
                        return
                    continue
                del group.left[name]

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
        """Search time slices of a group."""
        self._begin(group, parts)

        async def collect(part: Part) -> None:
            time_slice, selectors = part
            try:
                # If the service is found not to count what it is asked, all is asked alone afterwards.
                if self._may_infer:
                    await self._search(group, part)
            except NoAnswersError as failed:
                self._fail(group, time_slice, selectors, failed.error)

        await WorkerPool(parts, collect, WINDOWS_AT_ONCE).run()

    async def _collect_alone(self, group: Group) -> None:
        """Request each slashtag or tag of a group alone; deliver it when its last window is known."""
        time_slices = self._plan.time_slices
        self._begin(group, [(time_slice, group.selectors) for time_slice in time_slices])

        async def deliver(name: str) -> None:
            group.windows[name] += 1
            if group.windows[name] == len(time_slices) and name not in group.failed:
                group.ready.add(name)
                await self._deliver(group)

        items = ((each, one) for one in singles(group.selectors) for each in time_slices)
        try:
            await self._ask_alone(group, items, deliver)
        except NoAnswersError as failed:
            self._fail(group, time_slices[0], group.selectors, failed.error)

    @property
    def _may_infer(self) -> bool:
        """Whether to request several slashtags at once."""
        return self._infers and self._fetcher.traits.is_additive

    async def _ask_alone(
        self,
        group: Group,
        items: Iterable[tuple[TimeSlice, Selector]],
        deliver: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Request slashtags or tags one by one; call `deliver` with each whose answer is there."""

        async def ask(item: tuple[TimeSlice, Selector]) -> None:
            (time_slice, selector), (name,) = item, item[1].names
            if name in group.failed:
                return
            try:
                call = self._plan.query.call(selector, time_slice)
                stats = await self._fetcher.fetch(call, time_slice.window)
            except SlashtagError as error:
                if not self._state.may_go_on(error):
                    raise NoAnswersError(error) from None
                self._fail(group, time_slice, (selector,), error)
                return
            self._state.succeeded()
            self._compare(group, selector, stats, time_slice.window)
            self._add(group, name, stats)
            self._advance(group, time_slice, group.open[time_slice] - 1)
            if deliver is not None:
                await deliver(name)

        await WorkerPool(items, ask, self._workers).run()

    async def _search(self, group: Group, part: Part) -> None:
        """Search the batches of a time slice, and request alone what cannot be inferred."""
        (time_slice, selectors), query, traits = part, self._plan.query, self._fetcher.traits
        window = time_slice.window
        assert window is not None
        unusable: list[SlashtagError] = []

        async def ask(question: Question) -> None:
            selector = Selector(keys=question.keys)
            call = replace(query.call(selector, time_slice), freshness=question.freshness)
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
            if is_first:
                known = FIRST_SHARE * len(question.keys)
                self._advance(group, time_slice, group.open[time_slice] - known)

        async def ask_alone() -> None:
            await self._ask_alone(group, [(time_slice, selector) for selector in search.take_unresolved()])

        # A whole batch shows whether its all-time statistics are right.
        few = 0 if group.all_time_counts else FEW_KEYS
        search = Search([look_alikes(selector.keys) for selector in selectors], few=few)
        rounds, is_first, clock = search.rounds(), True, asyncio.get_running_loop().time
        while round_ := await self._take_apart(rounds):
            failures_before, began = self._state.failures, clock()
            if not is_first:
                self._advance(group, time_slice, (1 - FIRST_SHARE) * search.open_keys)
            # Where no request succeeds a few show whether to send the others, which else count as failed.
            few = len(round_) if self._state.is_answered else FEW_AT_FIRST
            await WorkerPool(round_[:few], ask, self._workers).run()
            if any(question.answer is not None for question in round_[:few]):
                await WorkerPool(round_[few:], ask, self._workers).run()
            if is_first and not self._is_over(time_slice):
                search.leave(self._busy(window, round_, clock() - began))
            is_first = False
            # Before the next round: if nothing is answered, none is sent.
            await ask_alone()
        if unusable:
            log.warning("slashtags are requested alone: %s", unusable[0])
        elif not search.is_usable and self._is_over(time_slice):
            if traits.is_additive:
                traits.is_additive = False
                self._fetcher.metrics.inconsistent += 1
                log.warning(
                    "statistics of several slashtags do not add up; they are requested alone from now on"
                )
            return
        await ask_alone()
        for key, found in search.results.items():
            self._add(group, key, stats_of(found, window))
        self._advance(group, time_slice, 0)

    async def _take_apart(self, rounds: Iterator[Sequence[Question]]) -> Sequence[Question]:
        """Return the next round of a search, none at the end."""
        async with self._deduction:
            return await in_thread(partial(next, rounds, ()))

    def _is_over(self, time_slice: TimeSlice) -> bool:
        """Whether a period is over by every clock."""
        return time_slice.period_end < self._now - SETTLING_SECONDS

    def _busy(self, window: Window, questions: Sequence[Question], seconds: float) -> list[Question]:
        """Return the batches of a first round without which hardly a click comes while the others are searched.

        The first round took so many seconds. A search repairs what one late click has changed.
        """
        zone = window.start.tzinfo or UTC
        today = midnight(datetime.fromtimestamp(self._now - SETTLING_SECONDS, zone).date(), zone)
        begin = max(today, window.start)
        share = DURATION * seconds / max(1.0, self._now - begin.timestamp())
        expected = {each: share * clicks_from(begin, window, each.answer or {}) for each in questions}
        busy: list[Question] = []
        left = sum(expected.values())
        for question in sorted(questions, key=lambda each: -expected[each]):
            if left <= MOST_EXPECTED:
                break
            busy.append(question)
            left -= expected[question]
        return busy

    def _compare(self, group: Group, selector: Selector, stats: Statistics, window: Window | None) -> None:
        """Raise WrongMonthsError if a batch has other clicks than its all-time statistics."""
        expected, months = group.all_time_counts.get(selector.keys), self._filter
        if expected is None or months is None or window is None:
            return
        if months.contradicts(window, stats.total, expected):
            raise WrongMonthsError

    def _begin(self, group: Group, parts: Iterable[Part]) -> None:
        """Begin to collect time slices of a group."""
        group.open = {time_slice: sum(len(each.names) for each in found) for time_slice, found in parts}
        group.all_open = sum(group.open.values())
        group.sums.clear()

    def _advance(self, group: Group, time_slice: TimeSlice, open_: float) -> None:
        """Tell progress in proportion to what is known of a group."""
        group.open[time_slice] = open_
        known = 1 - sum(group.open.values()) / group.all_open
        self._tell(group, int(known * len(group.windows)))

    def _tell(self, group: Group, done: int) -> None:
        for _ in range(group.told, min(done, len(group.windows))):
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
            settled = group.failed | group.ready
            keys = tuple(key for key in selector.keys if key not in settled)
            if keys or not settled.issuperset(selector.names):
                group.failed.update(selector.names if selector.tag else keys)
                failed = replace(selector, keys=keys)
                call = self._plan.query.call(failed, time_slice)
                self._state.report_failure(call, error, self._plan.only(failed))


def singles(selectors: Iterable[Selector]) -> list[Selector]:
    """Return a selector for each slashtag or tag."""
    return [one for selector in selectors for one in selector.singles()]


async def as_read(selectors: Iterable[Selector]) -> AsyncGenerator[Selector]:
    """Yield batches as if they were read."""
    for selector in selectors:
        yield selector


async def read_groups(
    selectors: AsyncGenerator[Selector], size: int, first: int
) -> AsyncGenerator[Sequence[Selector]]:
    """Yield batches in groups of at most `size`; close the generator from which they are read.

    The batches of the first `size` come in groups of `first`, then GROWTH times more, and so on, from their end:
    links with fewest clicks, which take fewest requests.
    """
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
    """Yield groups of batches from the end, each larger than the one before; one of few batches."""
    end, size = len(batches), first
    while end:
        start = end - size if end > 2 * size else 0
        yield batches[start:end]
        end, size = start, GROWTH * size


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


def clicks_from(day: datetime, window: Window, counts: Answer) -> int:
    """Return the clicks from a day of a window on, all of them if there are no days."""
    days = {label: count for (name, label), count in counts.items() if name == "clicks"}
    first = day.date() if days else window.first
    return sum(n for at, n in days.items() if at >= first) if days else max(0, counts.get(TOTAL, 0))


def stats_of(counts: Answer, window: Window) -> RangeStats:
    """Return the statistics of one slashtag with clicks."""
    maps: dict[str, Any] = {name: {} for name in RangeStats.DIMENSIONS}
    total = counts[TOTAL]
    if window.first == window.last:
        maps["clicks"][window.first] = total
    for (name, label), count in counts.items():
        if name:
            maps[name][label] = count
    return RangeStats(total_clicks=total, days_complete=bool(maps["clicks"]), **maps)
