"""The way of `collect_each`: one result a slashtag or tag, guided by all-time statistics."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Generic, TypeVar, cast

from .._core.call import Call
from .._core.guide import Guide, contradicts
from .._core.payloads import PeriodAnswer
from .._core.plan import Plan
from .._core.queries import AllTime, DateRange, TimeSlice
from .._core.selectors import Selector
from .._core.split import Month
from .._errors import APIError, NotFoundError, SlashtagError
from .._fanout import ResultQueue, Results, Tasks, WorkerPool
from .._models import RangeStats, Statistics
from .collect import AsyncBatches, ProgressReporter, StatsSender

R = TypeVar("R", bound=Statistics)

#: From so many windows on, asking all-time statistics first can save more than it costs.
GUIDED_FROM = 3

#: So many slashtags may be in progress beside the finished results that wait: guided ones come in batches,
#: and a batch for each worker would make thousands of results that a slow consumer has not taken.
BEGUN = 400

Step = Callable[[], Awaitable["Sequence[Step] | None"]]

log = logging.getLogger("slashtag")


class _Job(Generic[R]):
    """State of one slashtag or tag on its way to a result."""

    __slots__ = ("expected", "failed", "index", "left", "name", "selector", "tally")

    def __init__(self, index: int, name: str, selector: Selector) -> None:
        self.index = index
        self.name = name
        self.selector = selector
        self.left = 0
        self.failed = False
        self.tally: Any = None
        self.expected: Mapping[Month, int] = {}


class PerKeyRun(Generic[R]):
    """One `collect_each`: its steps and their results, which go into `results` as they are complete."""

    def __init__(
        self,
        sender: StatsSender,
        plan: Plan[R],
        reporter: ProgressReporter,
        *,
        zone: tzinfo,
        now: datetime,
        range_end: str,
        guided: bool,
        ordered: bool,
        workers: int,
    ) -> None:
        self._sender = sender
        self._query = query = plan.query
        self._reporter = reporter
        self._span = plan.span
        self._time_slices = plan.time_slices
        self._range_end = range_end
        self._guide: Guide | None = None
        if guided and isinstance(query, DateRange) and len(self._time_slices) >= GUIDED_FROM:
            self._guide = Guide(query, zone, now)
        self._ordered = ordered
        self.results: ResultQueue[tuple[str, R]] = ResultQueue(max(64, 2 * workers))
        self._begun = 0
        self._next_index = 0
        self._next_out = 0
        self._held: dict[int, tuple[str, R] | None] = {}

    # --- where the work comes from ---------------------------------------------------------------

    def steps(self, batches: Iterable[Selector]) -> Iterator[Step]:
        """Yield the first steps of batches that are known."""
        for batch in batches:
            yield from self._begin(batch)

    def _begin(self, batch: Selector) -> list[Step]:
        jobs: list[_Job[R]] = []
        for selector in [Selector(keys=(key,)) for key in batch.keys] or [batch]:
            jobs.append(_Job(self._next_index, selector.tag or selector.keys[0], selector))
            self._next_index += 1
        self._begun += len(jobs)
        self._hold()
        if self._guide is None:
            return [partial(self._whole, job) for job in jobs]
        if len(jobs) == 1:
            return [partial(self._guided, jobs[0])]
        return [partial(self._batch, batch, jobs)]

    # --- steps --------------------------------------------------------------------------------------

    async def _batch(self, batch: Selector, jobs: Sequence[_Job[R]]) -> Sequence[Step]:
        """Ask all-time statistics of a batch: where it has no clicks, none of its slashtags has."""
        guide = self._guide
        if guide is None:
            return self._unguided(jobs)
        try:
            answers = await self._all_time(batch, guide)
        except NotFoundError:
            return self._unguided(jobs)
        except SlashtagError as error:
            # A key at fault, or too long a target: each alone is answered, or told where failures are told.
            refused = isinstance(error, APIError) and error.status in (400, 414)
            if not refused and not self._reporter.survives(error):
                raise
            return [partial(self._guided, job) for job in jobs]
        if guide.active(answers) == guide.always:
            time_slices = guide.time_slices(guide.always, self._range_end)
            return [step for job in jobs for step in self._parts(job, time_slices)]
        return [partial(self._guided, job) for job in jobs]

    async def _guided(self, job: _Job[R]) -> Sequence[Step]:
        """Ask all-time statistics of one job and then only for its months with clicks."""
        guide = self._guide
        if guide is None:
            return self._parts(job, self._time_slices)
        try:
            answers = await self._all_time(job.selector, guide)
        except NotFoundError:
            return self._unguided([job])
        except SlashtagError as error:
            self._fail(job, AllTime().call(job.selector, all_time_slice(guide, guide.offsets[0])), error)
            return ()
        months = guide.active(answers)
        if months is None:
            return self._parts(job, self._time_slices)
        job.expected = guide.expected(answers)
        return self._parts(job, guide.time_slices(months, self._range_end))

    async def _whole(self, job: _Job[R]) -> Sequence[Step]:
        return self._parts(job, self._time_slices)

    async def _part(self, job: _Job[R], time_slice: TimeSlice) -> Sequence[Step]:
        """Ask one time slice of one job."""
        if job.failed:
            return ()
        call = self._query.call(job.selector, time_slice)
        try:
            answer = await self._sender(self._query, call)
        except SlashtagError as error:
            self._fail(job, call, error)
            return ()
        problem = job.tally.add_answer(answer, time_slice.window)
        if problem:
            self._sender.log_contradiction(call, problem)
        job.left -= 1
        return self._finish(job) if not job.left else ()

    # --- what they share ----------------------------------------------------------------------------

    async def _all_time(self, selector: Selector, guide: Guide) -> list[PeriodAnswer]:
        query = AllTime()
        return [
            await self._sender(query, query.call(selector, all_time_slice(guide, offset)))
            for offset in guide.offsets
        ]

    def _unguided(self, jobs: Sequence[_Job[R]]) -> list[Step]:
        self._guide = None
        return [partial(self._whole, job) for job in jobs]

    def _parts(self, job: _Job[R], time_slices: Sequence[TimeSlice]) -> Sequence[Step]:
        """Return the time slices of a job as steps."""
        job.tally = self._query.tally(self._span)
        job.left = len(time_slices)
        if not time_slices:
            return self._finish(job)
        return [partial(self._part, job, time_slice) for time_slice in time_slices]

    def _finish(self, job: _Job[R]) -> Sequence[Step]:
        stats = job.tally.result()
        expected, job.expected = job.expected, {}
        if expected and isinstance(stats, RangeStats) and contradicts(stats, expected):
            log.warning(
                "%s: its days differ from its all-time months; asking for every window from here on",
                job.selector,
            )
            self._guide = None
            return self._parts(job, self._time_slices)
        self._deliver(job, (job.name, cast("R", stats)))
        return ()

    def _fail(self, job: _Job[R], call: Call[Any], error: SlashtagError) -> None:
        if not self._reporter.survives(error):
            raise error
        if not job.failed:
            job.failed = True
            self._reporter.fail(call, error)
            self._deliver(job, None)

    def _deliver(self, job: _Job[R], item: tuple[str, R] | None) -> None:
        self._begun -= 1
        self._reporter.done()
        if self._ordered:
            self._put_in_order(job, item)
        elif item is not None:
            self.results.put(item)
        self._hold()

    def _put_in_order(self, job: _Job[R], item: tuple[str, R] | None) -> None:
        self._held[job.index] = item
        while self._next_out in self._held:
            ready = self._held.pop(self._next_out)
            self._next_out += 1
            if ready is not None:
                self.results.put(ready)

    def _hold(self) -> None:
        self.results.hold(len(self._held) + max(0, self._begun - BEGUN))


def all_time_slice(guide: Guide, offset: timedelta) -> TimeSlice:
    """Return all time under one offset; only its months that have ended matter."""
    return AllTime().time_slice(offset, guide.settled_at)


class StepStream(AsyncIterator[Step]):
    """First steps of batches that are still being read."""

    def __init__(self, batches: AsyncBatches, run: PerKeyRun[Any]) -> None:
        self._batches = batches
        self._run = run
        self._steps: Iterator[Step] = iter(())

    async def __anext__(self) -> Step:
        for step in self._steps:
            return step
        self._steps = self._run.steps([await anext(self._batches)])
        return next(self._steps)


async def _do(step: Step) -> Sequence[Step] | None:
    return await step()


class Each(Results[tuple[str, R]]):
    """Iterator over (slashtag or tag, statistics), as they complete or in the order asked.

    Raises what a request raises, with a note which slashtag and window it was; what is under way is
    cancelled then, and when the iterator is left.
    """

    def __init__(
        self,
        tasks: Tasks,
        workers: int,
        run: PerKeyRun[R],
        source: Iterable[Step] | AsyncIterator[Step],
        keys: AsyncIterable[Any] | None = None,
    ) -> None:
        pool: WorkerPool[Step] = WorkerPool(source, _do, workers, run.results.room, keys)
        super().__init__(tasks, pool, run.results)
