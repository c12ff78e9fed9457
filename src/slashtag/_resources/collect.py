"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.batches import Batcher, Key, Selector, halves
from .._core.call import Call, Failure
from .._core.plan import Plan, StatsRequest
from .._core.queries import Query
from .._core.windows import Window
from .._errors import (
    APIError,
    BadRequestError,
    InvalidRequestError,
    NotFoundError,
    SlashtagError,
    UnexpectedResponseError,
    is_fatal,
)
from .._fanout import WorkerPool
from .._models import Statistics
from .._sending.sender import Send
from .listing import Progress

R = TypeVar("R", bound=Statistics)

OnError = Callable[[Failure], object]
#: Requests, or selectors that are read asynchronously.
RequestSource = Iterable[StatsRequest] | AsyncGenerator[Selector]

log = logging.getLogger("slashtag")


class Collector(Generic[R]):
    """Run of a plan that adds each answer to a running sum and keeps none."""

    def __init__(self, sender: StatsSender, plan: Plan[R], reporter: ProgressReporter) -> None:
        self._sender = sender
        self._plan = plan
        self._sum = plan.query.running_sum(plan.span)
        self._reporter = reporter

    async def run(self, source: RequestSource, workers: int, feed: AsyncIterable[Any] | None = None) -> R:
        """Send all requests and return the sum of the answers; close `feed`, their source, at the end."""
        if len(self._plan) == 1 and isinstance(source, Iterator):
            # A worker pool would cost half as much as the request.
            source = [smaller for request in source for smaller in await self._work(request) or ()]
        if source:
            pool: WorkerPool[StatsRequest | Selector] = WorkerPool(source, self._work, workers, feed=feed)
            await pool.run()
        total: R = self._sum.result()
        return total

    async def _work(self, item: StatsRequest | Selector) -> Sequence[StatsRequest] | None:
        """Send one request; return the requests of a batch, or smaller ones if one was refused."""
        if isinstance(item, Selector):
            return [self._plan.request(item, time_slice) for time_slice in self._plan.time_slices]
        try:
            stats = await self._sender(self._plan.query, item.call, item.time_slice.window)
        except SlashtagError as error:
            if smaller := self._smaller(item, error):
                return smaller
            self._reporter.report_failure(item.call, error)
        else:
            self._sum.add(stats)
        self._reporter.done()
        return None

    def _smaller(self, request: StatsRequest, error: SlashtagError) -> list[StatsRequest] | None:
        """Split a request refused for its keys (400, with `on_error`) or its length (414)."""
        keys = request.selector.keys
        too_long = isinstance(error, APIError) and error.status == 414
        refused = isinstance(error, BadRequestError) and self._reporter.may_continue(error)
        if len(keys) < 2 or not (too_long or refused):
            return None
        if self._reporter.total is not None:
            self._reporter.total += 1
        return [self._plan.request(Selector(keys=tuple(half)), request.time_slice) for half in halves(keys)]


async def read_batches(keys: AsyncIterable[Key], batcher: Batcher) -> AsyncGenerator[Selector]:
    """Yield batches of an asynchronous iterable of slashtags."""
    async for key in keys:
        for batch in batcher.add(key):
            yield batch
    for batch in batcher.remainder():
        yield batch


class Memory:
    """Observations about the service, shared by all views of a session."""

    def __init__(self) -> None:
        #: By stated path: whether the service answers on the path of the samples instead.
        self.samples: dict[str, bool] = {}
        #: Whether all-time statistics have been found to depend on `timezone`.
        self.all_time_reads_zone = False
        #: Number of inconsistent answers that were used.
        self.inconsistent = 0
        #: Whether the service gives inconsistent answers also on a second request.
        self.stays_inconsistent = False


class StatsSender:
    """Sender of statistics calls.

    The document states /stats/yearly and /stats/alltime but shows samples against /stats: on a 404 the
    samples' path is tried once and the outcome remembered. See docs/service.md, Statistics for a year;
    Statistics for all time.

    An answer that no statistics request can have is requested once more, since a cache or a load balancer may
    have sent it: a 404, or one that contradicts itself or is about other days.
    """

    def __init__(
        self, send: Send, memory: Memory, replayed_from: Callable[[Call[Any]], float | None]
    ) -> None:
        self._send = send
        self.memory = memory
        #: When the journal's answer to a call was fetched, None if it has none.
        self.replayed_from = replayed_from

    async def __call__(
        self, query: Query[Any], call: Call[Any], window: Window | None = None, *, is_used: bool = True
    ) -> Any:
        """Return the statistics of an answer; an error gets a note that names the batch and window.

        An inconsistent answer is counted and logged if it `is_used`.
        """
        memory = self.memory
        try:
            stats, problem = query.check(await self._request(query, call), window)
            if problem is not None and not memory.stays_inconsistent:
                log.info("%s: inconsistent answer, requested once more: %s", call.label, problem)
                answer = await self._request(query, replace(call, anew=True))
                stats, problem = query.check(answer, window)
                memory.stays_inconsistent |= problem is not None
        except SlashtagError as error:
            error.add_note(f"while requesting {call.label}")
            raise
        if problem is not None and is_used:
            # The first as a warning. There may be thousands of them; `reconciles` shows each.
            level = logging.DEBUG if memory.inconsistent else logging.WARNING
            memory.inconsistent += 1
            log.log(level, "%s: inconsistent answer: %s", call.label, problem)
        return stats

    async def _request(self, query: Query[Any], call: Call[Any]) -> Any:
        samples, stated = self.memory.samples, call.path
        if query.sample_path is None:
            return await self._confirm_404(call)
        sampled = replace(call, path=query.sample_path)
        if samples.get(stated):
            return await self._confirm_404(sampled)
        try:
            answer = await self._confirm_404(call)
        except (NotFoundError, UnexpectedResponseError) as error:
            # For an unknown path, a router may answer without the service's envelope.
            if error.status != 404 or samples.get(stated) is False:
                raise
            missing = error
        else:
            samples[stated] = False
            return answer
        try:
            answer = await self._send(sampled)
        except (NotFoundError, UnexpectedResponseError, BadRequestError) as error:
            # /stats may exist without accepting these queries. See docs/service.md, Errors.
            is_missing = error.status == 404 or "date is required" in error.message.lower()
            if is_missing or isinstance(error, BadRequestError):
                samples[stated] = not is_missing
            if is_missing:
                raise missing from None
            raise
        samples[stated] = True
        return answer

    async def _confirm_404(self, call: Call[Any]) -> Any:
        """Send a call, and once more if the answer is a 404: it is undocumented for statistics."""
        try:
            return await self._send(call)
        except NotFoundError as error:
            log.info("%s: requested once more: %s", call.label, error)
            return await self._send(call)


class ProgressReporter:
    """Reporter to the callbacks: `progress` after each step, `on_error`, if given, for failures."""

    def __init__(self, query: Query[Any], progress: Progress | None, on_error: OnError | None) -> None:
        #: The number of steps, None while it is unknown.
        self.total: int | None = None
        self._query = query
        self._done = 0
        self._progress = progress
        self._on_error = on_error

    def done(self) -> None:
        """Count one step as done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self.total)

    def may_continue(self, error: SlashtagError) -> bool:
        """Return whether other requests continue after an error."""
        return self._on_error is not None and not is_fatal(error)

    def report_failure(self, call: Call[Any], error: SlashtagError) -> None:
        """Report a failure to `on_error`; raise it if the others must not continue."""
        if self._on_error is None or is_fatal(error):
            raise error
        self._on_error(Failure(call, error))

    def report_bad_key(self, key: Key, error: InvalidRequestError) -> None:
        """Report a slashtag that cannot be requested.

        Without `on_error` the error is raised for a str. For a link of the account, which the caller cannot
        correct, a warning is logged and the others continue.
        """
        if self._on_error is None and not isinstance(key, str):
            log.warning("a link is missing from the statistics: %s", error)
            return
        selector = Selector(keys=(key if isinstance(key, str) else key.slashtag,))
        params, label = selector.params(), str(selector)
        call = Call(method="GET", path=self._query.path, params=params, returns=object, label=label)
        self.report_failure(call, error)
