"""Which answers of an earlier run of a job still hold."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.batches import Selector
from slashtag._core.call import Call
from slashtag._core.queries import AllTime, CountryGeo, DateRange, Day, Query, Year
from slashtag._core.response import SETTLING_SECONDS
from slashtag._journal.journal import is_final
from slashtag._records import Page

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
SETTLED = NOW.timestamp() + SETTLING_SECONDS + 1


def page_call(page: int = 3, orderby: str | None = "date") -> Call[Any]:
    order = (("orderby", orderby),) if orderby else ()
    params = (("page", str(page)), ("pagesize", "2"), *order)
    return Call(method="GET", path="urls", params=params, returns=Page, replayable=True)


def page(number: int = 3, items: int = 2, page_size: int = 2) -> Page[object]:
    return Page(page=number, page_size=page_size, items=[object()] * items)


def test_a_full_page_of_a_listing_from_the_oldest_holds() -> None:
    assert is_final(page_call(), SETTLED, page())


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        pytest.param(page_call(), page(items=1), id="a short page, which grows"),
        pytest.param(page_call(), page(items=0), id="an empty page, which fills"),
        pytest.param(page_call(), page(items=0, page_size=0), id="a page of no size"),
        pytest.param(page_call(orderby="-date"), page(), id="a page from the latest, which shifts"),
        pytest.param(page_call(orderby=None), page(), id="a page in the default order, which shifts"),
        pytest.param(page_call(4), page(3), id="another page than asked for, which ends the listing"),
    ],
)
def test_a_page_that_can_change_does_not_hold(call: Call[Any], answer: Page[object]) -> None:
    assert not is_final(call, SETTLED, answer)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_write_is_never_replayed(method: str) -> None:
    assert not is_final(Call(method=method, path="tags", returns=object, replayable=True), SETTLED)


def calls(query: Query[Any]) -> list[Call[Any]]:
    return [
        query._call(Selector(keys=("spring",)), piece) for piece in query._time_slices(UTC, NOW, "inclusive")
    ]


@pytest.mark.parametrize(
    ("query", "held"),
    [
        (Day("2024-06-14"), True),
        (Day("2024-06-15"), False),
        (DateRange("2024-06-01", "2024-06-14"), True),
        (DateRange("2024-06-01", "2024-06-15"), False),
        (DateRange("2024-06-01T00:00:00Z", "2024-06-15T11:59:59Z"), True),
        (DateRange("2024-06-01T00:00:00Z", "2024-06-15T12:00:01Z"), False),
        (Year(2023), True),
        (Year(2024), False),
        (AllTime(), False),
        (CountryGeo("US", "2024-06-01", "2024-06-14"), True),
        (CountryGeo("US", "2024-06-01", "2024-06-15"), False),
    ],
)
def test_statistics_hold_once_what_they_count_has_ended(query: Query[Any], held: bool) -> None:
    assert [is_final(call, SETTLED) for call in calls(query)] == [held]


@given(st.integers(0, 400), st.integers(0, 400))
def test_exactly_the_windows_that_had_ended_hold(days: int, ago: int) -> None:
    end = NOW.date() - timedelta(days=ago)
    for call in calls(DateRange(end - timedelta(days=days), end)):
        last = datetime.fromisoformat(dict(call.params)["date_range"].split(",")[1])
        assert is_final(call, SETTLED) == (last <= NOW) == (last.date() < NOW.date())


def test_what_had_ended_only_just_is_asked_again() -> None:
    (call,) = calls(Day(date(2024, 6, 14)))
    midnight = datetime(2024, 6, 15, tzinfo=UTC).timestamp()
    assert not is_final(call, midnight + 1)
    assert not is_final(call, midnight + SETTLING_SECONDS - 2)
    assert is_final(call, midnight + SETTLING_SECONDS + 2)
