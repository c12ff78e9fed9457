"""Cells, questions, and what can be said of an answer by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.search.bounds import Bounds
from slashtag._core.search.cells import TOTAL, Answer, Cell, Question, confusion, difference, is_sound

MOBILE, DESKTOP, US = ("device", "Mobile"), ("device", "Desktop"), ("country", "US")
ANSWER: Answer = {TOTAL: 3, MOBILE: 2, DESKTOP: 1, US: 3}


def batch(name: str, count: int, answer: Answer | None = None) -> Cell:
    cell = Cell([f"{name}{n}" for n in range(count)])
    assert answer is None or cell.take(answer)
    return cell


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ANSWER, True),
        (None, False),
        ({TOTAL: 3, MOBILE: 2, US: 3}, False),
        ({**ANSWER, US: 0}, False),
        ({**ANSWER, TOTAL: -3}, False),
        ({TOTAL: 3, MOBILE: 2, DESKTOP: 1}, False),
        ({**ANSWER, ("browser", "Firefox"): 3}, False),
        ({}, True),
    ],
)
def test_an_answer_is_sound_if_each_dimension_adds_up_to_the_total(
    answer: Answer | None, expected: bool
) -> None:
    assert is_sound(answer, frozenset({"device", "country"})) is expected


def test_a_batch_keeps_its_answer_if_another_is_of_no_use() -> None:
    cell = batch("a", 4, ANSWER)
    assert cell.dimensions == {"device", "country"}
    assert not cell.take({TOTAL: 2, MOBILE: 1})
    assert not cell.take(None)
    assert cell.answer == ANSWER
    assert cell.take({})


def test_halves_have_each_key_once_and_add_up() -> None:
    bounds, cell = Bounds(), batch("a", 5, ANSWER)
    cell.know(bounds)
    assert bounds.accepts(cell.halve)
    first, second = cell.halves
    assert (*first.keys, *second.keys) == cell.keys
    assert (first.is_first, second.is_first) == (True, False)
    assert first.root is second.root is cell
    question = Question([first])
    question.answer = {TOTAL: 1, DESKTOP: 1, US: 1}
    assert bounds.accepts(question.equate_in)
    assert second.is_exact(bounds)
    assert second.total(bounds.low) == 2
    assert bounds.low[second.numbers[MOBILE]] == 2


def test_an_answer_from_before_a_change_holds_up_to_the_change() -> None:
    bounds, cell = Bounds(), batch("a", 2, ANSWER)
    cell.know(bounds)
    question = Question([cell])
    question.answer = {TOTAL: 2, MOBILE: 1, DESKTOP: 1, US: 2}
    assert not bounds.accepts(question.equate_in)
    question.changes.append(difference(ANSWER, question.answer))
    assert bounds.accepts(question.equate_in)


def test_a_question_has_room_for_a_hundred_keys_of_like_batches_none_twice() -> None:
    first, second = batch("a", 60, ANSWER), batch("b", 41, ANSWER)
    question = Question([first])
    assert question.room == 40
    assert not question.has_room(second)
    bounds = Bounds()
    first.know(bounds)
    assert bounds.accepts(first.halve)
    assert not Question([first.halves[0]]).has_room(first)
    assert Question([first.halves[0]]).has_room(first.halves[1])
    assert not question.has_room(batch("c", 2, {TOTAL: 1, MOBILE: 1}))
    # A batch without clicks goes with any.
    empty = batch("d", 40, {})
    assert question.has_room(empty)
    question.add(empty, {})
    assert question.room == 0
    assert question.keys == (*first.keys, *empty.keys)


labels = st.dictionaries(st.sampled_from([MOBILE, DESKTOP]), st.floats(0.1, 1))
profiles = st.builds(lambda device, us: {"device": device, "country": {US: us}}, labels, st.floats(0.1, 1))


@given(profiles, profiles)
def test_clicks_are_confused_as_well_either_way_and_not_without_common_labels(
    mine: dict[str, dict[tuple[str, object], float]], theirs: dict[str, dict[tuple[str, object], float]]
) -> None:
    most = 1e9
    assert confusion(mine, theirs, most) == pytest.approx(confusion(theirs, mine, most))
    assert confusion({"device": {MOBILE: 1}}, {"device": {DESKTOP: 1}}, most) == 0
