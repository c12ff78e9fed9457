"""A batch on its way through `collect_each`: its jobs, and the state that all batches of a call share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from .._core.guide import Guide
from .._core.guide_cost import GuideCost
from .._core.halving import Node, children
from .._core.journal_policy import SETTLING_SECONDS
from .._core.plan import Plan
from .._core.queries import TimeSlice
from .._core.selectors import Selector
from .._errors import APIError, SlashtagError
from .collect import ProgressReporter, StatsSender

#: One request and what is done with its answer; returns the steps that follow.
Step = Callable[[], Awaitable["Sequence[Step] | None"]]


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


class Batch:
    """Jobs of one batch; a node is a part of them."""

    def __init__(self, state: SearchState, jobs: Sequence[Job]) -> None:
        self.state = state
        self.jobs = jobs
        self.whole: Node = (0, len(jobs))

    def selector(self, node: Node) -> Selector:
        """Return the selector of a node."""
        jobs = self.jobs[node[0] : node[1]]
        return jobs[0].selector if len(jobs) == 1 else Selector(keys=tuple(job.name for job in jobs))

    def singles(self, node: Node) -> Iterator[Node]:
        """Yield the single jobs of a node."""
        return ((n, n + 1) for n in range(*node))

    def parts(self, node: Node, error: SlashtagError) -> list[Node]:
        """Cut a node of several jobs whose request failed; raise the error if nothing may go on after it."""
        refused = isinstance(error, APIError) and error.status in (400, 414)
        if not refused and not self.state.reporter.may_continue(error):
            raise error
        return list(children(node)) if refused else list(self.singles(node))
