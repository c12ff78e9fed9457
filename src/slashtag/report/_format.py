"""Templates of a report, and the text of figures, days and labels in them.

Labels come from the service and may hold anything.
"""

import re
import sys
from datetime import date
from functools import cache
from textwrap import wrap
from typing import Any

from .. import ShortUrl
from .._internal import countries as countries
from .._internal import import_extra
from .._internal import many as many

# Not from the machine's locale: the page is in English.
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

#: The names of what clicks are counted by, in the order in which a report shows them.
DIMENSIONS = {
    "tag": "Tags",
    "destination": "Destinations",
    "device": "Devices",
    "country": "Countries",
    "referrer": "Referrers",
    "browser": "Browsers",
    "platform": "Platforms",
}

#: Those that clicks of links are summed by, which are shown first.
OF_LINKS = ("tag", "destination")

#: Characters that a page cannot hold (controls, lone surrogates, non-characters), and the controls that
#: change the direction of text, which can make one label look like another.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
#: Where a line may break: after a separator, and before and after a number, but not inside it.
_BREAK = re.compile(r"(?<=[/_?&=:;+-])(?=[^/])|(?<=[.,])(?=\D)|(?<=[^\d\s.,])(?=\d)|(?<=\d)(?=[^\W\d_])")
_UNKNOWN = "unknown."
#: Fonts of a picture; other installed ones have the characters that these lack.
FONTS = "Liberation Sans, Arial, sans-serif"


def plain(label: str) -> str:
    """Return a label as one line that any document can hold."""
    return _UNFIT.sub("\ufffd", label)


def pieces(label: str) -> list[str]:
    """Return a label as the parts between which a line may break."""
    return _BREAK.split(label)


def address(url: str | None) -> str | None:
    """Return a URL that a page may link to, None for another or none."""
    return url if url and re.match("https?://[^/]", url, re.I) else None


def named(link: ShortUrl) -> str:
    """Return a link as its short URL and the page it leads to."""
    return " → ".join(
        filter(None, ((link.short_url or "").removeprefix("https://"), page_of(link.destination or "")))
    )


def name_of(dimension: str, label: str) -> str:
    """Return the name to show for a label: a country's name, or Unknown for what was not recognised."""
    if not label:
        return "No tag" if dimension == "tag" else "(empty)"
    if label == _UNKNOWN:
        return "Unknown"
    return countries().get(label, label) if dimension == "country" else label


def page_of(destination: str) -> str:
    """Return the host and path of a destination: its query may name a campaign, or a person."""
    return re.sub(r"^[a-z]+://([^/@?#]*@)?|/?([?#].*)?$", "", destination, flags=re.I | re.S) or destination


def share(part: int, whole: int) -> str:
    """Write a part of a whole as a percentage; a small part does not become 0.0 %.

    More than the whole are clicks of other links, whose slashtag is shared.
    """
    percent = 100 * min(part, whole) / whole if whole else 0.0
    return "<0.1 %" if 0 < percent < 0.05 else f"{percent:.1f} %"


def sign(clicks: int, before: int) -> str:
    """Return whether clicks went up, down, or neither (even)."""
    return "up" if clicks > before else "down" if clicks < before else "even"


def compare(clicks: int, before: int) -> str:
    """Write the change of clicks: new for those of what had none before."""
    if before:
        return change((clicks - before) / before)
    return "new" if clicks else ""


def change(ratio: float) -> str:
    """Write a change as a percentage with its sign, a very large one as a factor."""
    percent = 100 * ratio
    if abs(percent) < 0.05:
        return "±0.0 %"
    if percent >= 999.95:
        return f"×{1 + ratio:,.0f}"
    return f"{'+' if percent > 0 else '−'}{abs(percent):,.1f} %"


def compact(n: int) -> str:
    """Write a count for a narrow cell: 99,999, 100k, 1.2M."""
    if n < 100_000:
        return f"{n:,}"
    return f"{n / 1000:.0f}k" if n < 999_500 else f"{n / 1e6:,.1f}M"


def average(clicks: float) -> str:
    """Write an average for a narrow cell, a small one with a decimal."""
    return f"{clicks:.1f}" if clicks < 99.95 else compact(round(clicks))


def heat_step(clicks: int, most: int) -> int:
    """Return the step of the heat scale: 0 for no clicks, 1 to 5 for each fifth of the most."""
    return -(-clicks * 5 // most) if clicks else 0


def day(when: date) -> str:
    """Write a day: 4 Mar 2024."""
    return f"{short(when)} {when.year}"


def short(when: date) -> str:
    """Write a day without its year: 4 Mar."""
    return f"{when.day} {MONTHS[when.month - 1]}"


def weekday(when: date) -> str:
    """Write a day with its weekday: Mon, 4 Mar 2024."""
    return f"{WEEKDAYS[when.weekday()]}, {day(when)}"


def span(first: date, last: date) -> str:
    """Write a span of days; a month or year they share is written once. No line begins with the dash."""
    if first == last:
        return day(first)
    if first.year != last.year:
        return f"{day(first)}\u00a0– {day(last)}"
    if first.month != last.month:
        return f"{short(first)}\u00a0– {day(last)}"
    return f"{first.day}\u00a0– {day(last)}"


def render(template: str, **values: Any) -> str:
    """Fill in a template of this folder."""
    text: str = _templates().get_template(template).render(values)
    return text


def _cleaned(value: object) -> object:
    return plain(value) if type(value) is str else value  # other strings are markup


@cache
def _templates() -> Any:
    """Return the templates; every text put into them is cleaned, and escaped unless marked safe."""
    jinja2 = import_extra("report", "jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slashtag", "report"),
        autoescape=jinja2.select_autoescape(disabled_extensions=["txt"], default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_cleaned,
    )
    environment.globals |= {"fmt": sys.modules[__name__], "wrap": wrap}
    return environment
