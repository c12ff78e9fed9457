"""Cells, questions, and what can be said of an answer by itself."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.search.cells import TOTAL, Answer, Cell, Profile, Question, confusion, is_sound

MOBILE, DESKTOP, US = ("device", "Mobile"), ("device", "Desktop"), ("country", "US")
ANSWER: Answer = {TOTAL: 3, MOBILE: 2, DESKTOP: 1, US: 3}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ANSWER, True),
        ({TOTAL: 3, MOBILE: 2, US: 3}, False),
        ({**ANSWER, DESKTOP: 0, MOBILE: 3}, False),
        ({TOTAL: -3}, False),
        ({}, True),
    ],
)
def test_an_answer_is_sound_if_each_dimension_adds_up_to_the_total(answer: Answer, expected: bool) -> None:
    assert is_sound(answer) is expected


chances = st.floats(0.1, 1)
profiles = st.fixed_dictionaries(
    {
        "device": st.dictionaries(st.sampled_from(["Mobile", "Desktop"]), chances),
        "country": st.fixed_dictionaries({"US": chances}),
    }
)


@given(profiles, profiles)
def test_clicks_are_confused_either_way_by_labels_in_common(mine: Profile, theirs: Profile) -> None:
    assert confusion(mine, theirs, inf) == pytest.approx(confusion(theirs, mine, inf))
    both: Profile = {"device": {"Mobile": 1, "Desktop": 1}}
    assert (confusion(both, {"device": {"Mobile": 1}}, inf), confusion(both, both, inf)) == (1, 2)


def test_no_key_is_asked_twice_in_a_question() -> None:
    assert not Question([Cell("abcd")]).has_room(Cell("de"))
