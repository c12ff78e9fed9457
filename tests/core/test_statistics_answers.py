"""Laws of sums: the answers of a split question add up to what a count of the whole finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from slashtag import (
    AllTime,
    CountryGeo,
    DateRange,
    Day,
    GeoStats,
    PeriodStats,
    Query,
    RangeStats,
    Statistics,
    Year,
)
from slashtag._core.batches import Selector
from slashtag._core.statistics_answers import GeoAnswer, PeriodAnswer, RangeAnswer, StatsAnswer
from slashtag._core.windows import Window
from slashtag._summed_statistics import RunningSum

from ..support.laws import examples
from . import clicklog
from .clicklog import KEYS, Click, Service

NOW = datetime(2025, 6, 15, tzinfo=UTC)

range_ends = st.sampled_from(["inclusive", "exclusive"])
chosen_keys = st.lists(st.sampled_from(KEYS), unique=True, min_size=1)


def ask(
    query: Query[Any],
    keys: Sequence[str],
    zone: tzinfo,
    service: Callable[[Any], Any],
    range_end: str = "inclusive",
) -> Any:
    """Ask a question in batches of two slashtags and add up the answers, last to first."""
    batched = [Selector(",".join(keys[at : at + 2])) for at in range(0, len(keys), 2)]
    running = RunningSum(query._answer_type.result_type, query.span(zone))
    for selector in reversed(batched):
        for piece in query._time_slices(zone, NOW, range_end):
            stats, problem = service(query._call(selector, piece)).to_statistics(piece.window)
            assert problem is None
            running.add(stats)
    return running.result()


def counted(labels: Iterable[str]) -> dict[str, int]:
    return dict(Counter(labels))


def check_range(stats: RangeStats, log: list[Click], span: tuple[date, date], zone: tzinfo) -> None:
    """Hold an answer against a count of the clicks that it is about."""
    by_day = Counter(click.at.astimezone(zone).date() for click in log)
    first, last = span
    every = [first + timedelta(n) for n in range((last - first).days + 1)]
    assert list(stats.clicks.items()) == [(day, by_day[day]) for day in every]
    assert stats.total_clicks == stats.total == len(log)
    assert stats.device == counted(click.device for click in log)
    assert stats.country == counted(click.country for click in log)
    assert stats.referrer == ({"Direct": len(log)} if log else {})
    assert stats.browser == stats.platform == ({"unknown.": len(log)} if log else {})
    assert stats.incomplete_dimensions == ()
    assert stats.days_complete
    assert stats.reconciles


scenes = clicklog.scenes()
many = examples(50)


# --- a merge of a split is the unsplit count -----------------------------------------------------------


@many
@given(scenes, st.integers(0, 100), chosen_keys, clicklog.zones(), range_ends, st.sampled_from([1, 2]))
def test_a_range_of_dates_is_the_count_of_them(
    scene: tuple[list[Click], date],
    length: int,
    keys: list[str],
    zone: tzinfo,
    range_end: str,
    least_days: int,
) -> None:
    log, first = scene
    last = first + timedelta(days=length)
    service = Service(log, exclusive=range_end == "exclusive", least_days=least_days)
    stats = ask(DateRange(first, last), keys, zone, service, range_end)
    inside = [c for c in log if c.key in keys and first <= c.at.astimezone(zone).date() <= last]
    check_range(stats, inside, (first, last), zone)


@many
@given(
    scenes,
    st.integers(0, 86_399),
    st.integers(0, 60 * 86_400),
    clicklog.zones(),
    clicklog.zones(),
    range_ends,
)
def test_a_range_of_seconds_is_the_count_of_them(
    scene: tuple[list[Click], date], second: int, seconds: int, zone: tzinfo, other: tzinfo, range_end: str
) -> None:
    log, first = scene
    start = datetime(first.year, first.month, first.day, tzinfo=UTC) + timedelta(seconds=second)
    end = start + timedelta(seconds=seconds)
    query = DateRange(start.astimezone(other), end.astimezone(other))
    stats = ask(query, KEYS, zone, Service(log, exclusive=range_end == "exclusive"), range_end)
    check_range(stats, [click for click in log if start <= click.at <= end], query.span(zone), zone)


@many
@given(clicklog.scenes(1), clicklog.zones(), st.sampled_from([1, 2]))
def test_a_day_is_the_count_of_it(scene: tuple[list[Click], date], zone: tzinfo, least_days: int) -> None:
    log, day = scene
    stats = ask(Day(day), KEYS, zone, Service(log, least_days=least_days))
    inside = [click for click in log if click.at.astimezone(zone).date() == day]
    check_range(stats, inside, (day, day), zone)


@given(
    clicklog.logs(clicklog.near_turns(40)),
    chosen_keys,
    clicklog.offsets(),
    st.sampled_from([None, 2010, 2011, 2024]),
)
def test_a_year_and_all_time_are_the_count_of_them(
    log: list[Click], keys: list[str], zone: tzinfo, year: int | None
) -> None:
    query: Query[PeriodStats] = AllTime() if year is None else Year(year)
    stats: PeriodStats = ask(query, keys, zone, Service(log))
    inside = [c for c in log if c.key in keys and year in (None, c.at.astimezone(zone).year)]
    assert stats.clicks_total == stats.total == len(inside)
    assert stats.device == counted(click.device for click in inside)
    assert stats.country == counted(click.country for click in inside)
    months = Counter(click.at.astimezone(zone).strftime("%Y-%m") for click in inside)
    assert [row for row in stats.rows() if row[0] == "month"] == [
        ("month", m, months[m]) for m in sorted(months)
    ]
    unique = len({click.visitor for click in inside})
    assert stats.clicks_unique + stats.clicks_repeated == len(inside)
    assert stats.clicks_unique >= unique
    assert not stats.unique_is_exact or stats.clicks_unique == unique


@given(scenes, st.integers(0, 200), chosen_keys, clicklog.offsets(), st.integers(0, 4))
def test_a_country_is_the_count_of_it(
    scene: tuple[list[Click], date], length: int, keys: list[str], zone: tzinfo, named: int
) -> None:
    log, first = scene
    last = first + timedelta(days=length)
    stats: GeoStats = ask(CountryGeo("us", first, last), keys, zone, Service(log, named_states=named))
    inside = [
        click
        for click in log
        if click.key in keys and click.country == "US" and first <= click.at.astimezone(zone).date() <= last
    ]
    states = Counter(click.state for click in inside)
    assert stats.total == len(inside)
    assert all(n <= states[state] for state, n in stats.state.items() if state != "Other")
    if stats.places_are_exact and named == 4:
        assert stats.state == {**states, "Other": 0}


# --- what an answer leaves out, or gets wrong ----------------------------------------------------------

WEEK = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 7, 23, 59, 59, tzinfo=UTC))
MONDAY = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 23, 59, 59, tzinfo=UTC))


def one(answer: RangeAnswer, window: Window = WEEK) -> tuple[RangeStats, str | None]:
    stats, problem = answer.to_statistics(window)
    return summed(RangeStats, [stats], (date(2024, 1, 1), date(2024, 1, 7))), problem


def summed(kind: Any, parts: Iterable[Any], span: Any = None) -> Any:
    """Add up statistics of one kind."""
    running = RunningSum(kind, span)
    for part in parts:
        running.add(part)
    return running.result()


@pytest.mark.parametrize("clicks", [UNSET, None, [], {}])
def test_a_day_without_its_clicks_has_the_total(clicks: Any) -> None:
    stats, problem = one(RangeAnswer(total_clicks=3, clicks=clicks), MONDAY)
    assert (stats.clicks[date(2024, 1, 1)], sum(stats.clicks.values()), problem) == (3, 3, None)
    assert stats.days_complete
    assert stats.reconciles


@pytest.mark.parametrize("total", [0, 3])
def test_days_that_are_left_out_are_complete_without_clicks(total: int) -> None:
    stats, problem = one(RangeAnswer(total_clicks=total))
    assert (stats.days_complete, problem) == (not total, None)


@pytest.mark.parametrize(("clicks", "reconciles"), [(2, True), (3, True), (4, False)])
def test_a_dimension_over_the_total_is_told_and_one_under_it_is_incomplete(
    clicks: int, reconciles: bool
) -> None:
    maps: dict[str, Any] = {name: {"x": 3} for name in RangeStats.SUMS} | {"device": {"x": clicks}}
    stats, problem = RangeAnswer(total_clicks=3, clicks={date(2024, 1, 1): 3}, **maps).to_statistics(WEEK)
    assert (stats.reconciles, problem is None) == (reconciles, reconciles)
    assert stats.incomplete_dimensions == (() if clicks == 3 else ("device",))


@pytest.mark.parametrize(
    ("total", "clicks"),
    [
        (3, {}),
        (3, []),
        (3, {date(2024, 1, 1): 2}),
        (0, {date(2024, 1, 1): 2}),
        (3, {date(2024, 1, 1): 2, date(2024, 1, 8): 1}),
        (2, {date(2024, 1, 1): 2, date(2024, 1, 8): 1}),
        (1, {date(2023, 12, 31): 1}),
    ],
)
def test_days_that_contradict_the_total_are_told(total: int, clicks: Any) -> None:
    stats, told = one(RangeAnswer(total_clicks=total, clicks=clicks))
    assert (stats.total_clicks, stats.reconciles, told is None) == (total, False, False)
    assert list(stats.clicks) == [date(2024, 1, n) for n in range(1, 8)]


def test_days_outside_the_window_are_left_out() -> None:
    clicks = {date(2023, 12, 31): 0, date(2024, 1, 2): 2, date(2024, 1, 8): 0}
    stats, problem = one(RangeAnswer(total_clicks=2, clicks=clicks))
    assert ({day: n for day, n in stats.clicks.items() if n}, problem) == ({date(2024, 1, 2): 2}, None)
    assert (len(stats.clicks), stats.reconciles) == (7, True)


@pytest.mark.parametrize(
    ("total", "breakdown"),
    [
        (5, {2024: {1: 2}, 2023: {12: 3}}),
        (2, {2024: {1: 2}, 2023: {12: 3}}),
        (3, {2024: {1: 2}}),
        (1, {2024: {1: 2}}),
    ],
)
def test_months_that_contradict_the_total_or_are_of_another_year_are_told(
    total: int, breakdown: dict[int, dict[int, int]]
) -> None:
    (piece,) = Year(2024)._time_slices(UTC, datetime(2025, 1, 1, tzinfo=UTC), "inclusive")
    answer = PeriodAnswer(total, total, 0, clicks_breakdown=breakdown)  # type: ignore[arg-type]
    stats, problem = answer.to_statistics(piece.window)
    assert problem
    assert (stats.clicks_breakdown, stats.reconciles) == ({2024: {1: 2}}, False)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (RangeAnswer(total_clicks=0, device={"Desktop": 0}), RangeStats()),
        (PeriodAnswer(0, 0, 0, clicks_breakdown={2024: {1: 0}}, browser={"Firefox": 0}), PeriodStats()),
        (GeoAnswer(state={"Ohio": 0, "Other": 0}), GeoStats(state={"Other": 0})),
    ],
)
def test_labels_without_clicks_are_dropped_but_other(answer: StatsAnswer, expected: Statistics) -> None:
    assert summed(type(expected), [answer.to_statistics(WEEK)[0]]) == expected


def test_an_answer_without_any_places_is_told() -> None:
    answers = GeoAnswer(), GeoAnswer(city=None)
    assert [answer.to_statistics(WEEK)[0].reconciles for answer in answers] == [False, True]
