"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anyio import CancelScope
from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Batcher, Key, Selector, halves
from .._core.call import Call, check_callback
from .._core.queries import Plan, Query, StatsRequest
from .._core.windows import Window
from .._errors import (
    APIError,
    BadRequestError,
    InvalidRequestError,
    NotFoundError,
    RateLimitError,
    ServerError,
    SlashtagError,
    TransportError,
    UnexpectedResponseError,
)
from .._fanout import AsyncReadable, WorkerPool
from .._sending.sender import Metrics, Sender
from .._statistics import Statistics
from .listing import Progress

R = TypeVar("R", bound=Statistics)
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: The result that lacks something; of any kind where a Failure is named without it.
    Of_co = TypeVarWithDefault("Of_co", covariant=True, bound=Statistics, default=Any)
else:
    Of_co = TypeVar("Of_co", covariant=True)


#: Paths in the document's sample requests, where they differ from the stated ones.
SAMPLE_PATHS = {"stats/yearly": "stats", "stats/alltime": "stats"}
#: After so many second answers in a row that were inconsistent too, no other second one is requested.
MOST_CONFIRMED = 8

log = logging.getLogger("slashtag")


class Failure(Struct, Generic[Of_co], frozen=True):
    """Argument of `on_error`: a call that failed for good, its error, and the plan of what is missing.

    `plan` has the query, the slashtags and the days: one request of `collect`, or all those of a slashtag of
    `collect_each`. `session.stats.retry` takes failures and runs their plans; None: the service cannot be
    asked, as for a slashtag with a comma.
    """

    call: Call[Any]
    error: SlashtagError
    plan: Plan[Of_co] | None = None


OnError = Callable[[Failure[Of_co]], object]


async def collect(
    fetch: StatsFetcher,
    plan: Plan[R],
    source: Iterable[StatsRequest] | AsyncGenerator[StatsRequest],
    reporter: ProgressReporter,
    workers: int,
) -> R:
    """Send the requests of a plan, which may be read asynchronously; return the sum."""
    running_sum = plan.query.running_sum(plan.span)
    #: When the halves of a batch were decided upon, see `may_split`.
    marks: dict[Call[Any], tuple[int, int]] = {}

    async def work(request: StatsRequest) -> Sequence[StatsRequest]:
        """Send one request; return smaller ones if it was refused."""
        mark = marks.pop(request.call, None) or reporter.mark()
        try:
            running_sum.add(await fetch(request.call, request.time_slice.window))
            reporter.succeeded()
        except SlashtagError as error:
            if len(request.selector.keys) > 1 and reporter.may_split(error, mark):
                if reporter.total is not None:
                    reporter.total += 1
                halved = map(tuple, halves(request.selector.keys))
                parts = [plan.request(Selector(keys=half), request.time_slice) for half in halved]
                marks.update((part.call, reporter.mark()) for part in parts)
                return parts
            # `retry` runs this plan: one is missing here, and one less in its result.
            missing = replace(plan.only(request.selector, request.time_slice), missing=-1)
            reporter.report_failure(request.call, error, missing)
        reporter.done()
        return ()

    if len(plan) == 1 and isinstance(source, Iterator):
        # A worker pool would cost half as much as the request.
        source = [smaller for request in source for smaller in await work(request)]
    if source:
        await WorkerPool(source, work, workers).run()
    running_sum.lack(reporter.missing)
    return running_sum.result()


async def read_requests(plan: Plan[Any], batches: AsyncGenerator[Selector]) -> AsyncGenerator[StatsRequest]:
    """Yield the requests for batches that are read asynchronously; close what these are read from."""
    async with aclosing(batches):
        async for batch in batches:
            for time_slice in plan.time_slices:
                yield plan.request(batch, time_slice)


async def read_batches(
    keys: AsyncIterable[Key], batcher: Batcher, *, listing: AsyncIterable[Any]
) -> AsyncGenerator[Selector]:
    """Yield batches of slashtags that are read asynchronously; close the listing they come from."""
    try:
        async for key in keys:
            for batch in batcher.add(key):
                yield batch
        for batch in batcher.remainder():
            yield batch
    finally:
        if isinstance(listing, AsyncReadable):
            # Shielded: the run may have been cancelled.
            with CancelScope(shield=True):
                await listing.aclose()


class StatsFetcher:
    """Callable that requests statistics and checks the answer.

    The document states /stats/yearly and /stats/alltime but shows samples against /stats: on a 404 the
    samples' path is tried once and the outcome remembered. See docs/service.md, Statistics for a year;
    Statistics for all time.

    An answer that no statistics request can have is requested once more, since a cache or a load balancer may
    have sent it: a 404, or one that contradicts itself or is about other days.
    """

    def __init__(self, sender: Sender, traits: ServiceTraits) -> None:
        self._sender = sender
        self.traits = traits

    async def __call__(self, call: Call[Any], window: Window | None = None, *, is_used: bool = True) -> Any:
        """Return the statistics of an answer; an error gets a note that names the batch and window.

        What is wrong with an answer is in `_core/answers.py`. An answer that contradicts itself also when
        requested once more is counted and logged if it `is_used`.
        """
        traits = self.traits
        try:
            stats, problem = (await self._request(call)).to_statistics(window)
            if problem is not None and traits.confirmed < MOST_CONFIRMED:
                log.info("%s: inconsistent answer, requested once more: %s", call.label, problem)
                answer = await self._request(replace(call, anew=True))
                stats, problem = answer.to_statistics(window)
                traits.confirmed = 0 if problem is None else traits.confirmed + 1
        except SlashtagError as error:
            error.add_note(f"while requesting {call.label}")
            raise
        if not stats.reconciles and is_used:
            # The first as a warning. There may be thousands of them.
            level = logging.DEBUG if traits.metrics.inconsistent else logging.WARNING
            traits.metrics.inconsistent += 1
            log.log(level, "%s: inconsistent answer: %s", call.label, problem)
        return stats

    async def _request(self, call: Call[Any]) -> Any:
        known, stated, sampled = self.traits.uses_sample_path, call.path, SAMPLE_PATHS.get(call.path)
        if sampled is not None and known.get(stated):
            call = replace(call, path=sampled)
        try:
            answer = await self._confirm_404(call)
            known.setdefault(stated, False)
            return answer
        except (NotFoundError, UnexpectedResponseError) as error:
            # For an unknown path, a router may answer without the service's envelope.
            if error.status != 404 or sampled in (None, call.path) or known.get(stated) is False:
                raise
            missing = error
        try:
            answer = await self._sender.send(replace(call, path=sampled))
        except (NotFoundError, UnexpectedResponseError, BadRequestError) as error:
            # /stats may exist without accepting these queries. See docs/service.md, Errors.
            is_missing = error.status == 404 or "date is required" in error.message.lower()
            if is_missing or isinstance(error, BadRequestError):
                known[stated] = not is_missing
            if is_missing:
                raise missing from None
            raise
        known[stated] = True
        return answer

    async def _confirm_404(self, call: Call[Any]) -> Any:
        """Send a call, and once more if the answer is a 404: it is undocumented for statistics."""
        try:
            return await self._sender.send(call)
        except NotFoundError as error:
            log.info("%s: requested once more: %s", call.label, error)
            return await self._sender.send(replace(call, anew=True))


class ServiceTraits(Struct):
    """Observations about the service, shared by all views of a session."""

    metrics: Metrics
    #: By stated path: whether the service answers on the path of the samples instead.
    uses_sample_path: dict[str, bool] = {}
    #: Whether all-time statistics failed, or contradict those of days.
    all_time_is_wrong: bool = False
    #: Whether the service counts what it is asked: the halves of a batch add up to it.
    is_additive: bool = True
    #: Number of second requests in a row whose answers were inconsistent too.
    confirmed: int = 0


#: Statuses of a refusal: a slashtag of the batch may be at fault, or the length of the request.
REFUSED = frozenset({400, 403, 404, 413, 414})
#: Refusals and other failures in a row after which nothing is split.
MOST_REFUSALS, MOST_FAILURES = 4, 2
#: Failures without a success after which slashtags are no longer requested one by one.
MOST_FAILED = 40


def is_refusal(error: SlashtagError) -> bool:
    """Return whether the service refused a request."""
    return isinstance(error, APIError) and error.status in REFUSED


class ProgressReporter:
    """Reporter to the callbacks: `progress` after each step, `on_error`, if given, for failures."""

    def __init__(self, query: Query[Any], progress: Progress | None, on_error: OnError | None) -> None:
        #: The number of steps, None while it is unknown.
        self.total: int | None = None
        #: Requests whose answers are missing in the result.
        self.missing = 0
        #: The plan of a query whose slashtags are counted one by one.
        self.plan: Plan[Any] | None = None
        self._successes = 0
        #: Failures since the last success, each of a request that was sent after the one before.
        self._failed_in_row = 0
        self._failed = 0
        self._query = query
        self._done = 0
        check_callback("progress", progress)
        check_callback("on_error", on_error)
        self._progress, self._on_error = progress, on_error

    def done(self) -> None:
        """Count one step as done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self.total)

    def succeeded(self) -> None:
        """Record that a request succeeded."""
        self._successes += 1
        self._failed_in_row = self._failed = 0

    def mark(self) -> tuple[int, int]:
        """Return the state in which a request was decided upon, see `may_split`."""
        return self._successes, self._failed_in_row

    def may_split(self, error: SlashtagError, mark: tuple[int, int], *, always: bool = False) -> bool:
        """Return whether to request the parts of what failed: one slashtag may be at fault.

        A refusal is split also where failures are not reported, to find that slashtag; unless `always`, an
        undocumented answer is not. A part that fails without a success since its `mark` is split only a few
        times: nothing else may be answered either.
        """
        if not is_refusal(error):
            may_help = always or isinstance(error, ServerError | TransportError)
            if isinstance(error, RateLimitError) or not may_help or self._on_error is None or error.is_fatal:
                return False
        successes, failed_in_row = mark
        failed_in_row = failed_in_row + 1 if successes == self._successes else 1
        self._failed_in_row = max(self._failed_in_row, failed_in_row)
        return failed_in_row <= (MOST_REFUSALS if is_refusal(error) else MOST_FAILURES)

    def may_go_on(self, error: SlashtagError) -> bool:
        """Return whether to request more slashtags or tags one by one after one has failed."""
        self._failed += not is_refusal(error)
        return self._failed <= MOST_FAILED

    def report_failure(self, call: Call[Any], error: SlashtagError, plan: Plan[Any] | None = None) -> None:
        """Report a failure, with the plan of what is missing; raise it if the others must not continue."""
        if self._on_error is None or error.is_fatal:
            raise error
        if self.plan is not None:
            plan = self.plan.only(Selector(keys=call.keys, tag=call.tag))
        self.missing += 1
        self._on_error(Failure(call, error, plan))

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
        params, label = selector.params(), str(selector)
        call = Call(method="GET", path=self._query.path, params=params, returns=object, label=label)
        self._on_error(Failure(call, error))
