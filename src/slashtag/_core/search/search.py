"""Search for the counts of every key, from few answers about the sum of several keys.

The service answers what at most 100 keys have together: a total, and counts by label in several dimensions
(day, country, ...), each of which adds up to the total. The search asks whole batches, then first halves of
what has clicks, those of several batches in one question, and takes the answers apart. At last it asks all
keys with clicks again in CHECKS other sets: two keys of a batch are never in the same ones. A `Cell` is a
batch (a root), or half of a cell; each of its counts is a number of the `Bounds`. A `Question` asks what some
cells have together. A count is a result if the answers leave no other value.

What an answer says                                  What follows
---------------------------------------------------  -----------------------------------------------------
of a batch, the first time                           its counts are known; a dense batch is asked key by key
none, of a batch                                     its halves are batches: a key may be refused
contradicts itself, of a batch                       its keys are asked alone
agrees with the others                               it is an equation of the counts of its cells
contradicts others                                   the batches most in doubt are asked again, then the
                                                     others in question, then those asked with them
a batch has changed                                  its earlier answers hold up to the change; all is derived
                                                     anew, and the batch checked again
none has changed, or there was no answer             it counts for nothing; what is most in doubt and the
                                                     rest, or two halves, are asked, and all of it again
the parts agree, all of it contradicts them again    the service does not count what it is asked
one cell alone, asked twice, contradicts others      its batch is at fault: it begins anew, its smallest parts
                                                     as batches, and what was asked of it counts for nothing
such parts do not add up to the batch, asked twice   the service does not count what it is asked
more questions than keys; a batch at fault 4 times   the keys left are asked alone

A cell without clicks is asked again where a question has room. What is asked depends on the batches and the
answers alone, so that a second run can replay a journal.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial

from ..batches import halves
from ..look_alikes import folded
from .bounds import Bounds
from .cells import WIDTH, Answer, Cell, Question, Unit, apart, confusion, difference, digest, is_sound

#: Most ways to confuse clicks between the cells of a request; between cells asked before, in a small round.
DOUBT, REPEAT_DOUBT = 6.0, 1.0
#: A round of fewer requests also has some that only repeat cells.
FEW_REQUESTS = 4
#: Ways in which results are checked: 255 codes, so that each of 100 keys has its own.
CHECKS = 8
#: A batch with so many clicks a unit, or more, is asked unit by unit: no request can tell two of them apart.
#: That takes fewer requests already from this share of the keys on that are in batches with clicks.
DENSE, DENSE_SHARE = 20, 1 / 16
#: Keys whose batches have changed or were at fault so often are asked alone.
MOST_FAULTS = 3

Rounds = Iterator[Sequence[Question]]


class Search:
    """Search of some batches: answer the questions of each of its `rounds`, then take the results.

    Batches of at most `few` units are asked alone.
    """

    def __init__(self, batches: Iterable[Sequence[Unit]], *, few: int = 0) -> None:
        #: The counts of keys that have any, at the end.
        self.results: dict[str, Answer] = {}
        #: Keys that must be asked alone.
        self.unresolved: list[str] = []
        #: False ends the search: the service does not count what it is asked, or the caller cannot use it.
        self.is_usable = True
        self._few = few
        self._bounds = Bounds()
        #: In their order; a dict, as the order of a set differs from process to process.
        self._roots: dict[Cell, None] = {}
        #: Cells that may have to be split or asked, and those without counts that have not been asked again.
        self._open: list[Cell] = []
        self._empty: list[Cell] = []
        #: Questions whose answers are equations of the bounds.
        self._facts: list[Question] = []
        #: Roots whose results are not checked yet.
        self._unchecked: dict[Cell, None] = {}
        self._has_pair = False
        seen: set[str] = set()
        for units in batches:
            # A look-alike of a key of an earlier batch might share a request with it: ask it alone.
            self._add_root([unit for unit in units if folded(unit[0]) not in seen])
            self.unresolved += [key for unit in units if folded(unit[0]) in seen for key in unit]
            seen.update(folded(unit[0]) for unit in units)
        #: One a key, and those of checks: answers that contradict each other take more.
        self._questions_left = sum(len(root.keys) + CHECKS + 2 for root in self._roots)

    def rounds(self) -> Rounds:
        """Yield the questions of each round, to be answered before the next."""
        yield from self._ask_roots(list(self._roots))
        self._leave_dense()
        while self.is_usable and self._questions_left >= 0:
            self._split()
            pair = self._pair()
            questions = pair + self._pack(pair) or self._check()
            if not questions:
                self._take_results()
                return
            yield from self._ask(questions)
            yield from self._learn(questions)
        # The others were asked alone already.
        self.unresolved += [key for root in self._roots for key in root.keys]

    def take_unresolved(self) -> list[str]:
        """Return those keys that must be asked alone and were not yet returned."""
        keys, self.unresolved = self.unresolved, []
        return keys

    def leave(self, roots: Iterable[Cell]) -> None:
        """Have the keys of batches asked alone."""
        for root in roots:
            del self._roots[root]
            self.unresolved += root.keys

    @property
    def open_keys(self) -> int:
        """Number of keys whose counts are not known yet, nor asked alone."""
        return sum(len(cell.keys) for cell in self._open if not cell.halves)

    # Whole batches.

    def _ask(self, questions: Sequence[Question]) -> Rounds:
        self._questions_left -= len(questions)
        if questions:
            yield questions

    def _add_root(self, units: Sequence[Unit], faults: int = 0, few: int | None = None) -> list[Cell]:
        """Begin with a batch, or have its keys asked alone; return it in the first case."""
        root = Cell(units, faults=faults)
        if len(units) <= (max(1, self._few) if few is None else few) or faults > MOST_FAULTS:
            self.unresolved += root.keys
            return []
        self._roots[root] = None
        return [root]

    def _ask_roots(self, roots: Sequence[Cell]) -> Rounds:
        """Ask whole batches, and halves of those that are not answered."""
        while roots:
            questions = [Question([root]) for root in roots]
            yield from self._ask(questions)
            roots = []
            for question in questions:
                (root,) = question.cells
                if root not in self._roots:
                    continue
                if root.take(question.answer):
                    root.know(self._bounds)
                    self._open.append(root)
                    continue
                del self._roots[root]
                # A key may be refused. If the answer is of no use, those for its halves are no better.
                faults = root.faults if question.answer is None else MOST_FAULTS + 1
                for half in halves(root.units):
                    roots += self._add_root(half, faults)

    def _leave_dense(self) -> None:
        """Have batches with so many clicks that no request tells them apart asked unit by unit."""
        totals = {root: root.total(self._bounds.low) for root in self._roots}
        dense = min(DENSE, DENSE_SHARE * sum(len(root.keys) for root, total in totals.items() if total))
        self.leave(root for root, total in totals.items() if total >= max(1, dense * len(root.units)))

    def _pair(self) -> list[Question]:
        """Return questions for both halves of a batch: whether the service counts what it is asked."""
        split = [root for root in self._roots if root.halves and not self._has_pair]
        if not split:
            return []
        self._has_pair = True
        root = max(split, key=lambda root: (len(root.keys), root.total(self._bounds.low)))
        return [Question([half]) for half in root.halves]

    # What answers say.

    def _accepts(self, question: Question) -> bool:
        """State that the counts of some cells add up to the answer; return False if they cannot."""
        is_usable = is_sound(question.answer, question.dimensions)
        if not is_usable or not self._bounds.accepts(partial(question.state, self._bounds)):
            return False
        self._facts.append(question)
        for cell in question.cells:
            cell.questions.append(question)
        return True

    def _learn(self, questions: Sequence[Question]) -> Rounds:
        """State what answers say; ask again what contradicts the others, until the reason is found."""
        failed = [question for question in questions if not self._accepts(question)]
        contradictory = [question for question in failed if question.answer is not None]
        #: In how many more questions that contradict others than that do not a cell is.
        doubts: Counter[Cell] = Counter()
        for question in questions:
            doubts.update(dict.fromkeys(question.cells, 1 if question in contradictory else -1))
        if contradictory and (yield from self._find_change(contradictory, doubts)):
            failed = [question for question in failed if question.answer is None]
        while failed and self.is_usable and self._questions_left >= 0:
            failed = yield from self._narrow(failed, doubts)

    def _narrow(
        self, failed: Sequence[Question], doubts: Counter[Cell]
    ) -> Generator[Sequence[Question], None, list[Question]]:
        """Ask less at once than in questions that failed; return those that are left, which have failed too.

        Of contradictory ones the first only, as the others may have the same reason.
        """
        waiting: list[Question] = []
        found = [question for question in failed if question.answer is None] or failed[:1]
        groups: list[list[Question]] = []
        for question in found:
            cells = question.cells
            if len(cells) == 1:
                groups.append([Question(cells, is_repeated=True)])
                continue
            most = max(doubts[cell] for cell in cells)
            likely = [cell for cell in cells if doubts[cell] == most]
            others = [cell for cell in cells if doubts[cell] < most]
            parts = (likely, others) if others else halves(cells)
            groups.append([Question(part, is_repeated=True) for part in parts])
            if question.answer is not None:
                groups[-1].append(Question(cells, is_repeated=True))
        yield from self._ask([question for group in groups for question in group])
        at_fault: dict[Cell, None] = {}
        for group in groups:
            wrong = [question for question in group if not self._accepts(question)]
            if len(group) == 1 and wrong:
                at_fault[wrong[0].cells[0].root] = None
            elif len(group) == 3 and wrong == group[2:]:
                # Both parts count what they are asked, and the whole differs again.
                self.is_usable &= wrong[0].answer is None
            else:
                waiting += [question for question in wrong if question in group[:2]]
        if at_fault:
            yield from self._begin_anew(at_fault)
        return [
            question
            for question in (*waiting, *(question for question in failed if question not in found))
            if all(cell.root in self._roots for cell in question.cells) and not self._accepts(question)
        ]

    def _find_change(
        self, contradictory: Sequence[Question], doubts: Counter[Cell]
    ) -> Generator[Sequence[Question], None, bool]:
        """Ask the batches most in doubt again, then others asked with them, until one has changed.

        If one has, earlier answers hold up to that change: derive all anew and return True.
        """
        cells = {cell for question in contradictory for cell in question.cells}
        most = max(doubts[cell] for cell in cells)
        likely = {cell.root for cell in cells if doubts[cell] == most}
        facts = [fact for fact in self._facts if any(cell.root in likely for cell in fact.cells)]
        beside = {cell.root for fact in facts for cell in fact.cells}
        for near in (likely, {cell.root for cell in cells}, beside):
            roots = [root for root in self._roots if root in near and not root.is_asked_again]
            asked = [Question([root], is_repeated=True) for root in roots]
            yield from self._ask(asked)
            has_changed = False
            for root, question in zip(roots, asked, strict=True):
                before = root.answer or {}
                root.is_asked_again = True
                if root.take(question.answer) and (change := difference([root.answer or {}], before)):
                    has_changed = True
                    root.is_asked_again = False
                    root.faults += 1
                    self._unchecked[root] = None
                    for fact in (*self._facts, *contradictory):
                        if any(cell.root is root for cell in fact.cells):
                            fact.changes.append(change)
            if has_changed:
                self._facts += contradictory
                self._rebuild()
                return True
        return False

    def _begin_anew(self, at_fault: Iterable[Cell]) -> Rounds:
        """Search the smallest parts of batches at fault as batches, those without counts together."""
        high = self._bounds.high
        parts_of: dict[Cell, list[Sequence[Unit]]] = {}
        for root in at_fault:
            parts = parts_of[root] = [cell.units for cell in root.leaves() if cell.total(high)]
            if empty := [unit for cell in root.leaves() if not cell.total(high) for unit in cell.units]:
                parts.append(empty)
            if len(parts) == 1:
                parts[:] = halves(root.units)
            del self._roots[root]
        self._rebuild()
        cells_of = {
            root: [cell for part in parts for cell in self._add_root(part, root.faults + 1, few=0)]
            for root, parts in parts_of.items()
        }
        yield from self._ask_roots([cell for cells in cells_of.values() for cell in cells])
        for root, cells in cells_of.items():
            answers = [cell.answer for cell in cells if cell.answer is not None]
            if len(answers) == len(cells) and difference(answers, root.answer or {}):
                again = Question([root], is_repeated=True)
                yield from self._ask([again])
                # As before: the service does not count what it is asked.
                self.is_usable &= again.answer != root.answer

    def _rebuild(self) -> None:
        """Derive anew what is known from the answers for batches and the other answers."""
        self._bounds, facts, self._facts = Bounds(), self._facts, []
        self.leave([root for root in self._roots if root.faults > MOST_FAULTS])
        for root in self._roots:
            root.know(self._bounds)
            for cell in root.tree():
                cell.questions = []
                if cell.halves:
                    self._bounds.accepts(partial(cell.halve, self._bounds))
        for fact in facts:
            if any(cell.root not in self._roots for cell in fact.cells) or not self._accepts(fact):
                fact.cells[0].has_led = False
                for cell in fact.cells:
                    if cell.root in self._roots and cell.root.halves:
                        self._unchecked[cell.root] = None
        cells = [cell for root in self._roots for cell in root.tree()]
        low = self._bounds.low
        self._open = [
            cell for cell in cells if not cell.is_exact(self._bounds) or (not cell.halves and cell.total(low))
        ]
        self._empty = [
            cell for cell in cells if not (cell.halves or cell.questions or cell.total(self._bounds.high))
        ]

    def _take_results(self) -> None:
        """Give the counts of each unit that has any."""
        low = self._bounds.low
        for cell in [cell for root in self._roots for cell in root.leaves() if cell.total(low)]:
            counts = {label: low[number] for label, number in cell.numbers.items() if low[number]}
            key, *others = cell.keys
            if others:
                self.unresolved += [key, *others]
            else:
                self.results[key] = counts

    # What to ask.

    def _split(self) -> None:
        """Halve each cell that surely has counts, even before all of them are known."""
        cells: list[Cell] = []
        for cell in self._open:
            if cell.root not in self._roots:
                continue
            if len(cell.units) > 1 and not cell.halves and cell.total(self._bounds.low):
                self._bounds.accepts(partial(cell.halve, self._bounds))
                cells += cell.halves
                if cell is cell.root:
                    self._unchecked[cell] = None
            if not cell.is_exact(self._bounds):
                cells.append(cell)
            elif not cell.halves and not cell.total(self._bounds.high):
                self._empty.append(cell)
        self._open = cells

    def _pack(self, asked: Sequence[Question]) -> list[Question]:
        """Return questions for first halves, each with cells whose counts are unlikely to be confused.

        Each question is led by a first half that led none before, so there are never more than halving asks.
        Cells that were asked and are still open ride along: in new company they make the old answers clear.
        """
        leading = {cell for question in asked for cell in question.cells}
        fresh: list[Cell] = []
        repeats: list[Cell] = []
        for cell in sorted(self._open, key=lambda cell: -len(cell.keys)):
            if cell.is_first and cell not in leading and not cell.is_exact(self._bounds):
                (repeats if cell.questions else fresh).append(cell)
        packed: list[Question] = []
        self._place(fresh, packed, DOUBT)
        if len(asked) + len(packed) < FEW_REQUESTS:
            self._place(apart(repeats, self._bounds), packed, REPEAT_DOUBT)
        else:
            self._place([cell for cell in repeats if not cell.halves], packed, DOUBT, opens=False)
        self._carry(packed)
        left = fresh + repeats
        if not asked and not packed and left:
            packed.append(Question([max(left, key=lambda cell: cell.total(self._bounds.low))]))
        for question in (*asked, *packed):
            question.cells[0].has_led = True
        return packed

    def _place(self, cells: list[Cell], packed: list[Question], most: float, opens: bool = True) -> None:
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
                packed.append(Question([cell]))
                packed[-1].profile = profile

    def _carry(self, questions: Iterable[Question]) -> None:
        """Ask cells without counts again where there is room, the largest first, or halves of them."""
        cells = [
            cell for cell in self._empty if cell.root in self._roots and not cell.total(self._bounds.high)
        ]
        cells.sort(key=lambda cell: len(cell.keys))
        for question in questions:
            left: list[Cell] = []
            while cells and question.room:
                cell = cells.pop()
                if question.has_room(cell):
                    question.add(cell, {})
                elif len(cell.keys) > question.room and len(cell.units) > 1:
                    cell.halve(self._bounds)
                    cells += cell.halves
                else:
                    left.append(cell)
            cells += reversed(left)
        self._empty = cells

    def _check(self) -> list[Question]:
        """Return questions about all units with counts that are not checked yet."""
        groups: dict[tuple[int, frozenset[str]], list[Cell]] = {}
        low, roots = self._bounds.low, [root for root in self._unchecked if root in self._roots]
        units_of = {root: [cell for cell in root.leaves() if cell.total(low)] for root in roots}
        is_few = sum(map(len, units_of.values())) <= CHECKS
        for root, units in units_of.items():
            # Always the same for a batch: a journal has the answers. Of few units each is asked alone.
            codes = sorted(range(1, 2**CHECKS), key=partial(digest, root.keys[0]))
            for cell, code in zip(units, codes, strict=False):
                for n in [CHECKS + len(groups)] if is_few else range(CHECKS):
                    if is_few or code >> n & 1:
                        groups.setdefault((n, root.dimensions), []).append(cell)
        self._unchecked = {}
        questions: list[Question] = []
        for cells in {tuple(cells): None for cells in groups.values()}:
            question = None
            for cell in cells:
                if question is None or not question.has_room(cell):
                    question = Question([cell], is_repeated=True)
                    questions.append(question)
                else:
                    question.add(cell, {})
        # Cells without counts, too: in other questions they may have hidden an error.
        empty = [cell for root in roots for cell in root.leaves() if not cell.total(self._bounds.high)]
        if not is_few:
            self._empty = list(dict.fromkeys((*self._empty, *empty)))
            self._carry(questions)
            return questions
        checks = len(questions)
        for cell in empty:
            if len(questions) == checks or not questions[-1].has_room(cell):
                questions.append(Question([cell], is_repeated=True))
            else:
                questions[-1].add(cell, {})
        return questions
