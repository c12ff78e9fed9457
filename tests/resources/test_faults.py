"""A service of which every fourth answer fails gives the same answers, exactly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from slashtag import AllTime, AsyncSession, DateRange
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import END, START, Account, client, counts, period

KINDS = [
    "500",
    "503",
    "504",
    "html-502",
    "html-200",
    "envelope-500",
    "truncated-json",
    "truncated-body",
    "reset",
    "stall",
]


@pytest.fixture(params=["html-502", "truncated-body", "stall"])
async def failing(
    account: Account, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Sandbox, AsyncSession]]:
    kind: str = request.param
    # A timeout must pass for each stalled answer, and an honest one must not be taken for it.
    session: dict[str, Any] = {"timeout": 0.25} if kind.startswith("stall") else {}
    async with account.serve(faults=[Fault(kind=kind, every=4)]) as box, client(box, **session) as api:
        yield box, api


def failed(box: Sandbox) -> int:
    return sum(arrival.fault is not None for arrival in box.requests)


async def test_a_sum_is_exact(account: Account, failing: tuple[Sandbox, AsyncSession]) -> None:
    box, api = failing
    keys = tuple(account.keys[:150])
    stats = await api.stats.collect(DateRange(START, END), keys=keys)
    assert counts(stats) == counts(account.truth(None, keys))
    assert len(box.requests) - failed(box) >= 2 * 35
    assert failed(box) == len(box.requests) // 4


async def test_a_listing_is_complete_and_in_order(failing: tuple[Sandbox, AsyncSession]) -> None:
    box, api = failing
    links = [url.id async for url in api.urls.list(pagesize=75)]
    assert links == [url.id for url in box.truth.urls()]
    assert failed(box) >= 4


async def test_each_is_exact(account: Account, failing: tuple[Sandbox, AsyncSession]) -> None:
    box, api = failing
    keys = tuple(account.keys[:6])
    answers = [item async for item in api.stats.collect_each(DateRange(START, END), keys=keys, ordered=True)]
    truth = account.each(keys)
    assert [(key, counts(stats)) for key, stats in answers] == [(key, counts(truth[key])) for key in keys]
    assert failed(box) > 0


async def test_all_kinds_at_once_change_nothing(account: Account) -> None:
    faults = [Fault(kind=kind, share=0.04) for kind in KINDS]
    async with account.serve(faults=faults, latency=0.001) as box, client(box, timeout=0.25) as api:
        query = DateRange("2024-01-01", "2024-12-31")
        stats = await api.stats.collect(query, keys=api.urls.list(pagesize=100))
        assert counts(stats) == counts(box.truth.range(query.start, query.end))
        every = await api.stats.collect(AllTime(), keys=account.keys[:100])
        assert period(every) == period(box.truth.alltime(keys=account.keys[:100]))
        assert failed(box) > 20
        assert (
            max(arrival.in_flight for arrival in box.requests) <= 32 + 10
        )  # those that the client gave up are still under way there
