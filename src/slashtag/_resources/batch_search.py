"""The slashtags with clicks in one batch, found by halving.

A batch is a row of slashtags, a node a part of it. For each time slice the whole batch is asked; where it has
clicks, its first half, and the second half is the difference; and so on down to single slashtags. Over three
windows or more all-time statistics are asked before that, of the batch and of halves for which they save more
than they cost: months that they rule out for a node are not asked there. `_core.halving` says which
answers may be subtracted, `_core.guide_cost` where all-time statistics pay.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from .._core.call import Call
from .._core.guide import Counts, Guide, shows_zone
from .._core.guide_cost import GuideCost
from .._core.halving import Node, additive, children, difference, is_empty
from .._core.journal_policy import SETTLING_SECONDS
from .._core.payloads import RangeAnswer
from .._core.plan import Plan
from .._core.queries import AllTime, TimeSlice
from .._core.selectors import Selector
from .._core.split import Month, months
from .._errors import APIError, NotFoundError, SlashtagError
from .collect import ProgressReporter, StatsSender

Step = Callable[[], Awaitable["Sequence[Step] | None"]]
#: Months to ask for; None: all.
Active = frozenset[Month] | None

log = logging.getLogger("slashtag")


class Job:
    """One slashtag or tag: the running sum of its answers, and the time slices that are left."""

    __slots__ = ("failed", "index", "left", "name", "selector", "tally")

    def __init__(self, index: int, name: str, selector: Selector) -> None:
        self.index = index
        self.name = name
        self.selector = selector
        self.left = 0
        self.failed = False
        self.tally: Any = None


class SearchState(Struct):
    """State that the batches of one `collect_each` share."""

    sender: StatsSender
    plan: Plan[Any]
    reporter: ProgressReporter
    range_end: str
    #: The wall clock's time (seconds) when the call was made.
    now: float
    #: Called with each job that has its result or has failed.
    deliver: Callable[[Job], None]
    #: Whether answers may be subtracted.
    halves: bool
    guide: Guide | None
    cost: GuideCost
    #: Requests saved by answers without clicks, less those for answers that could not be subtracted.
    balance: int = 0

    def may_halve(self, time_slice: TimeSlice) -> bool:
        """Return whether a batch is worth asking: clicks of days that are not over would not add up."""
        is_over = time_slice.settled_at + SETTLING_SECONDS < self.now
        return self.halves and is_over and self.balance >= 0


class _Answer(Struct, frozen=True):
    """Additive answer about a node, and whether it came from the journal."""

    value: RangeAnswer
    replayed: bool


class BatchSearch:
    """Search of one batch; each method returns the steps that follow from it."""

    def __init__(self, state: SearchState, jobs: Sequence[Job]) -> None:
        self._state = state
        self._jobs = jobs
        self._whole: Node = (0, len(jobs))
        #: By node: clicks of the months that have ended, and the months to ask for.
        self._counts: dict[Node, Counts] = {}
        self._active: dict[Node, frozenset[Month]] = {}
        #: Nodes whose halves may be asked about, the number of those under way, and whether one at a time.
        self._waiting: list[tuple[Node, bool]] = []
        self._refining = 0
        self._descends = True
        self._abandoned = False

    # --- all-time statistics -------------------------------------------------------------------------

    async def start(self) -> Sequence[Step]:
        """Ask all-time statistics of the batch, if there is a guide, and then for its time slices."""
        state, node = self._state, self._whole
        guide = state.guide
        if guide is None:
            return self._ask_time_slices()
        try:
            counts, replayed = await self._all_time(guide, node)
            if counts is not None and any(counts):
                await self._learn_zone(guide, node, counts)
        except NotFoundError:
            state.guide = None
            return self._ask_time_slices()
        except SlashtagError as error:
            if len(self._jobs) == 1:
                return self._fail(
                    self._jobs[0], AllTime().call(self._jobs[0].selector, guide.all_time[0]), error
                )
            return [BatchSearch(state, self._jobs[a:b]).start for a, b in self._parts(node, error)]
        if counts is None:
            return self._ask_time_slices()
        self._note(guide, node, counts)
        state.cost.begin(len(self._jobs), len(guide.months), len(self._active[node]))
        return self._refine(guide, (node, replayed))

    async def _all_time(self, guide: Guide, node: Node) -> tuple[Counts | None, bool]:
        query, selector = AllTime(), self._selector(node)
        calls = [query.call(selector, time_slice) for time_slice in guide.all_time]
        answers = [await self._state.sender(query, call) for call in calls]
        return guide.counts(answers), self._state.sender.replays(calls[0])

    async def _learn_zone(self, guide: Guide, node: Node, counts: Counts) -> None:
        memory = self._state.sender.memory
        if memory.all_time_reads_zone:
            return
        compared = list(counts)
        if guide.in_utc is not None:
            call = AllTime().call(self._selector(node), guide.in_utc)
            compared += guide.counts([await self._state.sender(AllTime(), call)]) or ()
        memory.all_time_reads_zone = shows_zone(compared)

    def _note(self, guide: Guide, node: Node, counts: Counts) -> None:
        self._counts[node] = counts
        reads_zone = self._state.sender.memory.all_time_reads_zone
        self._active[node] = guide.active(counts, zone_is_read=reads_zone)

    def _refine(self, guide: Guide, *nodes: tuple[Node, bool]) -> Sequence[Step]:
        """Ask all-time statistics of halves of nodes where that pays; then for the time slices.

        Until one node shows that it does not pay, one after the other: what is learned on the way down
        to a single slashtag saves requests for all others.
        """
        self._waiting[:0] = nodes
        steps: list[Step] = []
        while self._waiting and not (self._descends and self._refining):
            node, replayed = self._waiting.pop(0)
            if self._state.cost.is_worth(node[1] - node[0], guide.clicks(self._counts[node])):
                steps.append(partial(self._refine_half, guide, node, replayed))
                self._refining += 1
            else:
                self._descends = False
        return steps if steps or self._refining else self._ask_time_slices()

    async def _refine_half(self, guide: Guide, node: Node, replayed: bool) -> Sequence[Step]:
        left, right = children(node)
        whole = self._counts[node]
        rest: Counts | None = None
        part_replayed = rest_replayed = replayed
        try:
            part, part_replayed = await self._all_time(guide, left)
            if part is not None and part_replayed is replayed:
                rest = guide.beyond(whole, part)
            if part is not None and rest is None:
                rest, rest_replayed = await self._all_time(guide, right)
        except SlashtagError as error:
            # Not worth a failure: its time slices are asked instead, unless the error ends the run.
            self._parts(node, error)
            part = None
        self._refining -= 1
        if part is None or rest is None:
            return self._refine(guide)
        self._note(guide, left, part)
        self._note(guide, right, rest)
        for a, b in zip(guide.clicks(part), guide.clicks(rest), strict=True):
            if a or b:
                self._state.cost.observe(node[1] - node[0], a + b, one_sided=not (a and b), guided=True)
        return self._refine(guide, (left, part_replayed), (right, rest_replayed))

    # --- time slices -----------------------------------------------------------------------------------

    def _ask_time_slices(self) -> Sequence[Step]:
        state, guide = self._state, self._state.guide
        time_slices: Sequence[TimeSlice] = state.plan.time_slices
        if guide is not None and self._active:
            by_month = guide.time_slices(self._active[self._whole], state.range_end)
            if self._left_of(by_month) < len(self._jobs) * len(time_slices):
                time_slices = by_month
            else:
                # Months may be more than windows of 32 days: what is ruled out has to make up for that.
                self._active.clear()
        for job in self._jobs:
            job.tally = state.plan.query.tally(state.plan.span)
            job.left = len(time_slices)
            if not time_slices:
                state.deliver(job)
        active = self._active.get(self._whole)
        return [
            step
            for time_slice in time_slices
            for step in self._resolve(time_slice, self._whole, active, None)
        ]

    def _left_of(self, time_slices: Sequence[TimeSlice]) -> int:
        """Count the time slices of slashtags that are not ruled out."""
        left = 0
        for node, active in self._active.items():
            size = node[1] - node[0]
            if size == 1 or children(node)[0] not in self._active:
                left += size * sum(not _rules_out(active, time_slice) for time_slice in time_slices)
        return left

    def _resolve(
        self, time_slice: TimeSlice, node: Node, active: Active, answer: _Answer | None
    ) -> list[Step]:
        """Settle the slashtags of a node whose clicks are known; return the requests for the others."""
        steps: list[Step] = []
        nodes = [(node, active, answer)]
        while nodes:
            node, active, answer = nodes.pop()
            active = self._active.get(node, active)
            if _rules_out(active, time_slice) or (answer is not None and is_empty(answer.value)):
                self._settle(time_slice, node, None)
            elif node[1] - node[0] == 1:
                if answer is not None:
                    self._settle(time_slice, node, answer.value)
                else:
                    steps.append(partial(self._ask, time_slice, node, active))
            else:
                left, right = children(node)
                has_left = not _rules_out(self._active.get(left, active), time_slice)
                has_right = not _rules_out(self._active.get(right, active), time_slice)
                if has_left and has_right and answer is not None:
                    steps.append(partial(self._ask_half, time_slice, node, active, answer))
                elif has_left and has_right and self._state.may_halve(time_slice):
                    steps.append(partial(self._ask, time_slice, node, active))
                else:
                    # Without clicks in one half, the other half has the answer of both.
                    nodes += [
                        (right, active, answer if has_right else None),
                        (left, active, answer if has_left else None),
                    ]
        return steps

    async def _ask(self, time_slice: TimeSlice, node: Node, active: Active) -> Sequence[Step]:
        """Ask one time slice of a node."""
        if self._is_done(node):
            return ()
        state = self._state
        call = state.plan.query.call(self._selector(node), time_slice)
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
            # Asked one by one, and so are further batches, unless empty ones have saved more than this.
            state.balance -= 1
            return [partial(self._ask, time_slice, part, active) for part in self._singles(node)]
        if is_empty(value):
            state.balance += node[1] - node[0] - 1
        return self._resolve(time_slice, node, active, _Answer(value, state.sender.replays(call)))

    async def _ask_half(
        self, time_slice: TimeSlice, node: Node, active: Active, whole: _Answer
    ) -> Sequence[Step]:
        """Ask the first half of a node with a known answer; the second half is the difference."""
        if self._is_done(node):
            return ()
        state, window = self._state, time_slice.window
        assert window is not None
        left, right = children(node)
        call = state.plan.query.call(self._selector(left), time_slice)
        try:
            answer = await state.sender(state.plan.query, call)
        except SlashtagError as error:
            return self._recover(time_slice, node, active, call, error)
        if self._is_done(node):
            return ()
        value, replayed = additive(answer, window), state.sender.replays(call)
        rest: RangeAnswer | None = None
        if value is not None and replayed is whole.replayed:
            # Fetched in one run: days that are over may still change between two runs.
            rest = difference(whole.value, value)
            if rest is None:
                log.warning(
                    "%s: more clicks than in a batch that contains them; asking for the others", call.label
                )
        if value is not None and rest is not None:
            one_sided = is_empty(value) or is_empty(rest)
            state.cost.observe(node[1] - node[0], whole.value.total_clicks, one_sided=one_sided)
        steps: list[Step] = []
        if left[1] - left[0] == 1:
            self._add(call, answer, time_slice, left)
        elif value is None:
            steps += [partial(self._ask, time_slice, part, active) for part in self._singles(left)]
        else:
            steps += self._resolve(time_slice, left, active, _Answer(value, replayed))
        found = None if rest is None else _Answer(rest, replayed)
        return [*steps, *self._resolve(time_slice, right, active, found)]

    def _is_done(self, node: Node) -> bool:
        """Return whether nothing is to be known of a node any more."""
        return self._abandoned or all(job.failed for job in self._jobs[node[0] : node[1]])

    # --- results ---------------------------------------------------------------------------------------

    def _add(self, call: Call[Any], answer: Any, time_slice: TimeSlice, node: Node) -> None:
        if self._jobs[node[0]].failed:
            return
        problem = self._jobs[node[0]].tally.add_answer(answer, time_slice.window)
        if problem:
            self._state.sender.log_contradiction(call, problem)
        self._settle(time_slice, node, None)

    def _settle(self, time_slice: TimeSlice, node: Node, answer: RangeAnswer | None) -> None:
        """Note that a time slice of some slashtags is known; None adds nothing."""
        for job in self._jobs[node[0] : node[1]]:
            if job.failed:
                continue
            if answer is not None:
                job.tally.add_answer(answer, time_slice.window)
            job.left -= 1
            if not job.left:
                self._state.deliver(job)

    # --- failures --------------------------------------------------------------------------------------

    def _parts(self, node: Node, error: SlashtagError) -> list[Node]:
        """Cut a node whose request failed, or raise the error."""
        refused = isinstance(error, APIError) and error.status in (400, 414)
        if not refused and not self._state.reporter.survives(error):
            raise error
        return list(children(node)) if refused else list(self._singles(node))

    def _recover(
        self, time_slice: TimeSlice, node: Node, active: Active, call: Call[Any], error: SlashtagError
    ) -> Sequence[Step]:
        if node[1] - node[0] == 1:
            return self._fail(self._jobs[node[0]], call, error)
        return [
            step
            for part in self._parts(node, error)
            for step in self._resolve(time_slice, part, active, None)
        ]

    def _fail(self, job: Job, call: Call[Any], error: SlashtagError) -> Sequence[Step]:
        if not self._state.reporter.survives(error):
            raise error
        if not job.failed:
            job.failed = True
            self._state.reporter.fail(call, error)
            self._state.deliver(job)
        return ()

    def _contradicts_guide(self, answer: Any, time_slice: TimeSlice, node: Node) -> bool:
        guide, counts, window = self._state.guide, self._counts.get(node), time_slice.window
        if guide is None or counts is None or window is None or not self._active:
            return False
        return guide.contradicts(answer, window, counts)

    def _start_over(self) -> Sequence[Step]:
        """Ask for everything that is left, without the guide."""
        log.warning(
            "%s: its days differ from its all-time months; asking for every window from here on",
            self._selector(self._whole),
        )
        self._abandoned = True
        self._state.guide = None
        left = [job for job in self._jobs if job.left and not job.failed]
        return [BatchSearch(self._state, left).start]

    def _selector(self, node: Node) -> Selector:
        jobs = self._jobs[node[0] : node[1]]
        return jobs[0].selector if len(jobs) == 1 else Selector(keys=tuple(job.name for job in jobs))

    @staticmethod
    def _singles(node: Node) -> Iterator[Node]:
        return ((n, n + 1) for n in range(*node))


def _rules_out(active: Active, time_slice: TimeSlice) -> bool:
    """Return whether no month of a time slice is among those to ask for; None are all."""
    window = time_slice.window
    return active is not None and window is not None and active.isdisjoint(months(window.first, window.last))
