"""Figures, days and labels read as they should."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.report import _format as fmt


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("plain", ("a\x00b\nc\ud800d\u202ee",), "a\ufffdb\ufffdc\ufffdd\ufffde"),
        ("share", (0, 0), "0.0 %"),
        ("share", (0, 9), "0.0 %"),
        ("share", (1, 10_000), "<0.1 %"),
        ("share", (1, 3), "33.3 %"),
        ("change", (0.0004,), "±0.0 %"),
        ("change", (0.5,), "+50.0 %"),
        ("change", (-0.123,), "−12.3 %"),
        ("change", (123.4,), "×124"),
        ("span", (date(2024, 2, 1), date(2024, 2, 1)), "1 Feb 2024"),
        ("span", (date(2024, 2, 1), date(2024, 2, 29)), "1\u00a0– 29 Feb 2024"),
        ("span", (date(2024, 1, 1), date(2024, 12, 31)), "1 Jan\u00a0– 31 Dec 2024"),
        ("span", (date(2023, 12, 31), date(2024, 1, 1)), "31 Dec 2023\u00a0– 1 Jan 2024"),
        ("weekday", (date(2024, 3, 4),), "Mon, 4 Mar 2024"),
        # Destinations have no query and no credentials.
        ("page_of", ("https://a.example/x/?q=1",), "a.example/x"),
        ("page_of", ("HTTP://user:secret@a.example/#top",), "a.example"),
        ("page_of", ("https://a.example/b@c?d#e",), "a.example/b@c"),
        ("page_of", ("mailto:a@b.example",), "mailto:a@b.example"),
        ("page_of", ("",), ""),
        ("compact", (99_999,), "99,999"),
        ("compact", (100_000,), "100k"),
        ("compact", (999_499,), "999k"),
        ("compact", (999_500,), "1.0M"),
        ("compact", (12_345_678,), "12.3M"),
        ("name_of", ("country", "DE"), "Germany"),
        ("name_of", ("country", "??"), "??"),
        ("name_of", ("browser", "DE"), "DE"),
        ("name_of", ("country", "unknown."), "Unknown"),
        ("name_of", ("referrer", ""), "(empty)"),
        ("name_of", ("tag", ""), "No tag"),
    ],
)
def test_what_is_shown(name: str, given: tuple[Any, ...], shown: str) -> None:
    assert getattr(fmt, name)(*given) == shown


def test_every_country_has_a_name() -> None:
    assert len(fmt.countries()) == 250
    assert all(len(code) == 2 and code.isupper() and name for code, name in fmt.countries().items())


WORDS = st.text("abz09./-_?=&,", max_size=40)


@given(WORDS)
def test_a_label_breaks_between_its_parts_and_never_inside_a_number(label: str) -> None:
    parts = fmt.pieces(label)
    assert "".join(parts) == label
    numbers = re.findall(r"[0-9]+(?:[.,][0-9]+)*", label)
    assert re.findall(r"[0-9]+(?:[.,][0-9]+)*", " ".join(parts)) == numbers


def test_a_destination_breaks_after_its_host_and_before_a_number() -> None:
    assert fmt.pieces("www.example/landing325?id=7") == ["www.", "example/", "landing", "325?", "id=", "7"]
