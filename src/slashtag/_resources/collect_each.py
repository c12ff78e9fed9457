"""Implementation of `collect_each`: one result per slashtag or tag.

PerKeyRun      makes jobs of batches and delivers their results, in input order or as they complete
BatchSearch    requests the data for the jobs of one batch (batch_search.py)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Generic, TypeVar

from .._core.batches import MAX_KEYS, Key, Selector
from .._core.guide import Guide, GuideCost
from .._core.payloads import RangeAnswer
from .._core.plan import Plan
from .._core.queries import DateRange
from .._fanout import ResultQueue, Results, Tasks, WorkerPool
from .._models import Statistics
from .active_months import Job, SearchState, Step
from .batch_search import BatchSearch
from .collect import ProgressReporter, StatsFetcher

R = TypeVar("R", bound=Statistics)

#: Number of links read ahead to be sorted.
SORTED_AHEAD = 10_000

#: Minimum number of windows for which requesting all-time statistics first can pay.
GUIDED_FROM = 3

#: Limits on slashtags in progress, by their total number of windows. Batches are started as a whole, so
#: without a limit a slow consumer would accumulate thousands of results.
WINDOWS_BEGUN = 20_000
FEWEST_BEGUN, MOST_BEGUN = 400, 3_200


class PerKeyRun(Generic[R]):
    """One run of `collect_each`: its steps, and the queue of complete results."""

    def __init__(
        self,
        fetch: StatsFetcher,
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
        query, width = plan.query, len(plan.time_slices)
        guide = None
        if guided and isinstance(query, DateRange) and width >= GUIDED_FROM:
            guide = Guide(query, zone, now)
        self._state = SearchState(
            fetch=fetch,
            plan=plan,
            reporter=reporter,
            range_end=range_end,
            now=now.timestamp(),
            deliver=self._deliver,
            halves=guided and query.answer_type is RangeAnswer,
            guide=guide,
            cost=GuideCost(1 if guide is None else len(guide.offsets)),
        )
        self._reporter = reporter
        self._workers = workers
        self._ordered = ordered
        self._results: ResultQueue[tuple[str, R]] = ResultQueue(max(64, 2 * workers))
        self._most_begun = min(MOST_BEGUN, max(FEWEST_BEGUN, WINDOWS_BEGUN // max(1, width)))
        if not self._state.halves:
            # One batch has enough requests for all workers.
            self._most_begun = MAX_KEYS
        # Jobs begun, delivered by their batch, and put into the queue or failed if ordered.
        self._begun = 0
        self._delivered = 0
        self._next_out = 0
        self._held: dict[int, tuple[str, R] | None] = {}

    async def _work(self, item: Selector | Step) -> Sequence[Step]:
        """Begin a batch or do its next step."""
        if not isinstance(item, Selector):
            return await item()
        selectors = [Selector(keys=(key,)) for key in item.keys] or [item]
        jobs = [Job(self._begun + n, selector) for n, selector in enumerate(selectors)]
        self._begun += len(jobs)
        self._hold()
        return await BatchSearch(self._state, jobs).start()

    def _deliver(self, job: Job) -> None:
        item: tuple[str, R] | None = None if job.failed else (job.name, job.running_sum.result())
        # Free the memory: the batch may refer to the job until it is done.
        job.running_sum = None
        self._delivered += 1
        self._reporter.done()
        self._held[job.index if self._ordered else self._next_out] = item
        while self._next_out in self._held:
            ready = self._held.pop(self._next_out)
            self._next_out += 1
            if ready is not None:
                self._results.put(ready)
        self._hold()

    def _hold(self) -> None:
        self._results.hold(len(self._held) + max(0, self._begun - self._delivered - self._most_begun))

    def results(
        self,
        tasks: Tasks,
        selectors: Iterable[Selector] | AsyncIterator[Selector],
    ) -> Results[tuple[str, R]]:
        """Return the iterator over (slashtag or tag, statistics)."""
        # The work must not refer to the iterator, which would then never be garbage-collected.
        pool: WorkerPool[Selector | Step] = WorkerPool(
            selectors, self._work, self._workers, self._results.wait_for_capacity
        )
        return Results(tasks, pool, self._results)


async def sort_by_activity(
    keys: AsyncIterable[Key], changed_since: Mapping[str, int] | None = None
) -> AsyncGenerator[Key]:
    """Yield links sorted by activity within blocks of `SORTED_AHEAD`; plain slashtags are not reordered."""
    ahead: list[Key] = []
    async for key in keys:
        ahead.append(key)
        if isinstance(key, str) or len(ahead) == SORTED_AHEAD:
            for link in by_activity(ahead, changed_since):
                yield link
            ahead.clear()
    for link in by_activity(ahead, changed_since):
        yield link


def by_activity(keys: Iterable[Any], changed_since: Mapping[str, int] | None = None) -> list[Any]:
    """Sort links so that those likely to have clicks are adjacent; slashtags keep their order.

    First the links whose `hits` differ most from those of an earlier listing, then those with most hits. The
    order affects only the number of requests of a per-link query, never its results.
    """
    before = changed_since or {}

    def rank(link: Any) -> tuple[int, int]:
        hits = getattr(link, "hits", None)
        if not isinstance(hits, int):
            return 0, 0
        return -abs(hits - before.get(link.slashtag, 0)) if before else 0, -hits

    return sorted(keys, key=rank)
