"""A statistics question taken apart into its requests: a picklable value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, tzinfo
from itertools import pairwise
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._errors import InvalidRequestError
from .._models import Statistics
from .call import Call
from .queries import Query, TimeSlice
from .selectors import Selector
from .tally import Tally

R_co = TypeVar("R_co", covariant=True, bound=Statistics)


class Question(Struct, Generic[R_co], frozen=True):
    """Hold a query with what splitting it takes: the zone, the present, how the service reads range ends."""

    query: Query[R_co]
    zone: tzinfo
    now: datetime
    range_end: str

    @property
    def span(self) -> tuple[date, date] | None:
        """Give the first and the last date of the answer's days, None where it knows no days."""
        return self.query.span(self.zone)

    def pieces(self) -> Sequence[TimeSlice]:
        """Split along time."""
        return self.query.pieces(self.zone, self.now, self.range_end)


class StatsRequest(Struct, frozen=True, gc=False):
    """Name one request of a question: one selector, one piece."""

    selector: Selector
    piece: TimeSlice


class Plan(Struct, Generic[R_co], frozen=True):
    """Hold the requests of a question: each selector with each piece, of which this plan asks a part.

    `len(plan)` is the number of requests if none is halved or retried.
    """

    query: Query[R_co]
    selectors: tuple[Selector, ...]
    pieces: tuple[TimeSlice, ...]
    span: tuple[date, date] | None
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def asks(self) -> Iterator[StatsRequest]:
        """Yield what is asked, all pieces of a selector after each other."""
        width = len(self.pieces)
        for n in range(self.start, self.stop):
            yield StatsRequest(self.selectors[n // width], self.pieces[n % width])

    def calls(self) -> Iterator[Call[Any]]:
        """Yield the API calls."""
        for ask in self.asks():
            yield self.query.call(ask.selector, ask.piece)

    def tally(self) -> Tally[Any, R_co]:
        """Begin the sum of the answers."""
        return self.query.tally(self.span)

    def split(self, n: int) -> list[Plan[R_co]]:
        """Cut into `n` plans of about equal length whose results add up to the answer of this one."""
        if n < 1:
            raise InvalidRequestError(f"a plan cannot be split into {n} parts")
        cuts = [len(self) * i // n for i in range(n + 1)]
        return [self.part(a, b) for a, b in pairwise(cuts)]

    def part(self, start: int, stop: int) -> Plan[R_co]:
        """Return the plan of the requests `start` up to `stop` of this one, counted from 0, as a slice would.

        It carries only the selectors that it needs. Adjoining parts add up to the part of both. Raises
        InvalidRequestError where this plan does not have these requests.
        """
        if not 0 <= start <= stop <= len(self):
            raise InvalidRequestError(f"a plan of {len(self)} requests has no part from {start} to {stop}")
        width = max(1, len(self.pieces))
        start, stop = self.start + start, self.start + stop
        first = start // width
        last = -(-stop // width)
        return replace(
            self,
            selectors=self.selectors[first:last],
            start=start - first * width,
            stop=stop - first * width,
        )
