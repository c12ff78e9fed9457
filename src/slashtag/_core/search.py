"""Search for the counts of every key, from few answers about the sum of several keys.

The service answers what at most 100 keys have together: a total, and counts by label in several dimensions
(day, country, ...), each of which adds up to the total. The search requests whole batches, then first halves
of what has counts, several of different batches in one request, and takes the answers apart. A count is a
result once the answers leave no other value, and once checks agree: requests about other parts of its batch,
together with parts of other batches.

- A `Cell` is a batch (a root), or half of another cell. Each of its counts is a number of the `Bounds`.
- A `Question` asks what some cells have together. Its answer is an equation of their counts.
- Cells without counts are asked again with others where a question has room, to check that.
- A `Check` asks what is known already. If the answer differs, its parts are checked apart; then the batch is
  requested again, and if that has not changed, in halves.
- A round is a list of questions that do not need each other's answers.

The questions depend on the batches and the answers alone, so that a second run can replay a journal.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial

from .._statistics import add_counts
from .batches import Selector, folded, halves
from .bounds import Bounds, Pause
from .cells import (
    TOTAL,
    WIDTH,
    Answer,
    Cell,
    Check,
    Known,
    Label,
    Question,
    Surplus,
    Unit,
    checks_of,
    confusion,
    difference,
    is_sound,
    narrowed,
)

#: Most ways in which clicks may be confused between the cells of a request, and if a round has only a few.
DOUBT, REPEAT_DOUBT = 6.0, 1.0
#: A round of fewer requests also has some that only repeat cells.
FEW_REQUESTS = 4
#: Times to ask halves of a batch that do not add up to it.
TRIES = 3
#: Batches that contradict their checks without having changed, before all keys are asked alone.
MOST_CONTRADICTIONS = 3


class Search:
    """Search of some batches: answer the questions of each of its `rounds`, then take the results.

    Batches of at most `few` units are asked alone.
    """

    def __init__(self, batches: Iterable[Sequence[Unit]], *, few: int = 0) -> None:
        #: The counts of keys that have any, at the end.
        self.results: dict[str, Answer] = {}
        #: Keys that must be asked alone.
        self.unresolved: list[str] = []
        #: False if answers contradict each other repeatedly: the service does not count what it is asked.
        self.is_additive = True
        self._few = few
        self._roots: list[Cell] = []
        seen: set[str] = set()
        for units in batches:
            # A look-alike of a key of an earlier batch might share a request with it: ask it alone.
            self._add_roots([[unit for unit in units if folded(unit[0]) not in seen]])
            self.unresolved += [key for unit in units if folded(unit[0]) in seen for key in unit]
            seen.update(folded(unit[0]) for unit in units)
        self._cells = list(self._roots)
        #: Cells that have no counts, largest first, until requests with others have confirmed it.
        self._empty: list[Cell] = []
        #: Halves of a batch, asked alone to verify that they add up, and how often that was done.
        self._pair: list[Question] = []
        self._tries = 0
        self._bounds = Bounds()
        # The questions whose answers are equations of the bounds.
        self._facts: list[Question] = []
        #: Questions that contradicted others, and their roots, to be asked once more.
        self._doubtful: list[Question] = []
        #: Checks to be asked, and how many batches contradicted theirs without having changed.
        self._checks: list[Check] = []
        #: Those that were asked.
        self._checked: list[Check] = []
        self._contradictions = 0
        #: Roots to be asked anew, in halves.
        self._suspects: list[Cell] = []

    def rounds(self) -> Iterator[list[Question] | Pause]:
        """Yield the questions of each round, to be answered before the next, or `()`: a pause."""
        while self.is_additive:
            yield from self._split()
            self._suspect(filter(_is_costly, self._roots))
            if self._suspects:
                yield from self._restart()
                continue
            questions, self._doubtful = self._doubtful, []
            questions += [Question(cell) for cell in self._cells if self._is_asked_alone(cell)]
            questions += self._verify()
            yield from self._pack(questions)
            round_ = questions or (yield from self._check())
            if not round_:
                break
            for question in round_:
                question.lead()
            yield round_
            yield from self._take(round_)
        yield from self._give()

    def take_unresolved(self) -> list[Selector]:
        """Return those keys that must be asked alone and were not yet returned."""
        keys, self.unresolved = self.unresolved, []
        return [Selector(keys=(key,)) for key in keys]

    @property
    def open_keys(self) -> int:
        """Number of keys whose counts are not known yet, nor asked alone."""
        return sum(len(cell.keys) for cell in self._cells if not cell.halves)

    # What to ask.

    def _split(self) -> Iterator[Pause]:
        """Halve each cell that surely has counts, even before all of them are known."""
        cells: list[Cell] = []
        for cell in self._cells:
            if cell.root.answer is None:
                cells.append(cell)
                continue
            if len(cell.units) > 1 and not cell.halves and cell.total(self._bounds.low):
                if (yield from self._bounds.holds(partial(cell.halve, self._bounds))):
                    cells += cell.halves
                else:
                    self._suspect((cell.root,))
            if not cell.is_exact(self._bounds):
                cells.append(cell)
            elif cell is not cell.root and not cell.halves and not cell.total(self._bounds.high):
                self._empty.append(cell)
            yield ()
        self._cells = cells

    def _is_asked_alone(self, cell: Cell) -> bool:
        return cell.root.answer is None or (
            cell.is_alone and cell.is_first and not cell.is_exact(self._bounds)
        )

    def _verify(self) -> list[Question]:
        """Ask both halves of the batch with most counts alone, and all three again if they do not add up."""
        split = [root for root in self._roots if root.halves]
        if self._tries == TRIES or not split:
            return []
        root = max(split, key=lambda root: (len(root.keys), root.total(self._bounds.low)))
        self._pair = [Question(half) for half in root.halves]
        return [Question(root), *self._pair] if self._tries else self._pair

    def _pack(self, questions: list[Question]) -> Iterator[Pause]:
        """Add questions for first halves, each with cells whose counts are unlikely to be confused.

        Each question is led by a first half that led none before, so there are never more than halving asks.
        Cells that were asked and are still open ride along: in new company they make the old answers clear.
        """
        asked = {cell for question in questions for cell in question.cells}
        fresh: list[Cell] = []
        repeats: list[Cell] = []
        for cell in sorted(self._cells, key=lambda cell: -len(cell.keys)):
            yield ()
            if cell.is_first and not cell.is_alone and cell not in asked and not cell.is_exact(self._bounds):
                (repeats if cell.questions else fresh).append(cell)
        packed: list[Question] = []
        yield from self._place(fresh, packed, DOUBT)
        if len(questions) + len(packed) < FEW_REQUESTS:
            yield from self._place(_apart(repeats, self._bounds), packed, REPEAT_DOUBT)
        else:
            ends = [cell for cell in repeats if not cell.halves]
            yield from self._place(ends, packed, DOUBT, opens=False)
        empty = [cell for cell in self._empty if not cell.is_empty_again]
        self._empty = sorted(empty, key=lambda cell: -len(cell.keys))
        for question in packed:
            empty = question.carry(empty)
            yield ()
        questions += packed
        if not questions:
            questions += map(Question, repeats[:1])

    def _place(
        self, cells: list[Cell], packed: list[Question], most: float, opens: bool = True
    ) -> Iterator[Pause]:
        """Add each cell to the question where it confuses least, or to a new one."""
        for cell in cells:
            profile = cell.profile(self._bounds)
            best, least = None, most
            for question in packed:
                if len(question.cells) < WIDTH and question.has_room(cell):
                    doubt = confusion(profile, question.profile, least)
                    if doubt < least:
                        best, least = question, doubt
            if best:
                best.add(cell, profile)
            elif opens and not cell.has_led:
                packed.append(Question(cell, profile))
            yield ()

    def _check(self) -> Generator[Pause, None, list[Question]]:
        """Return the checks that follow from those that failed, or those of the batches that were split."""
        checks, self._checks = self._checks, []
        if not checks:
            # Those that failed may agree now that a batch has changed, and others no longer.
            checked, self._checked = self._checked, []
            known = yield from self._known(checked)
            self._uncheck(check for check in checked if check.surplus(known) != {})
            roots = [root for root in self._roots if root.halves and not root.is_checked]
            for root in roots:
                root.is_checked = True
            checks = yield from checks_of(roots, self._bounds)
        again = dict.fromkeys(root for check in checks if check.is_last for root in check.roots)
        return [*map(Question, again), *checks]

    def _uncheck(self, checks: Iterable[Check]) -> None:
        for root in (root for check in checks for root in check.roots):
            root.is_checked = False

    def _known(self, checks: Iterable[Check]) -> Generator[Pause, None, Known]:
        """Return what is known of the batches of checks."""
        known: dict[Cell, dict[Unit, Answer]] = {}
        for root in dict.fromkeys(root for check in checks for root in check.roots):
            known[root] = root.known(self._bounds) or {}
            yield ()
        return known

    def _compare(self, checks: Sequence[Check]) -> Generator[Pause, None, dict[Cell, list[Surplus]]]:
        """Take the answers of checks; return what the last ones have more than is known, by batch."""
        known = yield from self._known(checks)
        surplus = {check: check.surplus(known) for check in checks}
        failed = [check for check in checks if surplus[check] != {}]
        self._checked += checks
        self._checks = narrowed([check for check in checks if surplus[check] == {}], failed)
        found: dict[Cell, list[Surplus]] = {}
        for check in failed:
            check.has_failed = True
            if check.is_last:
                found.setdefault(check.cells[0].root, []).append((check.units, surplus[check]))
        return found

    def _take(self, round_: list[Question]) -> Iterator[Pause]:
        """Learn from the answers of a round, first from those for whole batches."""
        checks = [question for question in round_ if isinstance(question, Check)]
        changes = yield from self._compare(checks)
        is_changed = False
        parts: list[Question] = []
        for question in round_:
            for root in question.roots:
                root.fetched = max(root.fetched, question.fetched)
            cell = question.cells[0]
            if cell is cell.root:
                is_changed |= self._take_root(cell, question.answer, changes.get(cell, ()))
            elif question not in checks:
                parts.append(question)
        if is_changed:
            yield from self._rebuild(self._facts)
        if self._pair and not self._adds_up():
            parts = [question for question in parts if question not in self._pair]
        self._pair = []
        for question in parts:
            for cell in question.cells:
                cell.questions.append(question)
                cell.root.is_checked &= cell.is_exact(self._bounds)
            if is_sound(question.answer, question.cells[0].root.dimensions):
                yield from self._learn(question)
            else:
                self._drop(question)
            yield ()

    def _take_root(self, root: Cell, answer: Answer | None, seen: Sequence[Surplus]) -> bool:
        """Take the answer for a batch, beside which checks have `seen` changes; return whether it differs."""
        before, dimensions = root.answer, root.dimensions
        if before is None:
            dimensions = frozenset(label[0] for label in answer or () if label != TOTAL)
        if answer is None or not is_sound(answer, dimensions):
            self._suspect((root,))
            if answer is not None:
                # Its halves would be no better: ask its keys alone.
                root.origin.requests += 2 * len(root.origin.keys)
            return False
        change = difference(answer, before or {})
        if before is None:
            root.answer, root.dimensions = answer, dimensions
            root.know(self._bounds)
            return False
        if change:
            root.answer = answer
            self._correct(root, change, seen)
        elif seen:
            self._suspect((root,))
            # One that failed contradicts nothing.
            self._contradictions += any(surplus is not None for _, surplus in seen)
            self.is_additive = self._contradictions < MOST_CONTRADICTIONS
        return bool(change)

    def _correct(self, root: Cell, change: Answer, seen: Sequence[Surplus]) -> None:
        """Correct earlier answers by the change of a batch.

        If that is what a check has seen, it is known which of them it concerns. Otherwise each may have
        counted all of it, some or nothing.
        """
        is_seen = [surplus for _, surplus in seen] == [change]
        units = seen[0][0] if is_seen else frozenset(root.units)
        root.is_checked &= is_seen
        for question in self._facts:
            concerned = units & question.units
            if is_seen and concerned == units:
                question.answer = difference(
                    question.answer or {}, {label: -count for label, count in change.items()}
                )
            elif concerned:
                question.changes.append(change)
                for cell in question.cells:
                    cell.has_led = False

    def _adds_up(self) -> bool:
        """Return whether the halves that were asked alone add up to their batch, or there is no saying."""
        self._tries += 1
        whole: dict[Label, int] = {}
        for question in self._pair:
            if question.answer is None:
                return True
            add_counts(whole, question.answer)
        is_sum = whole == self._pair[0].cells[0].root.answer
        if is_sum:
            self._tries = TRIES
        elif self._tries == TRIES:
            self.is_additive = False
        return is_sum

    def _learn(self, question: Question) -> Iterator[Pause]:
        """State that the counts of the cells add up to the answer, unless that is a contradiction."""
        if (yield from self._bounds.holds(partial(question.state, self._bounds))):
            self._facts.append(question)
            for cell in question.riders:
                cell.is_empty_again = not question.changes
        elif question.is_repeated:
            self._drop(question)
        else:
            # Has a batch changed since, or was this answer wrong?
            question.is_repeated = True
            repeated = {other.cells[0] for other in self._doubtful}
            self._doubtful += [Question(root) for root in question.roots if root not in repeated]
            self._doubtful.append(question)

    def _drop(self, question: Question) -> None:
        """Do without an answer: ask its cells one by one, or the batch anew if it was for one."""
        for cell in question.cells:
            cell.is_alone = True
        if len(question.cells) == 1:
            self._suspect((question.cells[0].root,))

    # What goes wrong.

    def _suspect(self, roots: Iterable[Cell]) -> None:
        self._suspects += [root for root in roots if root not in self._suspects]

    def _restart(self) -> Iterator[Pause]:
        """Ask the suspect batches anew, in halves or, if they took too many requests, unit by unit."""
        while self._suspects:
            suspects, self._suspects = set(self._suspects), []
            roots, self._roots = self._roots, []
            for root in roots:
                if root not in suspects:
                    self._roots.append(root)
                elif _is_costly(root):
                    self.unresolved += root.keys
                else:
                    self._add_roots(halves(root.units), root.origin)
            facts: list[Question] = []
            for question in self._facts:
                if suspects.isdisjoint(question.roots):
                    facts.append(question)
                else:
                    question.cells[0].has_led = False
            self._doubtful = [other for other in self._doubtful if suspects.isdisjoint(other.roots)]
            self._checks = [check for check in self._checks if suspects.isdisjoint(check.roots)]
            failed = (check for check in self._checked if check.has_failed)
            self._uncheck(check for check in failed if not suspects.isdisjoint(check.roots))
            self._checked = [check for check in self._checked if suspects.isdisjoint(check.roots)]
            yield from self._rebuild(facts)

    def _add_roots(self, batches: Iterable[Sequence[Unit]], origin: Cell | None = None) -> None:
        for units in batches:
            root = Cell(units, origin=origin)
            if len(units) > max(1, self._few):
                self._roots.append(root)
            else:
                self.unresolved += root.keys

    def _rebuild(self, facts: list[Question]) -> Iterator[Pause]:
        """Derive all bounds anew, from the answers for whole batches and `facts`."""
        self._bounds, self._facts, self._empty = Bounds(), [], []
        self._cells = [cell for root in self._roots for cell in root.tree()]
        for cell in self._cells:
            cell.is_empty_again = False
            if cell is cell.root and cell.answer is not None:
                cell.know(self._bounds)
            if cell.halves and not (yield from self._bounds.holds(partial(cell.halve, self._bounds))):
                self._suspect((cell.root,))
            yield ()
        for question in facts:
            yield from self._learn(question)
            yield ()

    def _give(self) -> Iterator[Pause]:
        for root in self._roots:
            yield ()
            known = root.known(self._bounds) if self.is_additive else None
            if known is None:
                self.unresolved += root.keys
                continue
            for (key, *others), counts in known.items():
                if others:
                    self.unresolved += [key, *others]
                else:
                    self.results[key] = counts


def _apart(cells: Iterable[Cell], bounds: Bounds) -> list[Cell]:
    """Return cells of which no two were in one question, those that may have most counts first."""
    found: list[Cell] = []
    used: set[Question] = set()
    for cell in sorted(cells, key=lambda cell: -cell.total(bounds.high)):
        if used.isdisjoint(cell.questions):
            used.update(cell.questions)
            found.append(cell)
    return found


def _is_costly(root: Cell) -> bool:
    """Return whether a batch has taken as many requests as only contradictory answers can explain."""
    return root.origin.requests > 2 * len(root.origin.keys)
