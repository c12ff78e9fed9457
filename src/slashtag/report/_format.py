"""Text of figures, days and labels. Labels come from the service and may hold anything."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from importlib.resources import files

from .._internal import many as many

# Not from the machine's locale: the page is in English.
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

#: Characters that a page cannot hold (controls, lone surrogates, non-characters), and the controls that
#: change the direction of text, which can make one label look like another.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_UNKNOWN = "unknown."


@cache
def countries() -> dict[str, str]:
    """Return the names of countries by their ISO 3166 code."""
    text = files("slashtag.report").joinpath("countries.txt").read_text("utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())


def plain(label: str) -> str:
    """Return a label as one line that any document can hold."""
    return _UNFIT.sub("\ufffd", label)


def name_of(dimension: str, label: str) -> str:
    """Return the name to show for a label: a country's name, or Unknown for what was not recognised."""
    if not label:
        return "(empty)"
    if label == _UNKNOWN:
        return "Unknown"
    return countries().get(label, label) if dimension == "country" else label


def share(part: int, whole: int) -> str:
    """Write a part of a whole as a percentage; a small part does not become 0.0 %."""
    percent = 100 * part / whole if whole else 0.0
    return "<0.1 %" if 0 < percent < 0.05 else f"{percent:.1f} %"


def change(ratio: float) -> str:
    """Write a change as a percentage with its sign."""
    percent = 100 * ratio
    if abs(percent) < 0.05:
        return "±0.0 %"
    return f"{'+' if percent > 0 else '−'}{abs(percent):,.1f} %"


def day(when: date) -> str:
    """Write a day: 4 Mar 2024."""
    return f"{when.day} {MONTHS[when.month - 1]} {when.year}"


def weekday(when: date) -> str:
    """Write a day with its weekday: Mon, 4 Mar 2024."""
    return f"{WEEKDAYS[when.weekday()]}, {day(when)}"


def days(first: date, last: date) -> str:
    """Write a span of days; a month or year they share is written once."""
    if first == last:
        return day(first)
    if first.year != last.year:
        return f"{day(first)} – {day(last)}"
    if first.month != last.month:
        return f"{first.day} {MONTHS[first.month - 1]} – {day(last)}"
    return f"{first.day} – {day(last)}"
