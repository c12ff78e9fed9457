"""Range ends are read right or not at all, however dense the clicks are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slashtag.cli.commands.doctor import DAY, EXCLUSIVE, INCLUSIVE, SECOND, read_end

MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC)
NOON = MIDNIGHT + DAY / 2
READINGS = {"inclusive": INCLUSIVE, "exclusive": EXCLUSIVE}


def counting(clicks: Sequence[datetime], reading: str) -> Callable[[datetime, datetime], Any]:
    """Count as a service that reads range ends this way."""

    async def count(start: datetime, end: datetime) -> int:
        if reading == "inclusive":
            return sum(start <= click <= end for click in clicks)
        return sum(start <= click < end for click in clicks)

    return count


@given(
    st.sampled_from(list(READINGS)),
    st.lists(st.integers(-100, 100).map(lambda n: NOON + n * SECOND), min_size=1),
)
def test_the_first_click_is_read_right_whatever_follows(reading: str, clicks: list[datetime]) -> None:
    count = counting(clicks, reading)
    assert asyncio.run(read_end(count, MIDNIGHT, MIDNIGHT + DAY)) == READINGS[reading]
    assert asyncio.run(read_end(count, MIDNIGHT, MIDNIGHT + SECOND)) is None


async def test_whole_days_include_the_last_second() -> None:
    async def of_days(start: datetime, end: datetime) -> int:
        return sum(start.date() <= click.date() <= end.date() for click in [NOON, NOON + SECOND])

    assert await read_end(of_days, MIDNIGHT, MIDNIGHT + DAY) == INCLUSIVE


async def test_counts_that_change_are_unclear() -> None:
    answers = iter(range(1, 100))

    async def changing(*_: object) -> int:
        return next(answers)

    assert await read_end(changing, MIDNIGHT, MIDNIGHT + DAY) is None
