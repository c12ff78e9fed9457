"""Checks of a search: the counts that are known of units are asked again, in other company than before."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import combinations, cycle
from itertools import count as count_from
from math import comb

from ..batches import MAX_KEYS, halves
from .bounds import Pause
from .cells import Answer, Cell, Question, Unit, difference, is_sound

#: Units of different batches that are never in the same checks.
TOLD_APART = 50
#: Share of the room of checks that is used at most.
FILL = 0.95

#: A unit and its batch.
Member = tuple[Cell, Unit]


class Check:
    """Units that are asked together though their counts are known; set `answer`, None if there is none."""

    #: The answer must not come from a cache.
    is_repeated = is_part = True

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = list(members)
        self.answer: Answer | None = None
        #: Whether it is asked once more, as the answers for all its parts contradict it.
        self.is_contradictory = False

    @property
    def units(self) -> frozenset[Unit]:
        """The units without their batches."""
        return frozenset(unit for _, unit in self.members)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all units."""
        return tuple(key for _, unit in self.members for key in unit)

    def agrees(self, counts: dict[Unit, Answer]) -> bool:
        """Return whether the answer is what the units have together."""
        known = (counts[unit] for _, unit in self.members if unit in counts)
        return self.answer is not None and not difference(known, self.answer)


class Confirmation:
    """Rounds of checks. Where an answer differs from what is known, its units are asked apart, at last alone.

    `counts` are those of the units that have any, `facts` the questions from which they are known.
    """

    def __init__(self, counts: dict[Unit, Answer], facts: Sequence[Question]) -> None:
        self.counts = counts
        #: Units of which nothing is known, as the request for them alone failed.
        self.unresolved: dict[Unit, None] = {}
        #: False if answers contradict each other although they were asked again.
        self.is_consistent = True
        #: Whether so much is wrong that checks do not find it.
        self.has_given_up = False
        self._facts = facts
        #: The checks that were asked, by their units, and how often units were asked alone.
        self._asked: dict[frozenset[Unit], Check] = {}
        #: Those to be asked again.
        self._again: dict[frozenset[Unit], Check] = {}
        self._alone: Counter[Unit] = Counter()

    def rounds(self, checks: Sequence[Check], most: int) -> Iterator[Sequence[Check] | Pause]:
        """Yield the checks of each round, to be answered before the next, or `()`: a pause.

        `most` bounds how many are asked beyond the first.
        """
        left = 2 * len(checks) + most
        while checks and self.is_consistent and not self.has_given_up:
            yield checks
            left -= len(checks)
            for check in checks:
                self._asked[check.units] = check
                if len(check.members) == 1:
                    for other in self._take_alone(check):
                        self._asked.pop(other.units, None)
                        self._again[other.units] = other
            checks = yield from self._narrowed()
            if not checks:
                # Only now: each unit found makes some of them necessary.
                checks, self._again = list(self._again.values()), {}
            self.has_given_up = left <= 0 and bool(checks)

    def _take_alone(self, check: Check) -> Iterator[Check]:
        """Take the counts of a unit; if they are new, yield again what agreed with the old ones."""
        root, unit = check.members[0]
        self._alone[unit] += 1
        self.unresolved.pop(unit, None)
        if check.answer == self.counts.get(unit, {}):
            return
        agreed = [other for other in self._asked.values() if other.agrees(self.counts)]
        self.counts.pop(unit, None)
        if check.answer is None or not is_sound(check.answer, root.dimensions):
            self.unresolved[unit] = None
        elif check.answer:
            self.counts[unit] = check.answer
        yield Check((root, other) for other in root.units)
        yield from (Check(other.members) for other in agreed if not other.agrees(self.counts))
        for fact in self._facts:
            if any(unit in cell.units for cell in fact.cells):
                cells = (*fact.riders, *fact.cells)
                yield Check((cell.root, other) for cell in cells for other in cell.units)

    def _narrowed(self) -> Generator[Pause, None, list[Check]]:
        """Return checks that find out which counts are wrong, where checks differ from what is known."""
        agreeing: list[frozenset[Unit]] = []
        failed: list[tuple[frozenset[Unit], Check]] = []
        #: In how many more checks that differ than that agree a unit is.
        doubt: Counter[Unit] = Counter()
        for units, check in self._asked.items():
            if check.agrees(self.counts):
                agreeing.append(units)
                doubt.subtract(units)
            elif len(units) > 1:
                failed.append((units, check))
                doubt.update(units)
            yield ()
        found: list[Check] = []
        for units, check in failed:
            cleared = set[Unit]().union(*(other for other in agreeing if len(other) > 1 and other < units))
            open_ = [(root, unit) for root, unit in check.members if unit not in cleared]
            open_ = [(root, unit) for root, unit in open_ if self._alone[unit] < 2]
            if open_:
                most = max(doubt[unit] for _, unit in open_)
                likely = [(root, unit) for root, unit in open_ if doubt[unit] == most]
                part = Check(halves(likely)[0] if len(likely) > 1 else likely)
                if len(part.members) == 1 or part.units not in self._asked:
                    found.append(part)
            elif check.is_contradictory:
                self.is_consistent = False
            elif check.answer is not None and units.isdisjoint(self.unresolved.keys()):
                found.append(Check(check.members))
                found[-1].is_contradictory = True
            yield ()
        return list({check.units: check for check in found}.values())


def checks_of(roots: Sequence[Cell], counts: dict[Unit, Answer]) -> Generator[Pause, None, list[Check]]:
    """Return checks of batches, which find counts that were given to the wrong unit.

    Each unit that has counts is in two checks or more, no two of a batch in the same ones. Units without
    counts, unless they were checked in other requests, are in checks that have no others of their batch.
    """
    counted: dict[tuple[int, frozenset[str]], list[Member]] = {}
    empties: list[list[Member]] = []
    # Totals alone hide more errors than labels do: then there are twice as many checks.
    labels = {label for root in roots for label in root.answer or ()}
    is_poor = len(labels) <= 1 + len({dimension for dimension, _ in labels} - {""})
    for root in roots:
        again = {unit for cell in root.tree() if cell.is_empty_again for unit in cell.units}
        members = [(root, unit) for unit in root.units if unit in counts]
        for n in range(1 + is_poor):
            counted.setdefault((n, root.dimensions), []).extend(members)
        empties.append([(root, unit) for unit in root.units if unit not in counts and unit not in again])
        yield ()
    checks: list[Check] = []
    for (n, _), members in counted.items():
        checks += _spread(members, n)
        yield ()
    for members in filter(None, empties):
        root = members[0][0]
        size = sum(len(unit) for _, unit in members)
        for check in checks:
            others = {other for other, _ in check.members}
            is_alike = root not in others and all(other.dimensions == root.dimensions for other in others)
            if is_alike and len(check.keys) + size <= MAX_KEYS:
                check.members += members
                break
        else:
            checks.append(Check(members))
        yield ()
    return list({check.units: check for check in checks}.values())


def _spread(members: Sequence[Member], nth: int) -> Iterator[Check]:
    """Yield checks of units, each unit in two or more; by another `nth` the same units in other checks."""
    if not members:
        return
    # Units of different batches are told apart too, unless there are many.
    most = max(min(len(members), TOLD_APART), *Counter(root for root, _ in members).values())
    keys = sum(len(unit) for _, unit in members)
    many, size = next(
        (many, size)
        for many in count_from(3)
        for size in range(2, max(3, many // 2 + 1))
        if comb(many, size) >= most and keys * size <= FILL * MAX_KEYS * many
    )
    # By chance, but so that each set of checks has as many units as any other.
    sets = sorted(combinations(range(many), size), key=partial(digest, nth))
    parts: list[list[Member]] = [[] for _ in range(many)]
    room = [MAX_KEYS] * many
    for (root, unit), chosen in zip(members, cycle(sets), strict=False):
        for n in chosen:
            if room[n] < len(unit):
                yield Check(parts[n])
                parts[n], room[n] = [], MAX_KEYS
            parts[n].append((root, unit))
            room[n] -= len(unit)
    yield from map(Check, filter(None, parts))


def digest(*values: object) -> bytes:
    """Return what orders values as if by chance, but the same in each process."""
    return sha256(repr(values).encode()).digest()
