"""Laws of the set of seen ids: as a set of Python, in less memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.seen_ids import SeenIds


@given(st.lists(st.sets(st.integers(0, 600) | st.integers())))
def test_seen_ids_are_a_set(pages: list[set[int]]) -> None:
    seen, truth = SeenIds(), set[int]()
    for ids in pages:
        new = seen.new(ids)
        assert new == ids - truth
        seen.add(new)
        truth |= ids
        assert len(seen) == len(truth)
