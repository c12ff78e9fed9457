"""Months of a batch that can have clicks, found by all-time statistics of the batch and its halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from .._core.guide import Counts, Guide, shows_zone
from .._core.halving import Node, children, of_one_run
from .._core.queries import AllTime
from .._core.windows import Month
from .._errors import NotFoundError, SlashtagError
from .batch import Batch, Step


class BatchGuide:
    """Months to request, by node of one batch; methods return the next steps.

    `then` is called at the end, `recover` with an error of the first request.
    """

    def __init__(
        self,
        batch: Batch,
        then: Callable[[], Sequence[Step]],
        recover: Callable[[Node, SlashtagError], Sequence[Step]],
    ) -> None:
        self._batch = batch
        self._then = then
        self._recover = recover
        #: By node: clicks of the months that have ended, and the months to request.
        self.counts: dict[Node, Counts] = {}
        self.active: dict[Node, frozenset[Month]] = {}
        #: Nodes to refine, the number under way, and whether to refine one at a time.
        self._waiting: list[tuple[Node, float | None]] = []
        self._refining = 0
        self._descends = True

    async def start(self) -> Sequence[Step]:
        """Request all-time statistics of the batch, if there is a guide, and of halves if that pays."""
        state, node = self._batch.state, self._batch.whole
        guide = state.guide
        if guide is None:
            return self._then()
        try:
            counts, replayed = await self._all_time(guide, node)
            if counts is not None and any(counts):
                await self._learn_zone(guide, node, counts)
        except NotFoundError:
            state.guide = None
            return self._then()
        except SlashtagError as error:
            return self._recover(node, error)
        if counts is None:
            return self._then()
        self._note(guide, node, counts)
        state.cost.begin(len(self._batch.jobs), len(guide.months), len(self.active[node]))
        return self._refine(guide, (node, replayed))

    async def _all_time(self, guide: Guide, node: Node) -> tuple[Counts | None, float | None]:
        query, selector = AllTime(), self._batch.selector(node)
        calls = [query.call(selector, time_slice) for time_slice in guide.all_time]
        answers = [await self._batch.state.sender(query, call) for call in calls]
        return guide.counts(answers), self._batch.state.sender.replayed_from(calls[0])

    async def _learn_zone(self, guide: Guide, node: Node, counts: Counts) -> None:
        memory = self._batch.state.sender.memory
        if memory.all_time_reads_zone:
            return
        compared = list(counts)
        if guide.in_utc is not None:
            call = AllTime().call(self._batch.selector(node), guide.in_utc)
            compared += guide.counts([await self._batch.state.sender(AllTime(), call)]) or ()
        memory.all_time_reads_zone = shows_zone(compared)

    def _note(self, guide: Guide, node: Node, counts: Counts) -> None:
        self.counts[node] = counts
        reads_zone = self._batch.state.sender.memory.all_time_reads_zone
        self.active[node] = guide.active(counts, zone_is_read=reads_zone)

    def _refine(self, guide: Guide, *nodes: tuple[Node, float | None]) -> Sequence[Step]:
        """Request all-time statistics of halves of nodes if that pays, then the time slices.

        Go down one node at a time until it no longer pays: what is learnt on the way to a single slashtag
        saves requests for all others.
        """
        self._waiting[:0] = nodes
        steps: list[Step] = []
        while self._waiting and not (self._descends and self._refining):
            node, replayed = self._waiting.pop(0)
            if self._batch.state.cost.is_worth(node[1] - node[0], guide.clicks(self.counts[node])):
                steps.append(partial(self._refine_half, guide, node, replayed))
                self._refining += 1
            else:
                self._descends = False
        return steps if steps or self._refining else self._then()

    async def _refine_half(self, guide: Guide, node: Node, replayed: float | None) -> Sequence[Step]:
        left, right = children(node)
        whole = self.counts[node]
        rest: Counts | None = None
        part_replayed = rest_replayed = replayed
        try:
            part, part_replayed = await self._all_time(guide, left)
            if part is not None and of_one_run(replayed, part_replayed):
                rest = guide.beyond(whole, part)
            if part is not None and rest is None:
                rest, rest_replayed = await self._all_time(guide, right)
        except SlashtagError as error:
            # Not a failure of the batch: request its time slices instead, unless the error ends the run.
            self._batch.parts(node, error)
            part = None
        self._refining -= 1
        if part is None or rest is None:
            return self._refine(guide)
        self._note(guide, left, part)
        self._note(guide, right, rest)
        for a, b in zip(guide.clicks(part), guide.clicks(rest), strict=True):
            if a or b:
                self._batch.state.cost.observe(node[1] - node[0], a + b, one_sided=not (a and b), guided=True)
        return self._refine(guide, (left, part_replayed), (right, rest_replayed))
