"""Months in which the slashtags of a batch, and of halves of it, can have clicks, by all-time statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core.batches import Selector, halves
from .._core.guide import Counts, Guide, shows_zone
from .._core.halving import of_one_run
from .._core.queries import AllTime, TimeSlice
from .._core.windows import Month, months
from .._errors import SlashtagError
from .._fanout import WorkerPool
from .collect_each import Job, PerKeyRun

#: Requests for all-time statistics of a batch at once. Few, since each shows whether the next ones pay.
AT_ONCE = 4


class Node:
    """Jobs of a batch, or of a half of a node."""

    def __init__(self, jobs: Sequence[Job], active: frozenset[Month] | None = None) -> None:
        self.jobs = jobs
        #: Months in which the jobs can have clicks, None if any.
        self.active = active
        #: Clicks of months that have ended, if known.
        self.counts: Counts | None = None
        self._halves: tuple[Node, Node] | None = None

    @property
    def selector(self) -> Selector:
        """The selector of the jobs."""
        jobs = self.jobs
        return jobs[0].selector if len(jobs) == 1 else Selector(keys=tuple(job.name for job in jobs))

    def halves(self) -> tuple[Node, Node]:
        """Return the halves of at least two jobs; if nothing else is known, they have the same months."""
        if self._halves is None:
            left, right = halves(self.jobs)
            self._halves = Node(left, self.active), Node(right, self.active)
        return self._halves

    def singles(self) -> list[Node]:
        """Return a node for each job."""
        if len(self.jobs) == 1:
            return [self]
        return [single for half in self.halves() for single in half.singles()]

    def rules_out(self, time_slice: TimeSlice) -> bool:
        """Return whether no job can have clicks in a time slice."""
        window = time_slice.window
        if self.active is None or window is None:
            return False
        return self.active.isdisjoint(months(window.first, window.last))

    def requests(self, time_slices: Sequence[TimeSlice]) -> int:
        """Count the time slices of jobs that are not ruled out."""
        if self._halves is not None:
            return sum(half.requests(time_slices) for half in self._halves)
        return len(self.jobs) * sum(not self.rules_out(time_slice) for time_slice in time_slices)


class ActiveMonths:
    """Requests for all-time statistics of a node, and of halves for which they pay."""

    def __init__(self, run: PerKeyRun[Any], guide: Guide) -> None:
        self._run = run
        self._guide = guide

    async def learn(self, whole: Node) -> None:
        """Set the active months of a node and of halves; raises errors of the node's own requests."""
        guide, run = self._guide, self._run
        counts, fetched = await self._all_time(whole)
        if counts is None:
            return
        traits = run.fetch.traits
        if any(counts) and not traits.all_time_reads_zone:
            compared = list(counts)
            if guide.in_utc is not None:
                call = AllTime().call(whole.selector, guide.in_utc)
                compared += guide.counts([await run.fetch(AllTime(), call, is_used=False)]) or ()
            traits.all_time_reads_zone = shows_zone(compared)
        active = self._note(whole, counts)
        run.cost.begin(len(whole.jobs), len(guide.months), len(active))
        await WorkerPool([(whole, counts, fetched)], self._learn_halves, AT_ONCE).run()

    async def _all_time(self, node: Node) -> tuple[Counts | None, float]:
        calls = [AllTime().call(node.selector, time_slice) for time_slice in self._guide.all_time]
        answers = [await self._run.fetch(AllTime(), call, is_used=False) for call in calls]
        return self._guide.counts(answers), self._run.fetched_at(calls[0])

    def _note(self, node: Node, counts: Counts) -> frozenset[Month]:
        node.counts = counts
        reads_zone = self._run.fetch.traits.all_time_reads_zone
        node.active = self._guide.active(counts, zone_is_read=reads_zone)
        return node.active

    async def _learn_halves(self, item: tuple[Node, Counts, float]) -> Sequence[tuple[Node, Counts, float]]:
        """Request all-time statistics of the first half of a node if that pays; return both halves."""
        (node, counts, fetched), guide, cost = item, self._guide, self._run.cost
        size = len(node.jobs)
        if not cost.is_worth(size, guide.clicks(counts)):
            return ()
        left, right = node.halves()
        rest: Counts | None = None
        rest_fetched = fetched
        try:
            part, part_fetched = await self._all_time(left)
            if part is not None and of_one_run(fetched, part_fetched):
                rest = guide.beyond(counts, part)
            if part is not None and rest is None:
                rest, rest_fetched = await self._all_time(right)
        except SlashtagError as error:
            # Not a failure of the batch: its time slices are requested instead.
            if not self._run.may_split(error):
                raise
            return ()
        if part is None or rest is None:
            return ()
        self._note(left, part)
        self._note(right, rest)
        for a, b in zip(guide.clicks(part), guide.clicks(rest), strict=True):
            if a or b:
                cost.observe(size, a + b, one_sided=not (a and b), guided=True)
        return (left, part, part_fetched), (right, rest, rest_fetched)
