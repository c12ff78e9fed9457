"""Which failures are of which result, and the requests that make it whole."""

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from .._clicks_table import ClicksTable
from .._core.plan import Plan
from .._errors import InvalidRequestError
from .._summed_statistics import Statistics
from .run_state import Failure

R = TypeVar("R", bound=Statistics)


def plans_of(failures: Iterable[Failure[R]]) -> list[Plan[R]]:
    """Return the plans of failures, without those that cannot be requested.

    Raises InvalidRequestError for a failure that is passed twice: it would be counted twice.
    """
    plans = [failure.plan for failure in failures if failure.plan is not None]
    if len({(plan.query, plan._selectors, plan._time_slices) for plan in plans}) < len(plans):
        raise InvalidRequestError("a failure is passed twice, and would be counted twice")
    return plans


def check_missing(partial: Statistics | ClicksTable, plans: Collection[Plan[Any]]) -> None:
    """Raise InvalidRequestError if a result lacks less than the failures that are passed."""
    if len(plans) > partial.missing:
        raise InvalidRequestError(
            f"the result lacks fewer requests (missing={partial.missing}) than the {len(plans)} that failed: "
            "pass the result that the failures are of; those of collect_each are of results by slashtag, say"
        )


def check_kind(partial: Iterable[Statistics], plans: Iterable[Plan[Any]]) -> None:
    """Raise InvalidRequestError for failures of another kind of query."""
    kinds = {plan.query._answer_type.result_type for plan in plans} | set(map(type, partial))
    if len(kinds) > 1:
        raise InvalidRequestError("the failures are of another kind of query than the result")


def joined(plans: Collection[Plan[R]], known: Iterable[str]) -> Plan[R]:
    """Return the plan of what is missing in results by slashtag or tag, of which some are `known`.

    Raises InvalidRequestError unless the failures are of one query about others.
    """
    first, names = next(iter(plans)), set(known)
    for plan in plans:
        if (plan.query, plan._time_slices) != (first.query, first._time_slices):
            raise InvalidRequestError("the failures are of different queries, and so of different results")
        if plan._lacks_days:
            raise InvalidRequestError("the failures are of `collect`: pass its result, which is a sum")
        for name in (name for selector in plan._selectors for name in selector.names):
            if name in names:
                raise InvalidRequestError(f"the result has {name!r} already: the failures are of another")
            names.add(name)
    selectors = tuple([selector for plan in plans for selector in plan._selectors])
    return replace(first, _selectors=selectors, _stop=len(selectors) * len(first._time_slices))
