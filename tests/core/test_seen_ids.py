"""Laws of the set of seen ids: as a set of Python, in less memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slashtag._core import seen_ids
from slashtag._core.seen_ids import SeenIds


@given(st.lists(st.sets(st.integers(0, 200) | st.integers())), st.integers(0, 20))
def test_seen_ids_are_a_set(pages: list[set[int]], most_recent: int) -> None:
    before, seen_ids.MOST_RECENT = seen_ids.MOST_RECENT, most_recent
    try:
        seen, truth = SeenIds(), set[int]()
        for ids in pages:
            new = seen.new(ids)
            assert new == ids - truth
            seen.add(new)
            truth |= ids
            assert len(seen) == len(truth)
    finally:
        seen_ids.MOST_RECENT = before


def test_a_million_consecutive_ids_are_one_range() -> None:
    seen = SeenIds()
    for first in range(0, 1_000_000, 500):
        seen.add({*range(first, first + 500)})
    assert len(seen) == 1_000_000
    assert len(seen._starts) == 1
    assert len(seen._recent) <= seen_ids.MOST_RECENT
