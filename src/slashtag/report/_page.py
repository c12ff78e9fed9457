"""The report as one HTML page without scripts, fonts or anything else to load."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from . import _format as fmt
from ._caveats import caveats
from ._draw import Painter, days_svg, extra, heat_step, largest
from ._figures import Figures, TopLink

#: Labels of a dimension shown at once, and in all; the others are one row.
SHOWN = 8
MOST = 500
#: Width and height of a trend, as in page.html.
WIDE, HIGH = 240, 34


def page(report: Figures) -> str:
    """Return the report as a document."""
    painter = Painter()
    markup = extra("markupsafe").Markup
    # Drawn for three widths: scaled to another screen the text would be too small or too large.
    widths = {"wide": (1030, 220, 13), "middle": (600, 200, 8), "narrow": (290, 180, 4)}
    charts = {
        name: markup(days_svg(painter, report, width=width, height=height, labels=labels))
        for name, (width, height, labels) in widths.items()
        if report.total
    }
    html: str = _template().render(
        report=report, style=markup(fmt.read("style.css")), charts=charts, caveats=list(caveats(report))
    )
    return html


@cache
def _template() -> Any:
    """Return the template; every text put into it is cleaned and escaped, and none can be markup."""
    jinja2, markup = extra("jinja2"), extra("markupsafe").Markup

    def clean(value: object) -> object:
        return fmt.plain(value) if isinstance(value, str) and not isinstance(value, markup) else value

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=clean,
    )
    environment.globals |= {"fmt": fmt, "ranking": ranking, "trend": trend, "heat_step": heat_step}
    return environment.from_string(fmt.read("page.html"))


class Ranking(NamedTuple):
    """Labels of a dimension, most clicked first: those shown at once, those on demand, the rest as sums."""

    shown: list[tuple[str, int]]
    more: list[tuple[str, int]]
    most: int
    others: int
    other_clicks: int
    cut: int
    cut_clicks: int
    missing: int


def ranking(report: Figures, dimension: str) -> Ranking:
    """Rank the labels of a dimension."""
    counts: dict[str, int] = getattr(report.stats, dimension)
    ranked = largest(counts, MOST)
    shown = ranked if len(counts) <= SHOWN + 1 else ranked[:SHOWN]
    total = sum(counts.values())
    return Ranking(
        shown=shown,
        more=ranked[len(shown) :],
        most=ranked[0][1] if ranked else 1,
        others=len(counts) - len(shown),
        other_clicks=total - sum(n for _, n in shown),
        cut=len(counts) - len(ranked),
        cut_clicks=total - sum(n for _, n in ranked),
        missing=report.total - total,
    )


def trend(link: TopLink) -> tuple[str, str]:
    """Return the trend of a link as the points of a path, and in words."""
    counts = list(link.series.values())
    most = max(counts)
    when = next(day for day, n in link.series.items() if n == most)
    by, peak = ("week", "in the week of") if link.by_week else ("day", "on")
    step = WIDE / (len(counts) - 1)
    points = ((n * step, HIGH - 1 - (HIGH - 3) * clicks / max(most, 1)) for n, clicks in enumerate(counts))
    return (
        "L".join(f"{x:.1f},{y:.1f}" for x, y in points),
        f"{link.slashtag}: {fmt.many(link.clicks, 'click', 'clicks')}, by {by}; "
        f"most {peak} {fmt.day(when)}: {fmt.number(most)}",
    )
