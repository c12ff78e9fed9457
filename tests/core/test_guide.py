"""Laws of guidance: no click is lost with the months that it leaves out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AllTime, DateRange, RangeStats
from slashtag._core.guide import Guide, contradicts
from slashtag._core.payloads import PeriodAnswer
from slashtag._core.selectors import Selector
from slashtag._core.split import Month

from ..support.laws import examples
from . import clicklog
from .clicklog import Click, Service

HOUR = timedelta(hours=1)
DUBLIN = ZoneInfo("Europe/Dublin")
SYDNEY = ZoneInfo("Australia/Sydney")
LONG_AFTER = datetime(2030, 6, 15, tzinfo=UTC)
ALL = Selector(keys=tuple(clicklog.KEYS))


def all_time(guide: Guide, service: Service) -> list[PeriodAnswer]:
    return [service(AllTime().call(ALL, AllTime().time_slice(offset))) for offset in guide.offsets]


def guided(query: DateRange, zone: tzinfo, service: Service, now: datetime) -> tuple[RangeStats, bool]:
    """Ask as `collect_each` does; tell also whether the answer contradicts what guided it."""
    guide = Guide(query, zone, now)
    answers = all_time(guide, service)
    months = guide.active(answers)
    tally = query.tally(query.span(zone))
    whole = query.time_slices(zone, now, "inclusive")
    for piece in whole if months is None else guide.time_slices(months, "inclusive"):
        tally.add_answer(service(query.call(ALL, piece)), piece.window)
    stats = tally.result()
    return stats, contradicts(stats, guide.expected(answers))


@examples(150)
@given(clicklog.scenes(), st.integers(0, 120), clicklog.zones())
def test_no_click_is_lost_where_all_time_months_ignore_the_zone(
    scene: tuple[list[Click], date], length: int, zone: tzinfo
) -> None:
    log, first = scene
    query = DateRange(first, first + timedelta(days=length))
    whole = query.tally(query.span(zone))
    for part in query.time_slices(zone, LONG_AFTER, "inclusive"):
        whole.add_answer(Service(log)(query.call(ALL, part)), part.window)
    stats, _ = guided(query, zone, Service(log, months_in_utc=True), LONG_AFTER)
    assert stats == whole.result()


@settings(max_examples=150)
@given(clicklog.scenes(), st.integers(0, 120), clicklog.zones())
def test_the_guided_answer_is_the_whole_answer(
    scene: tuple[list[Click], date], length: int, zone: tzinfo
) -> None:
    log, first = scene
    query = DateRange(first, first + timedelta(days=length))
    tally = query.tally(query.span(zone))
    for piece in query.time_slices(zone, LONG_AFTER, "inclusive"):
        tally.add_answer(Service(log)(query.call(ALL, piece)), piece.window)
    assert guided(query, zone, Service(log), LONG_AFTER) == (tally.result(), False)


def test_a_click_that_an_earlier_offset_puts_into_the_month_is_found() -> None:
    # Sydney's 2018-04-01 begins under +11:00 and goes on under +10:00, where this click is one of March.
    log = [Click(datetime(2018, 3, 31, 13, 30, tzinfo=UTC), "a", "Mobile", "US", "Ohio", 1)]
    stats, _ = guided(DateRange("2018-04-01", "2018-07-31"), SYDNEY, Service(log), LONG_AFTER)
    assert stats.clicks[date(2018, 4, 1)] == stats.total == 1


def test_months_are_left_out_that_are_zero_under_all_offsets() -> None:
    query = DateRange("2024-01-01", "2024-12-31")
    guide = Guide(query, DUBLIN, LONG_AFTER)
    assert guide.offsets == [timedelta(), HOUR]
    # Dublin is ahead of UTC in summer: if the service ignores the zone, clicks of June stand in May.
    assert guide.active([period({}), period({(2024, 5): 1, (2023, 1): 7})]) == {(2024, 5), (2024, 6)}
    both = {(2024, 1), (2024, 2), (2024, 5), (2024, 6)}
    assert guide.active([period({(2024, 1): 2}), period({(2024, 5): 1})]) == both
    assert guide.active([period({}), period({(2023, 12): 1})]) == {(2024, 1)}
    assert guide.active([period({}), period({})]) == set()


def test_only_the_month_to_which_the_zone_shifts_is_asked_besides() -> None:
    query = DateRange("2024-01-01", "2024-12-31")
    for zone, months in ((UTC, {5}), (timezone(-HOUR), {4, 5}), (timezone(HOUR), {5, 6})):
        guide = Guide(query, zone, LONG_AFTER)
        assert guide.active([period({(2024, 5): 1})]) == {(2024, month) for month in months}


@pytest.mark.parametrize(
    ("now", "zone", "always"),
    [
        (datetime(2024, 3, 15, tzinfo=UTC), UTC, {(2024, 2), (2024, 3), (2024, 4)}),
        (datetime(2024, 1, 1, tzinfo=UTC), UTC, {(2023, 12), (2024, 1), (2024, 2), (2024, 3), (2024, 4)}),
        # It is still February in New York.
        (datetime(2024, 3, 1, 2, tzinfo=UTC), ZoneInfo("America/New_York"), {(2024, n) for n in range(1, 5)}),
        (LONG_AFTER, UTC, set()),
    ],
)
def test_the_current_and_the_previous_month_and_later_ones_are_always_asked(
    now: datetime, zone: tzinfo, always: set[Month]
) -> None:
    guide = Guide(DateRange("2023-11-01", "2024-04-30"), zone, now)
    assert guide.always == always
    assert guide.active([period({}) for _ in guide.offsets]) == always


def test_the_first_days_of_the_calendar_are_guided_too() -> None:
    guide = Guide(DateRange("0001-01-01T03:00:00+00:00", "0001-06-01T00:00:00+00:00"), UTC, LONG_AFTER)
    assert (guide.offsets, guide.active([period({})])) == ([timedelta()], set())


def test_a_breakdown_that_does_not_add_up_does_not_guide() -> None:
    guide = Guide(DateRange("2024-01-01", "2024-12-31"), UTC, LONG_AFTER)
    assert guide.active([PeriodAnswer(3, 3, 0, clicks_breakdown={2024: {1: 2}})]) is None


def test_expected_are_past_whole_months_of_one_offset() -> None:
    guide = Guide(DateRange("2023-12-02", "2024-07-29"), DUBLIN, datetime(2024, 7, 10, tzinfo=UTC))
    winter = {(2023, 12): 1, (2024, 1): 2, (2024, 3): 4, (2024, 4): 5, (2024, 5): 6, (2024, 6): 7}
    summer = dict.fromkeys(winter, 9)
    # December is cut, March and the eve of April change the offset, June and July still grow.
    assert guide.expected([period(winter), period(summer)]) == {(2024, 1): 2, (2024, 2): 0, (2024, 5): 9}


def test_of_a_range_of_seconds_nothing_is_expected() -> None:
    query = DateRange("2024-01-01T00:00:00+00:00", "2024-06-30T23:59:59+00:00")
    assert Guide(query, UTC, LONG_AFTER).expected([period({(2024, 2): 1})]) == {}


@pytest.mark.parametrize(
    ("clicks", "complete", "contradiction"),
    [(2, True, False), (1, True, True), (0, True, True), (1, False, False)],
)
def test_days_that_miss_their_month_are_a_contradiction(
    clicks: int, complete: bool, contradiction: bool
) -> None:
    stats = RangeStats(clicks={date(2024, 1, 5): clicks, date(2024, 2, 1): 7}, days_complete=complete)
    assert contradicts(stats, {(2024, 1): 2}) is contradiction


def test_clicks_in_a_month_that_was_told_to_be_empty_are_a_contradiction() -> None:
    assert contradicts(RangeStats(clicks={date(2024, 1, 5): 1}), {(2024, 1): 0})


def period(months: dict[Month, int]) -> PeriodAnswer:
    breakdown: dict[int, dict[int, int]] = {}
    for (year, month), clicks in months.items():
        breakdown.setdefault(year, {})[month] = clicks
    total = sum(months.values())
    return PeriodAnswer(total, total, 0, clicks_breakdown=breakdown)  # type: ignore[arg-type]
