"""Laws of plans: they are values, and their parts add up to them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import AllTime, CountryGeo, DateRange, Day, Plan, Query, Year
from slashtag._core.batches import Selector
from slashtag._core.plan import empty_sum

from . import clicklog
from .clicklog import KEYS, Click, Service

NOW = datetime(2025, 6, 15, tzinfo=UTC)
INDIA = timezone(timedelta(hours=5, minutes=30))

QUERIES: list[Query[Any]] = [
    DateRange("2024-01-01", "2024-12-31"),
    Day("2024-04-07"),
    Year(2024),
    AllTime(),
    CountryGeo("US", "2024-01-01", "2024-12-31"),
]


def plan_of(query: Query[Any], selectors: list[Selector]) -> Plan[Any]:
    pieces = tuple(query._time_slices(INDIA, NOW, "inclusive"))
    return Plan(query, tuple(selectors), pieces, query.span(INDIA), 0, len(selectors) * len(pieces))


def run(plan: Plan[Any], service: Service) -> Any:
    running = empty_sum(plan.query, plan.span)
    for ask in plan._requests():
        running.add(service(ask.call).to_statistics(ask.time_slice.window)[0])
    return running.result()


plans = st.builds(
    lambda query, n: plan_of(query, [Selector(keys=(key,)) for key in KEYS[:n]]),
    st.sampled_from(QUERIES),
    st.integers(0, len(KEYS)),
)


def test_a_plan_is_each_selector_with_each_piece() -> None:
    plan = plan_of(QUERIES[0], [Selector(keys=("a", "b")), Selector(tag="t")])
    assert [(ask.selector, ask.time_slice) for ask in plan._requests()] == list(
        product(plan._selectors, plan._time_slices)
    )
    params = [ask.call.params[0] for ask in plan._requests()]
    assert params == [("url_keys", "a,b")] * 12 + [("tag", "t")] * 12
    assert len(plan) == len(params)


@given(plans, st.integers(1, 70), st.integers(1, 5))
def test_the_calls_of_the_parts_are_the_calls_of_the_plan(plan: Plan[Any], n: int, again: int) -> None:
    asked = [ask for part in plan.split(n) for smaller in part.split(again) for ask in smaller._requests()]
    assert asked == list(plan._requests())


@given(plans, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9))
def test_what_cannot_be_requested_is_missing_once(plan: Plan[Any], n: int, again: int, missing: int) -> None:
    parts = [small for part in replace(plan, missing=missing).split(n) for small in part.split(again)]
    assert sum(part.missing for part in parts) == missing


@given(plans)
def test_the_plan_of_one_selector_has_all_its_requests(plan: Plan[Any]) -> None:
    alone = [ask for selector in plan._selectors for ask in plan._only(selector)._requests()]
    assert alone == list(plan._requests())


@given(plans, st.integers(1, 70))
def test_parts_are_of_about_equal_length_and_carry_no_selector_in_vain(plan: Plan[Any], n: int) -> None:
    parts = plan.split(n)
    lengths = [len(part) for part in parts]
    assert len(parts) == n
    assert max(lengths) - min(lengths) <= 1
    for part in parts:
        asked = {ask.selector for ask in part._requests()}
        assert asked == set(part._selectors) or not part


@given(clicklog.logs(st.dates(date(2023, 12, 25), date(2025, 1, 5))), plans, st.integers(1, 20))
def test_the_results_of_the_parts_add_up_to_the_result(log: list[Click], plan: Plan[Any], n: int) -> None:
    service = Service(log, named_states=2)
    whole = run(plan, service)
    assert type(whole).merge(run(part, service) for part in plan.split(n)) == whole
