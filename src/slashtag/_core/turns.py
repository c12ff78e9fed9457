"""Which waiting call departs next: in rounds, in which each operation that waits has one turn.

A call that comes    waits
-------------------  ----------------------------------------------------------------------------------------
for the first time   as the last of its operation, and an operation as the last of all
after a 429, or a    as the next of its operation; and if no other of it waits, as the first of all, as
failure              single calls do
refused, while       as one that comes for the first time
others are accepted

An operation is a `collect`, a listing, or a single call. So a page beside any number of reports
waits for one request of each at most. While the limit is exhausted, and single requests find out whether it
is open again, the newest call goes of the last operation that has one which was not tried so: n calls are
tried before one is tried twice, and calls that are refused for a reason of their own hide nothing.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Queues of the operations that wait, in the order of their turns."""

    def __init__(self) -> None:
        #: The calls of each operation that waits; to ask whether it is empty is cheap.
        self.queues: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._tried: set[T] = set()  # those that came back while the limit was exhausted

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def __iter__(self) -> Iterator[T]:
        return (item for queue in self.queues.values() for item in queue)

    def put(self, operation: Hashable, item: T, *, is_back: bool = False, exhausted: bool = False) -> None:
        """Let a call of an operation wait; `is_back`: it was sent before; `exhausted`: the limit is."""
        queue = self.queues.setdefault(operation, deque())
        (queue.appendleft if is_back else queue.append)(item)
        if is_back and exhausted:
            self._tried.add(item)
        if is_back and len(queue) == 1:
            self.queues.move_to_end(operation, last=False)

    def pop(self, *, exhausted: bool) -> T:
        """Take out the next call; raises StopIteration if none waits."""
        operation = next(reversed(self.queues) if exhausted else iter(self.queues))
        if exhausted:
            untried = (each for each in reversed(self.queues) if self.queues[each][-1] not in self._tried)
            operation = next(untried, operation)
        queue = self.queues.pop(operation)
        item = queue.pop() if exhausted else queue.popleft()
        self._tried.discard(item)
        if queue:
            self.queues[operation] = queue
        return item

    def remove(self, operation: Hashable, item: T) -> None:
        """Take out a call that waits no longer; nothing happens if it does not wait."""
        queue = self.queues.get(operation, deque())
        if item in queue:
            queue.remove(item)
            self._tried.discard(item)
            if not queue:
                del self.queues[operation]
