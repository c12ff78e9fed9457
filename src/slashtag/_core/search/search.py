"""Search for the counts of every key, from few answers about the sum of several keys.

The service answers what at most 100 keys have together: a total, and counts by label in several dimensions
(day, country, ...), each of which adds up to the total. The search asks whole batches, then first halves of
what has clicks, those of several batches in one question, and takes the answers apart: a second half has
the rest. At last it asks all keys with clicks again in CHECKS other sets: no two keys of a batch are in the
same combination of sets. A `Cell` is a batch (a root), or half of a cell; each of its counts is a number of
the `Bounds`. A `Question` asks what some cells have together. A count is a result if the answers leave no
other value.

What an answer says                    What follows
-------------------------------------  -------------------------------------------------------------------
of a batch, the first time             its counts are known; a dense batch is asked key by key
no answer, of a batch                  its halves are batches: a key may be refused
contradicts itself, of a batch         its keys are asked alone
agrees with the others                 it is an equation of the counts of its cells
contradicts others, or no answer       the cells most in doubt and the rest are asked, or two halves of them
contradicts others, of one cell alone  its batch is asked again, then those asked together with it
one of these has changed               its earlier answers hold up to the change, and it is checked again
none of these has changed              an earlier answer was wrong: the batch begins anew
no answer, of one cell alone           its batch is asked key by key, like one that changes often
of little use: a batch has cost more   its halves are asked alone from then on, so that a table takes at most
than WASTE a key and one a known half  a tenth more than one request a key, whatever it counts

A cell without clicks is asked again where a question has room. What is asked depends on the batches and the
answers alone, so that a second run can replay a journal.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from ..batches import halves
from .bounds import Bounds
from .cells import WIDTH, Answer, Cell, Question, confusion, difference, digest, is_sound, strangers

#: Most ways to confuse clicks between the cells of a request; between cells asked before, in a small round.
MOST_CONFUSION, MOST_CONFUSION_AGAIN = 6.0, 1.0
#: A round of fewer requests also has some that only repeat cells.
FEW_REQUESTS = 4
#: Ways in which results are checked: 255 codes, so that each of 100 keys has its own.
CHECKS = 8
#: A batch with so many clicks a key, or more, is asked key by key: no request tells two of them apart. 10
#: takes 8 % more requests for 7 days, 20 takes 1 % more in the mean of 20 tables, 40 takes 3 % more for links
#: clicked 30 times each. Few keys have few others to share requests with: the bound is this share of the keys
#: in batches with clicks. For 16 to 200 keys half or twice the share takes 1 % more, no such bound 11 %.
DENSE, DENSE_SHARE = 14, 1 / 16
#: Keys whose batches have changed more often are asked alone.
MOST_CHANGES = 3
#: Questions a key that a batch may cost beyond one for each half that is told apart.
WASTE = 0.05
#: Questions a key, and CHECKS, after which a batch is asked key by key, as answers contradict each other.
MOST_COST = 2

Rounds = Iterator[Sequence[Question]]


class Search:
    """Search of some batches: answer the questions of each of its `rounds`, then take the results.

    Batches of at most `few` keys are asked alone.
    """

    def __init__(self, batches: Iterable[Sequence[str]], *, few: int = 1) -> None:
        #: The counts of keys that have any, at the end.
        self.results: dict[str, Answer] = {}
        #: Keys that must be asked alone.
        self.unresolved: list[str] = []
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
        for keys in batches:
            self._add_root(keys)

    def rounds(self) -> Rounds:
        """Yield the questions of each round, to be answered before the next."""
        yield from self._ask_roots()
        self._mark_dense()
        while True:
            self._halve_cells()
            most = {root: MOST_COST * len(root.keys) + CHECKS for root in self._roots}
            self.mark_unresolved([root for root in most if root.cost > most[root]])
            questions = self._pack() or self._check()
            if not questions:
                self._take_results()
                return
            yield from self._ask(questions)
            yield from self._learn(questions)

    def take_unresolved(self) -> list[str]:
        """Return those keys that must be asked alone and were not yet returned."""
        keys, self.unresolved = self.unresolved, []
        return keys

    def mark_unresolved(self, roots: Iterable[Cell]) -> None:
        """End the search of batches: their keys must be asked alone."""
        for root in roots:
            del self._roots[root]
            self.unresolved += root.keys

    @property
    def open_keys(self) -> int:
        """Number of keys whose counts are not known yet, nor asked alone."""
        return sum(root.left + 1 for root in self._roots if root.left)

    # Whole batches.

    def _ask(self, questions: Sequence[Question]) -> Rounds:
        for question in questions:
            for root in question.roots:
                root.cost += 1 / len(question.roots)
        if questions:
            yield questions

    def _add_root(self, keys: Sequence[str]) -> None:
        """Begin with a batch; have its keys asked alone if they are few."""
        root = Cell(keys)
        self._roots[root] = None
        if len(keys) <= self._few:
            self.mark_unresolved([root])

    def _ask_roots(self) -> Rounds:
        """Ask whole batches, and halves of those that are not answered: a key may be refused."""
        while questions := [Question([root]) for root in self._roots if root.answer is None]:
            yield from self._ask(questions)
            for question in questions:
                (root,) = question.cells
                if root.take(question.answer):
                    root.know(self._bounds)
                    self._open.append(root)
                elif question.answer is not None:
                    self.mark_unresolved([root])
                else:
                    del self._roots[root]
                    for half in halves(root.keys):
                        self._add_root(half)

    def _mark_dense(self) -> None:
        """Have batches with so many clicks that no request tells them apart asked key by key."""
        totals = {root: root.total(self._bounds.low) for root in self._roots}
        dense = min(DENSE, DENSE_SHARE * sum(len(root.keys) for root, total in totals.items() if total))
        self.mark_unresolved([root for root in totals if totals[root] >= max(1, dense * len(root.keys))])

    # What answers say.

    def _accepts(self, question: Question) -> bool:
        """State that the counts of some cells add up to the answer; return False if they cannot."""
        if not is_sound(question.answer, question.dimensions) or not self._bounds.accepts(question.equate_in):
            return False
        self._facts.append(question)
        for cell in question.cells:
            cell.questions.append(question)
        return True

    def _learn(self, questions: Sequence[Question]) -> Rounds:
        """State what answers say; find out in ever fewer cells why one contradicts others, or is none."""
        failed = [question for question in questions if not self._accepts(question)]
        #: Of each cell, how many questions about it failed, less those that did not.
        doubts: Counter[Cell] = Counter()
        for question in questions if failed else ():
            doubts.update(dict.fromkeys(question.cells, 1 if question in failed else -1))
        while failed:
            # Those that contradict one at a time, as others may have the same reason.
            now = [question for question in failed if question.answer is None] or failed[:1]
            parts = [part for question in now for part in question.parts(doubts)]
            yield from self._ask(parts)
            wrong = [part for part in parts if not self._accepts(part)]
            failed = wrong + [question for question in failed if question not in now]
            if found := [question for question in wrong if len(question.cells) == 1]:
                yield from self._mend(found)
                self._facts += failed
                self._rebuild()
                return

    def _mend(self, found: Sequence[Question]) -> Rounds:
        """Find out why one cell alone contradicts others, or is not answered.

        Its batch has changed, or one of those asked with it, the last first: earlier answers hold up to that
        change. Or else one of its earlier answers was wrong: it begins anew.
        """
        wrong = {question.cells[0].root: question.answer for question in found}
        self.mark_unresolved([root for root, answer in wrong.items() if answer is None])
        alone = [root for root in wrong if root in self._roots]
        beside = [
            cell.root
            for fact in reversed(self._facts)
            if any(cell.root in alone for cell in fact.cells)
            for cell in fact.cells
        ]
        # Ever more at once: few questions if one of the last has changed, else few rounds.
        suspects = [root for root in dict.fromkeys(alone + beside) if root in self._roots]
        size, has_changed = len(alone), not alone
        while suspects and not has_changed:
            questions = [Question([root], again=True) for root in suspects[:size]]
            suspects, size = suspects[size:], 2 * size
            yield from self._ask(questions)
            for question in questions:
                (root,), before = question.cells, question.cells[0].answer or {}
                if root.take(question.answer) and (change := difference(root.answer or {}, before)):
                    has_changed = True
                    root.changes += 1
                    self._unchecked[root] = None
                    for fact in (*self._facts, *found):
                        if any(cell.root is root for cell in fact.cells):
                            fact.changes.append(change)
        for root in alone if not has_changed else ():
            del self._roots[root]
            restarted = Cell(root.keys)
            restarted.take(root.answer)
            restarted.cost, restarted.changes = root.cost, root.changes + 1
            self._roots[restarted] = None
        self.mark_unresolved([root for root in self._roots if root.changes > MOST_CHANGES])

    def _rebuild(self) -> None:
        """Derive anew what is known from the answers for batches and the other answers."""
        self._bounds, facts, self._facts = Bounds(), self._facts, []
        for root in self._roots:
            root.left = len(root.keys) - 1
            root.know(self._bounds)
            for cell in root.tree():
                cell.questions, cell.is_known = [], False
                if cell.halves:
                    self._bounds.accepts(cell.halve)
        for fact in facts:
            if any(cell.root not in self._roots for cell in fact.cells) or not self._accepts(fact):
                for cell in fact.cells:
                    if cell.root in self._roots and cell.root.halves:
                        self._unchecked[cell.root] = None
        self._open, self._empty = [cell for root in self._roots for cell in root.tree()], []

    def _take_results(self) -> None:
        """Give the counts of each key that has any."""
        low = self._bounds.low
        for cell in [cell for root in self._roots for cell in root.leaves() if cell.total(low)]:
            counts = {label: low[number] for label, number in cell.numbers.items() if low[number]}
            self.results[cell.keys[0]] = counts
        self._bounds.free()

    # What to ask.

    def _halve_cells(self) -> None:
        """Halve each cell that surely has counts, even before all of them are known."""
        cells: list[Cell] = []
        for cell in self._open:
            if cell.root not in self._roots:
                continue
            if len(cell.keys) > 1 and not cell.halves and cell.total(self._bounds.low):
                self._bounds.accepts(cell.halve)  # always: one half may have everything, the other nothing
                cells += cell.halves
                if cell is cell.root:
                    self._unchecked[cell] = None
            if not cell.is_exact(self._bounds):
                cells.append(cell)
            else:
                self._note_known(cell)
        self._open = cells

    def _note_known(self, cell: Cell) -> None:
        """Note that the counts of a cell are known."""
        cell.is_known = True
        if not cell.halves and not cell.total(self._bounds.high):
            self._empty.append(cell)
            # It need not be halved.
            cell.root.left -= len(cell.keys) - 1
        if cell.parent is not None and all(half.is_known for half in cell.parent.halves):
            cell.root.left -= 1

    def _pack(self) -> list[Question]:
        """Return questions for first halves, each with cells whose counts are unlikely to be confused.

        Halving would ask each first half alone. Here a question is opened by a first half that opened none
        before, so there are never more of them. Cells that were asked and are still open ride along: with
        others in the new question, both answers together may leave one value.
        """
        if sum(root.cost - len(root.keys) + root.left for root in self._roots) > WASTE * sum(
            len(root.keys) for root in self._roots
        ):
            return self._halve_alone()
        fresh: list[Cell] = []
        repeats: list[Cell] = []
        for cell in sorted(self._open, key=lambda cell: -len(cell.keys)):
            if cell.is_first and not cell.is_exact(self._bounds):
                (repeats if cell.questions else fresh).append(cell)
        packed: list[Question] = []
        self._place(fresh, packed, MOST_CONFUSION)
        if len(packed) < FEW_REQUESTS:
            self._place(strangers(repeats, self._bounds), packed, MOST_CONFUSION_AGAIN)
        else:
            self._place([cell for cell in repeats if not cell.halves], packed, MOST_CONFUSION, opens=False)
        self._carry(packed)
        if not packed and (left := fresh + repeats):
            packed.append(Question([max(left, key=lambda cell: cell.total(self._bounds.low))]))
        return packed

    def _halve_alone(self) -> list[Question]:
        """Return a question for each first half, but for one of each earlier question, which has the rest."""
        cells = [cell for cell in self._open if cell.is_first and not cell.is_exact(self._bounds)]
        spared: set[Question] = set()
        asked: list[Question] = []
        for cell in cells:
            earlier = next((question for question in cell.questions if question not in spared), None)
            if earlier is None:
                asked.append(Question([cell]))
            else:
                spared.add(earlier)
        return asked or [Question([cell]) for cell in cells[:1]]

    def _place(self, cells: list[Cell], packed: list[Question], most: float, opens: bool = True) -> None:
        """Add each cell to the question where it confuses least; or else, if it `opens` any, to a new one."""
        for cell in cells:
            profile = cell.profile(self._bounds)
            best, least = None, most
            for question in packed:
                if len(question.cells) < WIDTH and question.has_room(cell):
                    ways = confusion(profile, question.profile, least)
                    if ways < least:
                        best, least = question, ways
            if best:
                best.add(cell, profile)
            elif opens and all(question.cells[0] is not cell for question in cell.questions):
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
                elif len(cell.keys) > question.room and len(cell.keys) > 1:
                    cell.halve(self._bounds)  # without counts it states no equation, which may contradict
                    cells += cell.halves
                else:
                    left.append(cell)
            cells += reversed(left)
        self._empty = cells

    def _check(self) -> list[Question]:
        """Return questions about all keys with counts that are not checked yet, in sets by their codes."""
        roots, self._unchecked = [root for root in self._unchecked if root in self._roots], {}
        code_of: dict[Cell, int] = {}
        for root in roots:
            # Always the same for a batch: a journal has the answers.
            codes = sorted(range(1, 2**CHECKS), key=partial(digest, root.keys[0]))
            clicked = (cell for cell in root.leaves() if cell.total(self._bounds.low))
            code_of.update(zip(clicked, codes, strict=False))
        # An error may have hidden the counts of those that seem to have none.
        empty = [cell for root in roots for cell in root.leaves() if not cell.total(self._bounds.high)]
        if not self._facts and len(self._empty) > 1:
            # No batch has clicks: the first of the largest shows whether that is so.
            empty = [max(self._empty, key=lambda cell: len(cell.keys))]
        sets: dict[tuple[int, frozenset[str]], list[Cell]] = {}
        if len(code_of) <= CHECKS:  # each in a question of its own, and those without counts too
            code_of = {cell: 1 << n for n, cell in enumerate(code_of)}
            sets[CHECKS, frozenset()] = empty
        for n, (cell, code) in product(range(CHECKS), code_of.items()):
            if code >> n & 1:
                sets.setdefault((n, cell.root.dimensions), []).append(cell)
        questions: list[Question] = []
        for cells in dict.fromkeys(map(tuple, sets.values())):
            question = None
            for cell in cells:
                if question is None or not question.has_room(cell):
                    question = Question([cell])
                    questions.append(question)
                else:
                    question.add(cell, {})
        if len(code_of) > CHECKS:  # those without counts where there is room
            self._empty = list(dict.fromkeys((*self._empty, *empty)))
            self._carry(questions)
        return questions
