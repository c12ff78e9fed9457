"""Plans of queries: which requests one takes, as a value that can be pickled and split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any, Generic, cast

from msgspec import Struct
from msgspec.structs import replace

from .._summed_statistics import RunningSum, Span
from .._wording import many
from .batches import Selector
from .call import Call
from .queries import Query, R_co, check_query
from .windows import RangeEnd, TimeSlice, Zone, parse_zone


class StatsRequest(Struct, frozen=True, gc=False):
    """One request of a query: one selector, one time slice, and the call for them."""

    selector: Selector
    time_slice: TimeSlice
    call: Call[Any]


class Plan(Struct, Generic[R_co], frozen=True):
    """Requests of a query: each selector with each time slice, restricted to the range [start, stop).

    `len(plan)` is the number of requests if none is halved or retried. `span` is the first and the last date
    of the result's days, None for a query without days. `missing` is added to that of the result: slashtags
    that cannot be requested.
    """

    # A member with an underscore is not for users of the library; its own modules use it.

    query: Query[R_co]
    _selectors: tuple[Selector, ...]
    _time_slices: tuple[TimeSlice, ...]
    span: Span | None
    _start: int
    _stop: int
    missing: int = 0

    def __len__(self) -> int:
        return self._stop - self._start

    def __repr__(self) -> str:
        return f"<Plan of {many(len(self), 'request')}: {self.query!r}>"

    def _requests(self) -> Iterator[StatsRequest]:
        """Yield the requests, grouped by selector."""
        width = len(self._time_slices)
        for n in range(self._start, self._stop):
            yield self._request(self._selectors[n // width], self._time_slices[n % width])

    def _request(self, selector: Selector, time_slice: TimeSlice) -> StatsRequest:
        """Return the request for one selector and one time slice."""
        return StatsRequest(selector, time_slice, self.query._call(selector, time_slice))

    def _only(self, selector: Selector, time_slices: Iterable[TimeSlice] | None = None) -> Plan[R_co]:
        """Return the plan for one selector, and some time slices or all."""
        slices = self._time_slices if time_slices is None else tuple(time_slices)
        return replace(
            self, _selectors=(selector,), _time_slices=slices, _start=0, _stop=len(slices), missing=0
        )

    def split(self, n: int) -> list[Plan[R_co]]:
        """Split into `n` plans of about equal length whose results add up to the result of this plan."""
        cuts = [self._start + len(self) * i // n for i in range(n + 1)]
        parts = [self._part(start, stop) for start, stop in pairwise(cuts)]
        return [replace(parts[0], missing=self.missing), *parts[1:]]

    def _part(self, start: int, stop: int) -> Plan[R_co]:
        """Return the plan for some of the requests, with only the selectors that it needs."""
        width = max(1, len(self._time_slices))
        selectors, skipped = self._selectors[start // width : -(-stop // width)], start // width * width
        return replace(self, _selectors=selectors, _start=start - skipped, _stop=stop - skipped, missing=0)


def empty_sum(query: Query[R_co], span: Span | None) -> RunningSum[R_co]:
    """Return a sum to which the results of all requests are added; see `Query.span`."""
    return cast("RunningSum[R_co]", RunningSum(query._answer_type.result_type, span))


def make_plan(
    query: Query[R_co],
    selectors: Iterable[Selector],
    timezone: Zone,
    now: datetime,
    range_end: RangeEnd,
) -> Plan[R_co]:
    """Resolve a query, split it along time, and combine each time slice with each selector.

    Raises InvalidRequestError for what is no query.
    """
    check_query(query)
    zone = parse_zone(timezone)
    query = query.resolve(zone, now)
    selectors = tuple(selectors)
    slices = tuple(query._time_slices(zone, now, range_end))
    return Plan(query, selectors, slices, query.span(zone), 0, len(selectors) * len(slices))
