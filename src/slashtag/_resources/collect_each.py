"""Run of a `collect_each`: what its batches share, the queue of its results, and the order of its slashtags.

batch_search.py has the requests for a batch.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Generic, TypeVar

from .._core.batches import MAX_KEYS, Key, Selector
from .._core.call import SETTLING_SECONDS, Call
from .._core.guide import Guide, GuideCost
from .._core.payloads import RangeAnswer
from .._core.plan import Plan
from .._core.queries import DateRange, TimeSlice
from .._errors import APIError, SlashtagError
from .._fanout import ResultQueue
from .._models import Statistics
from .collect import ProgressReporter, StatsFetcher

R = TypeVar("R", bound=Statistics)

#: Number of links read ahead to be sorted.
SORTED_AHEAD = 10_000
#: Minimum number of windows for which requesting all-time statistics first can pay.
GUIDED_FROM = 3
#: Time after the end of a window in which late clicks are expected. The document says nothing about them.
LATE_SECONDS = 3 * 86_400.0
#: Limits on slashtags in progress, by their total number of windows. Batches are started as a whole, so
#: without a limit a slow consumer would accumulate thousands of results.
WINDOWS_BEGUN = 20_000
FEWEST_BEGUN, MOST_BEGUN = 400, 3_200


class Job:
    """One slashtag or tag: the running sum of its answers and the number of remaining time slices."""

    def __init__(self, index: int, selector: Selector) -> None:
        self.index = index
        self.selector = selector
        self.name = selector.tag or selector.keys[0]
        self.left = 0
        self.failed = False
        self.running_sum: Any = None


class PerKeyRun(Generic[R]):
    """One run of `collect_each`; delivers results in input order or as they complete."""

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
        self.fetch = fetch
        self.plan = plan
        self.reporter = reporter
        self.guide: Guide | None = None
        if guided and isinstance(query, DateRange) and width >= GUIDED_FROM:
            self.guide = Guide(query, zone, now, range_end)
        self.cost = GuideCost(1 if self.guide is None else len(self.guide.offsets))
        #: Requests saved by answers without clicks, minus those for answers that could not be subtracted.
        self.balance = 0
        self._now = now.timestamp()
        self._subtracts = guided and query.answer_type is RangeAnswer
        self._ordered = ordered
        # If nothing is subtracted, one batch has enough requests for all workers.
        most = min(MOST_BEGUN, max(FEWEST_BEGUN, WINDOWS_BEGUN // max(1, width)))
        self._most_under_way = most if self._subtracts else MAX_KEYS
        self.results: ResultQueue[tuple[str, R]] = ResultQueue(max(64, 2 * workers))
        self._begun = 0
        self._under_way = 0
        self._next_out = 0
        #: Results that wait for those of earlier jobs, None for a job that failed.
        self._held: dict[int, tuple[str, R] | None] = {}

    def begin(self, selector: Selector) -> Sequence[Job]:
        """Return a job for each slashtag of a batch."""
        selectors = [Selector(keys=(key,)) for key in selector.keys] or [selector]
        jobs = [Job(self._begun + n, selector) for n, selector in enumerate(selectors)]
        self._begun += len(jobs)
        self._under_way += len(jobs)
        self._hold()
        return jobs

    def deliver(self, job: Job) -> None:
        """Put the result of a job that is complete or has failed into the queue, once its turn comes."""
        item: tuple[str, R] | None = None if job.failed else (job.name, job.running_sum.result())
        # Free the memory: the batch may refer to the job until it is done.
        job.running_sum = None
        self.reporter.done()
        self._under_way -= 1
        self._held[job.index if self._ordered else self._next_out] = item
        while self._next_out in self._held:
            ready = self._held.pop(self._next_out)
            self._next_out += 1
            if ready is not None:
                self.results.put(ready)
        self._hold()

    def _hold(self) -> None:
        self.results.hold(len(self._held) + max(0, self._under_way - self._most_under_way))

    def may_split(self, error: SlashtagError) -> bool:
        """Return whether to request parts of a batch that failed; otherwise the run ends."""
        return is_refused(error) or self.reporter.may_continue(error)

    def may_halve(self, time_slice: TimeSlice) -> bool:
        """Return whether to request a batch as a whole; answers are additive only for days that are over."""
        is_over = time_slice.settled_at + SETTLING_SECONDS < self._now
        return self._subtracts and is_over and self.balance >= 0

    def is_recent(self, time_slice: TimeSlice) -> bool:
        """Return whether the service may still count clicks late."""
        return time_slice.settled_at + LATE_SECONDS > self._now

    def fetched_at(self, call: Call[Any]) -> float:
        """Return when an answer was fetched: for one of this run, when the run began.

        So a run that was interrupted a moment ago is continued with the same requests.
        """
        fetched = self.fetch.replayed_from(call)
        return self._now if fetched is None else fetched


def is_refused(error: SlashtagError) -> bool:
    """Return whether the service refused a batch: a slashtag of it may be at fault, or its length."""
    return isinstance(error, APIError) and error.status in (400, 414)


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
