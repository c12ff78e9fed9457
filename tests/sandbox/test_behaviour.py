"""What the document leaves open is an option, and each value of it behaves as it says."""

from typing import Any

import pytest

from slashtag.sandbox import Sandbox

from .serve import Caller, serving

RANGE = "2024-01-01T00:00:00+00:00,2024-01-03T00:00:00+00:00"
DAY = "2024-01-01T00:00:00+00:00"


def fill(call: Caller) -> None:
    call.box.add_url("a")
    for when in ("2024-01-01T00:00:00", "2024-01-01T23:59:59", "2024-01-03T00:00:00"):
        call.box.add_click("a", when)


@pytest.mark.parametrize(
    ("end", "days"),
    [("inclusive", {"2024-01-01": 2, "2024-01-03": 1}), ("exclusive", {"2024-01-01": 2})],
)
async def test_the_end_of_a_range_is_counted_or_not(end: str, days: dict[str, int]) -> None:
    async with serving(range_end=end) as call:
        fill(call)
        data = await call.range(url_keys="a", date_range=RANGE)
        assert (data["clicks"], data["total_clicks"]) == (days, sum(days.values()))
        instant = await call.range(url_keys="a", date_range=f"{DAY},{DAY}")
        assert instant["total_clicks"] == (end == "inclusive")


@pytest.mark.parametrize("shown", [True, False])
async def test_one_day_bears_clicks_or_not(shown: bool) -> None:
    async with serving(day_clicks=shown) as call:
        fill(call)
        for query in ({"date": DAY}, {"date_range": f"{DAY},2024-01-01T23:59:59+00:00"}):
            data = await call.range(url_keys="a", **query)
            assert data.get("clicks") == ({"2024-01-01": 2} if shown else None)


async def test_an_unknown_slashtag_counts_nothing_unless_it_is_an_error() -> None:
    for choice, status in (("ignore", 200), ("error", 400)):
        async with serving(unknown_keys=choice) as call:
            fill(call)
            assert (await call.range(url_keys="a", date=DAY))["total_clicks"] == 2
            assert (await call.get("stats", url_keys="a,nobody", date=DAY)).status == status


async def test_days_and_months_without_clicks_are_listed_or_not() -> None:
    async with serving(zero_days=True) as call:
        fill(call)
        data = await call.range(url_keys="a", date_range=RANGE)
        assert data["clicks"] == {"2024-01-01": 2, "2024-01-02": 0, "2024-01-03": 1}
        data = (await call.get("stats/alltime", url_keys="a")).data
        assert data["clicks_breakdown"] == {"2024": {str(m): 3 * (m == 1) for m in range(1, 13)}}
    async with serving() as call:
        fill(call)
        data = (await call.get("stats/yearly", url_keys="a", year=2024)).data
        assert data["clicks_breakdown"] == {"2024": {"1": 3}}


@pytest.mark.parametrize(("form", "empty"), [("object", {}), ("array", [])])
async def test_an_empty_map_is_an_object_or_an_array(form: str, empty: object) -> None:
    async with serving(empty_maps=form) as call:
        fill(call)
        data = await call.range(url_keys="nobody", date_range=RANGE)
        assert data.pop("total_clicks") == 0
        assert list(data.values()) == [empty] * 6
        data = (await call.get("stats/alltime", url_keys="nobody")).data
        assert (data["clicks_breakdown"], data["languages"], data["timezone"]) == (empty, empty, empty)
        assert (await call.get("stats/alltime", url_keys="a")).data["device"] == {"Desktop": "3"}


@pytest.mark.parametrize(
    ("paths", "stated", "sampled"), [("stated", 200, 400), ("samples", 404, 200), ("both", 200, 200)]
)
async def test_yearly_and_all_time_live_at_the_stated_paths_or_in_the_form_of_the_samples(
    paths: str, stated: int, sampled: int
) -> None:
    async with serving(paths=paths) as call:
        fill(call)
        for path, query in (("yearly", {"year": 2024}), ("alltime", {})):
            found = await call.get(f"stats/{path}", url_keys="a", **query)
            sample = await call.get("stats", url_keys="a", **query)
            assert (found.status, sample.status) == (stated, sampled)
            if stated == 404:
                assert found.body["data"] == []
            if sampled == 200:
                assert sample.data["clicks_total"] == 3
        assert (await call.range(url_keys="a", date=DAY))["total_clicks"] == 2


@pytest.mark.parametrize(("places", "state"), [(1, {"Texas": "2", "Other": 1}), (0, {"Other": 3})])
async def test_so_many_places_are_named(places: int, state: dict[str, Any]) -> None:
    async with serving(places=places) as call:
        call.box.add_url("a")
        call.box.add_click("a", "2024-01-01", state="Texas", times=2)
        call.box.add_click("a", "2024-01-01", state="Ohio")
        query = {"url_keys": "a", "iso_code": "us", "start_date": "2024-01-01", "end_date": "2024-01-01"}
        assert (await call.get("stats/country/geo", **query)).data["state"] == state


@pytest.mark.parametrize(
    "options",
    [
        {"range_end": "open"},
        {"empty_maps": "null"},
        {"paths": "none"},
        {"unknown_keys": "maybe"},
        {"max_pagesize": 0},
        {"max_pagesize": 501},
        {"places": -1},
        {"max_tags": -1},
        {"rate": 0},
        {"rate": 5, "burst": 0},
        {"since": "2026-02-01T00:00:00+00:00"},
    ],
)
def test_a_value_that_no_option_has_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Sandbox(**options)
