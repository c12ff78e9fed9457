"""What the search finds is what asking for each slashtag alone would find."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import RangeStats
from slashtag._core.split import Month
from slashtag.report._search import Group, Search

MONTHS: list[Month] = [(2024, 1), (2024, 2), (2024, 3)]
DAY = date(2024, 2, 2)

# Slashtag -> clicks in three months, of which only February is in the span.
accounts = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=4),
    st.tuples(*[st.one_of(st.just(0), st.integers(0, 50))] * 3),
    max_size=40,
)


class Service:
    """Count what is asked."""

    def __init__(self, account: Mapping[str, Sequence[int]], *, settled: bool = True) -> None:
        self.account = account
        self.weighed = 0
        self.measured: list[str] = []
        self.search = Search(self.weigh, self.measure, settled=settled)

    async def weigh(self, keys: Sequence[str]) -> dict[Month, int]:
        self.weighed += 1
        await asyncio.sleep(0)
        sums = {month: sum(self.account[key][n] for key in keys) for n, month in enumerate(MONTHS)}
        return {month: n for month, n in sums.items() if n}

    async def measure(self, group: Group) -> RangeStats:
        (key,) = group.keys
        self.measured.append(key)
        await asyncio.sleep(0)
        clicks = self.account[key][1]
        return RangeStats(total_clicks=clicks, clicks={DAY: clicks})

    async def groups(self, size: int) -> list[Group]:
        keys = list(self.account)
        batches = [tuple(keys[n : n + size]) for n in range(0, len(keys), size)]
        found = [Group(batch, await self.weigh(batch)) for batch in batches]
        self.weighed = 0
        return found


@given(accounts, st.integers(1, 12), st.booleans())
def test_singles_are_all_that_may_have_clicks(
    account: dict[str, tuple[int, ...]], size: int, settled: bool
) -> None:
    async def run() -> None:
        service = Service(account, settled=settled)
        found = await service.search.singles(await service.groups(size))
        assert {group.keys: group.bound for group in found} == {
            (key,): sum(clicks) for key, clicks in account.items() if sum(clicks)
        }
        assert [group.bound for group in found] == sorted((group.bound for group in found), reverse=True)

    asyncio.run(run())


@given(accounts, st.integers(1, 12), st.integers(0, 5), st.booleans(), st.booleans())
def test_top_holds_the_most_clicks_there_are(
    account: dict[str, tuple[int, ...]], size: int, places: int, settled: bool, opened: bool
) -> None:
    async def run() -> None:
        service = Service(account, settled=settled)
        groups = await service.groups(size)
        if opened:
            groups = await service.search.singles(groups)
        top = await service.search.top(groups, places)
        best = sorted((clicks[1] for clicks in account.values() if clicks[1]), reverse=True)
        assert [stats.total for _, stats in top] == best[:places]
        assert all(account[key][1] == stats.total for key, stats in top)
        assert len(service.measured) == len(set(service.measured))

    asyncio.run(run())


@given(accounts, st.integers(1, 12))
def test_opening_costs_no_more_than_asking_for_each(account: dict[str, tuple[int, ...]], size: int) -> None:
    async def run() -> None:
        service = Service(account)
        groups = await service.groups(size)
        await service.search.singles(groups)
        assert service.weighed <= sum(len(group.keys) - 1 for group in groups)

    asyncio.run(run())


async def test_one_heavy_link_among_many_is_found_without_asking_for_each() -> None:
    account = {f"k{n}": (0, 1, 0) for n in range(1_000)} | {"heavy": (0, 5_000, 0)}
    service = Service(account)
    top = await service.search.top(await service.groups(100), 1)
    assert [key for key, _ in top] == ["heavy"]
    assert service.weighed + len(service.measured) < 20


async def test_a_half_that_has_grown_is_not_taken_from_an_old_sum() -> None:
    service = Service({"a": (0, 5, 0), "b": (0, 3, 0)})
    # The sum is older than a click of "a" and one of "b".
    found = await service.search.singles([Group(("a", "b"), {(2024, 2): 4})])
    assert {group.keys: group.bound for group in found} == {("a",): 5, ("b",): 3}
    # And a month of clicks that the sum did not know.
    service = Service({"a": (0, 5, 1), "b": (0, 3, 1)})
    found = await service.search.singles([Group(("a", "b"), {(2024, 2): 8})])
    assert {group.keys: group.bound for group in found} == {("a",): 6, ("b",): 4}


async def test_an_error_ends_the_search() -> None:
    async def weigh(keys: Sequence[str]) -> Mapping[Month, int]:
        raise LookupError(keys[0])

    async def measure(group: Group) -> RangeStats:
        raise LookupError

    search = Search(weigh, measure, settled=True)
    with pytest.raises(LookupError, match="a"):
        await search.singles([Group(("a", "b"), {(2024, 2): 4})])
    with pytest.raises(LookupError):
        await search.top([Group(("a",), {(2024, 2): 4})], 3)
