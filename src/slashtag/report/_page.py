"""The page of a report: one HTML file that loads nothing and runs no script, whatever a label holds."""

import os
import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from .. import InvalidRequestError
from .._arrow import import_extra
from .._files import AtomicFile
from .._internal import countries
from ..counts import Compared, change, percent
from ._figures import DIMENSIONS, Report, page_of

#: Rows of a table that are shown at once; the others are under a line that opens.
SHOWN = 10
#: Width and height of the bars, in pixels, on wide and on narrow screens.
SIZES = {"wide": (1030, 230), "narrow": (420, 220)}
#: Characters that a page cannot hold (controls, lone surrogates, non-characters), and the controls that
#: change the direction of text, which can make one label look like another.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')


def to_html(report: Report) -> str:
    """Return the page; raises ExportError where the extra `report` is not installed."""
    text: str = _template().render(
        report=report,
        charts={name: _bars(report, *size) for name, size in SIZES.items()},
        dimensions=DIMENSIONS,
        shown=SHOWN,
    )
    return text


def check_path(path: str | os.PathLike[str]) -> None:
    """Check that `write` can write this file, before anything is requested.

    Raises InvalidRequestError for a name that does not end in .html, ExportError where the file cannot be
    written or the extra `report` is not installed.
    """
    if Path(path).suffix.lower() != ".html":
        raise InvalidRequestError(f"{Path(path).name}: a report is one page, and its name ends in .html")
    for name in ("jinja2", "vl_convert"):
        import_extra("report", name)
    AtomicFile(path).discard()


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html file atomically; raises what `check_path` raises."""
    check_path(path)
    with AtomicFile(path) as file:
        file.write(to_html(report).encode())


def _bars(report: Report, width: int, height: int) -> str:
    """Return the clicks of each day, week or month in front of those that they are compared with, as SVG."""
    rows = [row for row in report.steps if row.labels[-1] is not None]
    values = [
        {"step": row.labels[-1], "clicks": row.clicks, "before": row.before, "place": place}
        for place, row in enumerate(rows)
    ]
    least = max(1, len(rows) * 70 // width)
    x = {
        "field": "step",
        "type": "ordinal",
        "title": None,
        "axis": {
            "values": [value["step"] for value in values[::least]],
            "labelAngle": 0,
            "labelExpr": f"utcFormat(utc({_PARTS}), '{'%b %Y' if report.unit == 'month' else '%-d %b'}')",
            "labelOverlap": True,
        },
    }

    def layer(field: str, colour: str, band: float) -> dict[str, object]:
        y = {
            "field": field,
            "type": "quantitative",
            "title": None,
            "axis": {"format": ",d", "tickMinStep": 1},
        }
        mark = {"type": "bar", "width": {"band": band}, "fill": f"var(--{colour})"}
        return {"mark": mark, "encoding": {"y": y}}

    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "transparent",
        "width": width,
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        "config": {
            "font": "sans-serif",
            "aria": False,
            "view": {"stroke": None},
            "axis": {
                "labelColor": "var(--muted)",
                "labelFontSize": 12,
                "domainColor": "var(--line)",
                "gridColor": "var(--line)",
                "tickColor": "var(--line)",
            },
        },
        "data": {"values": values},
        "encoding": {"x": x},
        "layer": [layer("before", "before", 0.95), layer("clicks", "accent", 0.55)],
    }
    svg: str = import_extra("report", "vl_convert").vegalite_to_svg(spec, allowed_base_urls=[])
    return _ROOT.sub(r'<svg viewBox="0 0 \1 \2" aria-hidden="true" focusable="false">', svg, count=1)


#: Year, month and day of a label such as 2024-03 or 2024-03-01, in an expression of Vega.
_PARTS = "slice(datum.value, 0, 4), slice(datum.value, 5, 7) - 1, +slice(datum.value, 8, 10) || 1"


def _name_of(dimension: str, label: str | None) -> str:
    """Return the name to show for a label: a country's name, or Unknown for what was not recognised."""
    if label == "unknown.":
        return "Unknown"
    return (countries().get(label or "") if dimension == "country" else None) or label or "(empty)"


def _change(row: Compared) -> str:
    """Return the change of a row as text: new for what had no clicks before, a very large one as a factor."""
    changed = change(row.clicks, row.before)
    if changed is None:
        return "new" if row.clicks and row.before == 0 else ""
    if changed >= 1000:
        return f"×{row.clicks / (row.before or 1):,.0f}"
    return f"{changed:+,.1f} %".replace("-", "−")


def _share(part: int, whole: int) -> str:
    """Return a share in percent; a small part does not become 0.0."""
    return "<0.1 %" if 0 < part < whole / 2000 else f"{percent(part, whole):.1f} %"


def _day(day: date) -> str:
    """Return a day in English, whatever the machine's language is: 4 Mar 2024."""
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"{day.day} {names[day.month - 1]} {day.year}"


def _span(first: date, last: date) -> str:
    return _day(first) if first == last else f"{_day(first)} to {_day(last)}"


def _address(url: str | None) -> str | None:
    """Return a URL that a page may link to, None for another or none."""
    return url if url and re.match("https?://[^/]", url, re.I) else None


def _cleaned(value: object) -> object:
    return _UNFIT.sub("\ufffd", value) if type(value) is str else value  # other strings are markup


@cache
def _template() -> Any:
    """Return the template; every text put into it is cleaned, and escaped unless marked safe."""
    jinja2 = import_extra("report", "jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slashtag", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_cleaned,
    )
    environment.filters |= {"share": _share, "change": _change, "address": _address, "page": page_of}
    environment.globals |= {"name_of": _name_of, "span": _span}
    return environment.get_template("page.html")
