"""Range ends are read right or not at all, however dense the clicks are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.cli.commands.doctor import DAY, SECOND, Reading, agreed, first_second, read_end

MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC)
NOON = MIDNIGHT + DAY / 2
READINGS = ["inclusive", "exclusive"]


def counting(clicks: Sequence[datetime], reading: str) -> Callable[[datetime, datetime], Any]:
    """Count as a service that reads range ends this way."""

    async def count(start: datetime, end: datetime) -> int:
        if reading == "inclusive":
            return sum(start <= click <= end for click in clicks)
        return sum(start <= click < end for click in clicks)

    return count


@given(
    st.sampled_from(READINGS), st.lists(st.integers(-100, 100).map(lambda n: NOON + n * SECOND), min_size=1)
)
def test_no_clicks_make_a_reading_wrong(reading: str, clicks: list[datetime]) -> None:
    count = counting(clicks, reading)
    for second in (NOON, clicks[0]):
        assert asyncio.run(read_end(count, second)) in (reading, "unclear")
    assert reading in get_args(Reading)


@pytest.mark.parametrize("every", [1, 2, 180])
@pytest.mark.parametrize("reading", READINGS)
async def test_a_dense_history_is_read_like_a_thin_one(reading: str, every: int) -> None:
    clicks = [MIDNIGHT + n * SECOND for n in range(0, 86_400, every)]
    count = counting(clicks, reading)
    second = await first_second(count, MIDNIGHT, MIDNIGHT + DAY)
    assert second == MIDNIGHT
    assert await read_end(count, MIDNIGHT) == reading


@pytest.mark.parametrize("reading", ["inclusive", "exclusive"])
async def test_a_second_with_a_click_is_found(reading: str) -> None:
    for at in (MIDNIGHT, NOON, MIDNIGHT + DAY - SECOND):
        count = counting([at, at, MIDNIGHT + DAY + SECOND], reading)
        assert await first_second(count, MIDNIGHT, MIDNIGHT + DAY) == at
        assert await first_second(count, at + SECOND, MIDNIGHT + DAY + SECOND) is None
        assert await read_end(count, at) == reading


async def test_fractions_of_a_second_count_once() -> None:
    count = counting([NOON + timedelta(milliseconds=500)], "inclusive")
    # Here the next second as an end is what makes ranges meet.
    assert await read_end(count, NOON) == "exclusive"


async def test_a_second_without_clicks_and_counts_that_change_are_unclear() -> None:
    answers = iter(range(100))

    async def changing(*_: object) -> int:
        return next(answers)

    assert await read_end(counting([], "inclusive"), NOON) == "unclear"
    assert await read_end(changing, NOON) == "unclear"


def test_one_vote_decides_nothing() -> None:
    assert agreed(["a"]) is None
    assert agreed(["a", "b", "a"]) is None
    assert agreed(["a", "a"]) == "a"
