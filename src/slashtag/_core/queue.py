"""Order in which waiting calls depart: start-time fair over operations (Goyal, Vin, Cheng 1996).

which calls                          their place
of one operation, a flow             number max(virtual time + ALONE, number of its last call + 1)
a single call                        number virtual time + ALONE: it is a flow of its own
back after a 429                     numbered like that among such calls, which have an order of their own
back after another failure           as it was: it is the oldest of its flow
refused (429s of its own)            before all others, as they take no turn of others
while the limit is exhausted         one of those with the fewest 429s, the newest of them

The call with the lowest number departs, of equal ones the first that came; the virtual time is the highest
number that departed. So each operation that waits gets one turn in each round, however many calls it
has, and a single call waits for one call of each operation at most. Of the calls that met a 429 one departs
after TURNS others. So a single call that met one waits for one such call of each operation at most, and for
TURNS others with each.

Why ALONE: single calls that keep coming advance the virtual time too, so that operations get turns between
them. With one half, which is a weight of two, an operation gets one turn for two of each caller. The first
call of an operation counts like that too, so that operations of one call, if they are refused for a reason of
their own, wait for no later single calls: the sooner they are known, the less they slow others.

Why TURNS: four accepted requests offset one 429 in the throttle's sum of 429s, so that calls which return
and are refused again do not fill it. Why the newest while the limit is exhausted: it is the least like the
calls that met 429s, so that calls which are refused for a reason of their own do not hide that it is open.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Generic, TypeVar

__all__ = ["Flow", "Place", "Queue"]

T = TypeVar("T")

ALONE = 1 / 2  # of a turn that a single call takes, or the first one of an operation
TURNS = 4  # departures of others between two calls that met a 429
FIRST, BACK = 0, 1  # the orders: of calls that met no 429, and of those that did


class Flow:
    """One operation, whose calls take turns with those of others."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = [-inf, -inf]  # the number of its last call in each order; of none yet


class Place:
    """Place of one call in the order of departures; a 429 gives it a new number."""

    __slots__ = ("arrival", "entry", "flow", "number", "order")

    def __init__(self, flow: Flow | None, arrival: int) -> None:
        self.flow, self.arrival = flow, arrival  # later ones have a higher arrival
        self.order, self.number = FIRST, 0.0
        self.entry = 0  # in the heap; 0: the call does not wait


class Queue(Generic[T]):
    """Heaps of the items of waiting calls; one taken out from the middle stays until it is first."""

    def __init__(self) -> None:
        # Of each order: number, arrival, entry, 429s, place, item. It was taken out if its place has another
        # entry now.
        self._heaps: list[list[tuple[float, int, int, int, Place, T]]] = [[], []]
        self._length = 0
        self._virtual = [0.0, 0.0]
        self._since_back = TURNS  # departures since the last one of a call that met a 429; enough at first
        self._arrivals, self._entries = count(), count(1)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return (item for *_, item in self._waiting())

    def _waiting(self) -> Iterator[tuple[float, int, int, int, Place, T]]:
        return (entry for heap in self._heaps for entry in heap if entry[2] == entry[4].entry)

    def place(self, flow: Flow | None) -> Place:
        """Return the place of a new call; `flow`: the operation that it belongs to."""
        place = Place(flow, next(self._arrivals))
        self._number(place)
        return place

    def _number(self, place: Place) -> None:
        """Give a place its number in its order."""
        flow, place.number = place.flow, self._virtual[place.order] + ALONE
        if flow is not None:
            place.number = flow.last[place.order] = max(place.number, flow.last[place.order] + 1)

    def put(self, place: Place, item: T, rejects: int = 0, *, is_refused: bool = False) -> None:
        """Let a call wait that has met `rejects` 429s."""
        place.entry = next(self._entries)
        # -inf stands before all numbers, which are finite. It is no number of the place: such a call leaves
        # the heap without `depart`, so that it cannot move the virtual time.
        heap, number = (FIRST, -inf) if is_refused else (place.order, place.number)
        heappush(self._heaps[heap], (number, place.arrival, place.entry, rejects, place, item))
        self._length += 1

    def put_back(self, place: Place) -> None:
        """Give the place of a call that was answered 429 a new number, among such calls."""
        place.order = BACK
        self._number(place)

    def depart(self, place: Place) -> None:
        """Advance the virtual time to that of a call that departs, and count the departure."""
        self._virtual[place.order] = max(self._virtual[place.order], place.number)
        self._since_back = 0 if place.order == BACK else self._since_back + 1

    def pop(self, *, exhausted: bool) -> T:
        """Take out the next call; raises IndexError if none waits.

        `exhausted`: the limit is, and this call finds out whether it is open again.
        """
        first, back = self._heaps
        # Neither such a call nor a refused one takes a turn of others: the virtual time stays, and so does
        # the number of departures since the last call that met a 429, as it counts turns.
        if exhausted and self._length:
            _, _, _, _, place, item = min(self._waiting(), key=lambda entry: (entry[3], -entry[1]))
        elif first and first[0][0] == -inf:  # a refused call
            _, _, _, _, place, item = first[0]
        else:
            is_back_due = back and (self._since_back >= TURNS or not first)
            _, _, _, _, place, item = (back if is_back_due else first)[0]
            self.depart(place)
        self.remove(place)
        return item

    def remove(self, place: Place) -> None:
        """Take out a call that waits no longer; nothing happens if it does not wait."""
        self._length -= place.entry > 0
        place.entry = 0
        # So the first one of each heap always waits.
        for heap in self._heaps:
            while heap and heap[0][2] != heap[0][4].entry:
                heappop(heap)
