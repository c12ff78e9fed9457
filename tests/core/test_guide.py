"""Laws of guidance: no click is lost with the months that it leaves out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AllTime, DateRange, PeriodStats, RangeStats
from slashtag._core.batches import Selector
from slashtag._core.guide import Guide, shows_zone
from slashtag._core.windows import Month, month_of

from ..support.laws import examples
from . import clicklog
from .clicklog import Click, Service

HOUR = timedelta(hours=1)
DUBLIN = ZoneInfo("Europe/Dublin")
SYDNEY = ZoneInfo("Australia/Sydney")
LONG_AFTER = datetime(2030, 6, 15, tzinfo=UTC)
ALL = Selector(keys=tuple(clicklog.KEYS))


def all_time(guide: Guide, service: Service) -> list[PeriodStats]:
    return [service(AllTime().call(ALL, time_slice)).to_statistics(None)[0] for time_slice in guide.all_time]


def guided(query: DateRange, zone: tzinfo, service: Service, now: datetime) -> tuple[RangeStats, bool]:
    """Ask as `collect_each` does; return also whether an answer contradicts what guided it."""
    guide = Guide(query, zone, now, "inclusive")
    counts = guide.counts(all_time(guide, service))
    assert counts is not None
    active = guide.active(counts, zone_is_read=shows_zone(counts))
    running = query.running_sum(query.span(zone))
    wrong = False
    for time_slice in guide.time_slices(active):
        stats, _ = service(query.call(ALL, time_slice)).to_statistics(time_slice.window)
        running.add(stats)
        assert time_slice.window is not None
        wrong = wrong or guide.contradicts(stats, time_slice.window, counts)
    return running.result(), wrong


@examples(50)
@given(clicklog.scenes(), st.integers(0, 120), clicklog.zones())
def test_no_click_is_lost_where_all_time_months_ignore_the_zone(
    scene: tuple[list[Click], date], length: int, zone: tzinfo
) -> None:
    log, first = scene
    query = DateRange(first, first + timedelta(days=length))
    whole = query.running_sum(query.span(zone))
    for part in query.time_slices(zone, LONG_AFTER, "inclusive"):
        whole.add(Service(log)(query.call(ALL, part)).to_statistics(part.window)[0])
    stats, _ = guided(query, zone, Service(log, months_in_utc=True), LONG_AFTER)
    assert stats == whole.result()


@examples(50)
@given(clicklog.scenes(), st.integers(0, 120), clicklog.zones())
def test_the_guided_answer_is_the_whole_answer(
    scene: tuple[list[Click], date], length: int, zone: tzinfo
) -> None:
    log, first = scene
    query = DateRange(first, first + timedelta(days=length))
    running = query.running_sum(query.span(zone))
    for piece in query.time_slices(zone, LONG_AFTER, "inclusive"):
        running.add(Service(log)(query.call(ALL, piece)).to_statistics(piece.window)[0])
    assert guided(query, zone, Service(log), LONG_AFTER) == (running.result(), False)


def test_a_click_that_an_earlier_offset_puts_into_the_month_is_found() -> None:
    # Sydney's 2018-04-01 begins under +11:00 and goes on under +10:00, where this click is one of March.
    log = [Click(datetime(2018, 3, 31, 13, 30, tzinfo=UTC), "a", "Mobile", "US", "Ohio", 1)]
    stats, _ = guided(DateRange("2018-04-01", "2018-07-31"), SYDNEY, Service(log), LONG_AFTER)
    assert stats.clicks[date(2018, 4, 1)] == stats.total == 1


def test_months_are_left_out_that_are_zero_under_all_offsets() -> None:
    query = DateRange("2024-01-01", "2024-12-31")
    guide = Guide(query, DUBLIN, LONG_AFTER, "inclusive")
    assert guide.offsets == [timedelta(), HOUR]

    def active(*months: dict[Month, int], zone_is_read: bool = False) -> frozenset[Month]:
        counts = guide.counts([period(of_offset) for of_offset in months])
        assert counts is not None
        return guide.active(counts, zone_is_read=zone_is_read)

    # Dublin is ahead of UTC in summer: if the service ignores the zone, clicks of June stand in May.
    assert active({}, {(2024, 5): 1, (2023, 1): 7}) == {(2024, 5), (2024, 6)}
    both = {(2024, 1), (2024, 2), (2024, 5), (2024, 6)}
    assert active({(2024, 1): 2}, {(2024, 5): 1}) == both
    assert active({(2024, 1): 2}, {(2024, 5): 1}, zone_is_read=True) == {(2024, 1), (2024, 5)}
    assert active({}, {(2023, 12): 1}) == {(2024, 1)}
    assert active({}, {}) == set()


def test_only_the_month_to_which_the_zone_shifts_is_asked_besides() -> None:
    query = DateRange("2024-01-01", "2024-12-31")
    for zone, months in ((UTC, {5}), (timezone(-HOUR), {4, 5}), (timezone(HOUR), {5, 6})):
        guide = Guide(query, zone, LONG_AFTER, "inclusive")
        assert guide.active([{(2024, 5): 1}], zone_is_read=False) == {(2024, month) for month in months}
        assert guide.active([{(2024, 5): 1}], zone_is_read=True) == {(2024, 5)}


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
    guide = Guide(DateRange("2023-11-01", "2024-04-30"), zone, now, "inclusive")
    assert guide.always == always
    assert guide.active([{} for _ in guide.offsets], zone_is_read=True) == always
    assert guide.counts([period(dict.fromkeys(always, 1))]) == [{}]


def test_the_first_days_of_the_calendar_are_guided_too() -> None:
    guide = Guide(
        DateRange("0001-01-01T03:00:00+00:00", "0001-06-01T00:00:00+00:00"), UTC, LONG_AFTER, "inclusive"
    )
    assert (guide.offsets, guide.active([{}], zone_is_read=False)) == ([timedelta()], set())


def test_a_breakdown_that_does_not_add_up_does_not_guide() -> None:
    guide = Guide(DateRange("2024-01-01", "2024-12-31"), UTC, LONG_AFTER, "inclusive")
    assert guide.counts([PeriodStats(clicks_total=3, clicks_breakdown={2024: {1: 2}})]) is None
    assert guide.counts([PeriodStats(clicks_total=1, clicks_breakdown={2024: {1: 2, 2: -1}})]) is None


def test_past_whole_months_of_one_offset_are_compared() -> None:
    guide = Guide(
        DateRange("2023-12-02", "2024-07-29"), DUBLIN, datetime(2024, 7, 10, tzinfo=UTC), "inclusive"
    )
    counts = [dict.fromkeys([(2024, 1), (2024, 2)], 2), {(2024, 5): 9}]
    windows = {window.window for window in guide.time_slices(frozenset(guide.months))}
    wrong = {
        month_of(window.first)
        for window in windows
        if window is not None and guide.contradicts(RangeStats(total_clicks=7), window, counts)
    }
    # December is cut, March and the eve of April change the offset, June and July still grow.
    assert wrong == {(2024, 1), (2024, 2), (2024, 5)}
    january = next(window for window in windows if window and window.first == date(2024, 1, 1))
    assert not guide.contradicts(RangeStats(total_clicks=2), january, counts)


def test_parts_of_a_month_are_not_compared() -> None:
    query = DateRange("2024-01-01T00:00:00+00:00", "2024-06-30T23:59:59+00:00")
    guide = Guide(query, UTC, LONG_AFTER, "inclusive")
    for time_slice in guide.time_slices(frozenset(guide.months)):
        assert time_slice.window is not None
        assert not guide.contradicts(RangeStats(total_clicks=7), time_slice.window, [{}])


def test_a_half_has_the_months_that_the_other_half_lacks() -> None:
    may, june = (2024, 5), (2024, 6)
    assert Guide.beyond([{may: 3, june: 1}, {may: 4}], [{may: 1, june: 1}, {}]) == [{may: 2}, {may: 4}]
    assert Guide.beyond([{may: 3}], [{may: 4}]) is None
    assert Guide.beyond([{may: 3}], [{june: 1}]) is None


def period(months: dict[Month, int]) -> PeriodStats:
    breakdown: dict[int, dict[int, int]] = {}
    for (year, month), clicks in months.items():
        breakdown.setdefault(year, {})[month] = clicks
    total = sum(months.values())
    return PeriodStats(clicks_total=total, clicks_breakdown=breakdown)
