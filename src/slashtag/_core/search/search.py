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
contradicts itself, of a batch, or     its keys are asked alone
has other dimensions than most
agrees with the others                 it is an equation of the counts of its cells
contradicts others, or no answer       first halves of the cells are asked, until one cell is left
one cell is left, whose counts were    a key of it has changed, or is refused: its halves are batches, and its
known                                  only key is asked alone
one cell is left, whose counts were    an earlier answer was about another moment: the halves of the smallest
not known                              cell around it whose counts are known are batches
... and after either                   answers about their keys are no equations any more, and what was asked
                                       with them is checked again, with what seems to have no clicks
of little use: what was asked, and     cells are asked alone in the next round: a table takes at most a tenth
what halving would ask from here on,   more than one request a key, of few keys CHECKS + 1 more, unless
are more than 1 + WASTE a key          answers contradict each other

A cell without clicks is asked again where there is room: it may lack a click that another has. What is asked
depends on the batches and the answers alone, so that a second run can replay a journal.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..batches import halves
from .bounds import Bounds
from .cells import Answer, Cell, Question, confusion, dimensions, is_sound, strangers

#: Batches of so many keys are asked key by key: the whole, its first half and a check cost no less.
FEW_KEYS = 3

#: Most cells whose counts are taken apart from one answer. As measured with tables of 1, 3, 7 and 30 days, a
#: bound of 6 takes 4 % more requests, 8 and 16 take 1.5 % more; none takes 1 % more, in 9 % more rounds.
WIDTH = 12
#: Most ways to confuse clicks between the cells of a request: 3 takes 7 % more requests, 12 as many. Between
#: cells asked before, in a small round: 0.5 takes 3 % more; 6 as many, in 6 % more rounds, but 4 to 15 % more
#: where links are clicked meanwhile.
MOST_CONFUSION, MOST_CONFUSION_AGAIN = 6.0, 1.0
#: Requests of a round, if so many cells are open: those for the first time, others together, others alone.
#: With 1 an account of 10,000 links takes four times the rounds, and 1.5 times the CPU; 8 takes 2 % more
#: requests for one day.
FEW_REQUESTS = 6
#: Ways in which results are checked: 250 codes, so that each of 100 keys has its own.
CHECKS = 8
#: A batch with so many clicks a key, or more, is asked key by key: no request tells two of them apart. 10
#: takes 8 % more requests for 7 days, 20 takes 1 % more in the mean of 20 tables, 40 takes 3 % more for links
#: clicked 30 times each. Few keys have few others to share requests with: the bound is this share of the keys
#: in batches with clicks. For 16 to 200 keys half or twice the share takes 1 % more, no such bound 11 %.
DENSE, DENSE_SHARE = 14, 1 / 16
#: Requests a key that a search may cost beyond one for each half that is told apart.
WASTE = 0.05
#: Requests a key after which all keys left are asked alone, as answers contradict each other: about one
#: more a key at most. With 1.5 a single change has this effect where few keys have many clicks.
MOST_COST = 2

Rounds = Iterator[Sequence[Question]]


class Search:
    """Search of some batches; answer the questions of each of its `rounds`."""

    def __init__(self, batches: Iterable[Sequence[str]]) -> None:
        #: The counts of keys that have any, at the end.
        self.results: dict[str, Answer] = {}
        #: Keys that must be asked alone; take them out.
        self.unresolved: list[str] = []
        self._bounds = Bounds()
        #: In their order; a dict, as the order of a set differs from process to process.
        self._roots: dict[Cell, None] = {}
        #: Those of all answers with clicks.
        self._dimensions: frozenset[str] = frozenset()
        #: Cells that may have to be split or asked, and those without counts that have not been asked again.
        self._open: list[Cell] = []
        self._empty: list[Cell] = []
        #: Roots whose results are not checked yet; whether cells without counts have to be, too.
        self._unchecked: dict[Cell, bool] = {}
        #: Numbers of requests, with those of keys alone, and of all keys.
        self._cost = self._keys = 0
        for keys in batches:
            self._keys += len(keys)
            self._add_root(keys)

    def rounds(self) -> Rounds:
        """Yield the questions of each round, to be answered before the next."""
        yield from self._ask_roots()
        self._give_up_dense()
        while True:
            self._halve_cells()
            questions = self._pack() or self._check()
            if not questions:
                self._take_results()
                return
            yield from self._ask(questions)
            for question in questions:
                # It ends: each time some keys become smaller batches, and once they cost too much all are
                # asked alone.
                while question.cells and not self._accepts(question):
                    if self._is_searched(question):
                        yield from self._mend(question)
                        yield from self._ask_roots()
                        if self._cost > MOST_COST * self._keys:
                            self._give_up([*self._roots])
                    question = Question(cell for cell in question.cells if cell.root in self._roots)
                    yield from self._ask([question] if question.cells else [])

    @property
    def open_keys(self) -> int:
        """Number of keys whose counts are not known yet, nor asked alone."""
        return sum(len(cell.keys) for cell in self._open if not cell.halves and cell.root in self._roots)

    def _ask(self, questions: Sequence[Question]) -> Rounds:
        if questions:
            self._cost += len(questions)
            yield questions

    def _add_root(self, keys: Sequence[str]) -> None:
        """Begin with a batch; have its keys asked alone if they are few."""
        root = Cell(keys)
        self._roots[root] = None
        self._open.append(root)
        if len(keys) <= FEW_KEYS:
            self._give_up([root])

    def _give_up(self, roots: Iterable[Cell]) -> None:
        """Give batches up: their keys must be asked alone."""
        for root in roots:
            del self._roots[root]
            keys = root.searched_keys()
            self.unresolved += keys
            self._cost += len(keys)

    def _begin_anew(self, cell: Cell) -> None:
        """Search the halves of a cell as batches, and have what was asked with it checked again."""
        doubted = [cell.root]
        for question in [question for each in cell.tree() for question in each.questions]:
            # It is no equation any more, as the counts of the cell are not looked for.
            self._bounds.forget(question.sums)
            doubted += [other.root for other in question.cells]
        keys = cell.searched_keys()
        self._roots.pop(cell, None)
        cell.leave_batch()
        self._unchecked |= {root: True for root in doubted if root in self._roots and root.halves}
        for half in halves(keys) if len(keys) > 1 else [keys]:
            self._add_root(half)

    def _is_searched(self, question: Question) -> bool:
        """Return whether all cells of a question are still searched."""
        return all(cell.root in self._roots for cell in question.cells)

    def _ask_roots(self) -> Rounds:
        """Ask whole batches, and halves of those that are not answered: a key may be refused."""
        while questions := [Question([root]) for root in self._roots if root.answer is None]:
            yield from self._ask(questions)
            if not self._dimensions:
                found = Counter(
                    dimensions(each.answer) for each in questions if each.answer and is_sound(each.answer)
                )
                self._dimensions = max(found, key=found.__getitem__, default=self._dimensions)
            for question in questions:
                (root,) = question.cells
                if question.answer is None:
                    self._begin_anew(root)
                elif self._is_sound(question.answer):
                    root.answer = question.answer
                    root.know(self._bounds)
                else:
                    self._give_up([root])

    def _give_up_dense(self) -> None:
        """Have batches with so many clicks that no request tells them apart asked key by key."""
        totals = {root: root.total(self._bounds.low) for root in self._roots}
        dense = min(DENSE, DENSE_SHARE * sum(len(root.keys) for root, total in totals.items() if total))
        self._give_up([root for root in totals if totals[root] >= max(1, dense * len(root.keys))])

    def _is_sound(self, answer: Answer) -> bool:
        """Return whether an answer has the dimensions of the others, and does not contradict itself."""
        return is_sound(answer) and (not answer or dimensions(answer) == self._dimensions)

    def _accepts(self, question: Question) -> bool:
        """State that the counts of some cells add up to the answer; return False if they cannot."""
        is_usable = question.answer is not None and self._is_sound(question.answer)
        if not (is_usable and self._is_searched(question)):
            return False
        sums = self._bounds.state(question.equate_in)
        if sums is None:
            return False
        question.sums = sums
        for cell in question.cells:
            cell.questions.append(question)
        return True

    def _mend(self, question: Question) -> Rounds:
        """Find a cell that contradicts the answers, or has none; search it anew, or one around it."""
        cells: Sequence[Cell] = question.cells
        while len(cells) > 1:
            first, second = halves(cells)
            half = Question(first)
            yield from self._ask([half])
            cells = second if self._accepts(half) else first
        (cell,) = cells
        self._begin_anew(cell.known_around(self._bounds))

    def _take_results(self) -> None:
        """Give the counts of each key that has any: a cell with counts was halved until it had one key."""
        low = self._bounds.low
        for cell in [cell for root in self._roots for cell in root.leaves() if cell.total(low)]:
            self.results[cell.keys[0]] = {label: low[n] for label, n in cell.numbers.items() if low[n]}

    def _halve_cells(self) -> None:
        """Halve each cell that surely has counts, even before all of them are known."""
        cells: list[Cell] = []
        for cell in self._open:
            if cell.root not in self._roots:
                continue
            if len(cell.keys) > 1 and not cell.halves and cell.total(self._bounds.low):
                cell.halve(self._bounds)
                cells += cell.halves
                if cell is cell.root:
                    self._unchecked[cell] = False
            if not cell.is_exact(self._bounds):
                cells.append(cell)
            elif not cell.halves and not cell.total(self._bounds.high):
                self._empty.append(cell)
        self._open = cells

    def _pack(self) -> list[Question]:
        """Return questions for first halves, each with cells whose counts are unlikely to be confused.

        Halving would ask each first half alone. Here a question is opened by a first half that opened none
        before, so there are never more of them. Cells that were asked and are still open ride along: with
        others in the new question, both answers together may leave one value. In a small round one cell of
        each earlier question is asked again, some alone: these come on top.
        """
        cells = sorted((cell for cell in self._open if cell.is_first), key=lambda cell: -len(cell.keys))
        # Halves that must still be told apart, at most.
        left = len(cells) + sum(len(cell.keys) - 1 for cell in self._open if not cell.halves)
        if self._cost + left > (1 + WASTE) * self._keys:
            return [Question([cell]) for cell in strangers(cells, self._bounds)]
        repeats = [cell for cell in cells if cell.questions]
        packed: list[Question] = []
        self._place([cell for cell in cells if not cell.questions], packed, MOST_CONFUSION)
        if len(packed) >= FEW_REQUESTS:
            self._place([cell for cell in repeats if not cell.halves], packed, MOST_CONFUSION, opens=False)
        else:
            again = strangers(repeats, self._bounds)
            self._place(again, packed, MOST_CONFUSION_AGAIN)
            asked = {cell for question in packed for cell in question.cells}
            alone = [Question([cell]) for cell in again if cell not in asked]
            packed += alone[: max(0, FEW_REQUESTS - len(packed))]
        self._carry(packed)
        return packed

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
            if best is None and opens and all(question.cells[0] is not cell for question in cell.questions):
                packed.append(best := Question())
            if best:
                best.add(cell, profile)

    def _carry(self, questions: Iterable[Question]) -> None:
        """Ask cells without counts again where there is room, the largest first, or halves of them."""
        high = self._bounds.high
        cells = [cell for cell in self._empty if cell.root in self._roots and not cell.total(high)]
        cells.sort(key=lambda cell: len(cell.keys))
        for question in questions:
            left: list[Cell] = []
            while cells and question.room:
                cell = cells.pop()
                if question.has_room(cell):
                    question.add(cell)
                elif len(cell.keys) > question.room and len(cell.keys) > 1:
                    cell.halve(self._bounds)  # without counts it states no equation, which may contradict
                    cells += cell.halves
                else:
                    left.append(cell)
            cells += reversed(left)
        self._empty = cells

    def _check(self) -> list[Question]:
        """Return questions about all keys with counts that are not checked yet, in sets by their codes."""
        unchecked, self._unchecked = self._unchecked, {}
        roots = [root for root in unchecked if root in self._roots]
        clicked = [cell for root in roots for cell in root.leaves() if cell.total(self._bounds.low)]
        is_few = len(clicked) <= CHECKS
        # Few are each in a question of its own. Else powers of 6 come to each code from 1 to 250 once, in no
        # pattern: with steps of one size, mistakes in two pairs of halves may cancel out in each set.
        code_of = {cell: 1 << n if is_few else pow(6, n, 251) for n, cell in enumerate(clicked)}
        sets = [[cell for cell, code in code_of.items() if code >> n & 1] for n in range(CHECKS)]
        # Those that seem to have none may lack a click that another has by mistake.
        empty = [cell for root in roots for cell in root.leaves() if not cell.total(self._bounds.high)]
        sets.append([cell for cell in empty if is_few or unchecked[cell.root]])
        questions: list[Question] = []
        for cells in sets:
            question = None
            for cell in cells:
                if question is None or not question.has_room(cell):
                    questions.append(question := Question())
                question.add(cell)
        self._empty = list(dict.fromkeys((*self._empty, *empty)))
        self._carry(questions)
        return questions
