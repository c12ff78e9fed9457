"""Groups of batches: in which sizes and order batches are collected, and what is delivered when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.batches import Selector
from slashtag._fanout import each_of
from slashtag._resources.group import FIRST_GROUP, GROWTH, growing, read_groups


def batches(count: int) -> list[Selector]:
    return [Selector(keys=(f"k{n}",)) for n in range(count)]


@given(st.integers(0, 300), st.integers(1, 300))
def test_groups_have_each_batch_once_and_grow(count: int, first: int) -> None:
    groups = list(growing(batches(count), first))
    assert [each for group in reversed(groups) for each in group] == batches(count)
    sizes = [len(group) for group in groups]
    assert sizes[:-1] == sorted(sizes[:-1])
    # The last has what is left, and is never smaller than the one before.
    assert len(sizes) < 2 or sizes[-1] >= sizes[-2]


def test_few_batches_are_one_group() -> None:
    assert [len(group) for group in growing(batches(2 * FIRST_GROUP), FIRST_GROUP)] == [2 * FIRST_GROUP]
    assert [len(group) for group in growing(batches(50), FIRST_GROUP)] == [FIRST_GROUP, 50 - FIRST_GROUP]
    assert [len(group) for group in growing(batches(200), 10)] == [10, 10 * GROWTH, 150]


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 500])
async def test_only_the_first_batches_come_in_small_groups(count: int) -> None:
    groups = [list(group) async for group in read_groups(each_of(batches(count)), 200, 10)]
    assert sorted(each.keys for group in groups for each in group) == sorted(
        each.keys for each in batches(count)
    )
    assert all(len(group) == 200 for group in groups[3:-1])
    assert all(len(group) <= 200 for group in groups)
