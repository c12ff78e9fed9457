"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Key, Selector
from .._core.call import Call, Progress, check_callback
from .._core.queries import Plan, Query, StatsRequest, check_query
from .._errors import (
    APIError,
    InvalidRequestError,
    QueueTimeoutError,
    RateLimitError,
    ServerError,
    SlashtagError,
    TransportError,
    UnknownTagError,
)
from .._fanout import WorkerPool
from .._summed_statistics import Statistics
from .stats_fetcher import StatsFetcher

R = TypeVar("R", bound=Statistics)
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: The result that lacks something; of any kind where a Failure is named without it.
    Of_co = TypeVarWithDefault("Of_co", covariant=True, bound=Statistics, default=Any)
else:
    Of_co = TypeVar("Of_co", covariant=True)


log = logging.getLogger("slashtag")


class Failure(Struct, Generic[Of_co], frozen=True):
    """Argument of `on_error`: a request that failed for good, its error, and the plan of what is missing.

    `keys` or `tag` are those of the request, `label` names them and its days; `error` has its path. `plan`
    has the query, the slashtags and the days: one request of `collect`, or all those of a slashtag of
    `collect_each`, of a whole batch if nothing was answered. `session.stats.retry` takes failures and runs
    their plans; None: the service cannot be asked, as for a slashtag with a comma.
    """

    label: str
    error: SlashtagError
    keys: tuple[str, ...] = ()
    tag: str | None = None
    plan: Plan[Of_co] | None = None


OnError = Callable[[Failure[Of_co]], object]


async def collect(
    fetcher: StatsFetcher,
    plan: Plan[R],
    state: RunState,
    workers: int,
    requests: AsyncGenerator[StatsRequest] | None = None,
) -> R:
    """Send the requests of a plan, or others instead that are read asynchronously; return the sum.

    Of a batch that is refused halves are sent, to find the slashtag at fault. Before the service has accepted
    anything, one batch at a time is taken apart, for which all others wait: it may refuse everything.
    """
    running_sum = plan.query._running_sum(plan.span)

    async def send(request: StatsRequest) -> SlashtagError | None:
        try:
            running_sum.add(await fetcher.fetch(request.call, request.time_slice.window))
        except SlashtagError as error:
            return error
        state.succeeded()
        state.done()
        return None

    def fail(request: StatsRequest, error: SlashtagError) -> None:
        # Missing here. The result of `retry` is added to this one: with -1 the sum lacks nothing.
        to_retry = replace(plan._only(request.selector, request.time_slice), missing=-1)
        state.report_failure(request.call, error, to_retry)
        state.done()

    def split(request: StatsRequest) -> list[StatsRequest]:
        if state.total is not None:
            state.total += 1  # two steps instead of one
        parts = request.selector.halves()
        return [plan._request(part, request.time_slice, state.failures) for part in parts]

    async def take_apart(request: StatsRequest, error: SlashtagError) -> Sequence[StatsRequest]:
        """Send halves of a refused batch, then of a half, until one is accepted; return what to send next."""
        refused = [(request, error)]
        while state.is_undecided and is_refusal(refused[-1][1]) and len(refused[-1][0].selector.keys) > 1:
            sent = [(part, await send(part)) for part in split(refused.pop()[0])]
            refused += [(part, problem) for part, problem in sent if problem is not None]
        parts: list[StatsRequest] = []
        for part, problem in refused:
            if len(part.selector.keys) > 1 and state.has_succeeded and is_refusal(problem):
                parts += split(part)
            else:
                fail(part, problem)
        return parts

    async def work(request: StatsRequest) -> Sequence[StatsRequest]:
        """Send one request; return smaller ones if it failed and may be split."""
        if (refusal := await state.refusal_of_all()) is not None:
            fail(request, refusal)
            return ()
        # Up to now, or for half of a batch until that was split: other halves may have failed since.
        before = state.failures if request.failures_before is None else request.failures_before
        if (error := await send(request)) is None:
            return ()
        if len(request.selector.keys) > 1:
            if is_refusal(error) and state.is_undecided:
                async with state.taking_apart:
                    return await take_apart(request, error)
            if state.may_split(error, before):
                return split(request)
        fail(request, error)
        return ()

    # Of one request without a worker pool, which costs half as much as the request.
    source = await work(*plan._requests()) if len(plan) == 1 else requests or plan._requests()
    if source:
        await WorkerPool(source, work, workers).run()
    running_sum.add_missing(state.missing)
    return running_sum.result()


#: Statuses of a refusal: a slashtag of the batch may be at fault, or the length of the request.
REFUSED = frozenset({400, 403, 404, 413, 414})
#: Refusals, and other failures, without a success between them after which nothing is split. The 32 batches
#: that may be under way by default may each have a slashtag at fault, and half as many again until a part of
#: one is accepted.
MOST_REFUSALS, MOST_FAILURES = 48, 2
#: Requests that are refused, before one is accepted, until no more are sent: more than the 8 that one batch
#: of 100 slashtags is taken apart into, as all of these may be wrong.
MOST_REFUSED = 12
#: Failures without a success after which slashtags are no longer requested one by one.
MOST_FAILED = 40


def is_refusal(error: SlashtagError) -> bool:
    """Return whether the service refused a request."""
    return isinstance(error, APIError) and error.status in REFUSED


class RunState:
    """Progress and failures of one run, and what follows from a failure: parts instead, the next, or the end.

    Calls `progress` after each step, and `on_error`, if given, for failures.
    """

    def __init__(self, query: Query[Any], progress: Progress | None, on_error: OnError | None) -> None:
        #: The number of steps, None while it is unknown.
        self.total: int | None = None
        #: Requests whose answers are missing in the result.
        self.missing = 0
        #: Failures so far, and at the last success; those of requests decided upon together count as one.
        self.failures = self._failures_at_success = 0
        #: Failures since the last success, but for refusals of a service that answers others; and refusals.
        self._failed_alone = self._refused_in_row = 0
        self.has_succeeded = False
        #: Held while a batch is taken apart before a request was accepted.
        self.taking_apart = asyncio.Lock()
        #: Requests refused for good before one was accepted, and the error of all others once too many are.
        self._refused = 0
        self._refusal: SlashtagError | None = None
        self._query = query
        self._done = 0
        check_query(query)
        check_callback("progress", progress)
        check_callback("on_error", on_error)
        self._progress, self._on_error = progress, on_error
        self._has_look_alikes = False

    def done(self) -> None:
        """Count one step as done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self.total)

    def succeeded(self) -> None:
        """Record that a request succeeded."""
        self._failed_alone = self._refused_in_row = 0
        self._failures_at_success = self.failures
        self.has_succeeded = True

    @property
    def is_undecided(self) -> bool:
        """Whether the service may refuse all requests of the run, for all that is known."""
        return not self.has_succeeded and self._refusal is None

    async def refusal_of_all(self) -> SlashtagError | None:
        """Return the error if the service refuses all requests; wait while that is found out."""
        if self.is_undecided and self.taking_apart.locked():
            async with self.taking_apart:
                pass
        return self._refusal

    @property
    def is_answered(self) -> bool:
        """Whether requests succeed: one has, and none has failed since."""
        return self.has_succeeded and self.failures == self._failures_at_success

    def may_split(self, error: SlashtagError, failures_before: int, *, always: bool = False) -> bool:
        """Return whether to request the parts of what failed: one slashtag may be at fault.

        A refusal is split also where failures are not reported, to find that slashtag; unless `always`, an
        undocumented answer is not. `failures_before` is `failures` when the request was decided upon. After
        too many refusals or failures in a row nothing is split, as nothing else may be answered either.
        """
        if not is_refusal(error):
            may_help = always or isinstance(error, ServerError | TransportError)
            is_limit = isinstance(error, RateLimitError | QueueTimeoutError)
            if is_limit or not may_help or self._on_error is None or error.is_fatal:
                return False
        # Those of requests that were decided upon together count once.
        in_row = max(0, failures_before - self._failures_at_success) + 1
        self.failures = max(self.failures, self._failures_at_success + in_row)
        if not is_refusal(error):
            return in_row <= MOST_FAILURES
        self._refused_in_row += 1
        return self._refused_in_row <= MOST_REFUSALS

    def may_go_on(self, error: SlashtagError) -> bool:
        """Return whether to request more slashtags or tags one by one after one has failed."""
        # Of a service that answers others, each slashtag refused may be at fault.
        self._failed_alone += not (is_refusal(error) and self.has_succeeded)
        return self._failed_alone <= MOST_FAILED

    def report_failure(self, call: Call[Any], error: SlashtagError, plan: Plan[Any]) -> None:
        """Report a failure, with the plan of what is missing; raise it if the others must not continue."""
        # That a tag does not exist says nothing about others.
        if self.is_undecided and is_refusal(error) and not isinstance(error, UnknownTagError):
            self._refused += 1
            if self._refused == MOST_REFUSED:
                error.add_note("no request of this run was accepted, and no more were sent")
                self._refusal = error
        if self._on_error is None or error.is_fatal:
            raise error
        self.missing += 1
        self._on_error(Failure(call.label, error, call.keys, call.tag, plan))

    def report_look_alike(self, slashtag: str) -> None:
        """Log a slashtag that looks like one in another batch; the first as a warning, of many."""
        level = logging.DEBUG if self._has_look_alikes else logging.WARNING
        self._has_look_alikes = True
        text = (
            "%r and another slashtag differ in case or accents only, and are in two requests: a service that"
        )
        log.log(level, f"{text} takes them for one counts their clicks twice", slashtag)

    def report_bad_key(self, key: Key, error: InvalidRequestError) -> None:
        """Report a slashtag that cannot be requested.

        Without `on_error` the error is raised for a str. For a link of the account, which the caller cannot
        correct, a warning is logged and the others continue.
        """
        self.missing += 1
        if self._on_error is None:
            if isinstance(key, str):
                raise error
            log.warning("a link is missing from the statistics: %s", error)
            return
        selector = Selector(keys=(key if isinstance(key, str) else key.slashtag or "",))
        self._on_error(Failure(str(selector), error, selector.keys))
