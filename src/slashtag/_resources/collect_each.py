"""Implementation of `collect_each`: groups of batches are searched window by window, then delivered.

`_core.search` decides what is requested and what the answers say, `_core.month_filter` which months are
skipped. Slashtags and tags that are requested alone are delivered one by one.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.batches import FEW_KEYS, Selector, without
from .._core.limits import SETTLING_SECONDS
from .._core.look_alikes import look_alikes
from .._core.month_filter import MonthFilter
from .._core.plan import Plan
from .._core.queries import AllTime, DateRange
from .._core.search.cells import TOTAL, Answer, Cell, Label, Question
from .._core.search.search import Search
from .._core.statistics_answers import RangeAnswer
from .._core.windows import RangeEnd, TimeSlice, Window, midnight
from .._errors import SlashtagError, UnexpectedResponseError
from .._fanout import MOST_WAITING, Results, Tasks, WorkerPool, each_of
from .._files import in_thread
from .._sending.health import is_refusal
from .._summed_statistics import RangeStats, Statistics
from .group import FIRST_GROUP, Group, Part, read_groups
from .run_state import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)
T = TypeVar("T")

#: Clicks expected, at most, while days are searched that are not over: the busiest batches are requested link
#: by link instead.
MOST_EXPECTED = 1.0
#: A search takes at most about so many times as long as its first round.
DURATION = 10
#: Minimum number of windows for which all-time statistics are requested first.
FILTERED_FROM = 3
#: Requests of a round that are sent first where none succeeds.
FEW_AT_FIRST = 16
#: Batches that are searched together, and the most of them times windows, which bounds the memory.
GROUP, GROUP_WINDOWS = 200, 600
#: Groups that are smaller than the others, as they grow.
SMALL_GROUPS = 2
#: Groups, and windows of each, under way at once: others fill the pauses between the rounds of one.
GROUPS_AT_ONCE, WINDOWS_AT_ONCE = 2, 4
#: Share of a slashtag's progress that the answer for its batch is.
FIRST_SHARE = 0.25

log = logging.getLogger("slashtag")


class WrongMonthsError(Exception):
    """All-time statistics of a batch that contradict its statistics of a month."""


class NoAnswersError(Exception):
    """The last of several failures, without an answer between them."""

    def __init__(self, error: SlashtagError) -> None:
        self.error = error


class EachRun(Generic[R]):
    """One run of `collect_each`."""

    def __init__(
        self,
        fetcher: StatsFetcher,
        plan: Plan[R],
        state: RunState,
        *,
        zone: tzinfo | None,
        range_end: RangeEnd,
        inferred: bool,
        ordered: bool,
        workers: int,
    ) -> None:
        self.fetcher, self.plan, self.state = fetcher, plan, state
        now = datetime.now(UTC)
        self.workers, self._ordered, self.now = workers, ordered, now.timestamp()
        has_tags = any(selector.tag is not None for selector in plan._selectors)
        self._infers = inferred and not has_tags and plan.query._answer_type is RangeAnswer
        width = len(plan._time_slices)
        self._filter: MonthFilter | None = None
        # Without its zone a plan does not say where months begin.
        if self._infers and zone and isinstance(plan.query, DateRange) and width >= FILTERED_FROM:
            self._filter = MonthFilter(plan.query, zone, now, range_end)
        self._size = max(1, min(GROUP, GROUP_WINDOWS // max(1, width))) if self._infers or has_tags else 1
        self._results: asyncio.Queue[tuple[str, R]] = asyncio.Queue(MOST_WAITING)
        #: How many groups were begun, and what is set once the last of them is delivered.
        self._groups, self._delivered = 0, asyncio.Event()
        self._delivered.set()
        self._is_growing = self._infers and not ordered
        # Held while a search takes answers apart, in a thread: the event loop would wait longer for several.
        self._deduction = asyncio.Lock()

    def start(self, batches: AsyncGenerator[Selector] | None, tasks: Tasks) -> Results[tuple[str, R]]:
        """Return the iterator over (slashtag or tag, statistics), of the plan or of `batches`."""
        first = FIRST_GROUP if self._is_growing else self._size
        batches = each_of(self.plan._selectors) if batches is None else batches
        groups = read_groups(batches, self._size, first)
        return Results(tasks, WorkerPool(groups, self._collect, GROUPS_AT_ONCE), self._results)

    async def _collect(self, selectors: Sequence[Selector]) -> None:
        """Collect and deliver a group."""
        earlier, self._groups = self._delivered, self._groups + 1
        group = Group(selectors, self.plan, self.state, self._results, earlier if self._ordered else None)
        self._delivered = group.is_delivered
        # Beside a larger group a small one would take as long as that.
        if self._groups <= SMALL_GROUPS + 1 and self._is_growing:
            await earlier.wait()
        if self._may_infer and not await self._collect_months(group):
            await self._collect_parts(group, [(each, selectors) for each in self.plan._time_slices])
        if not self._may_infer:  # from the beginning, or because of what was found about the service
            await self._collect_alone(group)
        await group.end()

    async def _collect_months(self, group: Group[R]) -> bool:
        """Collect a group without months that are empty; return False if all-time statistics do not help."""
        months, service = self._filter, self.fetcher.service
        if months is None or service.all_time_is_wrong or not self._may_infer:
            return False
        failed: list[Selector] = []

        async def learn(selector: Selector) -> None:
            if service.all_time_is_wrong or len(failed) > len(group.all_time_counts) + 2:
                return
            call = AllTime()._call(selector, months.all_time_slice)
            call = replace(call, repeat="never")
            try:
                stats = await self.fetcher.fetch(call, is_result=False)
            except SlashtagError as error:
                if error.is_fatal:
                    raise
                failed.append(selector)
                log.info("all-time statistics of %s cannot be used to skip months: %s", selector, error)
                return
            if not stats.reconciles:  # nor are those of other batches of use then
                service.all_time_is_wrong.note()
                log.info("all-time statistics of %s do not add up: no months are skipped", selector)
            group.all_time_counts[selector.keys] = stats.clicks_breakdown

        await WorkerPool(group.selectors, learn, self.workers).run()
        # One failure in many is no reason for other windows: a journal has those of an earlier run.
        if len(failed) >= len(group.all_time_counts):
            service.all_time_is_wrong.note()
        parts: list[Part] = []
        for window, time_slice in months.time_slices.items():
            empty = {
                keys for keys, clicks in group.all_time_counts.items() if not months.is_active(window, clicks)
            }
            if active := [each for each in group.selectors if each.keys not in empty]:
                parts.append((time_slice, active))
        width = len(self.plan._time_slices)
        is_less = sum(len(active) for _, active in parts) < len(group.selectors) * width
        if is_less and not service.all_time_is_wrong:
            try:
                await self._collect_parts(group, parts)
            except WrongMonthsError:
                service.all_time_is_wrong.note()
                log.warning("days differ from all-time statistics; every window is requested from now on")
            # A service that does not count what it is asked has wrong all-time statistics, too.
            if not service.all_time_is_wrong and self._may_infer:
                return True
        group.all_time_counts.clear()
        return False

    async def _collect_parts(self, group: Group[R], parts: Sequence[Part]) -> None:
        """Search time slices of a group."""
        group.begin(parts)

        async def search(part: Part) -> None:
            time_slice, selectors = part
            try:
                # If the service is found not to count what it is asked, all is asked alone afterwards.
                if self._may_infer:
                    await _SliceSearch(self, group, part).run()
            except NoAnswersError as failed:
                group.fail(time_slice, selectors, failed.error)

        await WorkerPool(parts, search, WINDOWS_AT_ONCE).run()

    async def _collect_alone(self, group: Group[R]) -> None:
        """Request each slashtag or tag of a group alone; deliver it once its last window is known."""
        time_slices, windows = self.plan._time_slices, dict.fromkeys(group.names, 0)
        group.begin([(time_slice, group.selectors) for time_slice in time_slices])

        async def deliver(name: str) -> None:
            windows[name] += 1
            if windows[name] == len(time_slices):
                await group.deliver([name])

        singles = (one for selector in group.selectors for one in selector.singles())
        items = ((each, one) for one in singles for each in time_slices)
        try:
            await self.ask_alone(group, items, deliver)
        except NoAnswersError as failed:
            group.fail(time_slices[0], group.selectors, failed.error)

    @property
    def _may_infer(self) -> bool:
        """Whether to request several slashtags at once."""
        return self._infers and not self.fetcher.service.is_not_additive

    async def ask_alone(
        self,
        group: Group[R],
        items: Iterable[tuple[TimeSlice, Selector]],
        deliver: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Request slashtags or tags one by one; call `deliver` with each whose answer is there."""

        async def ask(item: tuple[TimeSlice, Selector]) -> None:
            (time_slice, selector), (name,) = item, item[1].names
            if name in group.failed:
                return
            try:
                call = self.plan.query._call(selector, time_slice)
                stats = await self.fetcher.fetch(call, time_slice.window)
            except SlashtagError as error:
                if not self.state.health.may_go_on(error):
                    raise NoAnswersError(error) from None
                group.fail(time_slice, (selector,), error)
                return
            self.state.health.succeeded()
            self.compare(group, selector, stats, time_slice.window)
            group.add(name, stats)
            group.advance(time_slice, group.open[time_slice] - 1)
            if deliver is not None:
                await deliver(name)

        await WorkerPool(items, ask, self.workers).run()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do the work of a search in a thread."""
        async with self._deduction:
            return await in_thread(work)

    def is_over(self, time_slice: TimeSlice) -> bool:
        """Whether a period is over by every clock."""
        return time_slice.period_end < self.now - SETTLING_SECONDS

    def compare(self, group: Group[R], selector: Selector, stats: Statistics, window: Window | None) -> None:
        """Raise WrongMonthsError if a batch has other clicks than its all-time statistics."""
        expected, months = group.all_time_counts.get(selector.keys), self._filter
        if expected is None or months is None or window is None:
            return
        if months.contradicts(window, stats.total, expected):
            raise WrongMonthsError


class _SliceSearch:
    """Search of batches in one time slice of a group; what cannot be inferred is requested alone."""

    def __init__(self, run: EachRun[Any], group: Group[Any], part: Part) -> None:
        self._run, self._group, (self._time_slice, self._selectors) = run, group, part
        assert self._time_slice.window is not None
        self._window: Window = self._time_slice.window
        #: What answers show of the service, and of the requests of this run.
        self._service, self._health = run.fetcher.service, run.state.health
        self._unusable: SlashtagError | None = None
        #: Slashtags of which several together were answered, and those that were answered alone.
        self._answered, self._known_alone = set[str](), set[str]()
        self._is_first_round = True
        self._failures_before = 0

    async def run(self) -> None:
        """Make the rounds of the search, and give the group what they show."""
        group, run, time_slice = self._group, self._run, self._time_slice
        # A whole batch shows whether its all-time statistics are right.
        few = 0 if group.all_time_counts else FEW_KEYS
        batches = (look_alikes(each.keys) for each in self._selectors)
        self._search = search = await run.in_thread(partial(Search, batches, few=few))
        try:
            await self._make_rounds()
        except NoAnswersError as failed:
            known = self._answered | self._known_alone
            refused = {name for each in self._selectors for name in each.keys} - known
            if not (is_refusal(failed.error) and refused and self._answered):
                raise
            # Of a service that answers others only these fail; the others are searched anew.
            group.fail(time_slice, without(self._selectors, known), failed.error)
            left = without(self._selectors, refused | self._known_alone)
            await _SliceSearch(run, group, (time_slice, left)).run()
            return
        if self._unusable is not None:
            log.warning("slashtags are requested alone: %s", self._unusable)
        elif not search.is_usable and run.is_over(time_slice):
            if not self._service.is_not_additive:
                self._service.is_not_additive.note()
                run.fetcher.metrics.inconsistent += 1
                log.warning("sums of slashtags do not add up; each is requested alone for some minutes")
            return
        await self._ask_alone()
        for key, found in search.results.items():
            group.add(key, stats_of(found, self._window))
            await asyncio.sleep(0)
        group.advance(time_slice, 0)

    async def _make_rounds(self) -> None:
        run, search, clock = self._run, self._search, asyncio.get_running_loop().time
        rounds = search.rounds()
        while questions := await run.in_thread(partial(next, rounds, ())):
            self._failures_before, began = self._health.failures, clock()
            if not self._is_first_round:
                self._group.advance(self._time_slice, (1 - FIRST_SHARE) * search.open_keys)
            # Where no request succeeds a few show whether to send the others, which else count as failed.
            at_first = len(questions) if self._health.is_answered else FEW_AT_FIRST
            await WorkerPool(questions[:at_first], self._ask, run.workers).run()
            if any(question.answer is not None for question in questions[:at_first]):
                await WorkerPool(questions[at_first:], self._ask, run.workers).run()
            if self._is_first_round and not run.is_over(self._time_slice):
                search.mark_unresolved(self._busy(questions, clock() - began))
            self._is_first_round = False
            # Before the next round: if nothing is answered, none is sent.
            await self._ask_alone()

    async def _ask(self, question: Question) -> None:
        """Request the answer to a question; leave it without one if it fails and the others may go on."""
        group, run, time_slice = self._group, self._run, self._time_slice
        selector = group.select(question.keys)
        call = replace(run.plan.query._call(selector, time_slice), again=question.again)
        try:
            stats = await run.fetcher.fetch(call, self._window, is_result=False)
        except SlashtagError as error:
            if isinstance(error, UnexpectedResponseError) and not error.repeatable and error.status < 300:
                # No retry helps: a cache that cannot be passed has answered, say.
                self._unusable = self._unusable or error
                self._search.is_usable = False
            elif not self._health.may_split(error, self._failures_before, always=True):
                raise NoAnswersError(error) from None
            return
        self._health.succeeded()
        run.compare(group, selector, stats, self._window)
        question.answer = counts_of(stats, self._window)
        self._answered.update(question.keys)
        if self._is_first_round:
            group.advance(time_slice, group.open[time_slice] - FIRST_SHARE * len(question.keys))

    async def _ask_alone(self) -> None:
        """Request alone what the search cannot infer."""

        async def note(slashtag: str) -> None:
            self._known_alone.add(slashtag)

        alone = self._group.singles(self._search.take_unresolved())
        await self._run.ask_alone(self._group, [(self._time_slice, selector) for selector in alone], note)

    def _busy(self, questions: Sequence[Question], seconds: float) -> list[Cell]:
        """Return the busiest batches: of the others at most MOST_EXPECTED clicks come during the search.

        `seconds`: how long the first round took. A search repairs what one late click has changed.
        """
        zone, now = self._window.start.tzinfo or UTC, self._run.now
        today = midnight(datetime.fromtimestamp(now - SETTLING_SECONDS, zone).date(), zone)
        begin = max(today, self._window.start)
        share = DURATION * seconds / max(1.0, now - begin.timestamp())
        expected = {each: share * clicks_since(begin.date(), each.answer or {}) for each in questions}
        busy, clicks = list[Cell](), 0.0
        for question in sorted(questions, key=lambda each: expected[each]):
            clicks += expected[question]
            busy += question.cells if clicks > MOST_EXPECTED else ()
        return busy


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
