"""The links with most clicks: compared with every link counted alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AsyncSession, DateRange, InvalidRequestError, RangeStats, Year
from slashtag._core.batches import Selector, select
from slashtag._core.limits import MAX_KEYS
from slashtag._resources.top import first_places
from slashtag.sandbox import Sandbox

ACCOUNT = {"urls": 320, "clicks": 4_000}


@given(st.lists(st.integers(0, 9), max_size=3 * MAX_KEYS), st.integers(1, 12))
async def test_no_order_changes_the_first_places_and_no_click_meanwhile_hides_a_link(
    clicks: list[int], limit: int
) -> None:
    more = 0

    async def count(batch: Selector) -> RangeStats:
        total = sum(clicks[int(key)] for key in batch.keys)
        stats = RangeStats(total_clicks=total, reconciles=not more or len(batch.keys) == 1)
        clicks[int(batch.keys[0])] += more
        return stats

    batches = select([*map(str, range(len(clicks)))], None, None, 7_500, lambda *_: None)
    found = await first_places(count, batches, limit)
    assert [stats.total for stats in found.values()] == sorted((n for n in clicks if n), reverse=True)[:limit]
    more, clicked = 9, {str(n) for n, each in enumerate(clicks) if each}
    found = await first_places(count, batches, 3 * MAX_KEYS)
    assert clicked <= {*found}
    assert {stats.reconciles for stats in found.values()} <= {len(clicks) == 1}


@pytest.mark.parametrize("n", [1, 60, 320])
@pytest.mark.parametrize("year", [True, False])
async def test_the_first_places_are_those_of_links_counted_one_by_one(
    session: AsyncSession, box: Sandbox, n: int, year: bool
) -> None:
    top = await session.stats.top(
        Year(2024) if year else DateRange("2024-01-01", "2024-03-31"), n, keys=session.urls.list()
    )
    true = box.truth.per_key("2024-01-01", "2024-12-31" if year else "2024-03-31")
    counts = sorted((each.total_clicks for each in true.values() if each.total_clicks), reverse=True)
    assert [stats.total for stats in top.values()] == counts[:n]
    for slashtag, stats in top.items():
        assert stats.country == true[slashtag].country
    if n == 1:
        assert len(box.requests) < 80


async def test_wrong_arguments_are_refused_before_anything_is_sent(
    session: AsyncSession, box: Sandbox
) -> None:
    for n, keys in ((0, ["a"]), (1, ["a,b"])):
        with pytest.raises(InvalidRequestError):
            await session.stats.top(Year(2024), n, keys=keys)
    assert await session.stats.top(Year(2024), keys=()) == {}
    assert not box.requests
