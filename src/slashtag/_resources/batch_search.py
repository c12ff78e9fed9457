"""Search for the slashtags with clicks in one batch, by halving.

A batch is a list of jobs (one per slashtag), a node the batch or half of a node. Each time slice is requested
for the whole batch. If it has clicks, its first half is requested and the second half is the difference, and
so on down to single slashtags. With three or more windows, all-time statistics of the batch, and of halves
for which they pay, first show the months that can have clicks; other months are skipped. `_core.halving`
decides which answers may be subtracted, `_core.guide` when all-time statistics pay.

A click that the service counts late, between the answers for a node and for its first half, would be missing
from the second half. So for windows that ended recently, the answer from which others were subtracted is
requested again at the end. If it has changed, what was derived from it is requested instead.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Selector
from .._core.call import Call
from .._core.halving import additive, difference, of_one_run
from .._core.queries import AllTime, TimeSlice
from .._errors import SlashtagError
from .._fanout import Results, Tasks, WorkerPool
from .._models import RangeStats, Statistics
from .active_months import ActiveMonths, Node
from .collect_each import Job, PerKeyRun, is_refused

#: One request and the processing of its answer; returns the next steps.
Step = Callable[[], Awaitable["Sequence[Step]"]]

R = TypeVar("R", bound=Statistics)

log = logging.getLogger("slashtag")


def search_batches(
    run: PerKeyRun[R],
    selectors: Iterable[Selector] | AsyncIterator[Selector],
    tasks: Tasks,
    workers: int,
) -> Results[tuple[str, R]]:
    """Search all batches; return the iterator over (slashtag or tag, statistics)."""

    # This must not refer to the iterator, which would then never be garbage-collected.
    async def work(item: Selector | Step) -> Sequence[Step]:
        """Begin a batch or do its next step."""
        if isinstance(item, Selector):
            return await BatchSearch(run, run.begin(item)).start()
        return await item()

    pool: WorkerPool[Selector | Step] = WorkerPool(selectors, work, workers, run.results.wait_for_capacity)
    return Results(tasks, pool, run.results)


class _Origin(Struct):
    """Answer to be confirmed: the number of halves under way, and the answers derived by subtraction."""

    node: Node
    value: RangeStats
    under_way: int = 0
    derived: list[tuple[Node, RangeStats]] = []


class _Answer(Struct, frozen=True):
    """Additive answer for a node, and when it was fetched (see `PerKeyRun.fetched_at`)."""

    value: RangeStats
    fetched_at: float
    origin: _Origin | None
    is_derived: bool = False


class BatchSearch:
    """Search of one batch; methods return the next steps."""

    def __init__(self, run: PerKeyRun[Any], jobs: Sequence[Job]) -> None:
        self._run = run
        self._guide = run.guide
        self._root = Node(jobs)
        self._is_abandoned = False

    async def start(self) -> Sequence[Step]:
        """Learn the active months, if there is a guide; return the first request of each time slice."""
        run, guide, root = self._run, self._guide, self._root
        if guide is not None:
            try:
                await ActiveMonths(run, guide).learn(root)
            except SlashtagError as error:
                if getattr(error, "status", None) != 404:
                    call = AllTime().call(root.selector, guide.all_time[0])
                    return [BatchSearch(run, part.jobs).start for part in self._split(root, call, error)]
                # The service has no all-time statistics.
                run.guide = None
        time_slices: Sequence[TimeSlice] = run.plan.time_slices
        if guide is not None and root.active is not None:
            by_month = guide.time_slices(root.active)
            if root.requests(by_month) < len(root.jobs) * len(time_slices):
                time_slices = by_month
            else:
                # There may be more months than windows of 32 days.
                self._root = root = Node(root.jobs)
        for job in root.jobs:
            job.running_sum = run.plan.query.running_sum(run.plan.span)
            job.left = len(time_slices)
            if not time_slices:
                run.deliver(job)
        return [step for time_slice in time_slices for step in self._resolve(time_slice, root, None)]

    def _resolve(self, time_slice: TimeSlice, node: Node, answer: _Answer | None) -> list[Step]:
        """Complete the slashtags of a node whose clicks are known; return requests for the others."""
        is_single = len(node.jobs) == 1
        if node.rules_out(time_slice):
            self._settle(node, None)
            return []
        if answer is not None and (is_single or not answer.value.total_clicks):
            if answer.is_derived and answer.origin is not None:
                answer.origin.derived.append((node, answer.value))
            else:
                self._settle(node, answer.value if answer.value.total_clicks else None)
            return []
        if is_single:
            return [partial(self._request, time_slice, node)]
        left, right = node.halves()
        has_left, has_right = not left.rules_out(time_slice), not right.rules_out(time_slice)
        if has_left and has_right:
            if answer is not None:
                if answer.origin is not None:
                    answer.origin.under_way += 1
                return [partial(self._request_half, time_slice, node, answer)]
            if self._run.may_halve(time_slice):
                return [partial(self._request, time_slice, node)]
        # If one half has no clicks, the node's answer is that of the other half.
        return [
            *self._resolve(time_slice, left, answer if has_left else None),
            *self._resolve(time_slice, right, answer if has_right else None),
        ]

    async def _request(self, time_slice: TimeSlice, node: Node) -> Sequence[Step]:
        """Request one time slice of a node."""
        steps, _ = await self._answer(time_slice, node, None)
        return steps

    async def _request_half(self, time_slice: TimeSlice, node: Node, whole: _Answer) -> Sequence[Step]:
        """Request the first half of a node; the second half is the difference.

        After the last one, confirm the answer from which others were subtracted.
        """
        left, right = node.halves()
        steps, part = await self._answer(time_slice, left, whole)
        if not self._is_abandoned:
            rest = None if part is None else self._subtract(time_slice, node, whole, part)
            steps += self._resolve(time_slice, right, rest)
        if (origin := whole.origin) is not None:
            origin.under_way -= 1
            if origin.derived and not origin.under_way:
                steps.append(partial(self._confirm, time_slice, origin))
        return steps

    async def _answer(
        self, time_slice: TimeSlice, node: Node, whole: _Answer | None
    ) -> tuple[list[Step], _Answer | None]:
        """Request a node, or the first half of `whole`; return the next steps and an additive answer."""
        run, query, size = self._run, self._run.plan.query, len(node.jobs)
        if self._is_done(node):
            return [], None
        call = query.call(node.selector, time_slice)
        try:
            # Of a batch, only consistent answers are used.
            stats = await run.fetch(query, call, time_slice.window, is_used=size == 1)
        except SlashtagError as error:
            parts = self._split(node, call, error)
            return [step for part in parts for step in self._resolve(time_slice, part, None)], None
        if self._is_done(node):
            return [], None
        if self._contradicts(stats, time_slice, node):
            return self._start_over(), None
        found: _Answer | None = None
        if (size > 1 or whole is not None) and (value := additive(stats)) is not None:
            origin = _Origin(node, value) if run.is_recent(time_slice) else None
            found = _Answer(value, run.fetched_at(call), origin if whole is None else whole.origin)
        if size == 1:
            self._settle(node, stats)
            return [], found
        if found is None:
            # Request slashtags one by one, also in later batches unless empty batches saved more requests.
            run.balance -= 1
            return [partial(self._request, time_slice, single) for single in node.singles()], None
        run.balance += size - 1 if not found.value.total_clicks else 0
        return self._resolve(time_slice, node, found), found

    async def _confirm(self, time_slice: TimeSlice, origin: _Origin) -> Sequence[Step]:
        """Request an answer again; if it has changed, request what was derived from it."""
        run, query = self._run, self._run.plan.query
        call = replace(query.call(origin.node.selector, time_slice), replayable=False)
        value: RangeStats | None = None
        try:
            value = additive(await run.fetch(query, call, time_slice.window, is_used=False))
        except SlashtagError as error:
            if not run.may_split(error):
                raise
        if value != origin.value:
            log.info("%s: clicks were added meanwhile; requesting what was subtracted", call.label)
            return [partial(self._request, time_slice, node) for node, _ in origin.derived]
        if not self._is_done(origin.node):
            for node, stats in origin.derived:
                self._settle(node, stats if stats.total_clicks else None)
        return ()

    def _subtract(self, time_slice: TimeSlice, node: Node, whole: _Answer, part: _Answer) -> _Answer | None:
        """Return the answer for the second half of a node; None if it has to be requested."""
        # Past days may still change between two runs.
        if not of_one_run(whole.fetched_at, part.fetched_at):
            return None
        rest = difference(whole.value, part.value)
        if rest is None:
            label = f"{node.halves()[0].selector}, {time_slice.label}"
            log.warning("%s: more clicks than in a batch that contains them; requesting the rest", label)
            return None
        one_sided = not (part.value.total_clicks and rest.total_clicks)
        self._run.cost.observe(len(node.jobs), whole.value.total_clicks, one_sided=one_sided)
        return _Answer(rest, part.fetched_at, whole.origin, is_derived=True)

    def _is_done(self, node: Node) -> bool:
        """Return whether a node needs no more answers."""
        return self._is_abandoned or all(job.failed for job in node.jobs)

    def _settle(self, node: Node, stats: Statistics | None) -> None:
        """Record that a time slice of some slashtags is complete; None adds nothing."""
        for job in node.jobs:
            if job.failed:
                continue
            if stats is not None:
                job.running_sum.add(stats)
            job.left -= 1
            if not job.left:
                self._run.deliver(job)

    def _split(self, node: Node, call: Call[Any], error: SlashtagError) -> Sequence[Node]:
        """Return the parts of a failed node to request; a failed slashtag is reported, and has none."""
        run = self._run
        if len(node.jobs) > 1:
            if not run.may_split(error):
                raise error
            return node.halves() if is_refused(error) else node.singles()
        (job,) = node.jobs
        if not job.failed:
            run.reporter.report_failure(call, error)
            job.failed = True
            run.deliver(job)
        return ()

    def _contradicts(self, stats: Any, time_slice: TimeSlice, node: Node) -> bool:
        """Return whether an answer shows that all-time statistics are wrong."""
        guide, window = self._guide, time_slice.window
        if guide is None or window is None or node.counts is None:
            return False
        return guide.contradicts(stats, window, node.counts)

    def _start_over(self) -> list[Step]:
        """Request everything for the remaining jobs, without the guide."""
        log.warning(
            "%s: its days differ from its all-time months; requesting every window from now on",
            self._root.selector,
        )
        self._is_abandoned = True
        self._run.guide = None
        left = [job for job in self._root.jobs if job.left and not job.failed]
        return [BatchSearch(self._run, left).start]
