"""Months in which a batch can have clicks, by its all-time statistics."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.month_filter import MonthFilter
from slashtag._core.queries import DateRange

NOW = datetime(2024, 7, 15, 12, tzinfo=UTC)
QUERY = DateRange(date(2023, 1, 1), date(2024, 7, 15))
zones = st.sampled_from([UTC, timezone(timedelta(hours=13)), ZoneInfo("America/Santiago")])
clicks = st.lists(
    st.datetimes(datetime(2022, 12, 1), datetime(2024, 7, 15)).map(lambda at: at.replace(tzinfo=UTC)),
    max_size=12,
)


def counts_of(log: list[datetime]) -> dict[int, dict[int, int]]:
    counts: dict[int, dict[int, int]] = {}
    for (year, month), count in Counter((at.year, at.month) for at in log).items():
        counts.setdefault(year, {})[month] = count
    return counts


@given(clicks, zones)
def test_no_window_with_clicks_is_skipped_and_true_answers_contradict_nothing(
    log: list[datetime], zone: tzinfo
) -> None:
    months = MonthFilter(QUERY, zone, NOW, "inclusive")
    for window in months.time_slices:
        found = sum(window.start <= at <= window.end for at in log)
        assert months.is_active(window, counts_of(log)) or not found
        assert not months.contradicts(window, found, counts_of(log))


@given(clicks)
def test_a_month_of_utc_has_neither_more_nor_less_clicks_than_all_time_statistics_show(
    log: list[datetime],
) -> None:
    months = MonthFilter(QUERY, UTC, NOW, "inclusive")
    for window in list(months.time_slices)[:-1]:
        found = sum(window.start <= at <= window.end for at in log)
        assert months.contradicts(window, found + 1, counts_of(log))
        assert not found or months.contradicts(window, found - 1, counts_of(log))


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=13))])
def test_only_the_current_and_the_previous_month_are_never_skipped(zone: tzinfo) -> None:
    months = MonthFilter(QUERY, zone, NOW, "inclusive")
    active = [window.first for window in months.time_slices if months.is_active(window, {})]
    assert active == [date(2024, 6, 1), date(2024, 7, 1)]


def test_windows_end_with_their_months_and_cover_the_range() -> None:
    windows = list(MonthFilter(QUERY, UTC, NOW, "inclusive").time_slices)
    assert len(windows) == 19
    assert all(
        (window.first.year, window.first.month) == (window.last.year, window.last.month) for window in windows
    )
    assert all(a.last + timedelta(days=1) == b.first for a, b in pairwise(windows))
