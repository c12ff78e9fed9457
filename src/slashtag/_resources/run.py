"""One run of `collect` or `collect_each`: it sends requests, halves what fails, and tells what is missing.

What fails                                         What follows
-------------------------------------------------  ---------------------------------------------------------
a batch is refused (400, 403, 404, 413, 414)       its halves are sent (here, or by `_core/search`)
a batch fails otherwise, and failures are told     its halves are sent, with one attempt, a slashtag with all
a slashtag alone                                   it is asked alone, with one attempt, in the rest of the run
MOST_OF_PARTS parts of batches that failed,        no such part is sent, until another request succeeds, or
without a success between them                     another batch fails
MOST_IN_ROW requests, without a success between    nothing more is sent, and all that is left fails as they do
them, or MOST_AT_FIRST before any
an unknown tag                                     the others are asked: it says nothing about them
404, of a year or of all time                      the path of the document's samples is tried once
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Key, Selector
from .._core.call import Call
from .._core.checks import Progress, check_callback
from .._core.queries import Plan, Query, R_co
from .._core.windows import TimeSlice
from .._errors import (
    APIError,
    BadRequestError,
    InvalidRequestError,
    NotFoundError,
    SlashtagError,
    UnexpectedResponseError,
    UnknownTagError,
)
from .._fanout import run_workers
from .._sending.sender import Sender
from .._sending.session_log import tell
from .._summed_statistics import RunningSum, Statistics

#: Paths in the document's sample requests, where they differ from the stated ones.
SAMPLE_PATHS = {"stats/yearly": "stats", "stats/alltime": "stats"}
#: Statuses of a refusal: a slashtag of the batch may be at fault, or the length of the request.
REFUSED = frozenset({400, 403, 404, 413, 414})
#: Failures without a success between them. At first each of the 32 batches that are under way by default may
#: have a slashtag at fault, and so one of its halves: 64. Later all slashtags of a batch may be, which takes
#: 199 requests. If all of the first batch are, others are asked before it has used up the 64.
MOST_OF_PARTS, MOST_AT_FIRST, MOST_IN_ROW = 48, 64, 256

R = TypeVar("R", bound=Statistics)


class Failure(Struct, Generic[R_co], frozen=True):
    """Argument of `on_error`: what failed for good, its error, and the plan of what is missing.

    It is about a slashtag or a tag, or a batch of which no part was sent any more. `keys` or `tag` are those
    of the requests, `label` names them and their days; `error` is that of the first. `plan` has the query,
    the slashtags and the days: `session.stats.run` requests what is missing, `session.stats.retry` adds it to
    a sum. None: the service cannot be asked, as for a slashtag with a comma.
    """

    label: str
    error: SlashtagError
    keys: tuple[str, ...] = ()
    tag: str | None = None
    plan: Plan[R_co] | None = None


OnError = Callable[[Failure[R_co]], object]


class StatsRun:
    """One run: calls `progress` after each step, and at its end `on_error`, if given, with what failed.

    `paths` has the path that answers, of those that the document states and shows differently; it is that of
    the session. `fresh` requests pass caches.
    """

    def __init__(
        self,
        sender: Sender,
        paths: dict[str, str],
        workers: int,
        progress: Progress | None,
        on_error: OnError | None,
        *,
        fresh: bool = False,
    ) -> None:
        check_callback("progress", progress)
        check_callback("on_error", on_error)
        self._sender, self._paths, self._fresh = sender, paths, fresh
        self._progress, self._on_error = progress, on_error
        self.workers = workers
        #: The number of steps, and of requests whose answers are missing in the result.
        self.total = self.missing = 0
        self._done = self._in_row = self._parts_in_row = 0
        # Annotated, as `set[str]()` takes twenty times as long: a run may be one request.
        #: Slashtags that failed alone, and with these all of batches that failed, one of which is at fault.
        self.alone: set[str] = set()
        self._suspects: set[str] = set()
        #: Of these, all of batches that were not refused, and so failed after all attempts.
        self._retried: set[str] = set()
        self._most_in_row = MOST_AT_FIRST
        self._last: SlashtagError | None = None
        self._failed: dict[Selector, tuple[SlashtagError, list[TimeSlice]]] = {}

    async def collect(self, *plans: Plan[R]) -> R:
        """Send the requests of plans of one query, and return the sum.

        A batch that fails is halved until the slashtag at fault is asked alone.
        """
        plan = plans[0]
        self.total = sum(map(len, plans))
        running_sum = plan._empty_sum()
        requests = chain.from_iterable(map(Plan._requests, plans))
        await run_workers(requests, partial(self._work, plan.query, running_sum), self.workers)
        self.tell_failures(plan)
        running_sum.note(missing=self.missing)
        return running_sum.result()

    async def _work(
        self, query: Query[R], running_sum: RunningSum[R], request: tuple[Selector, TimeSlice]
    ) -> None:
        """Add the answer of a request to the sum, or those of its parts.

        Both halves are asked before one of them is halved: that which is answered ends a row of failures.
        """
        first, time_slice = request
        groups = [[first]]
        while groups:
            for selector in groups.pop():
                parts = selector.apart(self.alone)
                if not parts:
                    try:
                        running_sum.add(await self.ask(query, selector, time_slice))
                    except SlashtagError as error:
                        parts = self._parts_of_failed(selector, time_slice, error)
                    else:
                        if selector.link_ids:
                            running_sum.note(shared=selector.shared)
                if parts:
                    self.total += len(parts) - 1
                    groups.append(parts)
                else:
                    self.done()

    def _parts_of_failed(
        self, selector: Selector, time_slice: TimeSlice, error: SlashtagError
    ) -> list[Selector]:
        """Return the halves to ask for of a batch that failed; note that it failed if there are none."""
        # Once nothing more is sent a batch is told as one.
        if len(selector.keys) > 1 and self._in_row < self._most_in_row and self.may_go_on(error):
            return selector.halves()
        self.fail(selector, [time_slice], error)
        return []

    async def ask(self, query: Query[R], selector: Selector, time_slice: TimeSlice) -> Any:
        """Return the statistics of a request; raises its error, at once if it is not sent any more.

        An answer that contradicts itself (`_core/statistics_answers.py`) is counted and logged.
        """
        call = query._call(selector, time_slice)
        if self._fresh:
            call = replace(call, again=True)
        is_part = False
        if self._last is not None:
            keys = selector.keys
            is_part = bool(keys) and self._suspects.issuperset(keys)
            is_enough = is_part and self._parts_in_row >= MOST_OF_PARTS
            if is_enough or self._in_row >= self._most_in_row:
                raise self._last.with_traceback(None)  # which would grow each time
            # Whether it fails again is shown by one attempt. A slashtag alone for the first time has all.
            is_first = len(keys) == 1 and self.alone.isdisjoint(keys)
            if not is_first and not self._retried.isdisjoint(keys):
                call = replace(call, repeat="never")
        send = self._try_paths if call.path in SAMPLE_PATHS else self._sender.send
        try:
            answer = await send(call)
        except SlashtagError as error:
            error.add_note(f"while requesting {selector}, {time_slice.label}")
            self._note_failure(selector.keys, error, is_part=is_part)
            raise
        self._in_row, self._parts_in_row, self._most_in_row = 0, 0, MOST_IN_ROW
        if self._suspects:
            self._suspects.difference_update(selector.keys)
            self._retried.difference_update(selector.keys)
        stats, problem = answer.to_statistics(time_slice.window)
        if not stats.reconciles:
            metrics = self._sender.metrics
            # The first as a warning. There may be thousands of them.
            level = logging.DEBUG if metrics.inconsistent else logging.WARNING
            tell(
                metrics.name,
                level,
                f"{selector}, {time_slice.label}: the answer contradicts itself: {problem}",
            )
            metrics.inconsistent += 1
        return stats

    async def _try_paths(self, call: Call[Any]) -> Any:
        """Send a call; on a 404 of a path that has not answered yet, that of the samples is tried once.

        The document states /stats/yearly and /stats/alltime but shows samples against /stats. See
        docs/service.md, Statistics for a year; Statistics for all time.
        """
        stated, sample, paths = call.path, SAMPLE_PATHS[call.path], self._paths
        try:
            answer = await self._sender.send(replace(call, path=paths.get(stated, stated)))
            paths.setdefault(stated, stated)
            return answer
        except (NotFoundError, UnexpectedResponseError) as error:
            # A router that does not know a path may answer without the service's envelope. Another call may
            # have found the stated path meanwhile.
            if error.status != 404 or paths.get(stated) == stated:
                raise
            missing = error
        try:
            answer = await self._sender.send(replace(call, path=sample))
        except (NotFoundError, UnexpectedResponseError, BadRequestError) as error:
            # /stats may exist without accepting these queries. See docs/service.md, Errors.
            is_missing = error.status == 404 or "date is required" in error.message.lower()
            paths[stated] = stated if is_missing else sample
            raise (missing if is_missing else error) from None
        paths[stated] = sample
        return answer

    def _note_failure(self, keys: tuple[str, ...], error: SlashtagError, *, is_part: bool) -> None:
        if not isinstance(error, UnknownTagError):
            self._in_row, self._last = self._in_row + 1, error
        self._parts_in_row = self._parts_in_row + 1 if is_part else 0
        self._suspects.update(keys)
        if not is_refusal(error):
            self._retried.update(keys)
        if len(keys) == 1:
            self.alone.update(keys)

    def may_go_on(self, error: SlashtagError) -> bool:
        """Return whether to ask for others, and parts of what failed: one slashtag may be at fault."""
        # Of a refused batch that slashtag is found also where failures are not told.
        return not error.is_fatal and (self._on_error is not None or is_refusal(error))

    def done(self, steps: int = 1) -> None:
        """Count steps as done, one by one."""
        if self._progress is None:
            return
        for _ in range(steps):
            self._done += 1
            self._progress(self._done, self.total)

    def fail(self, selector: Selector, time_slices: Iterable[TimeSlice], error: SlashtagError) -> None:
        """Note that a batch, a slashtag or a tag failed.

        Without `on_error` the error is raised, and so is one that every other request would have as well
        (`SlashtagError.is_fatal`).
        """
        if self._on_error is None or error.is_fatal:
            raise error
        _, failed = self._failed.setdefault(selector, (error, []))
        failed += time_slices

    def tell_failures(self, plan: Plan[Any]) -> None:
        """Report what has failed, at the end of the run: each slashtag, batch or tag once."""
        for selector, (error, time_slices) in self._failed.items():
            assert self._on_error is not None
            self.missing += len(time_slices)
            more = f" and {len(time_slices) - 1} more" if len(time_slices) > 1 else ""
            self._on_error(
                Failure(
                    f"{selector}, {time_slices[0].label}{more}",
                    error,
                    selector.keys,
                    selector.tag,
                    plan._only(selector, time_slices),
                )
            )

    def report_bad_key(self, key: Key, error: InvalidRequestError) -> None:
        """Report a slashtag that cannot be requested.

        Without `on_error` the error is raised for a str. For a link of the account, which the caller cannot
        correct, a warning is logged and the others continue.
        """
        self.missing += 1
        if self._on_error is None:
            if isinstance(key, str):
                raise error
            tell(
                self._sender.metrics.name, logging.WARNING, f"a link is missing from the statistics: {error}"
            )
            return
        slashtag = key if isinstance(key, str) else key.slashtag or ""
        self._on_error(Failure(f"slashtag {slashtag!r}", error, (slashtag,)))


def is_refusal(error: SlashtagError) -> bool:
    """Return whether a batch was refused: a slashtag of it may be at fault."""
    return isinstance(error, APIError) and error.status in REFUSED
