"""The truth, on an account small enough to count by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from slashtag.sandbox import Sandbox


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_tag("t")
        box.add_url("a", tag="t", created_at="2024-01-01")
        box.add_url("b", created_at="2024-01-02")
        yield box


def test_daylight_saving_is_followed_click_by_click(box: Sandbox) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for local in ("2024-03-30T23:30", "2024-03-31T00:30", "2024-03-31T23:30", "2024-04-01T00:30"):
        box.add_click("a", datetime.fromisoformat(local).replace(tzinfo=berlin))
    truth = box.truth.range("2024-03-30", "2024-04-01", timezone=berlin)
    assert list(truth.clicks.values()) == [1, 2, 1]


def test_instants_bound_a_range_on_both_sides_and_need_an_offset(box: Sandbox) -> None:
    start = datetime(2024, 1, 1, 12, tzinfo=UTC)
    for seconds in (-1, 0, 3600, 3601):
        box.add_click("a", start + timedelta(seconds=seconds))
    truth = box.truth.range(start, "2024-01-01T13:00:00+00:00", timezone="+11:30")
    assert (truth.total_clicks, truth.clicks) == (2, {date(2024, 1, 1): 1, date(2024, 1, 2): 1})
    with pytest.raises(ValueError, match="offset"):
        box.truth.range("2024-01-01T00:00:00", "2024-01-02T00:00:00")


def test_keys_tags_and_countries_select_clicks(box: Sandbox) -> None:
    box.add_click("a", "2024-01-01")
    box.add_click("b", "2024-01-01", times=2)
    box.add_click("b", "2024-01-02", country="DE")
    for selection, clicks in (
        ({"keys": ["a"]}, 1),
        ({"keys": ["b", "b", "nobody"]}, 3),
        ({"keys": []}, 0),
        ({"tag": "t"}, 1),
        ({"country": "US"}, 3),
    ):
        assert box.truth.alltime(**selection).clicks_total == clicks
    of_keys = box.truth.per_key("2024-01-01", "2024-01-02", country="US")
    assert {key: truth.total_clicks for key, truth in of_keys.items()} == {"a": 1, "b": 2}
    of_keys = box.truth.per_key("2024-01-03", "2024-01-03", keys=["b"])
    assert {key: truth.clicks for key, truth in of_keys.items()} == {"b": {date(2024, 1, 3): 0}}
    with pytest.raises(LookupError):
        box.truth.alltime(tag="nobody")


def test_a_period_knows_months_and_visitors(box: Sandbox) -> None:
    for when in ("2022-12-31", "2024-01-01", "2024-01-31", "2024-12-31T23:59:59"):
        box.add_click("a", when, visitor=1, timezone="Asia/Tokyo")
    truth = box.truth.alltime()
    assert truth.clicks_breakdown == {2022: {12: 1}, 2024: {1: 2, 12: 1}}
    assert (truth.clicks_total, truth.clicks_unique, truth.clicks_repeated) == (4, 1, 3)
    assert truth.timezone == {"Asia/Tokyo": 4}
    assert box.truth.year(2024).clicks_breakdown == {2024: {1: 2, 12: 1}}
