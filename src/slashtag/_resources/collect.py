"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from .._core.batches import Selector, without
from .._core.plan import Plan, StatsRequest, empty_sum
from .._errors import SlashtagError
from .._fanout import WorkerPool
from .._summed_statistics import Statistics
from .run_state import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)


async def collect(
    fetcher: StatsFetcher, plan: Plan[R], requests: Iterator[StatsRequest], state: RunState, workers: int
) -> R:
    """Send requests, of the query of a plan, and return the sum.

    Of a batch that fails halves are sent, until the slashtag at fault is asked alone (`RunState`).
    """
    running_sum = empty_sum(plan.query, plan.span)

    def parts_of(request: StatsRequest, parts: Iterable[Selector]) -> list[StatsRequest]:
        requests = [plan._request(part, request.time_slice) for part in parts]
        if state.total is not None:
            state.total += len(requests) - 1
        return requests

    async def work(request: StatsRequest) -> list[StatsRequest]:
        """Send one request; return others instead if it failed and may be split."""
        selector = request.selector
        if len(selector.keys) > 1 and not state.alone.isdisjoint(selector.keys):
            alone = [each for each in selector.singles() if each.keys[0] in state.alone]
            return parts_of(request, [*without([selector], state.alone), *alone])
        try:
            running_sum.add(await state.ask(fetcher, request))
        except SlashtagError as error:
            if len(selector.keys) > 1 and state.may_go_on(error):
                return parts_of(request, selector.halves())
            state.fail(selector, [request.time_slice], error)
        else:
            if selector.link_ids:
                running_sum.add_shared(selector.shared)
        state.done()
        return []

    if state.total == 1:
        # Without a worker pool, which costs half as much as the request, but for halves that follow.
        if follow_ups := await work(next(requests)):
            await WorkerPool(follow_ups, work, workers).run()
    else:
        await WorkerPool(requests, work, workers).run()
    state.tell_failures(plan)
    running_sum.add_missing(state.missing)
    return running_sum.result()
