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


class Report(Figures, frozen=True, kw_only=True):
    """Figures of a report, and the documents that show them.

    All documents need the extra `report` and raise ExportError where it is not installed.
    """

    @property
    def notes(self) -> list[str]:
        """What limits the figures of its links, in words."""
        return _render("notes.txt", report=self).splitlines()

    def caveats(self) -> list[tuple[str, str]]:
        """Return what a reader has to know about the numbers, each as its first words and the rest."""
        lines = _render("caveats.txt", report=self).splitlines()
        return [(head, text) for head, _, text in (line.partition("|") for line in lines)]

    def to_html(self) -> str:
        """Return the report as one page that loads nothing and runs no script."""
        return _render("page.html", report=self)

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
        return _render("picture.svg", report=self, width=width, min_height=min_height)


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


def _render(template: str, **values: Any) -> str:
    text: str = _templates().get_template(template).render(values)
    return text


@cache
def _templates() -> Any:
    """Return the templates; every text put into them is cleaned, and escaped unless marked safe."""
    jinja2 = extra("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slashtag", "report"),
        autoescape=jinja2.select_autoescape(disabled_extensions=["txt"], default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_cleaned,
    )
    environment.globals |= {"fmt": fmt, "chart": chart, "wrap": wrap}
    environment.filters |= {"heat_step": heat_step}
    return environment


def _cleaned(value: object) -> object:
    return fmt.plain(value) if type(value) is str else value  # other strings are markup


def heat_step(clicks: int, most: int) -> int:
    """Return the step of the heat scale: 0 for no clicks, 1 to 5 for each fifth of the most."""
    return -(-clicks * 5 // most) if clicks else 0


def chart(report: Figures, width: int, height: int, labels: int, colours: Mapping[str, str] = _CSS) -> str:
    """Draw the clicks by day, with about so many labels below, as SVG that is as wide as what holds it."""
    days = report.counted_days
    is_daily = len(days) <= CHART_DAILY
    clicks = [report.stats.clicks.get(day, 0) for day in days]
    now, before = report.curves
    half = min(0.4, 0.05 * len(days))  # bars of a few days are narrow

    def at(n: float) -> float:
        """Return the time of a day of the span, in UTC: the machine's time zone must not matter."""
        return ((days[0] - _EPOCH).days + n) * _DAY

    def points(curve: Iterable[tuple[float, float]], width: float = 0) -> list[dict[str, Any]]:
        return [
            {"x": at(n - width), "x2": at(n + width), "y": count, "over": n < report.days_over}
            for n, count in curve
        ]

    highest = max(count for _, count in [(0, 1), *now, *before, *enumerate(clicks if is_daily else ())])
    spec = _render(
        "chart.json",
        width=width,
        height=height,
        labels=labels,
        colours=colours,
        days=len(days),
        domain=(at(-0.5), at(len(days) - 0.5)),
        most=math.ceil(highest),
        bars=points(enumerate(clicks), half) if len(days) <= BARS else [],
        now=points(now),
        today=points([(len(days) - 1, clicks[-1])] if report.partial_day and is_daily else []),
        before=points(before),
    )
    svg: str = extra("vl_convert").vegalite_to_svg(spec, allowed_base_urls=[])
    return _ROOT.sub(r'<svg viewBox="0 0 \1 \2" aria-hidden="true" focusable="false">', svg, count=1)
