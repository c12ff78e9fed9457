"""The truth, on accounts small enough to count by hand."""

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


def test_instants_bound_a_range_on_both_sides(box: Sandbox) -> None:
    start = datetime(2024, 1, 1, 12, tzinfo=UTC)
    for seconds in (-1, 0, 3600, 3601):
        box.add_click("a", start + timedelta(seconds=seconds))
    truth = box.truth.range(start, "2024-01-01T13:00:00+00:00", timezone="+11:30")
    assert truth.total_clicks == 2
    assert truth.clicks == {date(2024, 1, 1): 1, date(2024, 1, 2): 1}


def test_keys_and_tags_select_links(box: Sandbox) -> None:
    box.add_click("a", "2024-01-01")
    box.add_click("b", "2024-01-01", times=2)
    assert box.truth.alltime(["a"]).clicks_total == 1
    assert box.truth.alltime(["b", "b", "nobody"]).clicks_total == 2
    assert box.truth.alltime(tag="t").clicks_total == 1
    assert box.truth.alltime([]).clicks_total == 0
    per_key = box.truth.per_key("2024-01-01", "2024-01-02")
    assert {key: truth.total_clicks for key, truth in per_key.items()} == {"a": 1, "b": 2}
    assert box.truth.per_key("2024-01-02", "2024-01-02", ["b"])["b"].clicks == {date(2024, 1, 2): 0}
    with pytest.raises(LookupError):
        box.truth.alltime(tag="nobody")
    with pytest.raises(TypeError):
        box.truth.alltime(["a"], tag="t")


def test_a_period_knows_months_and_visitors(box: Sandbox) -> None:
    for when in ("2022-12-31", "2024-01-01", "2024-01-31", "2024-12-31T23:59:59"):
        box.add_click("a", when, visitor=1, timezone="Asia/Tokyo")
    truth = box.truth.alltime()
    assert truth.clicks_breakdown == {2022: {12: 1}, 2024: {1: 2, 12: 1}}
    assert (truth.clicks_total, truth.clicks_unique, truth.clicks_repeated) == (4, 1, 3)
    assert truth.timezone == {"Asia/Tokyo": 4}
    assert box.truth.year(2024).clicks_breakdown == {2024: {1: 2, 12: 1}}


def test_a_range_is_of_dates_or_of_instants_that_bear_an_offset(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="offset"):
        box.truth.range("2024-01-01T00:00:00", "2024-01-02T00:00:00")
    with pytest.raises(TypeError):
        box.truth.range("2024-01-01", datetime(2024, 1, 2, tzinfo=UTC))
