"""Order in which waiting calls depart: start-time fair over operations (Goyal, Vin, Cheng 1996).

which calls                          their place
of one operation, a flow             number max(virtual time, number of its last call) + 1
a single call                        number virtual time + ALONE: it is a flow of its own
back after a 429                     all of them are one flow, whose numbers are TURNS + 1 apart
back after another failure           as it was: it is the oldest of its flow
refused (429s of its own)            before all others, as they take no turn of others
while the limit is exhausted         one of those with the fewest 429s, the newest of them

The call with the lowest number departs, of equal ones the first that came; the virtual time is the number
of the last that departed. So each operation that waits gets one turn in each round, however many calls it
has, and a single call waits for one call of each operation at most.

Why ALONE: single calls that keep coming advance the virtual time too, so that operations get turns between
them. With one half, which is a weight of two, an operation gets one turn for two of each caller.

Why TURNS: three accepted requests offset one 429 in the throttle's row of 429s, so that calls which return
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

ALONE = 1 / 2  # of a turn that a single call takes
TURNS = 3  # turns of others between two calls that met a 429


class Flow:
    """One operation, whose calls take turns with those of others."""

    __slots__ = ("turn",)

    def __init__(self) -> None:
        self.turn = 0.0  # the number of its last call


class Place:
    """Place of one call in the order of departures, over all its attempts."""

    __slots__ = ("entry", "number", "order")

    def __init__(self, number: float, order: int) -> None:
        self.number, self.order = number, order
        self.entry = 0  # in the heap; 0: the call does not wait


class Queue(Generic[T]):
    """Heap of the items of waiting calls; one taken out from the middle stays until it is first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, int, Place, T]] = []  # number, order, entry, 429s
        self._length = 0
        self._virtual = 0.0
        self._returned = 0.0  # the lowest number of the next call that was answered 429
        self._orders, self._entries = count(), count(1)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return (item for _, _, entry, _, place, item in self._heap if entry == place.entry)

    def place(self, flow: Flow | None) -> Place:
        """Return the place of a new call; `flow`: the operation that it belongs to."""
        if flow is None:
            number = self._virtual + ALONE
        else:
            number = flow.turn = max(self._virtual, flow.turn) + 1
        return Place(number, next(self._orders))

    def put(self, place: Place, item: T, rejects: int = 0, *, is_refused: bool = False) -> None:
        """Let a call wait that has met `rejects` 429s."""
        place.entry = next(self._entries)
        number = -inf if is_refused else place.number
        heappush(self._heap, (number, place.order, place.entry, rejects, place, item))
        self._length += 1

    @property
    def is_refused_next(self) -> bool:
        """Whether the next call is a refused one."""
        return bool(self._heap) and self._heap[0][0] == -inf

    def put_back(self, place: Place) -> None:
        """Exchange the place of a call that was answered 429 for one among such calls."""
        place.number = max(self._virtual, self._returned)
        self._returned = place.number + TURNS + 1

    def depart(self, place: Place) -> None:
        """Advance the virtual time to that of a call that departs without having waited."""
        self._virtual = max(self._virtual, place.number)

    def pop(self, *, exhausted: bool) -> T:
        """Take out the next call; raises IndexError if none waits. `exhausted`: the limit is."""
        _, _, _, _, place, item = self._heap[0]
        if exhausted:
            waiting = (entry for entry in self._heap if entry[2] == entry[4].entry)
            _, _, _, _, place, item = min(waiting, key=lambda entry: (entry[3], -entry[1]))
        else:
            self.depart(place)
        self.remove(place)
        return item

    def remove(self, place: Place) -> None:
        """Take out a call that waits no longer; nothing happens if it does not wait."""
        self._length -= place.entry > 0
        place.entry = 0
        # So the first one always waits.
        while self._heap and self._heap[0][2] != self._heap[0][4].entry:
            heappop(self._heap)
