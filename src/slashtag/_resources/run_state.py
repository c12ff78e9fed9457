"""State of one run of `collect` or `collect_each`: its progress and failures, and who is asked alone.

What fails                                         What follows
-------------------------------------------------  ---------------------------------------------------------
a batch is refused (400, 403, 404, 413, 414)       its halves are sent (`collect.py`, `_core/search`)
a batch fails otherwise, and failures are told     its halves are sent, once each
a slashtag alone                                   it is asked alone, once each time, in the rest of the run
MOST_OF_PARTS requests, without a success          no part of what has failed is sent, until another succeeds
MOST_IN_ROW requests, without a success, or        nothing more is sent, and all that is left fails as they do
MOST_AT_FIRST before any success
an unknown tag                                     the others are asked: it says nothing about them
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Key, Selector
from .._core.checks import Progress, check_callback
from .._core.plan import Plan, StatsRequest
from .._core.windows import TimeSlice
from .._errors import (
    APIError,
    InvalidRequestError,
    SlashtagError,
    UnknownTagError,
)
from .._summed_statistics import Statistics
from .stats_fetcher import StatsFetcher

#: Statuses of a refusal: a slashtag of the batch may be at fault, or the length of the request.
REFUSED = frozenset({400, 403, 404, 413, 414})
#: Failures of a run without a success between them: each of the 32 batches that are under way by default may
#: have a slashtag at fault, and then half of their first halves. All slashtags of a batch of 100 may be.
MOST_OF_PARTS, MOST_AT_FIRST, MOST_IN_ROW = 48, 64, 256

log = logging.getLogger("slashtag")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: The result that lacks something; of any kind where a Failure is named without it.
    Of_co = TypeVarWithDefault("Of_co", covariant=True, bound=Statistics, default=Any)
else:
    Of_co = TypeVar("Of_co", covariant=True)


class Failure(Struct, Generic[Of_co], frozen=True):
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
    plan: Plan[Of_co] | None = None


OnError = Callable[[Failure[Of_co]], object]


def is_refusal(error: SlashtagError) -> bool:
    """Return whether a batch was refused: a slashtag of it may be at fault."""
    return isinstance(error, APIError) and error.status in REFUSED


class RunState:
    """Progress and failures of one run; calls `progress` after each step, and `on_error`, if given."""

    def __init__(self, progress: Progress | None, on_error: OnError | None) -> None:
        #: The number of steps, None while it is unknown.
        self.total: int | None = None
        #: Requests whose answers are missing in the result, or names that have none.
        self.missing = 0
        self._done = 0
        check_callback("progress", progress)
        check_callback("on_error", on_error)
        self._progress, self._on_error = progress, on_error
        #: Slashtags that failed alone, and with these all of batches that failed, one of which is at fault.
        self.alone: set[str] = set()
        self._suspects: set[str] = set()
        #: Of these, all of batches that were not refused, and so failed after all attempts.
        self._tried: set[str] = set()
        self._in_row, self._most_in_row = 0, MOST_AT_FIRST
        self._last: SlashtagError | None = None
        #: The error of all requests, once nothing more is sent.
        self.end: SlashtagError | None = None
        self._failed: dict[Selector, tuple[SlashtagError, list[TimeSlice]]] = {}

    def done(self, steps: int = 1) -> None:
        """Count steps as done, one by one."""
        for _ in range(steps):
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self.total)

    async def ask(self, fetcher: StatsFetcher, request: StatsRequest, *, is_result: bool = True) -> Any:
        """Return the statistics of a request; raises its error, at once if nothing more is sent."""
        if self.end is not None:
            raise self.end.with_traceback(None)  # which would grow each time
        selector, call = request.selector, request.call
        if self._suspects and not self._suspects.isdisjoint(selector.keys):
            if self._in_row >= MOST_OF_PARTS and self._suspects.issuperset(selector.keys):
                assert self._last is not None
                raise self._last.with_traceback(None)
            is_known = len(selector.keys) > 1 or not self.alone.isdisjoint(selector.keys)
            if is_known and not self._tried.isdisjoint(selector.keys):
                # One attempt shows whether it fails again.
                call = replace(call, repeat="never")
        try:
            stats = await fetcher.fetch(call, request.time_slice.window, is_result=is_result)
        except SlashtagError as error:
            if not isinstance(error, UnknownTagError):
                self._in_row, self._last = self._in_row + 1, error
                if self._in_row >= self._most_in_row:
                    self.end = error
            self._suspects.update(selector.keys)
            if not is_refusal(error):
                self._tried.update(selector.keys)
            if len(selector.keys) == 1:
                self.alone.update(selector.keys)
            raise
        self._in_row, self._most_in_row = 0, MOST_IN_ROW
        if self._suspects:
            self._suspects.difference_update(selector.keys)
            self._tried.difference_update(selector.keys)
        return stats

    def may_go_on(self, error: SlashtagError) -> bool:
        """Return whether to ask for others, and parts of what failed: one slashtag may be at fault."""
        if self.end is not None or error.is_fatal:
            return False
        # Of a refused batch that slashtag is found also where failures are not told.
        return self._on_error is not None or is_refusal(error)

    def fail(self, selector: Selector, time_slices: Iterable[TimeSlice], error: SlashtagError) -> None:
        """Note that a batch, a slashtag or a tag failed.

        Without `on_error` the error is raised, and so is one that every other request would have as well
        (`SlashtagError.is_fatal`).
        """
        if self._on_error is None or error.is_fatal:
            raise error
        _, failed = self._failed.setdefault(selector, (error, []))
        failed += time_slices

    def tell_failures(self, plan: Plan[Any], *, of_names: bool = False) -> None:
        """Report what has failed, at the end of the run: each slashtag, batch or tag once.

        Their requests are missing, or else their results by name.
        """
        for selector, (error, time_slices) in self._failed.items():
            assert self._on_error is not None
            self.missing += len(selector.names) if of_names else len(time_slices)
            more = f" and {len(time_slices) - 1} more" if len(time_slices) > 1 else ""
            label = f"{selector}, {time_slices[0].label}{more}"
            of_selector = plan._only(selector, time_slices)
            self._on_error(Failure(label, error, selector.keys, selector.tag, of_selector))

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
