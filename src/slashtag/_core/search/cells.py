"""Cells and questions of a search, and what can be said of an answer by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..batches import halves
from ..limits import MAX_KEYS
from .bounds import Bounds

#: A dimension and a label of it.
Label = tuple[str, object]
Answer = Mapping[Label, int]
TOTAL: Label = ("", "")
#: By dimension and its labels: the chance that open counts, which are as likely in one half of a cell as in
#: the other, are in the half that is asked.
Profile = dict[str, dict[object, float]]


class Cell:
    """Consecutive keys of a batch: all of them (a root), or half of another cell."""

    def __init__(self, keys: Sequence[str], parent: Cell | None = None) -> None:
        self.keys = tuple(keys)
        self.root: Cell = parent.root if parent else self
        self.parent = parent
        self.halves: tuple[Cell, ...] = ()
        #: Whether it is the first half of another cell.
        self.is_first = parent is not None and keys[0] == parent.keys[0]
        #: Its counts, as numbers of the bounds; others are 0.
        self.numbers: dict[Label, int] = {}
        #: Those that were not known when it was looked at last.
        self._open: list[int] = []
        #: What it was asked in, but for questions whose answers contradicted others.
        self.questions: list[Question] = []
        #: Of roots only.
        self.answer: Answer | None = None

    def know(self, bounds: Bounds) -> None:
        """State the counts of a root by its answer."""
        self.numbers = {label: bounds.number(count, count) for label, count in (self.answer or {}).items()}

    def halve(self, bounds: Bounds) -> None:
        """State that two halves add up to the cell, and in each half every dimension to the total.

        That tightens no bounds: one half may have everything, the other nothing.
        """
        first, second = halves(self.keys)
        self.halves = (Cell(first, self), Cell(second, self))
        one, other = (half.numbers for half in self.halves)
        # The total first: other counts are compared with it.
        labels_of: dict[str, list[Label]] = {TOTAL[0]: []}
        for label, number in self.numbers.items():
            if bounds.high[number]:
                labels_of.setdefault(label[0], []).append(label)
        for dimension, labels in labels_of.items():
            if dimension and len(labels) == 1:
                # The only label has the total.
                one[labels[0]], other[labels[0]] = one[TOTAL], other[TOTAL]
                continue
            for label in labels:
                whole = self.numbers[label]
                one[label] = bounds.number(0, bounds.high[whole])
                other[label] = bounds.number(0, bounds.high[whole])
                bounds.equate((one[label], other[label]), whole)
            for half in (one, other) if dimension else ():
                bounds.equate([half[label] for label in labels], half[TOTAL])
        for cell in self.halves:
            cell._open = [*cell.numbers.values()]

    def total(self, bound: list[int]) -> int:
        """Return a bound of the total."""
        return bound[self.numbers[TOTAL]] if TOTAL in self.numbers else 0

    def is_exact(self, bounds: Bounds) -> bool:
        """Return whether all counts are known."""
        while self._open and bounds.low[self._open[-1]] == bounds.high[self._open[-1]]:
            self._open.pop()
        return not self._open

    def profile(self, bounds: Bounds) -> Profile:
        """Return what is open of each label, by dimension."""
        low, high = bounds.low, bounds.high
        profile: Profile = {}
        for (dimension, label), number in self.numbers.items():
            if low[number] < high[number] and dimension:
                profile.setdefault(dimension, {})[label] = 1 - 0.5 ** (high[number] - low[number])
        return profile

    def known_around(self, bounds: Bounds) -> Cell:
        """Return the smallest cell around it whose counts are known, itself at best."""
        cell = self
        while cell.parent and not cell.is_exact(bounds):
            cell = cell.parent
        return cell

    def leave_batch(self) -> None:
        """Be no part of its batch any more, nor the cells into which it was halved."""
        for cell in [*self.tree()]:
            cell.root = self

    def tree(self) -> Iterator[Cell]:
        """Yield the cell, and those into which it was halved, but for those that left its batch."""
        yield self
        for half in self.halves:
            if half.root is self.root:
                yield from half.tree()

    def searched_keys(self) -> list[str]:
        """Return its keys, but for those of cells that left its batch."""
        return [key for cell in self.leaves() for key in cell.keys]

    def leaves(self) -> list[Cell]:
        """Return the smallest cells into which it was halved."""
        return [cell for cell in self.tree() if not cell.halves]


class Question:
    """What some cells have together; set `answer`, None if there is none."""

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self.cells: list[Cell] = []
        #: The keys of all cells, in their order.
        self.keys: dict[str, None] = {}
        self.room = MAX_KEYS
        self.profile: Profile = {}
        self.answer: Answer | None = None
        #: The sums of the bounds that state the answer.
        self.sums = range(0)
        for cell in cells:
            self.add(cell)

    def has_room(self, cell: Cell) -> bool:
        """Return whether a cell may be asked with the others, in none of which it is."""
        return len(cell.keys) <= self.room and self.keys.keys().isdisjoint(cell.keys)

    def add(self, cell: Cell, profile: Profile | None = None) -> None:
        """Ask a cell with the others."""
        self.cells.append(cell)
        self.keys |= dict.fromkeys(cell.keys)
        self.room -= len(cell.keys)
        for dimension, chances in (profile or {}).items():
            mine = self.profile.setdefault(dimension, {})
            for label, chance in chances.items():
                mine[label] = 1 - (1 - mine.get(label, 0.0)) * (1 - chance)

    def equate_in(self, bounds: Bounds) -> None:
        """State that the counts of the cells add up to the answer."""
        answer = self.answer or {}
        counted: dict[Label, list[int]] = {label: [] for label in answer}
        for cell in self.cells:
            for label, number in cell.numbers.items():
                if bounds.high[number]:  # else it adds nothing
                    counted.setdefault(label, []).append(number)
        for label, numbers in counted.items():
            count = answer.get(label, 0)
            bounds.equate(numbers, bounds.number(count, count))


def dimensions(answer: Answer) -> frozenset[str]:
    """Return the dimensions of an answer; none if it has no clicks."""
    return frozenset(dimension for dimension, _ in answer if dimension)


def is_sound(answer: Answer) -> bool:
    """Return whether an answer has positive counts only, and the same total in each dimension."""
    sums: dict[str, int] = {}
    for (dimension, _), count in answer.items():
        sums[dimension] = sums.get(dimension, 0) + count
    return all(count > 0 for count in answer.values()) and len(set(sums.values())) <= 1


def confusion(mine: Profile, theirs: Profile, most: float) -> float:
    """Estimate in how many ways counts can be confused between two profiles; stop where it reaches `most`.

    Two clicks can change places if they differ in one dimension, and one can move to the other profile if all
    its labels can.
    """
    swaps, alike = 0.0, 1.0
    for dimension, chances in mine.items():
        if swaps >= most or not (others := theirs.get(dimension)):
            return swaps
        common, none = 0.0, 1.0
        for label, chance in chances.items():
            if label in others:
                both = chance * others[label]
                swaps += common * both  # with each label before
                common += both
                none *= 1 - both
        alike *= 1 - none
    return swaps + alike


def strangers(cells: Iterable[Cell], bounds: Bounds) -> list[Cell]:
    """Return cells, those that may have most counts first; of those once asked together only one."""
    found: list[Cell] = []
    used: set[Question] = set()
    for cell in sorted(cells, key=lambda cell: -cell.total(bounds.high)):
        if used.isdisjoint(cell.questions):
            used.update(cell.questions)
            found.append(cell)
    return found
