"""The links with most clicks: compared with every link counted alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AsyncSession, AuthenticationError, DateRange, InvalidRequestError, RangeStats, Year
from slashtag._core.batches import Selector, select
from slashtag._core.limits import MAX_KEYS
from slashtag._resources.top import first_places
from slashtag.sandbox import Fault, Sandbox
from tests.support.sending import connect, until_idle

ACCOUNT = {"urls": 320, "clicks": 4_000}


@given(st.lists(st.integers(0, 9), max_size=3 * MAX_KEYS), st.integers(1, 12))
async def test_no_order_changes_the_first_places(clicks: list[int], limit: int) -> None:
    async def count(batch: Selector) -> RangeStats:
        return RangeStats(total_clicks=sum(clicks[int(key)] for key in batch.keys))

    batches = select([str(n) for n in range(len(clicks))], None, None, 7_500, lambda *_: None)
    found = await first_places(count, batches, limit)
    totals = [stats.total for stats in found.values()]
    assert totals == sorted((n for n in clicks if n), reverse=True)[:limit]
    assert totals == [clicks[int(key)] for key in found]


async def test_after_a_refused_request_no_others_are_sent() -> None:
    fault = Fault(kind="401", path="*/stats*", every=5, times=1)
    with Sandbox(urls=3_000, clicks=3_000, seed=3, faults=[fault]) as box:
        async with connect(box, concurrency=3) as session:
            keys = {url.slashtag for url in box.truth.urls()}
            with pytest.raises(AuthenticationError):
                await session.stats.top(DateRange("2024-01-01", "2024-01-31"), keys=keys)
            sent = len(box.requests)
            await until_idle(session)
            # Those that were in flight at the failure.
            assert len(box.requests) <= sent + 3 < 15


@pytest.mark.parametrize("n", [1, 5, 60, 320])
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
        assert (stats.total, stats.country) == (true[slashtag].total_clicks, true[slashtag].country)
    if n == 1:
        assert len(box.requests) < 80


async def test_few_places_of_a_span_that_is_not_over_are_counted(session: AsyncSession, box: Sandbox) -> None:
    keys = [url.slashtag for url in box.truth.urls()][:8]
    true = box.truth.range("2020-01-01", "2030-01-01", keys=keys).total_clicks
    assert (
        sum(stats.total for stats in (await session.stats.top(DateRange.last(2_000), 8, keys=keys)).values())
        == true
    )


async def test_wrong_arguments_are_refused_before_anything_is_sent(
    session: AsyncSession, box: Sandbox
) -> None:
    for n, keys in ((0, ["a"]), (True, ["a"]), (1, ["a,b"]), (1, [""])):
        with pytest.raises(InvalidRequestError):
            await session.stats.top(Year(2024), n, keys=keys)
    with pytest.raises(TypeError):
        await session.stats.top(Year(2024), keys="spring")
    not_a_query: Any = "2024"
    with pytest.raises(InvalidRequestError):
        await session.stats.top(not_a_query, keys=["a"])
    assert await session.stats.top(Year(2024), keys=()) == {}
    assert box.requests == []
