"""Search for the slashtags with clicks in one batch, by halving.

A batch is a list of jobs (one per slashtag), a node a range of it. Each time slice is requested for the whole
batch. If it has clicks, its first half is requested and the second half is the difference, and so on down to
single slashtags. With three or more windows, all-time statistics of the batch, and of halves for which they
pay, first show the months that can have clicks; other months are skipped. `_core.halving` decides which
answers may be subtracted, `_core.guide` when all-time statistics pay.

A click that the service counts late, between the answers for a node and for its first half, would be missing
from the second half. So for windows that ended recently, the answer from which others were subtracted is
requested again at the end. If it has changed, what was derived from it is requested instead.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .._core.call import Call
from .._core.halving import Node, additive, children, difference, of_one_run
from .._core.queries import AllTime, TimeSlice
from .._errors import SlashtagError
from .._models import RangeStats, Statistics
from .active_months import Batch, singles
from .per_key_run import Job, PerKeyRun

#: One request and the processing of its answer; returns the next steps.
Step = Callable[[], Awaitable["Sequence[Step]"]]

log = logging.getLogger("slashtag")


class _Origin(Struct):
    """Answer to be confirmed: the number of halves under way, and the answers derived by subtraction."""

    node: Node
    value: RangeStats
    under_way: int = 0
    derived: list[tuple[Node, RangeStats]] = []


class _Answer(Struct, frozen=True):
    """Additive answer for a node, and when it was fetched (see `PerKeyRun.fetched_at`)."""

    node: Node
    value: RangeStats
    fetched_at: float
    origin: _Origin | None
    is_derived: bool = False


class BatchSearch:
    """Search of one batch; methods return the next steps."""

    def __init__(self, run: PerKeyRun[Any], jobs: Sequence[Job]) -> None:
        self._run = run
        self._jobs = jobs
        self._batch = Batch(run, jobs)
        self._is_abandoned = False
        self._has_failures = False

    async def start(self) -> Sequence[Step]:
        """Send the first request of the batch."""
        run, jobs, guide = self._run, self._jobs, self._run.guide
        try:
            await self._batch.learn_months()
        except SlashtagError as error:
            if len(jobs) > 1:
                parts = self._batch.parts(self._batch.whole, error)
                return [BatchSearch(run, jobs[slice(*part)]).start for part in parts]
            assert guide is not None
            return self._fail(jobs[0], AllTime().call(jobs[0].selector, guide.all_time[0]), error)
        return self._request_time_slices()

    # --- time slices -----------------------------------------------------------------------------------

    def _request_time_slices(self) -> Sequence[Step]:
        run, time_slices = self._run, self._batch.time_slices()
        for job in self._jobs:
            job.running_sum = run.plan.query.running_sum(run.plan.span)
            job.left = len(time_slices)
            if not time_slices:
                run.deliver(job)
        return [
            step for time_slice in time_slices for step in self._resolve(time_slice, self._batch.whole, None)
        ]

    def _resolve(self, time_slice: TimeSlice, node: Node, answer: _Answer | None) -> list[Step]:
        """Complete the slashtags of a node whose clicks are known; return requests for the others."""
        is_single = node[1] - node[0] == 1
        if self._batch.rules_out(node, time_slice):
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
        left, right = children(node)
        has_left, has_right = (not self._batch.rules_out(half, time_slice) for half in (left, right))
        if has_left and has_right:
            if answer is not None:
                if answer.origin is not None:
                    answer.origin.under_way += 1
                # The answer may be that of a larger node whose other half has no clicks.
                return [partial(self._request_half, time_slice, left, replace(answer, node=node))]
            if self._run.may_halve(time_slice):
                return [partial(self._request, time_slice, node)]
        # If one half has no clicks, the node's answer is that of the other half.
        return [
            *self._resolve(time_slice, left, answer if has_left else None),
            *self._resolve(time_slice, right, answer if has_right else None),
        ]

    async def _request(
        self, time_slice: TimeSlice, node: Node, whole: _Answer | None = None
    ) -> Sequence[Step]:
        """Request one time slice of a node; if it is half of `whole`, the other half is the difference."""
        run, window = self._run, time_slice.window
        covered = node if whole is None else whole.node
        other = node[1], covered[1]
        if self._is_done(covered):
            return ()
        call = run.plan.query.call(self._batch.selector(node), time_slice)
        try:
            # Of a batch, only consistent answers are used.
            is_used = node[1] - node[0] == 1
            stats = await run.fetch(run.plan.query, call, window, is_used=is_used)
        except SlashtagError as error:
            steps = self._recover(time_slice, node, call, error)
            return steps if whole is None else [*steps, *self._resolve(time_slice, other, None)]
        if self._is_done(covered):
            return ()
        if self._batch.contradicts(stats, time_slice, node):
            return self._start_over()
        size, found = node[1] - node[0], None
        if window is not None and (size > 1 or whole is not None):
            value = additive(stats)
            if value is not None:
                origin = _Origin(node, value) if run.is_recent(time_slice) else None
                origin = origin if whole is None else whole.origin
                found = _Answer(node, value, run.fetched_at(call), origin)
        if size == 1:
            self._settle(node, stats)
            steps = []
        elif found is None:
            # Request slashtags one by one, also in later batches unless empty batches saved more requests.
            run.balance -= 1
            steps = [partial(self._request, time_slice, part) for part in singles(node)]
        else:
            run.balance += size - 1 if not found.value.total_clicks else 0
            steps = self._resolve(time_slice, node, found)
        if whole is not None:
            steps += self._resolve(time_slice, other, self._subtract(call, whole, found))
        return steps

    async def _request_half(self, time_slice: TimeSlice, node: Node, whole: _Answer) -> Sequence[Step]:
        """Request the first half of a node; after the last one, confirm the answer that they rest on."""
        steps = await self._request(time_slice, node, whole)
        origin = whole.origin
        if origin is None:
            return steps
        origin.under_way -= 1
        if origin.under_way or not origin.derived:
            return steps
        return [*steps, partial(self._confirm, time_slice, origin)]

    async def _confirm(self, time_slice: TimeSlice, origin: _Origin) -> Sequence[Step]:
        """Request an answer again; if it has changed, request what was derived from it."""
        run = self._run
        call = replace(run.plan.query.call(self._batch.selector(origin.node), time_slice), replayable=False)
        value: RangeStats | None = None
        try:
            stats = await run.fetch(run.plan.query, call, time_slice.window, is_used=False)
            value = additive(stats)
        except SlashtagError as error:
            self._batch.parts(origin.node, error)
        if value != origin.value:
            log.info("%s: clicks were added meanwhile; requesting what was subtracted", call.label)
            return [partial(self._request, time_slice, node) for node, _ in origin.derived]
        if not self._is_done(origin.node):
            for node, answer in origin.derived:
                self._settle(node, answer if answer.total_clicks else None)
        return ()

    def _subtract(self, call: Call[Any], whole: _Answer, part: _Answer | None) -> _Answer | None:
        """Return the answer for the other half; None if it has to be requested."""
        # Past days may still change between two runs.
        if part is None or not of_one_run(whole.fetched_at, part.fetched_at):
            return None
        rest = difference(whole.value, part.value)
        if rest is None:
            log.warning("%s: more clicks than in a batch that contains them; requesting the rest", call.label)
            return None
        size = whole.node[1] - whole.node[0]
        one_sided = not (part.value.total_clicks and rest.total_clicks)
        self._run.cost.observe(size, whole.value.total_clicks, one_sided=one_sided)
        other = part.node[1], whole.node[1]
        return _Answer(other, rest, part.fetched_at, whole.origin, is_derived=True)

    def _is_done(self, node: Node) -> bool:
        """Return whether a node needs no more answers."""
        if not self._has_failures:
            return self._is_abandoned
        return self._is_abandoned or all(job.failed for job in self._jobs[slice(*node)])

    # --- results ---------------------------------------------------------------------------------------

    def _settle(self, node: Node, stats: Statistics | None) -> None:
        """Record that a time slice of some slashtags is complete; None adds nothing."""
        for job in self._jobs[slice(*node)]:
            if job.failed:
                continue
            if stats is not None:
                job.running_sum.add(stats)
            job.left -= 1
            if not job.left:
                self._run.deliver(job)

    # --- failures --------------------------------------------------------------------------------------

    def _recover(
        self, time_slice: TimeSlice, node: Node, call: Call[Any], error: SlashtagError
    ) -> Sequence[Step]:
        if node[1] - node[0] == 1:
            return self._fail(self._jobs[node[0]], call, error)
        parts = self._batch.parts(node, error)
        return [step for part in parts for step in self._resolve(time_slice, part, None)]

    def _fail(self, job: Job, call: Call[Any], error: SlashtagError) -> Sequence[Step]:
        if not self._run.reporter.may_continue(error):
            raise error
        if not job.failed:
            job.failed = self._has_failures = True
            self._run.reporter.report_failure(call, error)
            self._run.deliver(job)
        return ()

    def _start_over(self) -> Sequence[Step]:
        """Request everything for the remaining jobs, without the guide."""
        log.warning(
            "%s: its days differ from its all-time months; requesting every window from now on",
            self._batch.selector(self._batch.whole),
        )
        self._is_abandoned = True
        self._run.guide = None
        left = [job for job in self._jobs if job.left and not job.failed]
        return [BatchSearch(self._run, left).start]
