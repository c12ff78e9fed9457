"""Spans as people write them cover the days that people mean."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import DateRange, InvalidRequestError
from slashtag._core.spans import parse_span

TODAY = date(2024, 3, 31)  # a Sunday
DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("today", "2024-03-31", "2024-03-31"),
        ("yesterday", "2024-03-30", "2024-03-30"),
        ("this-week", "2024-03-25", "2024-03-31"),
        ("last-week", "2024-03-18", "2024-03-24"),
        ("this-month", "2024-03-01", "2024-03-31"),
        ("last-month", "2024-02-01", "2024-02-29"),
        ("this-year", "2024-01-01", "2024-12-31"),
        ("last-year", "2023-01-01", "2023-12-31"),
        ("1d", "2024-03-31", "2024-03-31"),
        ("30d", "2024-03-02", "2024-03-31"),
        ("2w", "2024-03-18", "2024-03-31"),
        ("1m", "2024-03-01", "2024-03-31"),
        ("6m", "2023-10-01", "2024-03-31"),
        ("1y", "2023-04-01", "2024-03-31"),
        ("2024", "2024-01-01", "2024-12-31"),
        ("2023-02", "2023-02-01", "2023-02-28"),
        ("2024-06-01", "2024-06-01", "2024-06-01"),
        ("2024-06-01..2024-06-30", "2024-06-01", "2024-06-30"),
        ("2023-11..2024", "2023-11-01", "2024-12-31"),
        (" last-month..today ", "2024-02-01", "2024-03-31"),
    ],
)
def test_a_span_has_these_days(text: str, first: str, last: str) -> None:
    assert parse_span(text, TODAY) == (date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    "text",
    [
        "..",
        "2024..",
        "..2024",
        "tomorrow",
        "0d",
        "30",
        "30D",
        "d",
        "-1d",
        "next-month",
        "2024-13",
        "2024-02-30",
        "0000",
        "20240601",
        "2024-6",
        "2024-W05",
        "2024-06-01T08:00",
        "2024-06-01T24:00..2024",
        "99999d",
        "9999y",
        "٣٠d",
        "a..b",
        "1..2..3",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_span(text, TODAY)


def test_what_depends_on_today_needs_it() -> None:
    assert DateRange.parse("2024-02") == DateRange.month(2024, 2) == DateRange("2024-02-01", "2024-02-29")
    assert DateRange.parse("last-year", today=TODAY) == DateRange.year(2023)
    with pytest.raises(InvalidRequestError, match="today"):
        DateRange.parse("last-month")
    with pytest.raises(InvalidRequestError):
        DateRange.month(2024, 13)


def test_date_times_without_an_offset_are_of_the_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, last = parse_span("2024-06-01T08:00..2024-06-01T09:30:00+00:00", TODAY, berlin)
    assert first == datetime(2024, 6, 1, 6, tzinfo=UTC)
    assert last == datetime(2024, 6, 1, 9, 30, tzinfo=UTC)
    with pytest.raises(InvalidRequestError, match="without an offset"):
        DateRange.parse("2024-06-01T08:00..2024-06-01T09:00")


@pytest.mark.parametrize("text", ["2024-03-31T02:30", "2024-10-27T02:30"])
def test_a_time_that_a_zone_shows_never_or_twice_is_refused(text: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for span in (f"{text}..2024-10-28T00:00", f"2024-03-01T00:00..{text}"):
        with pytest.raises(InvalidRequestError, match="offset"):
            parse_span(span, TODAY, berlin)
    assert parse_span(f"{text}+01:00..2024-10-28T00:00", TODAY, berlin)[0] == datetime.fromisoformat(
        f"{text}+01:00"
    )


@given(DAYS, st.integers(1, 500))
def test_so_many_days_end_today(today: date, n: int) -> None:
    assert parse_span(f"{n}d", today) == (today - timedelta(n - 1), today)
    assert parse_span(f"{12 * n}m" if n < 20 else "1m", today)[1] == today


@given(DAYS, st.sampled_from(["week", "month", "year"]))
def test_the_period_before_ends_where_the_present_one_begins(today: date, unit: str) -> None:
    this, before = parse_span(f"this-{unit}", today), parse_span(f"last-{unit}", today)
    assert this[0] <= today <= this[1]
    assert before[1] + timedelta(1) == this[0]


@given(DAYS)
def test_months_back_to_back_tile_a_year(today: date) -> None:
    assert parse_span("12m", today) == parse_span("1y", today)
