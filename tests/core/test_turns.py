"""Laws of the rounds in which waiting calls depart."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slashtag._core.turns import Turns


def waiting(*sizes: int) -> Turns[tuple[int, int]]:
    """Return the calls of operations that came one operation after the other."""
    turns: Turns[tuple[int, int]] = Turns()
    for operation, size in enumerate(sizes):
        for number in range(size):
            turns.put(operation, (operation, number))
    return turns


@given(st.lists(st.integers(1, 40), max_size=6), st.integers(0, 100), st.integers(0, 5), st.booleans())
def test_a_page_waits_for_one_request_of_each_operation_at_most(
    sizes: list[int], departed: int, later: int, is_back: bool
) -> None:
    turns = waiting(*sizes)
    for _ in range(min(departed, sum(sizes))):
        turns.pop(exhausted=False)
    turns.put("page", (-1, 0), is_back=is_back)
    for operation in range(100, 100 + later):
        turns.put(operation, (operation, 0))
    before = Counter(operation for operation, _ in iter(lambda: turns.pop(exhausted=False), (-1, 0)))
    # One that met a 429 is the first: it had its place in this round.
    assert not before if is_back else max(before.values(), default=0) <= 1
    assert all(operation < 100 for operation in before)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_operations_that_wait_get_as_many_turns_and_each_keeps_its_order(sizes: list[int]) -> None:
    turns, order = waiting(*sizes), list[tuple[int, int]]()
    while turns:
        order.append(turns.pop(exhausted=False))
        had = Counter(operation for operation, _ in order)
        assert all(had[each] >= max(had.values()) - 1 for each, size in enumerate(sizes) if had[each] < size)
    assert all(
        [n for each, n in order if each == operation] == list(range(size))
        for operation, size in enumerate(sizes)
    )


@given(st.integers(1, 8), st.integers(1, 4))
def test_pages_without_end_leave_each_operation_its_turns(callers: int, operations: int) -> None:
    turns = waiting(*[100] * operations)
    for caller in range(callers):
        turns.put(object(), (-1, caller))
    order = list[tuple[int, int]]()
    for _ in range(20 * (callers + operations)):
        order.append(turns.pop(exhausted=False))
        if order[-1][0] == -1:
            turns.put(object(), order[-1])  # the caller's next one
    had = Counter(operation for operation, _ in order)
    assert min(had[operation] for operation in range(operations)) >= 19


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 2))
def test_as_many_different_calls_probe_as_wait(sizes: list[int], delay: int) -> None:
    """Law 5, whether a rejected probe comes back before or after the next ones depart."""
    turns, probed, rejected = waiting(*sizes), list[tuple[int, int]](), list[tuple[int, int]]()
    for _ in range(sum(sizes) - delay):
        call = turns.pop(exhausted=True)
        probed.append(call)
        rejected.append(call)
        if len(rejected) > delay:
            back = rejected.pop(0)
            turns.put(back[0], back, is_back=True, exhausted=True)
    assert len(set(probed)) == len(probed)
    assert not probed or probed[0] == (len(sizes) - 1, sizes[-1] - 1)  # the newest


def test_a_call_that_comes_back_is_the_next_of_its_operation() -> None:
    turns = waiting(3, 1)
    turns.put(0, turns.pop(exhausted=False), is_back=True)
    assert [turns.pop(exhausted=False) for _ in range(4)] == [(1, 0), (0, 0), (0, 1), (0, 2)]


class Machine(RuleBasedStateMachine):
    """Nothing is lost or given twice, whatever comes, departs, leaves and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: Turns[int] = Turns()
        self.here = dict[int, int]()
        self.came = 0

    @rule(operation=st.integers(0, 3), is_back=st.booleans(), exhausted=st.booleans())
    def come(self, operation: int, is_back: bool, exhausted: bool) -> None:
        self.turns.put(operation, self.came, is_back=is_back, exhausted=exhausted)
        self.here[self.came] = operation
        self.came += 1

    @rule(exhausted=st.booleans())
    def depart(self, exhausted: bool) -> None:
        if self.here:
            del self.here[self.turns.pop(exhausted=exhausted)]
        else:
            with pytest.raises(StopIteration):
                self.turns.pop(exhausted=exhausted)

    @rule(call=st.integers(0, 50), operation=st.integers(0, 3))
    def leave(self, call: int, operation: int) -> None:
        self.turns.remove(self.here.pop(call, operation), call)

    @invariant()
    def all_are_here(self) -> None:
        assert sorted(self.turns) == sorted(self.here)
        assert len(self.turns) == len(self.here)
        assert bool(self.turns) is bool(self.here)


TestTurns = Machine.TestCase
