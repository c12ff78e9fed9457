"""Figures, days and labels read as they should."""

from __future__ import annotations

from datetime import date

import pytest

from slashtag.report import _format as fmt


def test_what_no_page_can_hold_is_replaced() -> None:
    assert fmt.plain("a\x00b\nc\ud800d\u202ee") == "a\ufffdb\ufffdc\ufffdd\ufffde"


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0, 0, "0.0 %"),
        (0, 9, "0.0 %"),
        (1, 10_000, "<0.1 %"),
        (1, 3, "33.3 %"),
        (9, 9, "100.0 %"),
    ],
)
def test_shares(part: int, whole: int, shown: str) -> None:
    assert fmt.share(part, whole) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.0, "±0.0 %"), (0.0004, "±0.0 %"), (0.5, "+50.0 %"), (-0.123, "−12.3 %"), (123.4, "×124")],
)
def test_changes(ratio: float, shown: str) -> None:
    assert fmt.change(ratio) == shown


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (date(2024, 2, 1), date(2024, 2, 1), "1 Feb 2024"),
        (date(2024, 2, 1), date(2024, 2, 29), "1\u00a0– 29 Feb 2024"),
        (date(2024, 1, 1), date(2024, 12, 31), "1 Jan\u00a0– 31 Dec 2024"),
        (date(2023, 12, 31), date(2024, 1, 1), "31 Dec 2023\u00a0– 1 Jan 2024"),
    ],
)
def test_spans(first: date, last: date, shown: str) -> None:
    assert fmt.days(first, last) == shown


@pytest.mark.parametrize(
    ("destination", "shown"),
    [
        ("https://a.example/x/?q=1", "a.example/x"),
        ("HTTP://user:secret@a.example/#top", "a.example"),
        ("https://a.example/b@c?d#e", "a.example/b@c"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("", ""),
    ],
)
def test_destinations_have_no_query_and_no_credentials(destination: str, shown: str) -> None:
    assert fmt.page_of(destination) == shown


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (12_345_678, "12.3M"),
    ],
)
def test_large_counts_fit_into_narrow_cells(n: int, shown: str) -> None:
    assert fmt.compact(n) == shown


def test_names() -> None:
    assert fmt.name_of("country", "DE") == "Germany"
    assert fmt.name_of("country", "??") == "??"
    assert fmt.name_of("browser", "DE") == "DE"
    assert fmt.name_of("country", "unknown.") == "Unknown"
    assert fmt.name_of("referrer", "") == "(empty)"
    assert fmt.name_of("tag", "") == "No tag"
    assert fmt.weekday(date(2024, 3, 4)) == "Mon, 4 Mar 2024"
    assert (fmt.many(1, "click", "clicks"), fmt.many(1234, "click", "clicks")) == (
        "1 click",
        "1,234 clicks",
    )
    assert len(fmt.countries()) == 250
    assert all(len(code) == 2 and code.isupper() and name for code, name in fmt.countries().items())
