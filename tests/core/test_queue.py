"""The order of departures, as the table in the docstring of the module has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.queue import TURNS, Flow, Place, Queue


@dataclass
class Calls:
    """A queue of calls that are named by numbers."""

    queue: Queue[int] = field(default_factory=lambda: Queue[int]())
    places: dict[int, Place] = field(default_factory=dict)

    def come(self, flow: Flow | None = None, rejects: int = 0, *, is_refused: bool = False) -> int:
        call = len(self.places)
        self.places[call] = self.queue.place(flow)
        self.queue.put(self.places[call], call, rejects, is_refused=is_refused)
        return call

    def back(self, call: int) -> None:
        """Let a call wait again that was answered 429."""
        self.queue.put_back(self.places[call])
        self.queue.put(self.places[call], call, 1)

    def drain(self) -> list[int]:
        return [self.queue.pop(exhausted=False) for _ in range(len(self.queue))]


@given(st.lists(st.integers(1, 40), max_size=6), st.integers(0, 100), st.integers(1, 10))
def test_a_single_call_waits_for_one_call_of_each_operation_at_most(
    sizes: list[int], departed: int, later: int
) -> None:
    calls, owner = Calls(), dict[int, int]()
    for number, size in enumerate(sizes):
        flow = Flow()
        owner |= {calls.come(flow): number for _ in range(size)}
    for _ in range(min(departed, sum(sizes))):
        calls.queue.pop(exhausted=False)
    page = calls.come()
    for _ in range(later):
        calls.come(Flow())
    order = calls.drain()
    before = [owner[call] for call in order[: order.index(page)]]
    assert len(before) == len(set(before))


@given(st.integers(1, 8), st.integers(1, 4))
def test_single_calls_without_end_leave_each_operation_its_turns(callers: int, operations: int) -> None:
    calls, flows = Calls(), [Flow() for _ in range(operations)]
    owner = {calls.come(flow): number for number, flow in enumerate(flows) for _ in range(100)}
    for _ in range(callers):
        calls.come()
    served = [0] * operations
    for _ in range(30 * (2 * callers + operations)):
        call = calls.queue.pop(exhausted=False)
        if call in owner:
            served[owner[call]] += 1
        else:
            calls.come()  # the caller's next one
    assert min(served) >= 29


@given(st.lists(st.booleans(), max_size=50), st.integers(0, 20))
def test_operations_of_one_call_wait_as_single_calls_do(kinds: list[bool], departed: int) -> None:
    calls = Calls()
    for _ in range(departed):
        calls.come(Flow())
        calls.queue.pop(exhausted=False)
    order = [calls.come(Flow() if is_operation else None) for is_operation in kinds]
    assert calls.drain() == order


@given(st.lists(st.integers(0, 4), min_size=1, max_size=100))
def test_operations_that_wait_get_as_many_turns_and_each_keeps_its_order(owners: list[int]) -> None:
    calls, flows = Calls(), [Flow() for _ in range(5)]
    for owner in owners:
        calls.come(flows[owner])
    order = calls.drain()
    turns = [0] * 5
    for call in order:
        turns[owners[call]] += 1
        waiting = [owner for owner in range(5) if turns[owner] < owners.count(owner)]
        assert all(turns[owner] >= max(turns) - 1 for owner in waiting)
    for owner in range(5):
        mine = [call for call in order if owners[call] == owner]
        assert mine == sorted(mine)


def test_an_operation_gains_nothing_by_having_been_idle() -> None:
    calls, busy, idle = Calls(), Flow(), Flow()
    calls.come(idle)
    for _ in range(50):
        calls.come(busy)
    for _ in range(40):
        calls.queue.pop(exhausted=False)
    late = {calls.come(idle) for _ in range(5)}
    first = [calls.queue.pop(exhausted=False) in late for _ in range(6)]
    assert sum(first) in (3, 4)


@given(st.integers(1, 3), st.integers(2, 20))
def test_others_go_between_two_calls_that_met_a_429(operations: int, count: int) -> None:
    calls, flows = Calls(), [Flow() for _ in range(operations)]
    for _ in range(200):
        for flow in flows:
            calls.come(flow)
    met = [calls.queue.pop(exhausted=False) for _ in range(count)]
    for call in met:
        calls.back(call)
    order = calls.drain()
    places = [order.index(call) for call in met]
    assert places == sorted(places)
    assert places[0] <= operations
    assert all(later - earlier > TURNS for earlier, later in pairwise(places))


@given(st.integers(0, 4), st.integers(0, 100), st.integers(0, 150), st.integers(0, 100))
def test_a_single_call_that_met_a_429_waits_for_one_such_call_of_each_operation_at_most(
    operations: int, singles: int, met: int, departed: int
) -> None:
    calls, flows = Calls(), [Flow() for _ in range(operations)]
    owned = {calls.come(flow) for flow in flows for _ in range(100)}
    page = calls.come()
    for _ in range(singles):
        calls.come()
    while calls.queue.pop(exhausted=False) != page:
        pass
    for call in [calls.queue.pop(exhausted=False) for _ in range(min(met, len(calls.queue)))]:
        if call in owned:
            calls.back(call)
    for _ in range(min(departed, len(calls.queue))):
        calls.queue.pop(exhausted=False)
    calls.back(page)
    assert calls.drain().index(page) <= operations + TURNS * (operations + 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30))
def test_while_the_limit_is_exhausted_the_newest_with_fewest_429s_goes(met: list[tuple[int, bool]]) -> None:
    calls = Calls()
    for rejects, is_refused in met:
        calls.come(None, rejects, is_refused=is_refused)
    order = [calls.queue.pop(exhausted=True) for _ in met]
    assert order == sorted(range(len(met)), key=lambda call: (met[call][0], -call))


def test_refused_calls_go_before_all_others() -> None:
    calls = Calls()
    others = [calls.come(), calls.come(Flow())]
    refused = calls.come(rejects=2, is_refused=True)
    assert calls.drain() == [refused, *others]


@given(st.data())
def test_nothing_is_lost_or_given_twice_whatever_is_removed_and_comes_back(data: st.DataObject) -> None:
    calls, waiting = Calls(), set[int]()
    flows = [None, Flow(), Flow()]
    for _ in range(data.draw(st.integers(1, 60))):
        match data.draw(st.sampled_from(["come", "pop", "probe", "remove", "back"])):
            case "come":
                waiting.add(calls.come(data.draw(st.sampled_from(flows))))
            case "remove" if calls.places:
                call = data.draw(st.sampled_from(sorted(calls.places)))
                calls.queue.remove(calls.places[call])
                waiting.discard(call)
            case "back" if calls.places.keys() - waiting:
                call = data.draw(st.sampled_from(sorted(calls.places.keys() - waiting)))
                calls.back(call)
                waiting.add(call)
            case "pop" | "probe" as how if waiting:
                waiting.remove(calls.queue.pop(exhausted=how == "probe"))
        assert len(calls.queue) == len(waiting)
        assert set(calls.queue) == waiting
    assert set(calls.drain()) == waiting
    with pytest.raises(IndexError):
        calls.queue.pop(exhausted=False)
