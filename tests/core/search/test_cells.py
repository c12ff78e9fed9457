"""Cells, questions, and what can be said of an answer by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.search.bounds import Bounds
from slashtag._core.search.cells import TOTAL, Answer, Cell, Question, confusion, difference, is_sound

MOBILE, DESKTOP, US = ("device", "Mobile"), ("device", "Desktop"), ("country", "US")
ANSWER: Answer = {TOTAL: 3, MOBILE: 2, DESKTOP: 1, US: 3}


def batch(name: str, count: int, bounds: Bounds) -> Cell:
    cell = Cell([f"{name}{n}" for n in range(count)])
    cell.answer = ANSWER
    cell.know(bounds)
    assert bounds.accepts(cell.halve)
    return cell


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ANSWER, True),
        ({TOTAL: 3, MOBILE: 2, US: 3}, False),
        ({**ANSWER, DESKTOP: 0, MOBILE: 3}, False),
        ({TOTAL: -3}, False),
        ({MOBILE: 3}, True),
        ({}, True),
    ],
)
def test_an_answer_is_sound_if_each_dimension_adds_up_to_the_total(answer: Answer, expected: bool) -> None:
    assert is_sound(answer) is expected


def test_halves_have_each_key_once_and_add_up() -> None:
    bounds = Bounds()
    cell = batch("a", 5, bounds)
    first, second = cell.halves
    assert (*first.keys, *second.keys) == cell.keys
    question = Question([first])
    question.answer = {TOTAL: 1, DESKTOP: 1, US: 1}
    assert bounds.accepts(question.equate_in)
    assert second.is_exact(bounds)
    assert (second.total(bounds.low), bounds.low[second.numbers[MOBILE]]) == (2, 2)


def test_an_answer_from_before_a_change_holds_up_to_the_change() -> None:
    bounds = Bounds()
    question = Question([batch("a", 2, bounds)])
    question.answer = {TOTAL: 2, MOBILE: 1, DESKTOP: 1, US: 2}
    assert not bounds.accepts(question.equate_in)
    question.changes.append(difference(ANSWER, question.answer))
    assert bounds.accepts(question.equate_in)


def test_a_question_has_room_for_a_hundred_keys_none_twice() -> None:
    bounds = Bounds()
    large, other = batch("a", 60, bounds), batch("b", 41, bounds)
    assert not Question([large]).has_room(other)
    assert Question([large]).has_room(other.halves[0])
    first, second = large.halves
    assert Question([first]).has_room(second)
    assert not Question([first]).has_room(large)


labels = st.dictionaries(st.sampled_from([MOBILE, DESKTOP]), st.floats(0.1, 1))
profiles = st.builds(lambda device, us: {"device": device, "country": {US: us}}, labels, st.floats(0.1, 1))


@given(profiles, profiles)
def test_clicks_are_confused_as_well_either_way_and_not_without_common_labels(
    mine: dict[str, dict[tuple[str, object], float]], theirs: dict[str, dict[tuple[str, object], float]]
) -> None:
    most = 1e9
    assert confusion(mine, theirs, most) == pytest.approx(confusion(theirs, mine, most))
    assert confusion({"device": {MOBILE: 1}}, {"device": {DESKTOP: 1}}, most) == 0
