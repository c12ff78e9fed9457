"""Statistics: any question, however it is split, equals what is counted at once."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from slashtag import (
    AllTime,
    CountryGeo,
    DateRange,
    Day,
    GeoStats,
    PeriodStats,
    RangeStats,
    Year,
)
from tests.resources.accounts import (
    END,
    QUICK,
    START,
    YEARS,
    ZONES,
    Account,
    client,
    counts,
    period,
    places,
    scripted,
)
from tests.support import wire

# 13 batches of 100, each with 35 windows of 32 days and one more for each transition.
WINDOWS = {
    None: 35,
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


@pytest.mark.parametrize("zone", ZONES)
async def test_a_zone_costs_the_windows_of_its_transitions_and_loses_nothing(
    account: Account, zone: str
) -> None:
    keys = tuple(account.keys[:150])
    async with account.serve(latency=0.001) as box, client(box) as api:
        stats = await api.stats.collect(YEARS, keys=keys, timezone=ZoneInfo(zone))
        assert counts(stats) == counts(account.truth(zone, keys))
        assert len(box.requests) == 2 * WINDOWS[zone]
        assert {arrival.status for arrival in box.requests} == {200}


@pytest.mark.parametrize("zone", [None, "America/New_York"])
@pytest.mark.parametrize("options", [{"day_clicks": True}, {"zero_days": True, "empty_maps": "array"}])
async def test_the_numbers_do_not_depend_on_how_the_service_writes_them(
    account: Account, zone: str | None, options: dict[str, Any]
) -> None:
    keys = tuple(account.keys[:150])
    async with account.serve(**options) as box, client(box) as api:
        stats = await api.stats.collect(YEARS, keys=keys, timezone=zone and ZoneInfo(zone))
        assert counts(stats) == counts(account.truth(zone, keys))
        assert stats.days_complete
        assert stats.reconciles


@pytest.mark.parametrize(
    ("zone", "day", "ranges"),
    [
        ("America/New_York", "2024-03-10", 2),
        ("America/New_York", "2024-11-03", 2),
        ("Australia/Lord_Howe", "2024-04-07", 2),
        ("Australia/Lord_Howe", "2024-10-06", 2),
        ("America/Santiago", "2024-09-08", 1),  # begins at 01:00
        ("America/Santiago", "2024-04-06", 2),  # has its last hour twice
        ("Africa/Cairo", "2024-04-26", 1),
        ("Africa/Cairo", "2024-10-31", 2),
        ("Asia/Kolkata", "2024-10-31", 0),
    ],
)
async def test_a_day_equals_the_truth_on_whatever_date(
    account: Account, zone: str, day: str, ranges: int
) -> None:
    keys = account.keys[:100]
    async with account.serve() as box, client(box) as api:
        stats = await api.stats.collect(Day(day), keys=keys, timezone=ZoneInfo(zone))
        assert counts(stats) == counts(box.truth.range(day, day, keys=keys, timezone=ZoneInfo(zone)))
        assert stats.total > 0
        asked = [arrival.query for arrival in box.requests]
    assert [("date" in query, "date_range" in query) for query in asked] == (
        [(False, True)] * ranges or [(True, False)]
    )


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


async def test_all_time_equals_the_truth_and_counts_visitors_exactly_in_one_request(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        keys = account.keys[:100]
        stats = await api.stats.collect(AllTime(), keys=keys)
        truth = box.truth.alltime(keys=keys)
    assert period(stats) == period(truth)
    assert (stats.clicks_unique, stats.clicks_repeated) == (truth.clicks_unique, truth.clicks_repeated)
    assert stats.unique_is_exact


async def test_a_country_equals_the_truth_also_merged_over_batches(account: Account) -> None:
    async with account.serve(places=10_000) as box, client(box) as api:
        stats = await api.stats.collect(CountryGeo("us", START, END), keys=account.keys)
        truth = box.truth.range(START, END, country="US", keys=account.keys)
        assert len(box.requests) == 13
    assert places(stats) == places(truth)
    assert stats.total == sum(truth.state.values())
    assert stats.places_are_exact


# --- what the answers may leave open ------------------------------------------------------------------


async def test_only_the_first_contradiction_of_a_session_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted(wire.ok({"total_clicks": 3, "clicks": []})) as (_, api):
        for view in (api, api.with_options(timeout=5), api):
            await view.stats.collect(DateRange("2024-01-01", "2024-01-05"), keys=["a"])
    assert [record.levelname for record in caplog.records if record.levelname == "WARNING"] == ["WARNING"]


RIGHT: dict[Any, dict[str, Any]] = {
    DateRange("2024-01-01", "2024-01-02"): {
        "total_clicks": 3,
        "clicks": {"2024-01-01": 1, "2024-01-02": 2},
        **{name: {"a": "1", "b": 2} for name in RangeStats.SUMS},
    },
    Year(2024): {
        "clicks_total": 3,
        "clicks_unique": 2,
        "clicks_repeated": 1,
        "clicks_breakdown": {"2024": {"5": 3}},
        **{name: {"a": "1", "b": 2} for name in PeriodStats.SUMS},
    },
    CountryGeo("DE", "2024-01-01", "2024-01-02"): {name: {"a": "1", "Other": 2} for name in GeoStats.SUMS},
}
DAYS, YEAR, LAND = RIGHT


@pytest.mark.parametrize(
    ("query", "odd", "incomplete"),
    [
        (DAYS, {"device": None}, ("device",)),
        (DAYS, {"country": []}, ("country",)),
        (DAYS, {"browser": {"a": 1}}, ("browser",)),
        (DAYS, {"browser": {"a": 1, "b": 3}}, None),
        (DAYS, {"clicks": {"2024-01-01": 1}}, None),
        (YEAR, {"timezone": {}}, ("timezone",)),
        (YEAR, {"clicks_unique": 4}, None),
        (LAND, {"state": None}, None),
        (LAND, {"city": {"Other": 4}}, None),
    ],
)
async def test_an_odd_part_of_an_answer_is_told_and_not_asked_again(
    query: Any, odd: dict[str, Any], incomplete: tuple[str, ...] | None
) -> None:
    data = RIGHT[query] | odd
    async with scripted(wire.ok(data)) as (server, api):
        found = [await api.stats.collect(query, keys=["a"]) for _ in range(2)]
        assert api.metrics.inconsistent == (2 if incomplete is None else 0)
        assert len(server.requests) == 2
    for stats in found:
        assert stats.complete is stats.reconciles is (incomplete is not None)
        assert stats.incomplete_dimensions == (incomplete or stats.incomplete_dimensions)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"total_clicks": 3', '"total_clicks": -3'),
        ('"device": {"a": "1", "b": 2}', '"device": {"a": 5, "b": -2}'),
        ('"device": {"a": "1", "b": 2}', '"device": {"a": "1", "b": 2, "a": 2}'),
    ],
)
async def test_negative_counts_are_no_answer_and_repeated_members_contradict(old: str, new: str) -> None:
    odd = wire.body_of(200, "ok", RIGHT[DAYS]).replace(old.encode(), new.encode())
    async with scripted([wire.response(200, odd), wire.ok(RIGHT[DAYS])], retry=QUICK) as (_, api):
        stats = await api.stats.collect(DAYS, keys=["a"])
    assert (stats.total, stats.reconciles) == (3, "-" in new)
