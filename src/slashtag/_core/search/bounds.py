"""Whole numbers known between two bounds, and equations between them that tighten the bounds."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

#: Equations applied between two pauses.
PAUSE = 200

#: What long work yields in order to pause.
Pause = tuple[()]


class ContradictionError(Exception):
    """No numbers satisfy all equations."""


class Bounds:
    """Numbers, each with a lowest and a highest value, and the equations between them.

    Long work is a generator that yields `()` every few milliseconds, so that its caller can do other things.
    """

    def __init__(self) -> None:
        self.low: list[int] = []
        self.high: list[int] = []
        # Tuples, as the garbage collector scans lists: with a million of them it would take 0.1 s at a time.
        self._equations: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
        self._equations_of: list[tuple[int, ...]] = []
        self._queue: deque[int] = deque()
        self._is_queued: list[bool] = []
        #: Numbers changed since the last statement began, with their bounds before.
        self._changes: list[tuple[int, int, int]] = []

    def number(self, low: int, high: int) -> int:
        """Return a new number between `low` and `high`, named by its index."""
        self.low.append(low)
        self.high.append(high)
        self._equations_of.append(())
        return len(self.low) - 1

    def is_exact(self, numbers: Iterable[int]) -> bool:
        """Return whether the values of some numbers are known."""
        low, high = self.low, self.high
        return all(low[number] == high[number] for number in numbers)

    def equate(self, plus: Iterable[int], minus: Iterable[int], rest: int = 0) -> None:
        """State that the numbers of `plus` add up to those of `minus` and `rest`; for `accepts` to call."""
        low, high = self.low, self.high
        rest += sum(low[number] for number in minus if low[number] == high[number])
        rest -= sum(low[number] for number in plus if low[number] == high[number])
        plus = tuple(number for number in plus if low[number] < high[number])
        minus = tuple(number for number in minus if low[number] < high[number])
        if plus or minus:
            equation = len(self._equations)
            self._equations.append((plus, minus, rest))
            self._is_queued.append(True)
            self._queue.append(equation)
            for number in plus + minus:
                self._equations_of[number] += (equation,)
        elif rest:
            raise ContradictionError

    def accepts(self, state: Callable[[], None]) -> Generator[Pause, None, bool]:
        """Call `state` and tighten all bounds; at a contradiction undo what it says and return False."""
        count = len(self._equations)
        self._changes.clear()
        try:
            state()
            yield from self._tighten()
        except ContradictionError:
            for number, low, high in reversed(self._changes):
                self.low[number], self.high[number] = low, high
            for equation in self._queue:
                self._is_queued[equation] = False
            self._queue.clear()
            while len(self._equations) > count:
                plus, minus, _ = self._equations.pop()
                self._is_queued.pop()
                for number in plus + minus:
                    self._equations_of[number] = self._equations_of[number][:-1]
            return False
        return True

    def _tighten(self) -> Iterator[Pause]:
        """Apply the equations until none tightens any bound."""
        low, high, queue, is_queued, steps = self.low, self.high, self._queue, self._is_queued, 0
        while queue:
            steps += 1
            if steps % PAUSE == 0:
                yield ()
            equation = queue.popleft()
            is_queued[equation] = False
            plus, minus, rest = self._equations[equation]
            # Bounds of plus - minus - rest, which is 0.
            least = most = -rest
            for number in plus:
                least += low[number]
                most += high[number]
            for number in minus:
                least -= high[number]
                most -= low[number]
            if least > 0 or most < 0:
                raise ContradictionError
            if least == most:
                continue
            for numbers, above, below in ((plus, -most, -least), (minus, least, most)):
                for number in numbers:
                    was_low, was_high = low[number], high[number]
                    new_low, new_high = was_high + above, was_low + below
                    if new_low <= was_low and new_high >= was_high:
                        continue
                    self._changes.append((number, was_low, was_high))
                    low[number] = new_low = max(new_low, was_low)
                    high[number] = new_high = min(new_high, was_high)
                    if new_low > new_high:
                        raise ContradictionError
                    for other in self._equations_of[number]:
                        if not is_queued[other]:
                            is_queued[other] = True
                            queue.append(other)
