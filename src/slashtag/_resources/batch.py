"""Batch of a `collect_each`: its jobs, and the state shared by all batches of the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from .._core.batches import Selector
from .._core.call import SETTLING_SECONDS
from .._core.guide import Guide, GuideCost
from .._core.halving import Node, children
from .._core.plan import Plan
from .._core.queries import TimeSlice
from .._errors import APIError, SlashtagError
from .collect import ProgressReporter, StatsSender

#: One request and the processing of its answer; returns the next steps.
Step = Callable[[], Awaitable["Sequence[Step] | None"]]


class Job:
    """One slashtag or tag: the running sum of its answers and the number of remaining time slices."""

    __slots__ = ("failed", "index", "left", "name", "selector", "tally")

    def __init__(self, index: int, name: str, selector: Selector) -> None:
        self.index = index
        self.name = name
        self.selector = selector
        self.left = 0
        self.failed = False
        self.tally: Any = None


class SearchState(Struct):
    """State shared by the batches of one `collect_each`."""

    sender: StatsSender
    plan: Plan[Any]
    reporter: ProgressReporter
    range_end: str
    #: The wall clock's time (seconds) when the call was made.
    now: float
    #: Called with each job that is complete or has failed.
    deliver: Callable[[Job], None]
    #: Whether answers may be subtracted.
    halves: bool
    guide: Guide | None
    cost: GuideCost
    #: Requests saved by answers without clicks, minus those for answers that could not be subtracted.
    balance: int = 0

    def may_halve(self, time_slice: TimeSlice) -> bool:
        """Return whether to request a batch as a whole; answers are additive only for days that are over."""
        is_over = time_slice.settled_at + SETTLING_SECONDS < self.now
        return self.halves and is_over and self.balance >= 0


class Batch:
    """Jobs of one batch; a node is a range of them."""

    def __init__(self, state: SearchState, jobs: Sequence[Job]) -> None:
        self.state = state
        self.jobs = jobs
        self.whole: Node = (0, len(jobs))

    def selector(self, node: Node) -> Selector:
        """Return the selector of a node."""
        jobs = self.jobs[node[0] : node[1]]
        return jobs[0].selector if len(jobs) == 1 else Selector(keys=tuple(job.name for job in jobs))

    def singles(self, node: Node) -> Iterator[Node]:
        """Yield a node for each job of a node."""
        return ((n, n + 1) for n in range(*node))

    def parts(self, node: Node, error: SlashtagError) -> list[Node]:
        """Split a node whose request failed, or raise the error if the run must end."""
        refused = isinstance(error, APIError) and error.status in (400, 414)
        if not refused and not self.state.reporter.may_continue(error):
            raise error
        return list(children(node)) if refused else list(self.singles(node))
