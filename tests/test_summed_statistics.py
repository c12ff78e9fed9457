"""Statistics add up in any order, pickle, and become rows."""

from __future__ import annotations

import pickle
from datetime import date
from functools import reduce
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag import GeoStats, PeriodStats, RangeStats, Statistics

counts = st.dictionaries(st.sampled_from(["x", "y", "z", "Other"]), st.integers(1, 5), max_size=4)
breakdowns = st.dictionaries(
    st.integers(2022, 2024),
    st.dictionaries(st.integers(1, 12), st.integers(1, 5), min_size=1, max_size=3),
    max_size=2,
)
ranges = st.builds(
    lambda clicks, device, country, complete, right, missing: RangeStats(
        total_clicks=sum(clicks.values()),
        clicks=clicks,
        device=device,
        country=country,
        days_complete=complete,
        reconciles=right,
        missing=missing,
    ),
    st.dictionaries(st.dates(date(2024, 1, 1), date(2024, 1, 9)), st.integers(0, 5), max_size=5),
    counts,
    counts,
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
)
periods = st.builds(
    lambda months, unique, browser, exact: PeriodStats(
        clicks_total=sum(chain(*(of.values() for of in months.values()))),
        clicks_unique=unique,
        clicks_repeated=2 * unique,
        clicks_breakdown=months,
        browser=browser,
        unique_is_exact=exact,
    ),
    breakdowns,
    st.integers(0, 5),
    counts,
    st.booleans(),
)
places = st.builds(
    GeoStats,
    state=counts,
    city=counts,
    postalcode=counts,
    places_are_exact=st.booleans(),
    missing=st.integers(0, 2),
)

#: Lists of statistics of one kind.
alike = st.sampled_from([ranges, periods, places]).flatmap(
    lambda kind: st.lists(kind, min_size=1, max_size=4)
)
KINDS: list[type[Statistics]] = [RangeStats, PeriodStats, GeoStats]


@given(alike, st.randoms())
def test_merging_is_free_of_order_and_associative(parts: list[Any], random: Any) -> None:
    shuffled = random.sample(parts, len(parts))
    left = reduce(lambda a, b: a + b, parts)
    assert left == reduce(lambda a, b: b + a, reversed(parts)) == reduce(lambda a, b: a + b, shuffled)
    if len(parts) > 1:
        assert left == type(parts[0]).merge(shuffled)


@given(alike)
def test_empty_statistics_change_nothing(parts: list[Any]) -> None:
    empty = type(parts[0]).merge([])
    assert empty == type(parts[0])()
    assert parts[0] + empty == empty + parts[0] == parts[0]


@given(alike)
@example([RangeStats(days_complete=False)])
def test_the_total_of_a_sum_is_the_sum_of_the_totals(parts: list[Any]) -> None:
    whole = sum(parts)
    if not any(part.incomplete_dimensions for part in parts if isinstance(part, GeoStats)):
        assert whole.total == sum(part.total for part in parts)
    assert whole.missing == sum(part.missing for part in parts)
    is_whole = all(part.reconciles and getattr(part, "days_complete", True) for part in parts)
    assert whole.complete == (not whole.missing and is_whole) == whole.to_dict()["complete"]
    assert ("missing" in [row[0] for row in whole.rows()]) == (whole.missing > 0)


@given(alike)
def test_statistics_pickle_and_go_through_json(parts: list[Any]) -> None:
    for part in parts:
        assert pickle.loads(pickle.dumps(part)) == part
        assert msgspec.json.decode(msgspec.json.encode(part), type=type(part)) == part


@given(alike)
def test_rows_are_tidy_and_add_up(parts: list[Any]) -> None:
    rows = list(sum(parts).rows())
    assert all((type(a), type(b), type(c)) == (str, str, int) for a, b, c in rows)
    assert len({row[:2] for row in rows}) == len(rows)
    summed = [row for part in parts for row in part.rows()]
    for dimension in {row[0] for row in rows}:
        assert sum(r[2] for r in rows if r[0] == dimension) == sum(r[2] for r in summed if r[0] == dimension)


@given(st.lists(ranges, min_size=1))
def test_the_days_of_a_sum_are_in_order(parts: list[RangeStats]) -> None:
    days = list(RangeStats.merge(parts).clicks)
    assert days == sorted(days)


@pytest.mark.parametrize("other", [1, None, "x", [], PeriodStats(), GeoStats()])
def test_only_statistics_of_one_kind_add_up(other: Any) -> None:
    for add in (lambda: RangeStats() + other, lambda: other + RangeStats()):
        with pytest.raises(TypeError):
            add()


def test_shared_slashtags_of_all_parts_are_named_once_and_in_order() -> None:
    assert (RangeStats(shared=("b", "a")) + RangeStats(shared=("a", "c"))).shared == ("a", "b", "c")


def test_uniques_of_several_answers_with_clicks_are_bounds() -> None:
    clicked, none = PeriodStats(clicks_total=1, clicks_unique=1), PeriodStats()
    assert (clicked + none + none).unique_is_exact
    assert not (clicked + clicked).unique_is_exact
    assert not (clicked + clicked + none).unique_is_exact


def test_places_with_a_remainder_of_several_answers_with_clicks_are_bounds() -> None:
    named, rest = GeoStats(state={"Ohio": 1}), GeoStats(city={"Other": 1})
    assert (named + named).places_are_exact
    assert (rest + GeoStats(state={"Other": 0})).places_are_exact
    assert not (named + rest).places_are_exact
    assert not (named + rest + named).places_are_exact


@pytest.mark.parametrize("kind", KINDS)
def test_every_map_of_counts_is_a_dimension(kind: type[Any]) -> None:
    maps = [f.name for f in msgspec.structs.fields(kind) if getattr(f.type, "__origin__", None) is dict]
    assert {name for name in maps if name != "clicks_breakdown"} == set(kind.DIMENSIONS)


def test_rows_come_in_one_order_however_the_labels_came_in() -> None:
    counts = {"b": 1, "a": 1, "c": 5, "Other": 9}
    backwards = dict(reversed(counts.items()))
    rows = [("state", "c", 5), ("state", "a", 1), ("state", "b", 1), ("state", "Other", 9)]
    assert list(GeoStats(state=counts).rows()) == list(GeoStats(state=backwards).rows()) == rows
