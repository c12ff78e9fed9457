"""Batch of a `collect_each`, and the months in which it can have clicks, by all-time statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from .._core.batches import Selector
from .._core.guide import Counts, Guide, shows_zone
from .._core.halving import Node, children, of_one_run
from .._core.queries import AllTime, TimeSlice
from .._core.windows import Month, months
from .._errors import APIError, NotFoundError, SlashtagError
from .._fanout import WorkerPool
from .per_key_run import Job, PerKeyRun

#: Requests for all-time statistics of a batch at once. Few, since each shows whether the next ones pay.
AT_ONCE = 4


class Batch:
    """Jobs of one batch, and the months in which they can have clicks; a node is a range of the jobs."""

    def __init__(self, run: PerKeyRun[Any], jobs: Sequence[Job]) -> None:
        self._run = run
        self._guide = run.guide
        self.jobs = jobs
        self.whole: Node = (0, len(jobs))
        #: By node: clicks of the months that have ended, and the months to request.
        self._counts: dict[Node, Counts] = {}
        self._active: dict[Node, frozenset[Month]] = {}

    def selector(self, node: Node) -> Selector:
        """Return the selector of a node."""
        jobs = self.jobs[slice(*node)]
        return jobs[0].selector if len(jobs) == 1 else Selector(keys=tuple(job.name for job in jobs))

    def parts(self, node: Node, error: SlashtagError) -> Sequence[Node]:
        """Split a node whose request failed, or raise the error if the run must end."""
        refused = isinstance(error, APIError) and error.status in (400, 414)
        if not refused and not self._run.reporter.may_continue(error):
            raise error
        return children(node) if refused else list(singles(node))

    async def learn_months(self) -> None:
        """Request all-time statistics of the batch, if there is a guide, and of halves if that pays."""
        guide, whole = self._guide, self.whole
        if guide is None:
            return
        try:
            counts, fetched = await self._all_time(guide, whole)
            if counts is not None and any(counts) and not self._run.fetch.memory.all_time_reads_zone:
                await self._learn_zone(guide, counts)
        except NotFoundError:
            self._run.guide = self._guide = None
            return
        if counts is None:
            return
        self._note(guide, whole, counts)
        self._run.cost.begin(len(self.jobs), len(guide.months), len(self._active[whole]))
        await WorkerPool([(whole, fetched)], partial(self._learn_half, guide), AT_ONCE).run()

    async def _all_time(self, guide: Guide, node: Node) -> tuple[Counts | None, float]:
        calls = [AllTime().call(self.selector(node), time_slice) for time_slice in guide.all_time]
        answers = [await self._run.fetch(AllTime(), call, is_used=False) for call in calls]
        return guide.counts(answers), self._run.fetched_at(calls[0])

    async def _learn_zone(self, guide: Guide, counts: Counts) -> None:
        compared, fetch = list(counts), self._run.fetch
        if guide.in_utc is not None:
            call = AllTime().call(self.selector(self.whole), guide.in_utc)
            compared += guide.counts([await fetch(AllTime(), call, is_used=False)]) or ()
        fetch.memory.all_time_reads_zone = shows_zone(compared)

    def _note(self, guide: Guide, node: Node, counts: Counts) -> None:
        self._counts[node] = counts
        reads_zone = self._run.fetch.memory.all_time_reads_zone
        self._active[node] = guide.active(counts, zone_is_read=reads_zone)

    async def _learn_half(self, guide: Guide, item: tuple[Node, float]) -> Sequence[tuple[Node, float]]:
        """Request all-time statistics of half a node if that pays; return both halves."""
        (node, fetched), cost = item, self._run.cost
        if not cost.is_worth(node[1] - node[0], guide.clicks(self._counts[node])):
            return ()
        left, right = children(node)
        rest: Counts | None = None
        part_fetched = rest_fetched = fetched
        try:
            part, part_fetched = await self._all_time(guide, left)
            if part is not None and of_one_run(fetched, part_fetched):
                rest = guide.beyond(self._counts[node], part)
            if part is not None and rest is None:
                rest, rest_fetched = await self._all_time(guide, right)
        except SlashtagError as error:
            # Not a failure of the batch: request its time slices instead, unless the error ends the run.
            self.parts(node, error)
            return ()
        if part is None or rest is None:
            return ()
        self._note(guide, left, part)
        self._note(guide, right, rest)
        for a, b in zip(guide.clicks(part), guide.clicks(rest), strict=True):
            if a or b:
                cost.observe(node[1] - node[0], a + b, one_sided=not (a and b), guided=True)
        return (left, part_fetched), (right, rest_fetched)

    def time_slices(self) -> Sequence[TimeSlice]:
        """Return the time slices to request: those of months with clicks, if that saves requests."""
        whole = self._run.plan.time_slices
        if self._guide is not None and self._active:
            by_month = self._guide.time_slices(self._active[self.whole])
            if self._left_of(by_month) < len(self.jobs) * len(whole):
                return by_month
            # There may be more months than windows of 32 days.
            self._active.clear()
        return whole

    def _left_of(self, time_slices: Sequence[TimeSlice]) -> int:
        """Count the time slices of slashtags that are not ruled out."""
        left = 0
        for node, active in self._active.items():
            size = node[1] - node[0]
            if size == 1 or children(node)[0] not in self._active:
                left += size * sum(not _rules_out(active, time_slice) for time_slice in time_slices)
        return left

    def rules_out(self, node: Node, time_slice: TimeSlice) -> bool:
        """Return whether no slashtag of a node can have clicks; the smallest known node around it decides."""
        at, active = self.whole, self._active.get(self.whole)
        while at != node and at in self._active:
            left, right = children(at)
            at = left if node[1] <= left[1] else right
            active = self._active.get(at, active)
        return active is not None and _rules_out(active, time_slice)

    def contradicts(self, answer: Any, time_slice: TimeSlice, node: Node) -> bool:
        """Return whether an answer shows that all-time statistics are wrong."""
        guide, counts, window = self._guide, self._counts.get(node), time_slice.window
        if guide is None or counts is None or window is None or not self._active:
            return False
        return guide.contradicts(answer, window, counts)


def singles(node: Node) -> Iterator[Node]:
    """Yield a node for each job of a node."""
    return ((n, n + 1) for n in range(*node))


def _rules_out(active: frozenset[Month], time_slice: TimeSlice) -> bool:
    """Return whether a time slice has none of the months to request."""
    window = time_slice.window
    return window is not None and active.isdisjoint(months(window.first, window.last))
