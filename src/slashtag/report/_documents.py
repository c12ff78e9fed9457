"""A report as documents: an HTML page without scripts or anything else to load, a PNG, a PDF.

The page and the picture are templates; the chart of clicks by day in them is drawn by vl-convert from a
Vega-Lite specification.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import Any

from .. import ExportError, InvalidRequestError
from ..export import AtomicFile
from . import _format as fmt
from ._figures import CHART_DAILY, Figures

#: Endings of the files that a report can be written to.
FORMATS = (".html", ".png", ".pdf")

# In a page the style sheet has the colours, for light and dark.
_CSS = {name: f"var(--{name})" for name in ("accent", "soft", "muted", "line", "card", "ink")}
#: Up to so many days each is a bar; more of them are one line.
BARS = 62
_DAY = 86_400_000  # milliseconds
_EPOCH = date(1970, 1, 1)
_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')
# In a long span the first day of a month stands for it, and that of a year for the year.
_TICK = "utcFormat(datum.value, utcdate(datum.value) > 1 ? '%-d %b' : utcmonth(datum.value) ? '%b' : '%Y')"


class Report(Figures, frozen=True, kw_only=True):
    """Figures of a report, and the documents that show them.

    All documents need the extra `report` and raise ExportError where it is not installed.
    """

    def to_html(self) -> str:
        """Return the report as one page that loads nothing and runs no script."""
        html: str = _templates().get_template("page.html").render(report=self)
        return html

    def to_png(self, scale: float = 2) -> bytes:
        """Return the main charts and all caveats as one picture, 1,200 x `scale` pixels wide."""
        if not 0 < scale <= 10:
            raise ExportError(f"scale is {scale}; it must be a positive number up to 10")
        png: bytes = extra("vl_convert").svg_to_png(self._svg(), scale=scale)
        return png

    def to_pdf(self) -> bytes:
        """Return the picture of `to_png` as one page, as wide as A4 and at least as high."""
        pdf: bytes = extra("vl_convert").svg_to_pdf(self._svg(width=595, min_height=842))
        return pdf

    def _svg(self, width: int = 1200, min_height: int = 0) -> str:
        template = _templates().get_template("picture.svg")
        svg: str = template.render(report=self, width=width, min_height=min_height)
        return svg


def check_path(path: str | os.PathLike[str]) -> None:
    """Check that `write` can write this file, before anything is requested.

    Raises InvalidRequestError for another ending than FORMATS, ExportError where the file cannot be written
    or the extra `report` is not installed.
    """
    found = Path(path)
    if found.suffix.lower() not in FORMATS:
        endings = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise InvalidRequestError(f"a report is written to a file that ends in {endings}, not {found.name}")
    for name in ("jinja2", "vl_convert"):
        extra(name)
    AtomicFile(found).discard()


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html, .png or .pdf file atomically; raises what `check_path` raises."""
    check_path(path)
    ending = Path(path).suffix.lower()
    with AtomicFile(Path(path)) as file:
        if ending == ".html":
            file.write(report.to_html().encode())
        else:
            file.write(report.to_png() if ending == ".png" else report.to_pdf())


def extra(name: str) -> Any:
    """Import a module of the extra `report`. Raises ExportError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ExportError('a report needs jinja2 and vl-convert: pip install "slashtag[report]"') from None


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
        finalize=_cleaned,
    )
    environment.globals |= {"fmt": fmt, "chart": chart, "ranked": ranked, "wrap": wrap}
    environment.filters |= {"heat_step": heat_step}
    return environment


def _cleaned(value: object) -> object:
    return fmt.plain(value) if type(value) is str else value  # other strings are markup


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the labels with most clicks first; equals by label."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def heat_step(clicks: int, most: int) -> int:
    """Return the step of the heat scale: 0 for no clicks, 1 to 5 for each fifth of the most."""
    return -(-clicks * 5 // most) if clicks else 0


def chart(report: Figures, width: int, height: int, labels: int, colours: Mapping[str, str] = _CSS) -> str:
    """Draw the clicks by day, with about so many labels below, as SVG that is as wide as what holds it."""
    accent, soft, muted, grid = (colours[name] for name in ("accent", "soft", "muted", "line"))
    days = report.counted_days
    clicks = [report.stats.clicks.get(day, 0) for day in days]
    now, before = report.curves
    is_daily = len(days) <= CHART_DAILY
    shown = clicks if is_daily else [count for _, count in now]
    most = math.ceil(max([*shown, *(count for _, count in before)], default=0)) or 1

    def at(n: float) -> float:
        """Return the time of a day of the span, in UTC: the machine's time zone must not matter."""
        return ((days[0] - _EPOCH).days + n) * _DAY

    def points(curve: Iterable[tuple[float, float]]) -> list[dict[str, float]]:
        return [{"x": at(n), "y": count} for n, count in curve]

    layers: list[Any] = []
    if len(days) <= BARS:
        # Bars of a few days are kept narrow.
        half = min(0.4, 0.05 * len(days))
        bars = [{"x": at(n - half), "x2": at(n + half), "y": count} for n, count in enumerate(clicks)]
        for rows, colour in ((bars[: report.days_over], accent), (bars[report.days_over :], soft)):
            mark = {"type": "rect", "color": colour, "stroke": accent, "strokeWidth": 0.5}
            layers.append(_layer(mark, rows, x2={"field": "x2"}, y2={"datum": 0}))
    else:
        line = {"color": accent, "strokeWidth": 1.5, "strokeJoin": "round"}
        layers.append(_layer({"type": "area", "color": soft, "line": line}, points(now)))
        if report.partial_day and is_daily:
            today = {"type": "point", "color": accent, "fill": soft, "size": 30, "opacity": 1}
            layers.append(_layer(today, points([(len(days) - 1, clicks[-1])])))
    if len(before) > 1:
        # A margin lets the line be seen on bars too.
        margin = {"color": colours["card"], "strokeWidth": 4, "strokeOpacity": 0.75}
        dashed = {"color": colours["ink"], "strokeWidth": 1.2, "strokeDash": [4, 3]}
        layers += [_layer({"type": "line"} | style, points(before)) for style in (margin, dashed)]
    x = {
        "field": "x",
        "type": "temporal",
        "scale": {"type": "utc", "domain": [at(-0.5), at(len(days) - 0.5)], "nice": False},
        "axis": {
            "grid": False,
            "tickCount": labels if len(days) > labels else {"interval": "day", "step": 1},
            "labelFlush": True,
            "labelPadding": 6,
            **({"format": "%-d %b"} if len(days) <= BARS else {"labelExpr": _TICK}),
        },
    }
    y_axis = {"format": ",d", "tickCount": min(4, most), "domain": False, "ticks": False, "labelPadding": 8}
    y = {"field": "y", "type": "quantitative", "scale": {"domain": [0, most], "nice": 4}, "axis": y_axis}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": {
            "font": "Liberation Sans, Arial, sans-serif",
            "aria": False,
            "view": {"stroke": None},
            "axis": {
                "labelColor": muted,
                "labelFontSize": 12,
                **dict.fromkeys(("gridColor", "domainColor", "tickColor"), grid),
                "title": None,
            },
        },
        "background": "transparent",
        "width": width,
        "height": height,
        "encoding": {"x": x, "y": y},
        "layer": layers,
    }
    svg: str = extra("vl_convert").vegalite_to_svg(spec, allowed_base_urls=[])
    return _ROOT.sub(r'<svg viewBox="0 0 \1 \2" aria-hidden="true" focusable="false">', svg, count=1)


def _layer(mark: dict[str, Any], rows: list[dict[str, float]], **encoding: Any) -> dict[str, Any]:
    return {"mark": mark, "data": {"values": rows}, "encoding": encoding}
