"""The span before, the months within a span and its edges, and what contradicts all-time months."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import InvalidRequestError, RangeStats
from slashtag.report._span import Span, edges, whole_months

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
dates = st.dates(date(2001, 1, 1), date(2030, 12, 31))


def spanning(start: date, days: int) -> tuple[date, date]:
    return start, start + timedelta(days=days - 1)


def month_days(month: tuple[int, int]) -> list[date]:
    first = date(*month, 1)
    return [first + timedelta(days=n) for n in range(31) if (first + timedelta(days=n)).month == first.month]


@given(dates, st.integers(1, 800))
def test_whole_months_and_edges_tile_the_span(start: date, days: int) -> None:
    first, last = spanning(start, days)
    whole = whole_months(first, last)
    covered = [day for month in whole for day in month_days(month)]
    for edge in edges(first, last, whole):
        begins, ends = edge.bounds
        covered += [begins + timedelta(days=n) for n in range((ends - begins).days + 1)]
    assert sorted(covered) == [first + timedelta(days=n) for n in range(days)]
    assert len(edges(first, last, whole)) <= 2


@given(dates, st.integers(1, 800))
def test_the_span_before_is_as_long_and_ends_the_day_before(start: date, days: int) -> None:
    span = Span(*spanning(start, days), UTC, NOW)
    assert span.before_last + timedelta(days=1) == span.first
    assert span.before_last - span.before_first == span.last - span.first


@given(
    dates, st.integers(1, 400), st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]), st.data()
)
def test_months_touched_hold_every_instant_and_those_inside_no_other(
    start: date, days: int, name: str, data: st.DataObject
) -> None:
    zone = ZoneInfo(name)
    span = Span(*spanning(start, days), zone, NOW)
    first = datetime(start.year, start.month, start.day, tzinfo=zone)
    seconds = data.draw(st.integers(-90_000, days * 86_400 + 90_000))
    instant = first.astimezone(UTC) + timedelta(seconds=seconds)
    local = instant.astimezone(zone).date()
    month = (instant + span.offset).year, (instant + span.offset).month
    if span.first <= local <= span.last:
        assert month in span.touched()
    if month in span.inside():
        assert span.first <= local <= span.last


def test_texts_are_dates_and_instants_are_refused() -> None:
    span = Span("2024-02-01", "2024-02-29", UTC, NOW)
    assert span.first == date(2024, 2, 1)
    assert span.question_before.bounds == (date(2024, 1, 3), date(2024, 1, 31))
    with pytest.raises(InvalidRequestError, match="whole days"):
        Span(NOW, NOW, UTC, NOW)
    with pytest.raises(InvalidRequestError, match="outside the calendar"):
        Span("0001-01-01", "0001-01-02", UTC, NOW)
    with pytest.raises(InvalidRequestError, match="before it starts"):
        Span("2024-02-02", "2024-02-01", UTC, NOW)


@pytest.mark.parametrize(
    ("start", "end", "years"),
    [
        ("2024-01-01", "2024-12-31", [2024]),
        ("2023-07-01", "2024-12-31", [2023, 2024]),
        ("2024-01-01", "2024-06-01", None),
        ("2024-12-31", "2025-01-01", None),
        ("9998-01-01", "9998-12-31", [9998]),
    ],
)
def test_years_are_asked_for_where_the_span_covers_half_of_them(
    start: str, end: str, years: list[int] | None
) -> None:
    span = Span(start, end, UTC, NOW)
    found = span.years(UTC)
    assert found == (None if years is None else dict.fromkeys(years, "+00:00"))
    assert span.is_whole_year == (years is not None and len(years) == 1)


def test_a_year_is_asked_for_under_the_offset_of_both_its_ends() -> None:
    span = Span("2024-01-01", "2024-12-31", ZoneInfo("Europe/Berlin"), NOW)
    assert span.years(ZoneInfo("Europe/Berlin")) == {2024: "+01:00"}
    # Samoa changed sides of the date line between these years' ends.
    span = Span("2011-01-01", "2011-12-31", ZoneInfo("Pacific/Apia"), NOW)
    assert span.years(ZoneInfo("Pacific/Apia")) is None


def test_days_and_months_that_differ_are_noticed() -> None:
    span = Span("2024-01-15", "2024-03-31", UTC, NOW)
    days = {date(2024, 1, 20): 1, date(2024, 2, 5): 2, date(2024, 3, 5): 3}
    stats = RangeStats(total_clicks=6, clicks=days)
    agreed = {(2024, 1): 7, (2024, 2): 2, (2024, 3): 3}
    assert not span.contradicted(stats, agreed)
    assert not span.lags(stats, agreed)
    assert span.contradicted(stats, agreed | {(2024, 2): 3})
    assert span.lags(stats, agreed | {(2024, 1): 0, (2024, 2): 9})
    assert span.lags(stats, {})
    # What does not add up by itself contradicts nothing.
    assert not span.contradicted(RangeStats(total_clicks=6, days_complete=False), agreed)


def test_recent_months_and_mixed_offsets_are_not_held_against_days() -> None:
    span = Span("2025-12-01", "2026-03-31", UTC, NOW)
    assert [month for month in span.inside() if span.is_recent(month)] == [(2026, 2), (2026, 3)]
    assert not span.has_ended
    stats = RangeStats(total_clicks=1, clicks={date(2026, 2, 1): 1})
    assert not span.contradicted(stats, {(2026, 2): 2})
    assert Span("2026-01-01", "2026-03-09", UTC, NOW).has_ended
    berlin = Span("2024-01-01", "2024-12-31", ZoneInfo("Europe/Berlin"), NOW)
    assert not berlin.one_offset
    assert berlin.fixed == timezone(timedelta(hours=2))
    assert not berlin.contradicted(stats, {})
    assert berlin.inside_before() == []
    # Clicks of the span before still arrive.
    assert Span("2026-03-01", "2026-05-31", UTC, NOW).inside_before() == []
    assert Span("2024-03-01", "2024-03-31", UTC, NOW).inside_before() == [(2024, 2)]
