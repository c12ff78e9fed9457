"""Spans as people write them cover the days that people mean."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import DateRange, Day, InvalidRequestError
from slashtag._core.dates import parse_span
from tests.core import clicklog

TODAY = date(2024, 3, 31)  # a Sunday
NOW = datetime(2024, 3, 31, 23, 30, tzinfo=UTC)
DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))


SPANS = """
today                    2024-03-31 2024-03-31
yesterday                2024-03-30 2024-03-30
this-week                2024-03-25 2024-03-31
last-week                2024-03-18 2024-03-24
this-month               2024-03-01 2024-03-31
last-month               2024-02-01 2024-02-29
this-year                2024-01-01 2024-12-31
last-year                2023-01-01 2023-12-31
this-quarter             2024-01-01 2024-03-31
last-quarter             2023-10-01 2023-12-31
2023-q3                  2023-07-01 2023-09-30
2023-Q1..2023-q2         2023-01-01 2023-06-30
1d                       2024-03-31 2024-03-31
30d                      2024-03-02 2024-03-31
2w                       2024-03-18 2024-03-31
2024                     2024-01-01 2024-12-31
2023-02                  2023-02-01 2023-02-28
2024-06-01               2024-06-01 2024-06-01
2024-06-01..2024-06-30   2024-06-01 2024-06-30
2023-11..2024            2023-11-01 2024-12-31
last-month..today        2024-02-01 2024-03-31
"""


@pytest.mark.parametrize("row", SPANS.strip().splitlines())
def test_a_span_has_these_days(row: str) -> None:
    text, first, last = row.split()
    assert parse_span(text, TODAY) == (date.fromisoformat(first), date.fromisoformat(last))


REFUSED = """
.., 2024.., ..2024, tomorrow, 0d, 30, 30D, d, -1d, next-month, 2024-13, 2024-02-30, 0000, 20240601,
2024-6, 2024-W05, 2024-q5, 2024-06-01T08:00, 99999d, 1y, ٣٠d, a..b,
1..2..3, 2024..2025-01..2025-02, october, last week, this-year-so-far, 2024-01-01 2024-02-01, Today
"""


@pytest.mark.parametrize("text", [text.strip() for text in REFUSED.split(",")])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_span(text, TODAY)
    with pytest.raises(InvalidRequestError):
        DateRange.parse(text)


@given(clicklog.zones(), st.sampled_from(["last-year", "30d", "this-quarter..today", "yesterday"]))
def test_a_range_is_relative_to_the_day_of_the_zone(zone: tzinfo, text: str) -> None:
    query = DateRange.parse(text)
    assert query.resolve(zone, NOW).bounds == parse_span(text, NOW.astimezone(zone).date())
    with pytest.raises(InvalidRequestError, match="relative to today"):
        query.bounds  # noqa: B018


def test_a_range_that_is_not_relative_has_its_bounds() -> None:
    assert DateRange.parse("2024-02") == DateRange("2024-02-01", "2024-02-29")
    with pytest.raises(InvalidRequestError):
        DateRange.parse("2024-06-01T08:00Z")


def test_date_times_of_a_span_have_an_offset() -> None:
    query = DateRange.parse("2024-06-01T08:00+02:00..2024-06-01T09:30:00Z")
    assert query.bounds == (datetime(2024, 6, 1, 6, tzinfo=UTC), datetime(2024, 6, 1, 9, 30, tzinfo=UTC))
    with pytest.raises(InvalidRequestError):
        DateRange.parse("2024-06-01T08:00..today")


@given(DAYS, st.integers(1, 500))
def test_so_many_days_end_today(today: date, n: int) -> None:
    assert parse_span(f"{n}d", today) == (today - timedelta(n - 1), today)


@given(DAYS, st.sampled_from(["week", "month", "quarter", "year"]))
def test_the_period_before_ends_where_the_present_one_begins(today: date, unit: str) -> None:
    this, before = parse_span(f"this-{unit}", today), parse_span(f"last-{unit}", today)
    assert this[0] <= today <= this[1]
    assert before[1] + timedelta(1) == this[0]


#: Whole months are compared with whole months, of a year before the same ones; other days with as many, of a
#: year before the same weekdays, more weeks earlier if the two would overlap; what is not over up to the same
#: day and time of the other, never beyond its end.
COMPARED = """
start      end        now                 compare    counted             first      last
2024-03-01 2024-03-31 2025-05-21T12:30:59 previous   2024-03-31          2024-02-01 2024-02-29
2024-01-01 2024-12-31 2025-05-21T12:30:59 previous   2024-12-31          2023-01-01 2023-12-31
2024-01-01 2024-03-31 2025-05-21T12:30:59 previous   2024-03-31          2023-10-01 2023-12-31
2024-06-10 2024-06-16 2025-05-21T12:30:59 previous   2024-06-16          2024-06-03 2024-06-09
2026-01-01 2026-01-31 2026-05-21T12:30:59 previous   2026-01-31          2025-12-01 2025-12-31
2025-05-01 2025-05-31 2025-05-21T12:30:59 previous   2025-05-21T12:30:59 2025-04-01 2025-04-21T12:30:59
2025-05-21 2025-05-21 2025-05-21T12:30:59 previous   2025-05-21T12:30:59 2025-05-20 2025-05-20T12:30:59
2025-04-22 2025-05-21 2025-05-21T12:30:59 previous   2025-05-21T12:30:59 2025-03-23 2025-04-21T12:30:59
2025-05-01 2026-04-30 2025-05-21T12:30:59 previous   2025-05-21T12:30:59 2024-05-01 2024-05-21T12:30:59
2025-03-01 2025-03-31 2025-03-30T12:00    previous   2025-03-30T12:00:00 2025-02-01 2025-02-28T23:59:59
2024-02-01 2024-02-29 2024-05-01          last-year  2024-02-29          2023-02-01 2023-02-28
2023-01-01 2024-06-30 2024-08-01          last-year  2024-06-30          2021-07-01 2022-12-31
2024-02-29 2024-02-29 2024-05-01          last-year  2024-02-29          2023-03-02 2023-03-02
2024-06-10 2024-06-16 2024-07-01          last-year  2024-06-16          2023-06-12 2023-06-18
2023-03-01 2024-02-29 2024-05-01          last-year  2024-02-29          2022-03-01 2023-02-28
2023-03-02 2024-03-01 2024-05-01          last-year  2024-03-01          2022-02-24 2023-02-24
2024-02-01 2024-02-29 2024-02-29T12:00    last-year  2024-02-29T12:00:00 2023-02-01 2023-02-28T23:59:59
2024-03-01 2024-03-31 2024-03-05T08:00    2023-q4    2024-03-05T08:00:00 2023-10-01 2023-10-05T08:00:00
2024-01-01 2024-01-31 2024-05-01          2023-q4    2024-01-31          2023-10-01 2023-12-31
2024-01-01 2024-01-31 2024-05-02T06:00    this-month 2024-01-31          2024-05-01 2024-05-02T06:00:00
"""


@pytest.mark.parametrize("row", COMPARED.strip().splitlines()[1:])
def test_a_span_is_compared_with_another(row: str) -> None:
    start, end, now, compare, *expected = row.split()
    zone = timezone(timedelta(hours=14))
    at = datetime.fromisoformat(now).replace(tzinfo=zone).astimezone(UTC)
    counted, before = DateRange(start, end).with_previous(zone, at, compare)
    assert [bound.isoformat()[:19] for bound in (counted.bounds[1], *before.bounds)] == expected


@pytest.mark.parametrize(
    "span", [("2024-03-30T08:00Z", "2024-03-30T09:00Z"), ("2024-03-29", "2024-03-30T09:00Z")]
)
@pytest.mark.parametrize("compare", ["previous", "last-year", "2023"])
def test_parts_of_days_are_not_compared(span: tuple[str, str], compare: str) -> None:
    with pytest.raises(InvalidRequestError, match="whole days"):
        DateRange(*span).with_previous(UTC, NOW, compare)


@pytest.mark.parametrize(
    "compare", ["2025", "tomorrow", "last-fortnight", "", "2024-01", "2023-01-01T00:00Z..2023-01-02T00:00Z"]
)
def test_a_span_that_has_no_clicks_is_not_compared_with(compare: str) -> None:
    with pytest.raises(InvalidRequestError):
        DateRange("2024-01-01", "2024-01-31").with_previous(UTC, NOW, compare)


@pytest.mark.parametrize(
    "span", ["0001-01-01..today", "0001..2023", "0001-01", "2024-01-01..9999-12-31", "2000..9998"]
)
@pytest.mark.parametrize("compare", ["previous", "last-year"])
def test_what_begins_before_the_calendar_is_not_compared_with(span: str, compare: str) -> None:
    with pytest.raises(InvalidRequestError):
        DateRange.parse(span).with_previous(UTC, NOW, compare)


def test_date_times_of_pendulum_count_as_plain_ones() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    found = DateRange(pendulum.datetime(2024, 3, 1, tz="Europe/Berlin"), pendulum.datetime(2024, 10, 30))
    assert found == DateRange(datetime(2024, 3, 1, tzinfo=berlin), datetime(2024, 10, 30, tzinfo=UTC))
    day = Day(pendulum.date(2024, 6, 1)).date
    assert [type(bound) for bound in (*found.bounds, day)] == [datetime, datetime, date]
    for zone in (berlin, pendulum.timezone("Europe/Berlin")):
        assert len(found._time_slices(zone, NOW, "inclusive")) > 7
