"""After each day each destination has the truth, whatever came late, was new, changed its name or is gone."""

from __future__ import annotations

import pytest

from slashtag.sandbox import Sandbox
from tests.support.warehouse_days import simulate
from tests.support.warehouses import Clock, Target


# SQLite is the destination of test_law.py; `python benchmarks/sync.py` simulates ten days of each.
@pytest.mark.unmeasured
@pytest.mark.parametrize("target", ["duckdb", "filesystem", "postgres"], indirect=True)
def test_each_day_ends_with_the_truth(box: Sandbox, clock: Clock, target: Target) -> None:
    first, *later = simulate(box, clock, target, days=3)
    assert first.loaded == first.rows
    for day in later:
        assert day.requests <= 1.05 * day.ideal
        # Two rows for each link: the day that is over now, and the present one; and what came late, and all
        # rows of five slashtags that are new or another link's.
        assert day.loaded <= 2 * len(box.truth.urls()) + 12 + 5 * 21
    assert [day.wrong for day in (first, *later)] == [0, 0, 0]
