"""Search for the counts of every key, from few answers about the sum of several keys.

The service answers what at most 100 keys have together: a total, and counts by label in several dimensions
(day, country, ...), each of which adds up to the total. The search requests whole batches, then first halves
of what has counts, several of different batches in one request, and takes the answers apart. A count is a
result once the answers leave no other value, and once checks agree: requests about other parts of its batch,
together with parts of other batches.

- A `Cell` is a batch (a root), or half of another cell. Each of its counts is a number of the `Bounds`.
- A `Question` asks what some cells have together. Its answer is an equation of their counts. If it
  contradicts the others, batches are asked again to find one that has changed; earlier answers then hold up
  to that change. If none has, the answer is dropped, and its cells are asked in other questions; a batch that
  contradicts the answer for a part of it alone is asked anew in halves.
- Cells without counts are asked again with others where a question has room, to check that.
- A `Check` asks what is known already. If the answer differs, its parts are checked apart, in the end units
  alone, whose answers then count.
- A round is a list of questions that do not need each other's answers.

The questions depend on the batches and the answers alone, so that a second run can replay a journal.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..batches import halves
from ..look_alikes import folded
from .bounds import Bounds, Pause
from .cells import TOTAL, Answer, Cell, Question, Unit, confusion, difference, is_sound
from .confirmation import Check, Confirmation, checks_of

#: Most ways in which clicks may be confused between the cells of a request; of cells that were asked before,
#: in a round of fewer than FEW_REQUESTS.
DOUBT, REPEAT_DOUBT = 6.0, 1.0
#: A round of fewer requests also has some that only repeat cells.
FEW_REQUESTS = 4
#: Times to ask halves of a batch that do not add up to it.
TRIES = 3
#: A batch with so many clicks a unit, or more, is asked unit by unit: no request can tell two of them apart.
#: That takes fewer requests already from this share of the keys on that are in batches with clicks.
DENSE, DENSE_SHARE = 20, 1 / 16

Rounds = Iterator[Sequence[Question] | Sequence[Check] | Pause]


class Search:
    """Search of some batches: answer the questions of each of its `rounds`, then take the results.

    Batches of at most `few` units are asked alone. Both halves of the batch with most counts are asked
    to see whether they add up to it.
    """

    def __init__(self, batches: Iterable[Sequence[Unit]], *, few: int = 0) -> None:
        #: The counts of keys that have any, at the end.
        self.results: dict[str, Answer] = {}
        #: Keys that must be asked alone.
        self.unresolved: list[str] = []
        #: False ends the search: answers contradict each other repeatedly, so the service does not count what
        #: it is asked, or the caller cannot use them.
        self.is_usable = True
        #: Whether the halves of a batch are known to add up to it; another search may have found that.
        self.is_verified = False
        self._few = few
        self._roots: list[Cell] = []
        seen: set[str] = set()
        for units in batches:
            # A look-alike of a key of an earlier batch might share a request with it: ask it alone.
            self._add_root(Cell([unit for unit in units if folded(unit[0]) not in seen]))
            self.unresolved += [key for unit in units if folded(unit[0]) in seen for key in unit]
            seen.update(folded(unit[0]) for unit in units)
        self._cells = list(self._roots)
        #: Cells that have no counts, largest first, until requests with others have confirmed it.
        self._empty: list[Cell] = []
        self._bounds = Bounds()
        # The questions whose answers are equations of the bounds.
        self._facts: list[Question] = []
        #: Roots to be asked anew, in halves; a dict, as the order of a set differs from process to process.
        self._suspects: dict[Cell, None] = {}

    def rounds(self) -> Rounds:
        """Yield the questions of each round, to be answered before the next, or `()`: a pause."""
        yield from self._ask_roots([Question(root) for root in self._roots])
        while self.is_usable:
            for root in filter(_is_costly, self._roots):
                self._suspects[root] = None
            if self._suspects:
                yield from self._cut()
            yield from self._split()
            if self._suspects:
                continue
            doubted = [cell for cell in self._cells if cell.contradictions > 1 and cell.is_first]
            questions = [Question(cell) for cell in doubted if not cell.is_exact(self._bounds)]
            pair = [] if self.is_verified else self._pair()
            questions += pair
            yield from self._pack(questions)
            if not questions:
                yield from self._confirm()
                return
            yield from self._ask(questions)
            if pair:
                yield from self._verify(pair)
            failed: list[Question] = []
            for question in questions:
                if not (yield from self._learn(question)):
                    failed.append(question)
                yield ()
            contradictory = [question for question in failed if question.answer is not None]
            if contradictory and (yield from self._find_change(contradictory, ())):
                failed = [question for question in failed if question.answer is None]
            for question in failed:
                self._drop(question)
        self.unresolved += [key for root in self._roots for key in root.keys]

    def take_unresolved(self) -> list[str]:
        """Return those keys that must be asked alone and were not yet returned."""
        keys, self.unresolved = self.unresolved, []
        return keys

    @property
    def open_keys(self) -> int:
        """Number of keys whose counts are not known yet, nor asked alone."""
        return sum(len(cell.keys) for cell in self._cells if not cell.halves)

    # What to ask.

    def _ask(self, questions: Sequence[Question]) -> Rounds:
        for question in questions:
            question.cells[0].has_led = True
            question.cells[0].origin.requests += 1
        yield questions

    def _ask_roots(self, questions: Sequence[Question]) -> Rounds:
        """Ask whole batches."""
        if questions:
            yield from self._ask(questions)
        dense = min(DENSE, DENSE_SHARE * sum(len(each.keys) for each in questions if each.answer))
        for question in questions:
            root, answer = question.cells[0], question.answer
            is_dense = answer is not None and answer.get(TOTAL, 0) >= max(1, dense * len(root.units))
            if not is_dense and root.take(answer):
                root.know(self._bounds)
                continue
            self._suspects[root] = None
            if answer is not None:
                # Its halves are no better: ask its keys alone.
                root.origin.requests += 2 * len(root.origin.keys)  # see `_is_costly`

    def _split(self) -> Iterator[Pause]:
        """Halve each cell that surely has counts, even before all of them are known."""
        cells: list[Cell] = []
        for cell in self._cells:
            if len(cell.units) > 1 and not cell.halves and cell.total(self._bounds.low):
                if (yield from self._bounds.accepts(partial(cell.halve, self._bounds))):
                    cells += cell.halves
                else:
                    self._suspects[cell.root] = None
            if not cell.is_exact(self._bounds):
                cells.append(cell)
            elif cell is not cell.root and not cell.halves and not cell.total(self._bounds.high):
                self._empty.append(cell)
            yield ()
        self._cells = cells

    def _pair(self) -> list[Question]:
        """Return questions for both halves of the batch with most counts."""
        split = [root for root in self._roots if root.halves]
        if not split:
            return []
        root = max(split, key=lambda root: (len(root.keys), root.total(self._bounds.low)))
        return list(map(Question, root.halves))

    def _verify(self, pair: Sequence[Question]) -> Rounds:
        """Compare the halves of a batch with it; if it differs, ask all again: it may have changed."""
        whole = pair[0].cells[0].root.answer
        for _ in range(TRIES):
            answers = [question.answer for question in pair if question.answer is not None]
            if whole is None or len(answers) < len(pair):
                return
            if not difference(answers, whole):
                self.is_verified = True
                return
            again = Question(pair[0].cells[0].root)
            yield from self._ask([again, *pair])
            whole = again.answer
        self.is_usable = False

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
            if cell.is_first and cell not in asked and not cell.is_exact(self._bounds):
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
            repeats.sort(key=lambda cell: -cell.total(self._bounds.low))
            questions += map(Question, repeats[:1])

    def _place(
        self, cells: list[Cell], packed: list[Question], most: float, opens: bool = True
    ) -> Iterator[Pause]:
        """Add each cell to the question where it confuses least, or to a new one."""
        for cell in cells:
            profile = cell.profile(self._bounds)
            best, least = None, most
            for question in packed:
                if question.has_room(cell):
                    doubt = confusion(profile, question.profile, least)
                    if doubt < least:
                        best, least = question, doubt
            if best:
                best.add(cell, profile)
            elif opens and not cell.has_led:
                packed.append(Question(cell, profile))
            yield ()

    def _confirm(self) -> Rounds:
        """Check what is known, and give the results."""
        counts: dict[Unit, Answer] = {}
        everything = [key for root in self._roots for key in root.keys]
        for root in self._roots:
            known = root.known(self._bounds)
            if known is None:
                self.unresolved += everything
                return
            counts.update(known)
            yield ()
        checks = yield from checks_of([root for root in self._roots if root.halves], counts)
        confirmation = Confirmation(counts, self._facts)
        yield from confirmation.rounds(checks, len(everything) // 3)
        self.is_usable &= confirmation.is_consistent
        if not self.is_usable or confirmation.has_given_up:
            self.unresolved += everything
            return
        self.unresolved += [key for unit in confirmation.unresolved for key in unit]
        for (key, *others), found in counts.items():
            if others:
                self.unresolved += [key, *others]
            else:
                self.results[key] = found

    # What answers say.

    def _learn(self, question: Question) -> Generator[Pause, None, bool]:
        """State that the counts of the cells add up to the answer; return False if they cannot."""
        empty = [cell for cell in question.riders if not cell.total(self._bounds.high)]
        is_usable = is_sound(question.answer, question.cells[0].root.dimensions)
        if not is_usable or not (yield from self._bounds.accepts(partial(question.state, self._bounds))):
            return False
        self._facts.append(question)
        for cell in question.cells:
            cell.questions.append(question)
        for cell in empty:
            cell.is_empty_again = not question.changes
        return True

    def _drop(self, question: Question) -> None:
        """Do without an answer: one of the cells is at fault, or a rider. Ask them in other company."""
        self._empty = [cell for cell in self._empty if cell not in question.riders]
        question.cells[0].has_led = False
        for cell in question.cells:
            cell.contradictions += 1
        if len(question.cells) == 1 and not question.riders:
            self._suspects[question.cells[0].root] = None

    # What goes wrong.

    def _add_root(self, root: Cell) -> None:
        if len(root.units) > max(1, self._few):
            self._roots.append(root)
        else:
            self.unresolved += root.keys

    def _find_change(
        self, questions: Sequence[Question], suspects: Iterable[Cell]
    ) -> Generator[Any, None, bool]:
        """Ask batches with contradictory answers again, then those that were asked with them.

        If one has changed, derive all anew and return True.
        """
        near = set(suspects).union(*(question.roots for question in questions))
        has_changed = False
        while not has_changed:
            again = [Question(root) for root in self._roots if root in near and not root.is_asked_again]
            if not again:
                return False
            yield from self._ask(again)
            for question in again:
                root, before = question.cells[0], question.cells[0].answer or {}
                root.is_asked_again = True
                if root.take(question.answer) and (change := difference([root.answer or {}], before)):
                    has_changed = True
                    for fact in (*self._facts, *questions):
                        if root in fact.roots:
                            fact.changes.append(change)
            near = near.union(*(fact.roots for fact in self._facts if not fact.roots.isdisjoint(near)))
        self._facts += questions
        yield from self._rebuild()
        return True

    def _cut(self) -> Rounds:
        """Ask the halves of suspect batches, or their units if they took too many requests."""
        while self._suspects:
            suspects, self._suspects = list(self._suspects), {}
            known = [root for root in suspects if root.answer is not None and not _is_costly(root)]
            if (yield from self._find_change((), known)):
                return
            old = set(self._roots) - set(suspects)
            self._roots = [root for root in self._roots if root in old]
            for root in suspects:
                if _is_costly(root):
                    self.unresolved += root.keys
                else:
                    for half in halves(root.units):
                        self._add_root(Cell(half, origin=root.origin))
            yield from self._ask_roots([Question(root) for root in self._roots if root not in old])
        yield from self._rebuild()

    def _rebuild(self) -> Iterator[Pause]:
        """Derive anew what is known from the answers for batches and the other answers."""
        self._bounds, facts, self._facts, self._empty = Bounds(), self._facts, [], []
        self._cells = [cell for root in self._roots for cell in root.tree()]
        roots = set(self._roots)
        for cell in self._cells:
            cell.is_empty_again = False
            cell.questions = []
            if cell is cell.root:
                cell.know(self._bounds)
            if cell.halves and not (yield from self._bounds.accepts(partial(cell.halve, self._bounds))):
                self._suspects[cell.root] = None
            yield ()
        for fact in facts:
            if not fact.roots <= roots:
                fact.cells[0].has_led = False
            elif not (yield from self._learn(fact)):
                self._drop(fact)
            yield ()


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
