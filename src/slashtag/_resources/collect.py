"""Implementation of `collect`: workers send the requests of a plan, and each answer is added to one sum.

    Collector       starts workers; each sends a request and adds its answer, or halves a refused request
    StatsSender     chooses between the two documented paths and passes the call to the session's sender

`read_batches` provides the selectors if the slashtags are read asynchronously.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.batches import Batcher, Selector, by_activity, check_slashtag
from .._core.call import Call, Failure
from .._core.plan import Plan, StatsRequest
from .._core.queries import Query
from .._core.windows import Window, halves
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
from .._models import ShortUrl, Statistics
from .._sending.sender import Send
from .listing import Progress

R = TypeVar("R", bound=Statistics)

Key = str | ShortUrl
Keys = Iterable[Key] | AsyncIterable[Key]
OnError = Callable[[Failure], object]
ReportBadKey = Callable[[object, InvalidRequestError], object]
#: Requests, or selectors that are read asynchronously.
Source = Iterable[StatsRequest] | AsyncGenerator[Selector]

#: Number of links read ahead to be sorted in `collect_each`.
SORTED_AHEAD = 10_000

log = logging.getLogger("slashtag")


class Memory:
    """Observations about the service, shared by all views of a session."""

    def __init__(self) -> None:
        #: By stated path: whether the service answers on the path of the samples instead.
        self.samples: dict[str, bool] = {}
        #: Whether all-time statistics have been found to depend on `timezone`.
        self.all_time_reads_zone = False
        #: Whether an answer was inconsistent.
        self.saw_inconsistent_answer = False


class StatsSender:
    """Sender of statistics calls.

    The document states /stats/yearly and /stats/alltime but shows samples against /stats: on a 404 the
    samples' path is tried once and the outcome remembered. See docs/service.md, Statistics for a year;
    Statistics for all time.
    """

    def __init__(
        self, send: Send, memory: Memory, replayed_from: Callable[[Call[Any]], float | None]
    ) -> None:
        self._send = send
        self.memory = memory
        #: When the journal's answer to a call was fetched, None if it has none.
        self.replayed_from = replayed_from

    async def __call__(self, query: Query[Any], call: Call[Any], window: Window | None = None) -> Any:
        """Return the statistics of an answer; an error gets a note that names the batch and window."""
        try:
            if query.sample_path is None:
                answer = await self._send(call)
            else:
                answer = await self._send_to_either(query.sample_path, call)
        except SlashtagError as error:
            error.add_note(f"while requesting {call.label}")
            raise
        stats, problem = answer.stats(window)
        if problem is not None:
            # The first as a warning. There may be thousands of them; `reconciles` shows each.
            level = logging.DEBUG if self.memory.saw_inconsistent_answer else logging.WARNING
            self.memory.saw_inconsistent_answer = True
            log.log(level, "%s: inconsistent answer: %s", call.label, problem)
        return stats

    async def _send_to_either(self, sample_path: str, call: Call[Any]) -> Any:
        samples, sampled = self.memory.samples, replace(call, path=sample_path)
        if samples.get(call.path):
            return await self._send(sampled)
        try:
            return await self._send(call)
        except (NotFoundError, UnexpectedResponseError) as error:
            # For an unknown path, a router may answer without the service's envelope.
            if error.status != 404 or samples.get(call.path) is False:
                raise
            missing = error
        try:
            answer = await self._send(sampled)
        except (NotFoundError, UnexpectedResponseError, BadRequestError) as error:
            # /stats may exist without accepting these queries. See docs/service.md, Errors.
            is_missing = error.status == 404 or "date is required" in error.message.lower()
            if is_missing or isinstance(error, BadRequestError):
                samples[call.path] = not is_missing
            if is_missing:
                raise missing from None
            raise
        samples[call.path] = True
        return answer


class ProgressReporter:
    """Reporter to the callbacks: `progress` after each step, `on_error`, if given, for failures."""

    def __init__(
        self, query: Query[Any], total: int | None, progress: Progress | None, on_error: OnError | None
    ) -> None:
        self._query = query
        self._total = total
        self._done = 0
        self._progress = progress
        self._on_error = on_error

    def done(self) -> None:
        """Count one step as done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)

    def expect(self, more: int) -> None:
        """Add steps to the total."""
        if self._total is not None:
            self._total += more

    def may_continue(self, error: SlashtagError) -> bool:
        """Return whether other requests continue after an error."""
        return self._on_error is not None and not is_fatal(error)

    def report_failure(self, call: Call[Any], error: SlashtagError) -> bool:
        """Report a failure to `on_error`; return False if it must be raised instead."""
        if self._on_error is None or is_fatal(error):
            return False
        self._on_error(Failure(call, error))
        return True

    def report_bad_key(self, key: object, error: InvalidRequestError) -> None:
        """Report a slashtag that cannot be requested.

        Without `on_error` the error is raised for a str. For a link of the account, which the caller cannot
        correct, a warning is logged and the others continue.
        """
        slashtag = key if isinstance(key, str) else getattr(key, "slashtag", "")
        selector = Selector(keys=(slashtag,))
        params, label = selector.params(), str(selector)
        unsent = Call(method="GET", path=self._query.path, params=params, returns=object, label=label)
        if self.report_failure(unsent, error):
            return
        if isinstance(key, str):
            raise error
        log.warning("a link is missing from the statistics: %s", error)


class Collector(Generic[R]):
    """Sender of requests that adds each answer to a running sum and keeps none."""

    def __init__(self, sender: StatsSender, plan: Plan[R], reporter: ProgressReporter) -> None:
        self._sender = sender
        self._plan = plan
        self._sum = plan.query.running_sum(plan.span)
        self._reporter = reporter

    async def run(self, source: Source, workers: int, feed: AsyncIterable[Any] | None = None) -> R:
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
            return [StatsRequest(item, time_slice) for time_slice in self._plan.time_slices]
        call = self._plan.query.call(item.selector, item.time_slice)
        try:
            stats = await self._sender(self._plan.query, call, item.time_slice.window)
        except SlashtagError as error:
            if smaller := self._smaller(item, error):
                self._reporter.expect(len(smaller) - 1)
                return smaller
            if not self._reporter.report_failure(call, error):
                raise
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
        return [StatsRequest(Selector(keys=tuple(half)), request.time_slice) for half in halves(keys)]


async def read_batches(
    keys: AsyncIterable[Key], max_keys_bytes: int, report_bad_key: ReportBadKey
) -> AsyncGenerator[Selector]:
    """Yield batches of an asynchronous iterable of slashtags.

    Slashtags that cannot be requested go to `report_bad_key`, since other requests have already been sent.
    """
    batcher = Batcher(max_keys_bytes)
    async for key in keys:
        try:
            batch = batcher.add(check_slashtag(key))
        except InvalidRequestError as error:
            report_bad_key(key, error)
            continue
        if batch:
            yield Selector(keys=batch)
    if rest := batcher.remainder():
        yield Selector(keys=rest)


async def sort_by_activity(
    keys: AsyncIterable[Key], changed_since: Mapping[str, int] | None = None
) -> AsyncGenerator[Key]:
    """Yield links sorted by activity within blocks of `SORTED_AHEAD`; plain slashtags are not reordered."""
    ahead: list[Key] = []
    async for key in keys:
        ahead.append(key)
        if isinstance(key, str) or len(ahead) == SORTED_AHEAD:
            for link in by_activity(ahead, changed_since):
                yield link
            ahead.clear()
    for link in by_activity(ahead, changed_since):
        yield link
