"""Cells and questions of a search, and what can be said of an answer by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import combinations, cycle
from itertools import count as count_from
from math import comb

from .._statistics import add_counts
from .batches import MAX_KEYS, halves
from .bounds import Bounds, Pause

#: Most cells of a request.
WIDTH = 8

#: Average clicks of a unit from which on most units of a batch are asked alone.
DENSE = 10

#: Units of different batches that are never in the same checks.
TOLD_APART = 50
#: Share of the room of checks that is used at most.
FILL = 0.95

#: Keys that the service may take for one, as they differ in case only, say: they are not told apart.
Unit = tuple[str, ...]
#: A dimension and a label of it.
Label = tuple[str, object]
Answer = Mapping[Label, int]
TOTAL: Label = ("", "")
#: What is known of the units of batches that have counts.
Known = Mapping["Cell", Mapping[Unit, Answer]]
#: Units, and what they have more than before, None if that is unknown.
Surplus = tuple[frozenset[Unit], Answer | None]
#: Open counts by dimension and label.
Profile = dict[str, dict[Label, int]]


class Cell:
    """Consecutive units of a batch: all of them (a root), or half of another cell."""

    def __init__(self, units: Sequence[Unit], parent: Cell | None = None, origin: Cell | None = None) -> None:
        self.units = units
        self.keys = tuple(key for unit in units for key in unit)
        self.root: Cell = parent.root if parent else self
        self.halves: tuple[Cell, ...] = ()
        self.is_first = parent is not None and not parent.halves
        #: Its counts, as numbers of the bounds; others are 0.
        self.numbers: dict[Label, int] = {}
        self.questions: list[Question] = []
        #: Whether it was the first cell of a question: so there are never more questions than first halves.
        self.has_led = False
        #: Whether a request with others has confirmed that it has no counts.
        self.is_empty_again = False
        #: Whether it must be asked without other cells, because a request with others failed.
        self.is_alone = False
        # Of roots only:
        #: The batch of which it is a part, if that had to be asked anew.
        self.origin: Cell = origin or self
        #: Number of requests led by the batch and its parts.
        self.requests = 0
        self.answer: Answer | None = None
        self.dimensions: frozenset[str] = frozenset()
        #: Whether checks agree with the counts.
        self.is_checked = False
        #: How often the batch and its parts were checked.
        self.times_checked = 0
        #: When its latest answer was fetched (the wall clock's seconds).
        self.fetched = 0.0

    def know(self, bounds: Bounds) -> None:
        """State the counts of a root by its answer."""
        self.numbers = {label: bounds.number(count, count) for label, count in (self.answer or {}).items()}

    def halve(self, bounds: Bounds) -> None:
        """State that the halves add up to the cell, and in each half every dimension to the total."""
        if not self.halves:
            first, second = halves(self.units)
            self.halves = (Cell(first, self),)
            self.halves += (Cell(second, self),)
        for half in self.halves:
            half.numbers = {}
        labels_of: dict[str, list[Label]] = {}
        for label, number in self.numbers.items():
            if bounds.high[number]:
                labels_of.setdefault(label[0], []).append(label)
        for dimension, labels in labels_of.items():
            if dimension and len(labels) == 1:
                # The only label has the total.
                for half in self.halves:
                    half.numbers[labels[0]] = half.numbers[TOTAL]
                continue
            for label in labels:
                whole = self.numbers[label]
                for half in self.halves:
                    half.numbers[label] = bounds.number(0, bounds.high[whole])
                bounds.equate([half.numbers[label] for half in self.halves], (whole,))
            for half in self.halves if dimension else ():
                bounds.equate([half.numbers[label] for label in labels], (half.numbers[TOTAL],))

    def total(self, bound: list[int]) -> int:
        """Return a bound of the total."""
        return bound[self.numbers[TOTAL]] if TOTAL in self.numbers else 0

    def is_exact(self, bounds: Bounds) -> bool:
        """Return whether all counts are known."""
        return self.root.answer is not None and bounds.is_exact(self.numbers.values())

    def known(self, bounds: Bounds) -> dict[Unit, Answer] | None:
        """Return the counts of each unit of a root that has any, None if some are open."""
        known: dict[Unit, Answer] = {}
        for cell in self.tree():
            if not cell.is_exact(bounds):
                return None
            if len(cell.units) == 1 and cell.total(bounds.low):
                counts = ((label, bounds.low[number]) for label, number in cell.numbers.items())
                known[cell.units[0]] = {label: count for label, count in counts if count}
        return known

    def profile(self, bounds: Bounds) -> Profile:
        """Return how much is open of each label, by dimension."""
        low, high = bounds.low, bounds.high
        profile: Profile = {}
        for label, number in self.numbers.items():
            if label != TOTAL and low[number] < high[number]:
                profile.setdefault(label[0], {})[label] = high[number] - low[number]
        return profile

    @property
    def was_alone(self) -> bool:
        """Whether an answer is about this unit only, and its batch has not changed since."""
        return any(len(question.keys) == 1 and not question.changes for question in self.questions)

    def overlaps(self, other: Cell) -> bool:
        """Return whether one of two cells is part of the other."""
        return self.root is other.root and (self in other.tree() or other in self.tree())

    def tree(self) -> Iterator[Cell]:
        """Yield the cell, and those into which it was halved."""
        yield self
        for half in self.halves:
            yield from half.tree()


class Question:
    """What some cells have together; set `answer`, None if there is none, and when it was `fetched`."""

    def __init__(self, cell: Cell, profile: Profile | None = None) -> None:
        self.cells = [cell]
        #: Cells that are known to be empty: they are checked where there is room for them.
        self.riders: list[Cell] = []
        self.profile: Profile = profile or {}
        self.answer: Answer | None = None
        self.fetched = 0.0
        #: Whether it was asked before, so that the answer must not come from a cache.
        self.is_repeated = cell.answer is not None
        #: By how much the counts of a batch have changed since the answer, at most.
        self.changes: list[Answer] = []

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all cells, last those that have counts, as a service may count the first keys only."""
        return tuple(key for cell in (*self.riders, *self.cells) for key in cell.keys)

    @property
    def units(self) -> frozenset[Unit]:
        """The units of all cells."""
        return frozenset(unit for cell in (*self.cells, *self.riders) for unit in cell.units)

    @property
    def roots(self) -> list[Cell]:
        """The batches of the cells."""
        return list(dict.fromkeys(cell.root for cell in (*self.cells, *self.riders)))

    @property
    def is_part(self) -> bool:
        """Whether the answer is compared with others, so that it must not be an earlier one of a cache."""
        return self.cells[0].root is not self.cells[0]

    def lead(self) -> None:
        """Count the request for the batch of its first cell."""
        self.cells[0].has_led = True
        self.cells[0].root.origin.requests += 1

    @property
    def not_before(self) -> float:
        """The time before which the answer must not have been fetched, to agree with earlier answers."""
        return max(root.fetched for root in self.roots)

    def has_room(self, cell: Cell) -> bool:
        """Return whether a cell may be asked with the others."""
        is_alike = cell.root.dimensions == self.cells[0].root.dimensions
        has_room = sum(len(other.keys) for other in self.cells) + len(cell.keys) <= MAX_KEYS
        return is_alike and has_room and not any(map(cell.overlaps, self.cells))

    def add(self, cell: Cell, profile: Profile) -> None:
        """Ask a cell with the others."""
        self.cells.append(cell)
        for dimension, counts in profile.items():
            mine = self.profile.setdefault(dimension, {})
            for label, count in counts.items():
                mine[label] = mine.get(label, 0) + count

    def carry(self, cells: Iterable[Cell]) -> list[Cell]:
        """Ask empty cells with the others; return those for which there is no room."""
        keys, dimensions, others = set(self.keys), self.cells[0].root.dimensions, list[Cell]()
        for cell in cells:
            has_room = len(keys) + len(cell.keys) <= MAX_KEYS and cell.root.dimensions == dimensions
            # It may be a part of a cell that is asked.
            if has_room and keys.isdisjoint(cell.keys):
                self.riders.append(cell)
                keys.update(cell.keys)
            else:
                others.append(cell)
        return others

    def state(self, bounds: Bounds) -> None:
        """State that the counts of the cells add up to the answer, or to part of what has changed since."""
        answer = self.answer or {}
        counted: dict[Label, list[int]] = {label: [] for label in answer}
        changed: dict[Label, list[int]] = {}
        for cell in (*self.cells, *self.riders):
            for label, number in cell.numbers.items():
                counted.setdefault(label, []).append(number)
        for change in self.changes:
            moved = {label: bounds.number(min(0, count), max(0, count)) for label, count in change.items()}
            for dimension in self.cells[0].root.dimensions:
                total = [moved[TOTAL]] if TOTAL in moved else []
                bounds.equate([moved[label] for label in moved if label[0] == dimension], total)
            for label, number in moved.items():
                changed.setdefault(label, []).append(number)
        for label in {**counted, **changed}:
            bounds.equate(counted.get(label, ()), changed.get(label, ()), answer.get(label, 0))


class Check(Question):
    """What parts of batches have together, asked in other company than before, to confirm what is known.

    Its cells are not those of the search, and have no counts of their own.
    """

    def __init__(self, cells: Sequence[Cell], *, is_last: bool = False) -> None:
        super().__init__(cells[0])
        self.cells = list(cells)
        self.is_repeated = True
        #: Whether its batch is asked with it, as an earlier check of the part had another answer.
        self.is_last = is_last
        #: Whether the answer was not what was known.
        self.has_failed = False

    def lead(self) -> None:
        """Count the request for the batch of its first cell, unless the first checks agree."""
        origin = self.cells[0].root.origin
        origin.requests += self.is_last or origin.times_checked > 1

    def surplus(self, known: Known) -> Answer | None:
        """Return what the answer has more than is known of the units, or less; None if there is no answer."""
        total: dict[Label, int] = {}
        for cell in self.cells:
            for unit in cell.units:
                add_counts(total, known[cell.root].get(unit, {}))
        return None if self.answer is None else difference(self.answer, total)


def narrowed(agreeing: Iterable[Check], failed: Iterable[Check]) -> list[Check]:
    """Return checks of fewer units, to find out which have changed, from those that agree or failed.

    What has changed is most likely of a unit that is in no check that agrees, but in most that failed.
    """
    cleared = frozenset[Unit]().union(*(check.units for check in agreeing))
    times = Counter(unit for check in failed for unit in check.units - cleared)
    found: dict[frozenset[Unit], Check] = {}
    for check in failed:
        most = max(times[unit] for unit in check.units)
        likely = [(cell.root, [unit for unit in cell.units if times[unit] == most]) for cell in check.cells]
        cells = [Cell(units, root) for root, units in likely if units]
        for part in halves(cells) if len(cells) > 1 else [cells] if not check.is_last else ():
            smaller = Check(part, is_last=len(cells) == 1)
            found.setdefault(smaller.units, smaller)
    return list(found.values())


def checks_of(roots: Iterable[Cell], bounds: Bounds) -> Generator[Pause, None, list[Check]]:
    """Return checks of batches, which find counts that were given to the wrong unit.

    Each unit that has counts is in two checks or more, and no two units of a batch are in the same ones. The
    units without counts, unless they were checked in other requests, are in checks that have no other units
    of their batch. Where most units have many counts, the answers for those asked alone are enough.
    """
    inferred: dict[tuple[int, frozenset[str]], list[tuple[Cell, Unit]]] = {}
    empties: list[Cell] = []
    for root in roots:
        known = root.known(bounds) or {}
        again = {unit for cell in root.tree() if cell.is_empty_again for unit in cell.units}
        alone = {cell.units[0] for cell in root.tree() if cell.was_alone}
        if empty := [unit for unit in root.units if unit not in known and unit not in again]:
            empties.append(Cell(empty, root))
        is_dense = root.total(bounds.low) >= DENSE * len(root.units)
        units = [unit for unit in known if not (is_dense and unit in alone)]
        root.origin.times_checked += 1
        # Totals alone hide more errors than labels do; and machines that differ contradict earlier checks.
        for n in range(min(2, root.origin.times_checked) + (not root.dimensions) if units else 0):
            inferred.setdefault((n, root.dimensions), []).extend((root, unit) for unit in units)
        yield ()
    checks: list[Check] = []
    for (n, _), of_batches in inferred.items():
        checks += _spread(of_batches, n)
        yield ()
    for cell in empties:
        for check in checks:
            if cell.root not in check.roots and check.has_room(cell):
                check.cells.append(cell)
                break
        else:
            checks.append(Check([cell]))
        yield ()
    return checks


def _spread(units: Sequence[tuple[Cell, Unit]], nth: int) -> Iterator[Check]:
    """Yield checks of units with their batches, each unit in two or more."""
    # Units of different batches are told apart too, unless there are many.
    most = max(min(len(units), TOLD_APART), *Counter(root for root, _ in units).values())
    keys = sum(len(unit) for _, unit in units)
    many, size = next(
        (many, size)
        for many in count_from(3)
        for size in range(2, max(3, many // 2 + 1))
        if comb(many, size) >= most and keys * size <= FILL * MAX_KEYS * many
    )
    # By chance, but so that each set of checks has as many units as any other.
    sets = sorted(combinations(range(many), size), key=partial(digest, nth))
    parts: list[dict[Cell, list[Unit]]] = [{} for _ in range(many)]
    room = [MAX_KEYS] * many
    for (root, unit), chosen in zip(units, cycle(sets), strict=False):
        for n in chosen:
            if room[n] < len(unit):
                yield Check([Cell(units, root) for root, units in parts[n].items()])
                parts[n], room[n] = {}, MAX_KEYS
            parts[n].setdefault(root, []).append(unit)
            room[n] -= len(unit)
    yield from (Check([Cell(units, root) for root, units in part.items()]) for part in parts if part)


def digest(*values: object) -> bytes:
    """Return what orders values as if by chance, but the same in each process."""
    return sha256(repr(values).encode()).digest()


def difference(after: Answer, before: Answer) -> dict[Label, int]:
    """Return by how much counts differ."""
    counts = {label: after.get(label, 0) - before.get(label, 0) for label in {**before, **after}}
    return {label: count for label, count in counts.items() if count}


def is_sound(answer: Answer | None, dimensions: frozenset[str]) -> bool:
    """Return whether an answer has only these dimensions, positive counts, and one total."""
    if answer is None:
        return False
    sums = dict.fromkeys(dimensions, 0)
    for label, count in answer.items():
        if count <= 0 or (label != TOTAL and label[0] not in sums):
            return False
        if label != TOTAL:
            sums[label[0]] += count
    return all(count == answer.get(TOTAL, 0) for count in sums.values())


def confusion(mine: Profile, theirs: Profile, most: float) -> float:
    """Estimate in how many ways counts can be confused between two profiles; stop where it reaches `most`.

    Each click is as likely in one half of a cell as in the other. Two can change places if they differ in
    one dimension, and one can move to the other profile if all its labels can.
    """
    swaps, alike = 0.0, 1.0
    for dimension, counts in mine.items():
        others = theirs.get(dimension)
        if not others:
            return swaps
        total = squares = 0.0
        none = 1.0
        for label, count in counts.items():
            if label in others:
                both = (1 - 0.5**count) * (1 - 0.5 ** others[label])
                total += both
                squares += both * both
                none *= 1 - both
        swaps += (total * total - squares) / 2
        alike *= 1 - none
        if swaps >= most:
            return swaps
    return swaps + alike
