"""State of one run of `collect` or `collect_each`: its progress, and the failures that it reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from .._core.batches import Key, Selector
from .._core.call import Call
from .._core.checks import Progress, check_callback
from .._core.plan import Plan
from .._errors import InvalidRequestError, SlashtagError
from .._sending.health import RunHealth
from .._summed_statistics import Statistics

log = logging.getLogger("slashtag")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: The result that lacks something; of any kind where a Failure is named without it.
    Of_co = TypeVarWithDefault("Of_co", covariant=True, bound=Statistics, default=Any)
else:
    Of_co = TypeVar("Of_co", covariant=True)


class Failure(Struct, Generic[Of_co], frozen=True):
    """Argument of `on_error`: a request that failed for good, its error, and the plan of what is missing.

    `keys` or `tag` are those of the request, `label` names them and its days; `error` has its path. `plan`
    has the query, the slashtags and the days: one request of `collect`, or all those of a slashtag of
    `collect_each`, of a whole batch if nothing was answered. `session.stats.retry` runs the plans of the
    failures of a result; None: the service cannot be asked, as for a slashtag with a comma.
    """

    label: str
    error: SlashtagError
    keys: tuple[str, ...] = ()
    tag: str | None = None
    plan: Plan[Of_co] | None = None


OnError = Callable[[Failure[Of_co]], object]


class RunState:
    """Progress and failures of one run; calls `progress` after each step, and `on_error`, if given.

    Its `health` says what follows from a failure: parts instead, the next, or the end.
    """

    def __init__(self, progress: Progress | None, on_error: OnError | None) -> None:
        #: The number of steps, None while it is unknown.
        self.total: int | None = None
        #: Requests whose answers are missing in the result.
        self.missing = 0
        self._done = 0
        check_callback("progress", progress)
        check_callback("on_error", on_error)
        self._progress, self._on_error = progress, on_error
        self.health = RunHealth(reports_failures=on_error is not None)
        self._has_look_alikes = False

    def done(self) -> None:
        """Count one step as done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self.total)

    def report_failure(self, call: Call[Any], error: SlashtagError, plan: Plan[Any]) -> None:
        """Report a failure, with the plan of what is missing.

        Without `on_error` it is raised, and so is an error that every other request would have as well
        (`SlashtagError.is_fatal`).
        """
        self.health.failed_for_good(error)
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
