"""Plans: a query's time slices combined with its selectors, which are tags or batches of slashtags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._errors import InvalidRequestError, SlashtagError
from .._models import Statistics, many
from .batches import Selector
from .call import Call
from .queries import Query, TimeSlice
from .windows import Zone, parse_zone

R_co = TypeVar("R_co", covariant=True, bound=Statistics)
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    #: The result that lacks something; of any kind where a Failure is named without it.
    Of_co = TypeVarWithDefault("Of_co", covariant=True, bound=Statistics, default=Any)
else:
    Of_co = TypeVar("Of_co", covariant=True)


class StatsRequest(Struct, frozen=True, gc=False):
    """One request of a query: one selector, one time slice, and the call for them."""

    selector: Selector
    time_slice: TimeSlice
    call: Call[Any]


class Plan(Struct, Generic[R_co], frozen=True):
    """Requests of a query: each selector with each time slice, restricted to the range [start, stop).

    `len(plan)` is the number of requests if none is halved or retried. `span` is the first and the last date
    of the result's days, None for a query without days; `missing` is added to that of the result.
    """

    query: Query[R_co]
    selectors: tuple[Selector, ...]
    time_slices: tuple[TimeSlice, ...]
    span: tuple[date, date] | None
    start: int
    stop: int
    missing: int = 0

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"<Plan of {many(len(self), 'request')}: {self.query!r}>"

    def requests(self) -> Iterator[StatsRequest]:
        """Yield the requests, grouped by selector."""
        width = len(self.time_slices)
        for n in range(self.start, self.stop):
            yield self.request(self.selectors[n // width], self.time_slices[n % width])

    def request(self, selector: Selector, time_slice: TimeSlice) -> StatsRequest:
        """Return the request for one selector and one time slice."""
        return StatsRequest(selector, time_slice, self.query.call(selector, time_slice))

    def only(self, selector: Selector, time_slice: TimeSlice | None = None) -> Plan[R_co]:
        """Return the plan for one selector and one time slice, or all of them."""
        slices = self.time_slices if time_slice is None else (time_slice,)
        return replace(self, selectors=(selector,), time_slices=slices, start=0, stop=len(slices), missing=0)

    def split(self, n: int) -> list[Plan[R_co]]:
        """Split into `n` plans of about equal length whose results add up to the result of this plan."""
        if n < 1:
            raise InvalidRequestError(f"a plan cannot be split into {n} parts")
        cuts = [self.start + len(self) * i // n for i in range(n + 1)]
        parts = [self._part(start, stop) for start, stop in pairwise(cuts)]
        return [replace(parts[0], missing=self.missing), *parts[1:]]

    def _part(self, start: int, stop: int) -> Plan[R_co]:
        """Return the plan for some of the requests, with only the selectors that it needs."""
        width = max(1, len(self.time_slices))
        selectors, skipped = self.selectors[start // width : -(-stop // width)], start // width * width
        return replace(self, selectors=selectors, start=start - skipped, stop=stop - skipped, missing=0)


class Failure(Struct, Generic[Of_co], frozen=True):
    """Argument of `on_error`: a call that failed for good, its error, and the plan of what is missing.

    `plan` has the query, the slashtags and the days: one request of `collect`, or all those of a slashtag of
    `collect_each`. `session.stats.retry` takes failures and runs their plans; None: the service cannot be
    asked, as for a slashtag with a comma.
    """

    call: Call[Any]
    error: SlashtagError
    plan: Plan[Of_co] | None = None


def make_plan(
    query: Query[R_co],
    selectors: Iterable[Selector],
    timezone: Zone,
    now: datetime,
    range_end: str,
) -> Plan[R_co]:
    """Resolve a query, split it along time, and combine each time slice with each selector."""
    given: object = query
    if not isinstance(given, Query):
        kinds = "DateRange, Day, Year, AllTime or CountryGeo"
        raise InvalidRequestError(f"a query is a {kinds}, not {given!r}")
    zone = parse_zone(timezone)
    query = query.resolve(None if timezone is None else zone, now)
    selectors = tuple(selectors)
    slices = tuple(query.time_slices(zone, now, range_end))
    return Plan(query, selectors, slices, query.span(zone), 0, len(selectors) * len(slices))
