"""Statistics: any question, however it is split, equals what is counted at once."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from slashtag import (
    DateRange,
    Year,
)
from tests.resources.accounts import (
    YEARS,
    Account,
    client,
    counts,
    period,
    scripted,
)
from tests.support import wire

# 13 batches of 100, each with 35 windows of 32 days and one more for each transition.
WINDOWS = {
    "America/New_York": 37,
    "Australia/Lord_Howe": 36,
    "Africa/Cairo": 36,
    "America/Santiago": 36,
    "Asia/Kolkata": 35,
}


# --- three years over 1,250 slashtags ----------------------------------------------------------------


async def test_three_years_of_1250_slashtags_take_455_requests_and_equal_the_truth(account: Account) -> None:
    async with account.serve(latency=0.015) as box, client(box, concurrency=8) as api:
        stats = await api.stats.collect(YEARS, keys=account.keys)
        assert counts(stats) == counts(account.truth())
        assert len(stats.clicks) == 1096
        assert stats.days_complete
        assert stats.reconciles
        assert [arrival.status for arrival in box.requests] == [200] * 455
        assert max(arrival.in_flight for arrival in box.requests) == 8


@pytest.mark.parametrize(("zone", "windows"), WINDOWS.items())
async def test_a_zone_costs_the_windows_of_its_transitions_and_loses_nothing(
    account: Account, zone: str, windows: int
) -> None:
    keys = tuple(account.keys[:150])
    async with account.serve(latency=0.001) as box, client(box) as api:
        stats = await api.stats.collect(YEARS, keys=keys, timezone=ZoneInfo(zone))
        assert counts(stats) == counts(account.truth(zone, keys))
        assert len(box.requests) == 2 * windows
        assert {arrival.status for arrival in box.requests} == {200}


# --- years, all time, countries ----------------------------------------------------------------------


async def test_a_year_equals_the_truth_also_merged_over_batches(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        merged = await api.stats.collect(Year(2024), keys=account.keys, timezone="+02:00")
        truth = box.truth.year(2024, keys=account.keys, timezone="+02:00")
        assert len(box.requests) == 13
    assert period(merged) == period(truth)
    assert merged.clicks_unique >= truth.clicks_unique
    assert merged.clicks_repeated <= truth.clicks_repeated
    assert not merged.unique_is_exact


# --- what the answers may leave open ------------------------------------------------------------------


async def test_contradictions_are_counted_not_asked_again_and_the_first_of_a_session_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted(wire.ok({"total_clicks": 3, "clicks": []})) as (server, api):
        for view in (api, api.with_options(timeout=5), api):
            stats = await view.stats.collect(DateRange("2024-01-01", "2024-01-05"), keys=["a"])
            assert (stats.complete, stats.reconciles) == (False, False)
        assert api.metrics.inconsistent == len(server.requests) == 3
    assert [record.levelname for record in caplog.records if record.levelname == "WARNING"] == ["WARNING"]
    incomplete = {"total_clicks": 1, "clicks": {"2024-01-01": 1}, "device": {"Desktop": 1}}
    async with scripted(wire.ok(incomplete)) as (_, api):
        stats = await api.stats.collect(DateRange("2024-01-01", "2024-01-05"), keys=["a"])
        assert (stats.complete, "browser" in stats.incomplete_dimensions) == (True, True)
        assert api.metrics.inconsistent == 0
