"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from .._core.plan import Plan, StatsRequest, empty_sum
from .._errors import SlashtagError
from .._fanout import Source, WorkerPool
from .._sending.health import is_refusal
from .._summed_statistics import Statistics
from .run_state import RunState
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)


class _Half(NamedTuple):
    """Half of a batch, and how many requests had failed when that was split: other halves may have since."""

    request: StatsRequest
    failures_before: int


async def collect(
    fetcher: StatsFetcher,
    plan: Plan[R],
    state: RunState,
    workers: int,
) -> R:
    """Send the requests of a plan; return the sum.

    Of a batch that is refused halves are sent, to find the slashtag at fault. Before the service has accepted
    anything, one batch at a time is taken apart, for which all others wait: it may refuse everything.
    """
    running_sum, health = empty_sum(plan.query, plan.span), state.health

    async def send(request: StatsRequest) -> SlashtagError | None:
        try:
            running_sum.add(await fetcher.fetch(request.call, request.time_slice.window))
        except SlashtagError as error:
            return error
        if request.selector.link_ids:
            running_sum.add_shared(request.selector.shared)
        health.succeeded()
        state.done()
        return None

    def fail(request: StatsRequest, error: SlashtagError) -> None:
        state.report_failure(request.call, error, plan._only(request.selector, request.time_slice))
        state.done()

    def in_halves(request: StatsRequest) -> list[_Half]:
        if state.total is not None:
            state.total += 1  # two steps instead of one
        parts = request.selector.halves()
        return [_Half(plan._request(part, request.time_slice), health.failures) for part in parts]

    async def take_apart(request: StatsRequest, error: SlashtagError) -> Sequence[_Half]:
        """Send halves of a refused batch, then of a half, until one is accepted; return what to send next."""
        refused = [(request, error)]
        while health.is_undecided and is_refusal(refused[-1][1]) and len(refused[-1][0].selector.keys) > 1:
            sent = [(half.request, await send(half.request)) for half in in_halves(refused.pop()[0])]
            refused += [(part, problem) for part, problem in sent if problem is not None]
        parts: list[_Half] = []
        for part, problem in refused:
            if len(part.selector.keys) > 1 and health.has_succeeded and is_refusal(problem):
                parts += in_halves(part)
            else:
                fail(part, problem)
        return parts

    async def work(item: StatsRequest | _Half) -> Sequence[_Half]:
        """Send one request; return smaller ones if it failed and may be split."""
        refusal = await health.refusal_of_all()
        request, failures_before = item if isinstance(item, _Half) else _Half(item, health.failures)
        if refusal is not None:
            fail(request, refusal)
            return ()
        if (error := await send(request)) is None:
            return ()
        if len(request.selector.keys) > 1:
            if is_refusal(error) and health.is_undecided:
                async with health.taking_apart:
                    return await take_apart(request, error)
            if health.may_split(error, failures_before):
                return in_halves(request)
        fail(request, error)
        return ()

    if len(plan) == 1:
        # Without a worker pool, which costs half as much as the request, but for halves that follow.
        (only,) = plan._requests()
        if follow_ups := await work(only):
            await WorkerPool(follow_ups, work, workers).run()
    else:
        source: Source[StatsRequest | _Half] = plan._requests()
        await WorkerPool(source, work, workers).run()
    running_sum.add_missing(state.missing)
    return running_sum.result()
