"""One answer a slashtag or a tag: many small questions, guided by all-time statistics."""

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
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar, cast

from msgspec.structs import replace

from .._core.call import Call
from .._core.guide import Guide, contradicts
from .._core.payloads import PeriodAnswer
from .._core.plan import Question
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

#: So many slashtags may be begun at once, and as many as the outbox has room for: guided ones come in
#: batches, a batch to each worker would be thousands of results before a slow consumer.
BEGUN = 400

Step = Callable[[], Awaitable["Sequence[Step] | None"]]

log = logging.getLogger("slashtag")


class _Job(Generic[R]):
    """Follow one slashtag or tag through its requests."""

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
    """Do the work behind `collect_each`; results go into `outbox` as they are complete."""

    def __init__(
        self,
        asker: StatsSender,
        question: Question[R],
        feedback: ProgressReporter,
        *,
        guided: bool,
        ordered: bool,
        workers: int,
    ) -> None:
        self._asker = asker
        self._question = question
        self._query = query = question.query
        self._feedback = feedback
        self._span = question.span
        self._pieces = question.pieces()
        self._guide: Guide | None = None
        if guided and isinstance(query, DateRange) and len(self._pieces) >= GUIDED_FROM:
            self._guide = Guide(query, question.zone, question.now)
        self._ordered = ordered
        self.outbox: ResultQueue[tuple[str, R]] = ResultQueue(max(64, 2 * workers))
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
            if not refused and not self._feedback.survives(error):
                raise
            return [partial(self._guided, job) for job in jobs]
        if guide.active(answers) == guide.always:
            pieces = guide.pieces(guide.always, self._question.range_end)
            return [step for job in jobs for step in self._parts(job, pieces)]
        return [partial(self._guided, job) for job in jobs]

    async def _guided(self, job: _Job[R]) -> Sequence[Step]:
        """Ask all-time statistics of one job and then only for its months with clicks."""
        guide = self._guide
        if guide is None:
            return self._parts(job, self._pieces)
        try:
            answers = await self._all_time(job.selector, guide)
        except NotFoundError:
            return self._unguided([job])
        except SlashtagError as error:
            self._fail(job, AllTime().call(job.selector, guide_piece(guide, guide.offsets[0])), error)
            return ()
        months = guide.active(answers)
        if months is None:
            return self._parts(job, self._pieces)
        job.expected = guide.expected(answers)
        return self._parts(job, guide.pieces(months, self._question.range_end))

    async def _whole(self, job: _Job[R]) -> Sequence[Step]:
        return self._parts(job, self._pieces)

    async def _part(self, job: _Job[R], piece: TimeSlice) -> Sequence[Step]:
        """Ask one window of one job."""
        if job.failed:
            return ()
        call = self._query.call(job.selector, piece)
        try:
            answer = await self._asker(self._query, call)
        except SlashtagError as error:
            self._fail(job, call, error)
            return ()
        problem = job.tally.add(answer, piece.window)
        if problem:
            self._asker.doubt(call, problem)
        job.left -= 1
        return self._finish(job) if not job.left else ()

    # --- what they share ----------------------------------------------------------------------------

    async def _all_time(self, selector: Selector, guide: Guide) -> list[PeriodAnswer]:
        query = AllTime()
        return [
            await self._asker(query, query.call(selector, guide_piece(guide, offset)))
            for offset in guide.offsets
        ]

    def _unguided(self, jobs: Sequence[_Job[R]]) -> list[Step]:
        self._guide = None
        return [partial(self._whole, job) for job in jobs]

    def _parts(self, job: _Job[R], pieces: Sequence[TimeSlice]) -> Sequence[Step]:
        """Give the windows of a job as steps."""
        job.tally = self._query.tally(self._span)
        job.left = len(pieces)
        if not pieces:
            return self._finish(job)
        return [partial(self._part, job, piece) for piece in pieces]

    def _finish(self, job: _Job[R]) -> Sequence[Step]:
        stats = job.tally.result()
        expected, job.expected = job.expected, {}
        if expected and isinstance(stats, RangeStats) and contradicts(stats, expected):
            log.warning(
                "%s: its days differ from its all-time months; asking for every window from here on",
                job.selector,
            )
            self._guide = None
            return self._parts(job, self._pieces)
        self._deliver(job, (job.name, cast("R", stats)))
        return ()

    def _fail(self, job: _Job[R], call: Call[Any], error: SlashtagError) -> None:
        if not self._feedback.survives(error):
            raise error
        if not job.failed:
            job.failed = True
            self._feedback.tell(call, error)
            self._deliver(job, None)

    def _deliver(self, job: _Job[R], item: tuple[str, R] | None) -> None:
        self._begun -= 1
        self._feedback.done()
        if self._ordered:
            self._put_in_order(job, item)
        elif item is not None:
            self.outbox.put(item)
        self._hold()

    def _put_in_order(self, job: _Job[R], item: tuple[str, R] | None) -> None:
        self._held[job.index] = item
        while self._next_out in self._held:
            ready = self._held.pop(self._next_out)
            self._next_out += 1
            if ready is not None:
                self.outbox.put(ready)

    def _hold(self) -> None:
        self.outbox.hold(len(self._held) + max(0, self._begun - BEGUN))


def guide_piece(guide: Guide, offset: timedelta) -> TimeSlice:
    """Give the all-time question under one offset, of which only months that have ended matter."""
    return replace(AllTime().piece(offset), settled_at=guide.settled_at)


class StepStream(AsyncIterator[Step]):
    """Iterate over the first steps of batches that are still being read."""

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
    """Iterate over (slashtag or tag, statistics), as they complete or in the order asked.

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
        agenda: WorkerPool[Step] = WorkerPool(source, _do, workers, run.outbox.room, keys)
        super().__init__(tasks, agenda, run.outbox)
