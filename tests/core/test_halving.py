"""Laws of differences: what is subtracted is exact, or it is not subtracted."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import RangeStats
from slashtag._core.halving import additive, difference, subtract
from slashtag._core.payloads import RangeAnswer
from slashtag._core.windows import Window

FIRST, LAST = date(2024, 1, 1), date(2024, 1, 7)
WEEK = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 7, 23, 59, 59, tzinfo=UTC))
DAY = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 23, 59, 59, tzinfo=UTC))

clicks = st.lists(st.tuples(st.dates(FIRST, LAST), st.sampled_from("xyz"), st.sampled_from("DE")), max_size=9)


def read(answer: RangeAnswer, window: Window = WEEK) -> RangeStats | None:
    return additive(answer.to_statistics(window)[0])


def answer(log: list[tuple[date, str, str]]) -> RangeAnswer:
    counted: dict[str, dict[Any, int]] = {"clicks": {}, "device": {}, "country": {}}
    for click in log:
        for name, label in zip(counted, click, strict=True):
            counted[name][label] = counted[name].get(label, 0) + 1
    return RangeAnswer(total_clicks=len(log), platform=[], **counted)  # type: ignore[arg-type]


@given(clicks, clicks)
def test_the_difference_of_a_sum_and_a_part_is_the_other_part(
    one: list[tuple[date, str, str]], other: list[tuple[date, str, str]]
) -> None:
    whole, part, rest = (read(answer(log)) for log in (one + other, one, other))
    assert whole is not None
    assert part is not None
    assert difference(whole, part) == rest


@given(clicks, clicks)
def test_a_difference_adds_up_or_there_is_none(
    one: list[tuple[date, str, str]], other: list[tuple[date, str, str]]
) -> None:
    whole, part = read(answer(one)), read(answer(other))
    assert whole is not None
    assert part is not None
    rest = difference(whole, part)
    if rest is not None:
        assert additive(rest) == rest
    elif set(other) <= set(one):
        assert any(other.count(click) > one.count(click) for click in other)


@pytest.mark.parametrize(
    "wrong",
    [
        RangeAnswer(total_clicks=-1),
        RangeAnswer(total_clicks=3),
        RangeAnswer(total_clicks=3, clicks={}),
        RangeAnswer(total_clicks=3, clicks={FIRST: 2}),
        RangeAnswer(total_clicks=1, clicks={FIRST: 2, LAST: -1}),
        RangeAnswer(total_clicks=1, clicks={date(2024, 1, 8): 1}),
        RangeAnswer(total_clicks=2, clicks={FIRST: 2}, device={"Mobile": 1}),
        RangeAnswer(total_clicks=0, device={"Mobile": 1}),
        RangeAnswer(total_clicks=2, clicks={FIRST: 2}, device={"Mobile": 3, "Desktop": -1}),
    ],
)
def test_an_answer_that_does_not_reconcile_is_not_subtracted(wrong: RangeAnswer) -> None:
    assert read(wrong) is None


def test_a_day_without_its_clicks_has_the_total() -> None:
    assert read(RangeAnswer(total_clicks=3), DAY) == RangeStats(total_clicks=3, clicks={FIRST: 3})
    assert read(RangeAnswer(total_clicks=0, device={"Mobile": 0})) == RangeStats()


def test_a_map_that_one_half_lacks_is_a_contradiction() -> None:
    whole = RangeStats(total_clicks=5, clicks={FIRST: 5}, device={"Mobile": 5})
    part = RangeStats(total_clicks=2, clicks={FIRST: 2})
    assert difference(whole, part) is None
    assert difference(part, whole) is None


def test_counts_are_subtracted_without_zeros_and_never_below() -> None:
    assert subtract({"a": 3, "b": 1}, {"b": 1}) == {"a": 3}
    assert subtract({"a": 3}, {"a": 4}) is None
    assert subtract({"a": 3}, {"b": 1}) is None
