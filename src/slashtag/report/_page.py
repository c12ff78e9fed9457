"""The report as one HTML page without scripts, fonts or anything else to load, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from textwrap import wrap
from typing import Any

from .. import ExportError
from . import _format as fmt
from ._caveats import caveats
from ._chart import days_svg, extra
from ._figures import Figures

#: Width and height of the chart and number of its labels, for three widths of the page and for the picture:
#: scaled to another width the text would be too small or too large.
SIZES = {
    "wide": (1030, 220, 13),
    "middle": (600, 200, 8),
    "narrow": (290, 180, 4),
    "picture": (1100, 220, 12),
}

#: Colours of the heat scale, as in style.css: no clicks, then each fifth of the most.
HEAT = ("#f1f3f6", "#e0e8fd", "#bccdfa", "#8fa9f4", "#5c7de8", "#3355d1")


def page(report: Figures) -> str:
    """Return the report as a document."""
    html: str = _templates().get_template("page.html").render(report=report)
    return html


def picture(report: Figures, scale: float) -> bytes:
    """Draw the main charts, with the caveats below, as one PNG."""
    if not 0 < scale <= 10:
        raise ExportError(f"scale is {scale}; it must be a positive number up to 10")
    svg = _templates().get_template("picture.svg").render(report=report, heat=HEAT)
    png: bytes = extra("vl_convert").svg_to_png(svg, scale=scale)
    return png


@cache
def _templates() -> Any:
    """Return the templates; every text put into them is cleaned and escaped, unless marked safe."""
    jinja2 = extra("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slashtag", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: fmt.plain(value) if type(value) is str else value,
    )
    environment.globals |= {"fmt": fmt, "caveats": caveats, "chart": _chart, "ranked": ranked, "wrap": wrap}
    environment.filters |= {"heat_step": heat_step}
    return environment


def _chart(report: Figures, size: str) -> str:
    width, height, labels = SIZES[size]
    return days_svg(report, width=width, height=height, labels=labels)


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the labels with most clicks first; equals by label."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def heat_step(clicks: int, most: int) -> int:
    """Return the step of the heat scale: 0 for no clicks, 1 to 5 for each fifth of the most."""
    steps = len(HEAT) - 1
    return -(-clicks * steps // most) if clicks else 0
