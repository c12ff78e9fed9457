"""Cells, questions, and what can be said of an answer by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.search.cells import TOTAL, Answer, confusion, is_sound

MOBILE, DESKTOP, US = ("device", "Mobile"), ("device", "Desktop"), ("country", "US")
ANSWER: Answer = {TOTAL: 3, MOBILE: 2, DESKTOP: 1, US: 3}


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


labels = st.dictionaries(st.sampled_from([MOBILE, DESKTOP]), st.floats(0.1, 1))
profiles = st.builds(lambda device, us: {"device": device, "country": {US: us}}, labels, st.floats(0.1, 1))


@given(profiles, profiles)
def test_clicks_are_confused_as_well_either_way_and_not_without_common_labels(
    mine: dict[str, dict[tuple[str, object], float]], theirs: dict[str, dict[tuple[str, object], float]]
) -> None:
    most = 1e9
    assert confusion(mine, theirs, most) == pytest.approx(confusion(theirs, mine, most))
    assert confusion({"device": {MOBILE: 1}}, {"device": {DESKTOP: 1}}, most) == 0
