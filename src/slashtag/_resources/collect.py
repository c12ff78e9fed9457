"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum."""

from collections.abc import Iterator
from typing import TypeVar

from .._core.batches import Selector, without
from .._core.plan import Plan, StatsRequest, empty_sum
from .._errors import SlashtagError
from .._fanout import run_workers
from .._summed_statistics import Statistics
from .run_state import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)


async def collect(
    fetcher: StatsFetcher, plan: Plan[R], requests: Iterator[StatsRequest], state: RunState, workers: int
) -> R:
    """Send requests, of the query of a plan, and return the sum.

    A batch that fails is halved, one half after the other, until the slashtag at fault is asked alone.
    """
    running_sum = empty_sum(plan.query, plan.span)

    async def send(request: StatsRequest) -> SlashtagError | None:
        try:
            running_sum.add(await state.ask(fetcher, request))
        except SlashtagError as error:
            return error
        if request.selector.link_ids:
            running_sum.add_shared(request.selector.shared)
        return None

    async def work(request: StatsRequest) -> None:
        """Send a request, or parts of it."""
        left, time_slice = [request.selector], request.time_slice
        while left:
            selector = left.pop()
            parts: list[Selector] = []
            if len(selector.keys) > 1 and not state.alone.isdisjoint(selector.keys):
                alone = [each for each in selector.singles() if each.keys[0] in state.alone]
                parts = [*without([selector], state.alone), *alone]
            elif error := await send(
                request if selector is request.selector else plan._request(selector, time_slice)
            ):
                if len(selector.keys) > 1 and state.may_go_on(error):
                    parts = selector.halves()
                else:
                    state.fail(selector, [time_slice], error)
            left += reversed(parts)
            if not parts:
                state.done()
            elif state.total is not None:
                state.total += len(parts) - 1

    await run_workers(requests, work, workers)
    state.tell_failures(plan)
    running_sum.add_missing(state.missing)
    return running_sum.result()
