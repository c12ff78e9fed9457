"""What headers tell of the limit is read strictly, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from slashtag._core.throttle.headers import MAX_DELAY, MAX_RESET, RateHint, rate_hint, retry_after

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
LATER = "Wed, 21 Oct 2015 07:28:30 GMT"
EPOCH = datetime(2015, 10, 21, 7, 28, tzinfo=UTC).timestamp()


def after(value: str, date: str | None = None, now: float | None = None) -> float | None:
    headers = CIMultiDict({"retry-after": value})
    if date is not None:
        headers["date"] = date
    return retry_after(headers, now)


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
    assert after(value, DATE, EPOCH) is None


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
def test_a_date_counts_from_the_answers_own_date_whatever_our_clock_says(value: str) -> None:
    assert after(value, DATE) == 30
    assert after(value, DATE, EPOCH + 1_000_000) == 30


def test_a_date_without_date_counts_from_the_given_clock() -> None:
    assert after(LATER, now=EPOCH + 10) == 20
    assert after(LATER, "yesterday", now=EPOCH + 10) == 20
    assert after(LATER) is None


def test_a_date_in_the_past_is_zero() -> None:
    assert after(DATE, LATER) == 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_crashes(value: str, date: str) -> None:
    for found in (after(value, date, EPOCH), after(value, date)):
        assert found is None or 0 <= found <= MAX_DELAY
    rate_hint({"RateLimit": value, "RateLimit-Policy": date})
    rate_hint({"X-RateLimit-Remaining": value, "X-RateLimit-Reset": date})


@given(st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31)), st.integers(0, 80_000))
def test_every_http_date_is_read(at: datetime, seconds: int) -> None:
    at = at.replace(tzinfo=UTC, microsecond=0)
    try:
        later = datetime.fromtimestamp(at.timestamp() + seconds, UTC)
    except (OverflowError, ValueError):
        return
    assert after(format_datetime(later, usegmt=True), format_datetime(at, usegmt=True)) == seconds


def hint(**headers: str) -> RateHint | None:
    return rate_hint(CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()}))


def test_no_header_no_hint() -> None:
    assert hint(Content_Type="application/json", RateLimit_Limit="100") is None


def test_the_older_triple() -> None:
    found = hint(RateLimit_Limit="100, 100;w=60", RateLimit_Remaining="7", RateLimit_Reset="30")
    assert found == RateHint(remaining=7, reset=30.0, limit=100, window=60.0)


def test_the_structured_fields() -> None:
    found = hint(RateLimit='"default";r=50;t=30', RateLimit_Policy='"default";q=100;w=60')
    assert found == RateHint(remaining=50, reset=30.0, limit=100, window=60.0)


def test_of_several_policies_the_tightest_counts() -> None:
    found = hint(
        RateLimit='"day";r=900;t=4000, "second";r=2;t=1',
        RateLimit_Policy='"second";q=5;w=1,"day";q=1000;w=86400',
    )
    assert found == RateHint(remaining=2, reset=1.0, limit=5, window=1.0)


@pytest.mark.parametrize(
    "value",
    ["", '"default"', '"default";t=3', '"default";r=-1', '"default";r=x', "r=5", '"a";r=1 "b";r=2', '"a'],
)
def test_a_malformed_structured_field_is_no_hint(value: str) -> None:
    assert hint(RateLimit=value) is None


@pytest.mark.parametrize(
    ("reset", "seconds"), [("25", 25.0), (str(int(EPOCH) + 25), 25.0), (str(int(EPOCH) - 5), 0.0)]
)
def test_a_reset_is_seconds_or_an_epoch_time_by_its_size(reset: str, seconds: float) -> None:
    found = hint(X_RateLimit_Limit="60", X_RateLimit_Remaining="0", X_RateLimit_Reset=reset, Date=DATE)
    assert found == RateHint(remaining=0, reset=seconds, limit=60)


def test_an_epoch_reset_without_any_clock_is_unknown() -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(EPOCH) + 25)}
    assert rate_hint(headers) == RateHint(remaining=0)
    assert rate_hint(headers, EPOCH) == RateHint(remaining=0, reset=25.0)


@pytest.mark.parametrize("remaining", ["", "-1", "1.5", "many", "١"])
def test_a_remainder_that_is_no_number_is_no_hint(remaining: str) -> None:
    assert hint(X_RateLimit_Remaining=remaining, X_RateLimit_Reset="5") is None


def test_a_limit_or_reset_that_makes_no_sense_is_left_out() -> None:
    found = hint(X_RateLimit_Limit="lots", X_RateLimit_Remaining="3", X_RateLimit_Reset="soon")
    assert found == RateHint(remaining=3)


@pytest.mark.parametrize(
    "headers",
    [
        {"RateLimit_Remaining": "0", "RateLimit_Reset": "1000"},  # milliseconds
        {"RateLimit_Remaining": "0", "RateLimit_Reset": "86400"},
        {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(int(EPOCH * 1000) + 25_000), "Date": DATE},
        {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(int(EPOCH) + 3600), "Date": DATE},
        {"RateLimit": '"default";r=0;t=500', "RateLimit_Policy": '"default";q=100;w=60'},
        {"RateLimit_Limit": "100, 100;w=60", "RateLimit_Remaining": "0", "RateLimit_Reset": "500"},
    ],
    ids=["ms", "a day", "epoch ms", "an hour", "beyond its window", "beyond its older window"],
)
def test_an_implausible_reset_is_not_believed(headers: dict[str, str]) -> None:
    found = hint(**headers)
    assert found is not None
    assert found.reset is None


def test_a_reset_is_believed_up_to_a_quarter_of_an_hour() -> None:
    found = hint(RateLimit_Remaining="0", RateLimit_Reset="900")
    assert found is not None
    assert found.reset == MAX_RESET
