"""What headers tell of the limit is read strictly, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from slashtag._core.throttle.retry_after import MAX_DELAY, retry_after

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
LATER = "Wed, 21 Oct 2015 07:28:30 GMT"


def after(value: str, date: str | None = None) -> float | None:
    headers = CIMultiDict({"retry-after": value})
    if date is not None:
        headers["date"] = date
    return retry_after(headers)


@pytest.mark.parametrize(
    ("value", "seconds"), [("0", 0), ("1", 1), ("007", 7), (" 120 ", 120), ("3600", 3600)]
)
def test_seconds_are_digits(value: str, seconds: float) -> None:
    assert after(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "-1", "+1", "1.5", "1e3", "0x10", "1_000", "nan", "inf", "١٢", "２", "1 2", "1,2", "soon"),
        *("Wed, 21 Oct 2015 07:28:00", "Wed, 32 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 27:28:00 GMT"),
        *("Wed, 21 Oct 100000 07:28:00 GMT", "Wed, 31 Feb 2015 07:28:00 GMT"),
        *("Wed, 21 Oct 2015 07:28:00 +0000", "Wed, 21 Foo 2015 07:28:00 GMT", "21 Oct 2015 07:28:00 GMT"),
        *("Wed, 21 Oct 2015 ::::::72 GMT", "9" * 19, "\x00", "9" * 5000),
    ],
)
def test_what_is_no_delay_is_none(value: str) -> None:
    assert after(value, DATE) is None


def test_no_header_is_none() -> None:
    assert retry_after(CIMultiDict()) is None


@pytest.mark.parametrize("value", ["86401", "9" * 18, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_huge_delay_is_a_day(value: str) -> None:
    assert after(value, DATE) == MAX_DELAY


@pytest.mark.parametrize(
    "value",
    [LATER, "Wednesday, 21-Oct-15 07:28:30 GMT", "Wed Oct 21 07:28:30 2015"],
    ids=["imf", "rfc850", "asctime"],
)
def test_a_date_counts_from_the_answers_own_date(value: str) -> None:
    assert after(value, DATE) == 30


def test_without_a_date_of_the_answer_a_date_says_nothing() -> None:
    assert after(LATER, "yesterday") is None
    assert after(LATER) is None


def test_a_date_in_the_past_is_zero() -> None:
    assert after(DATE, LATER) == 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_crashes(value: str, date: str) -> None:
    found = after(value, date)
    assert found is None or 0 <= found <= MAX_DELAY


@given(st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31)), st.integers(0, 80_000))
def test_every_http_date_is_read(at: datetime, seconds: int) -> None:
    at = at.replace(tzinfo=UTC, microsecond=0)
    try:
        later = datetime.fromtimestamp(at.timestamp() + seconds, UTC)
    except (OverflowError, ValueError):
        return
    assert after(format_datetime(later, usegmt=True), format_datetime(at, usegmt=True)) == seconds
