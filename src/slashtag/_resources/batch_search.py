"""Search for the slashtags with clicks in one batch, by halving.

A batch is a list of slashtags, a node a range of it. Each time slice is requested for the whole batch. If it
has clicks, its first half is requested and the second half is the difference, and so on down to single
slashtags. With three or more windows, `BatchGuide` first finds the months that can have clicks, by all-time
statistics of the batch and of halves for which they pay; other months are skipped. `_core.halving` decides
which answers may be subtracted, `_core.guide` when all-time statistics pay.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from .._core.call import Call
from .._core.halving import Node, additive, children, difference, is_empty, of_one_run
from .._core.payloads import RangeAnswer
from .._core.queries import AllTime, TimeSlice
from .._core.windows import Month, months
from .._errors import SlashtagError
from .batch import Batch, Job, SearchState, Step
from .batch_guide import BatchGuide

#: Months to request; None: all.
Active = frozenset[Month] | None

log = logging.getLogger("slashtag")


class _Answer(Struct, frozen=True):
    """Additive answer for a node, and when it was fetched if it came from the journal."""

    value: RangeAnswer
    replayed_from: float | None


class BatchSearch:
    """Search of one batch; methods return the next steps."""

    def __init__(self, state: SearchState, jobs: Sequence[Job]) -> None:
        self._state = state
        self._jobs = jobs
        self._batch = Batch(state, jobs)
        self._guide = BatchGuide(self._batch, self._request_time_slices, self._recover_guide)
        self._abandoned = False

    async def start(self) -> Sequence[Step]:
        """Send the first request of the batch."""
        return await self._guide.start()

    def _recover_guide(self, node: Node, error: SlashtagError) -> Sequence[Step]:
        if len(self._jobs) > 1:
            return [
                BatchSearch(self._state, self._jobs[a:b]).start for a, b in self._batch.parts(node, error)
            ]
        (job,) = self._jobs
        guide = self._state.guide
        assert guide is not None
        return self._fail(job, AllTime().call(job.selector, guide.all_time[0]), error)

    # --- time slices -----------------------------------------------------------------------------------

    def _request_time_slices(self) -> Sequence[Step]:
        state, guide = self._state, self._state.guide
        time_slices: Sequence[TimeSlice] = state.plan.time_slices
        if guide is not None and self._guide.active:
            by_month = guide.time_slices(self._guide.active[self._batch.whole], state.range_end)
            if self._left_of(by_month) < len(self._jobs) * len(time_slices):
                time_slices = by_month
            else:
                # There may be more months than windows of 32 days: use months only if that saves requests.
                self._guide.active.clear()
        for job in self._jobs:
            job.tally = state.plan.query.tally(state.plan.span)
            job.left = len(time_slices)
            if not time_slices:
                state.deliver(job)
        active = self._guide.active.get(self._batch.whole)
        return [
            step
            for time_slice in time_slices
            for step in self._resolve(time_slice, self._batch.whole, active, None)
        ]

    def _left_of(self, time_slices: Sequence[TimeSlice]) -> int:
        """Count the time slices of slashtags that are not ruled out."""
        left = 0
        for node, active in self._guide.active.items():
            size = node[1] - node[0]
            if size == 1 or children(node)[0] not in self._guide.active:
                left += size * sum(not _rules_out(active, time_slice) for time_slice in time_slices)
        return left

    def _resolve(
        self, time_slice: TimeSlice, node: Node, active: Active, answer: _Answer | None
    ) -> list[Step]:
        """Complete the slashtags of a node whose clicks are known; return requests for the others."""
        steps: list[Step] = []
        nodes = [(node, active, answer)]
        while nodes:
            node, active, answer = nodes.pop()
            active = self._guide.active.get(node, active)
            if _rules_out(active, time_slice) or (answer is not None and is_empty(answer.value)):
                self._settle(time_slice, node, None)
            elif node[1] - node[0] == 1:
                if answer is not None:
                    self._settle(time_slice, node, answer.value)
                else:
                    steps.append(partial(self._request, time_slice, node, active))
            else:
                left, right = children(node)
                has_left = not _rules_out(self._guide.active.get(left, active), time_slice)
                has_right = not _rules_out(self._guide.active.get(right, active), time_slice)
                if has_left and has_right and answer is not None:
                    steps.append(partial(self._request_half, time_slice, node, active, answer))
                elif has_left and has_right and self._state.may_halve(time_slice):
                    steps.append(partial(self._request, time_slice, node, active))
                else:
                    # If one half has no clicks, the node's answer is that of the other half.
                    nodes += [
                        (right, active, answer if has_right else None),
                        (left, active, answer if has_left else None),
                    ]
        return steps

    async def _request(self, time_slice: TimeSlice, node: Node, active: Active) -> Sequence[Step]:
        """Request one time slice of a node."""
        if self._is_done(node):
            return ()
        state = self._state
        call = state.plan.query.call(self._batch.selector(node), time_slice)
        try:
            answer = await state.sender(state.plan.query, call)
        except SlashtagError as error:
            return self._recover(time_slice, node, active, call, error)
        if self._is_done(node):
            return ()
        if self._contradicts_guide(answer, time_slice, node):
            return self._start_over()
        if node[1] - node[0] == 1:
            self._add(call, answer, time_slice, node)
            return ()
        value = additive(answer, time_slice.window) if time_slice.window is not None else None
        if value is None:
            # Request slashtags one by one, also in later batches unless empty batches saved more requests.
            state.balance -= 1
            return [partial(self._request, time_slice, part, active) for part in self._batch.singles(node)]
        if is_empty(value):
            state.balance += node[1] - node[0] - 1
        return self._resolve(time_slice, node, active, _Answer(value, state.sender.replayed_from(call)))

    async def _request_half(
        self, time_slice: TimeSlice, node: Node, active: Active, whole: _Answer
    ) -> Sequence[Step]:
        """Request the first half of a node with a known answer; the second half is the difference."""
        if self._is_done(node):
            return ()
        state, window = self._state, time_slice.window
        assert window is not None
        left, right = children(node)
        call = state.plan.query.call(self._batch.selector(left), time_slice)
        try:
            answer = await state.sender(state.plan.query, call)
        except SlashtagError as error:
            return self._recover(time_slice, node, active, call, error)
        if self._is_done(node):
            return ()
        value, replayed_from = additive(answer, window), state.sender.replayed_from(call)
        rest: RangeAnswer | None = None
        # Past days may still change between two runs.
        if value is not None and of_one_run(whole.replayed_from, replayed_from):
            rest = difference(whole.value, value)
            if rest is None:
                log.warning(
                    "%s: more clicks than in a batch that contains them; requesting the rest",
                    call.label,
                )
        if value is not None and rest is not None:
            one_sided = is_empty(value) or is_empty(rest)
            state.cost.observe(node[1] - node[0], whole.value.total_clicks, one_sided=one_sided)
        steps: list[Step] = []
        if left[1] - left[0] == 1:
            self._add(call, answer, time_slice, left)
        elif value is None:
            steps += [partial(self._request, time_slice, part, active) for part in self._batch.singles(left)]
        else:
            steps += self._resolve(time_slice, left, active, _Answer(value, replayed_from))
        found = None if rest is None else _Answer(rest, replayed_from)
        return [*steps, *self._resolve(time_slice, right, active, found)]

    def _is_done(self, node: Node) -> bool:
        """Return whether a node needs no more answers."""
        return self._abandoned or all(job.failed for job in self._jobs[node[0] : node[1]])

    # --- results ---------------------------------------------------------------------------------------

    def _add(self, call: Call[Any], answer: Any, time_slice: TimeSlice, node: Node) -> None:
        if self._jobs[node[0]].failed:
            return
        problem = self._jobs[node[0]].tally.add_answer(answer, time_slice.window)
        if problem:
            self._state.sender.log_inconsistent_answer(call, problem)
        self._settle(time_slice, node, None)

    def _settle(self, time_slice: TimeSlice, node: Node, answer: RangeAnswer | None) -> None:
        """Record that a time slice of some slashtags is complete; None adds nothing."""
        for job in self._jobs[node[0] : node[1]]:
            if job.failed:
                continue
            if answer is not None:
                job.tally.add_answer(answer, time_slice.window)
            job.left -= 1
            if not job.left:
                self._state.deliver(job)

    # --- failures --------------------------------------------------------------------------------------

    def _recover(
        self, time_slice: TimeSlice, node: Node, active: Active, call: Call[Any], error: SlashtagError
    ) -> Sequence[Step]:
        if node[1] - node[0] == 1:
            return self._fail(self._jobs[node[0]], call, error)
        return [
            step
            for part in self._batch.parts(node, error)
            for step in self._resolve(time_slice, part, active, None)
        ]

    def _fail(self, job: Job, call: Call[Any], error: SlashtagError) -> Sequence[Step]:
        if not self._state.reporter.may_continue(error):
            raise error
        if not job.failed:
            job.failed = True
            self._state.reporter.report_failure(call, error)
            self._state.deliver(job)
        return ()

    def _contradicts_guide(self, answer: Any, time_slice: TimeSlice, node: Node) -> bool:
        guide, counts, window = self._state.guide, self._guide.counts.get(node), time_slice.window
        if guide is None or counts is None or window is None or not self._guide.active:
            return False
        return guide.contradicts(answer, window, counts)

    def _start_over(self) -> Sequence[Step]:
        """Request everything for the remaining jobs, without the guide."""
        log.warning(
            "%s: its days differ from its all-time months; requesting every window from now on",
            self._batch.selector(self._batch.whole),
        )
        self._abandoned = True
        self._state.guide = None
        left = [job for job in self._jobs if job.left and not job.failed]
        return [BatchSearch(self._state, left).start]


def _rules_out(active: Active, time_slice: TimeSlice) -> bool:
    """Return whether a time slice has none of the months to request."""
    window = time_slice.window
    return active is not None and window is not None and active.isdisjoint(months(window.first, window.last))
