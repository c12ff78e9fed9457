"""Charts as SVG and as a picture, by altair and vl-convert."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from importlib import import_module
from textwrap import wrap
from typing import Any

from .. import ExportError
from . import _format as fmt
from ._caveats import caveats
from ._figures import CHART_DAILY, Figures

# style.css matches these colours by value and replaces them in dark mode.
INK, MUTED, LINE, ACCENT, SOFT = "#14181f", "#59636f", "#e3e6ea", "#3355d1", "#dfe6fb"
HEAT = ("#f1f3f6", "#e0e8fd", "#bccdfa", "#8fa9f4", "#5c7de8", ACCENT)

#: Up to so many days each is a bar; more of them are one line.
BARS = 62
_FONT = "Liberation Sans, Arial, sans-serif"
_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')


def extra(name: str) -> Any:
    """Import a module of the extra `report`. Raises ExportError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ExportError(
            'a report is drawn by altair and vl-convert: pip install "slashtag[report]"'
        ) from None


class Painter:
    """Drawing libraries: an extra, and imported at first use because that takes a second."""

    def __init__(self) -> None:
        self.alt = extra("altair")
        self._convert = extra("vl_convert")
        major, minor = self.alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2]
        self._options: dict[str, Any] = {"vl_version": f"{major}.{minor}", "allowed_base_urls": []}

    def svg(self, chart: Any) -> str:
        """Draw a chart as SVG."""
        found: str = self._convert.vegalite_to_svg(self._spec(chart), **self._options)
        return found

    def png(self, chart: Any, scale: float) -> bytes:
        """Draw a chart as PNG."""
        found: bytes = self._convert.vegalite_to_png(self._spec(chart), scale=scale, **self._options)
        return found

    def _spec(self, chart: Any) -> Any:
        chart = (
            chart.configure(font=_FONT, aria=False)
            .configure_view(stroke=None)
            .configure_axis(
                labelColor=MUTED,
                titleColor=MUTED,
                labelFontSize=12,
                gridColor=LINE,
                domainColor=LINE,
                tickColor=LINE,
                title=None,
            )
        )
        # A theme enabled for the user's own charts must not change these.
        with self.alt.theme.enable("none"):
            return chart.to_dict()

    def values(self, rows: Sequence[Mapping[str, object]]) -> Any:
        """Return rows as the data of a chart."""
        return self.alt.InlineData(values=list(rows))


def days_svg(painter: Painter, report: Figures, *, width: int, height: int, labels: int) -> str:
    """Draw the clicks by day, with about so many labels below."""
    chart = _days(painter, report, labels).properties(width=width, height=height, background="transparent")
    return _fluid(painter.svg(chart))


def picture(report: Figures, scale: float) -> bytes:
    """Draw the main charts, with the caveats below, as one PNG."""
    if not 0 < scale <= 10:
        raise ExportError(f"scale is {scale}; it must be a positive number up to 10")
    painter = Painter()
    alt = painter.alt
    stats = report.stats
    top = {f"/{link.slashtag}{' *' * link.is_shared}": link.clicks for link in report.top}
    charts = [
        _days(painter, report, 12).properties(width=1100, height=220, title=_title(alt, "Clicks by day")),
        alt.hconcat(
            _heat(painter, report),
            # The heat map has labels between its title and its cells: line up with them.
            _bars(painter, "Top links", top, 450, offset=30),
            spacing=60,
        ),
        alt.hconcat(
            _bars(painter, "Countries", _named("country", stats.country), 250),
            _bars(painter, "Referrers", _named("referrer", stats.referrer), 250),
            _bars(painter, "Devices", _named("device", stats.device), 250),
            spacing=40,
        ),
        _footnotes(painter, report),
    ]
    page = alt.vconcat(*charts, spacing=36, background="#ffffff", padding=36).properties(
        title=alt.TitleParams(
            f"Clicks, {fmt.days(report.start, report.end)}",
            subtitle=_headline(report),
            anchor="start",
            fontSize=30,
            subtitleFontSize=16,
            color=INK,
            subtitleColor=MUTED,
            offset=28,
            subtitlePadding=12,
            subtitleLineHeight=22,
        )
    )
    return painter.png(page.resolve_scale(color="independent", x="independent", y="independent"), scale)


def _headline(report: Figures) -> list[str]:
    total = fmt.many(report.total, "click", "clicks")
    if report.change is not None and report.before_span:
        days = "" if report.is_complete else f"first {fmt.many(report.days_over, 'day', 'days')} "
        total += (
            f" ({days}{fmt.change(report.change)} against {fmt.many(report.before, 'click', 'clicks')} "
            f"on {fmt.days(*report.before_span)})"
        )
    links = fmt.many(report.links, "link", "links")
    if report.links_clicked is not None:
        links = f"{fmt.number(report.links_clicked)} of {links} clicked"
    parts = [links, f"{'' if report.unique_is_exact else 'at most '}{fmt.number(report.unique)} unique"]
    if report.busiest:
        when, clicks = report.busiest
        parts.append(f"busiest day {fmt.weekday(when)} ({fmt.number(clicks)})")
    shown = fmt.plain(f"{report.selection}, days in {report.zone}")
    lines = [total, "  ·  ".join(parts), shown if len(shown) <= 130 else f"{shown[:129]}…"]
    return lines if report.unfinished is None else [f"Not over yet: {report.unfinished}", *lines]


def _footnotes(painter: Painter, report: Figures) -> Any:
    alt = painter.alt
    notes = [line for head, rest in caveats(report) for line in wrap(fmt.plain(f"{head} {rest}"), 165)]
    rows = [{"line": n, "note": note} for n, note in enumerate(notes)]
    return (
        alt.Chart(painter.values(rows))
        .mark_text(align="left", color=MUTED, fontSize=12)
        .encode(
            x=alt.value(0),
            y=alt.Y("line:O", axis=None),
            text=alt.Text("note:N"),
        )
        .properties(width=1100, height=alt.Step(18))
    )


def _days(painter: Painter, report: Figures, labels: int) -> Any:
    alt = painter.alt
    days = report.counted_days
    clicks = [report.stats.clicks.get(day, 0) for day in days]
    # Days are numbers here: a date would depend on the machine's time zone.
    ticks = _ticks(days[0], days[-1], labels)
    names = [_tick_name(day, len(days)) for day in ticks]
    numbers = [(day - days[0]).days for day in ticks]
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[-0.5, len(days) - 0.5], nice=False, zero=False),
        axis=alt.Axis(
            grid=False,
            values=numbers,
            labelExpr=f"{names}[indexof({numbers}, datum.value)]",
            labelFlush=True,
            labelPadding=6,
        ),
    )
    now, before = report.curves
    shown = clicks if len(days) <= CHART_DAILY else [count for _, count in now]
    most = math.ceil(max([*shown, *(count for _, count in before)], default=0)) or 1
    y = alt.Y(
        "clicks:Q",
        scale=alt.Scale(domain=[0, most], nice=4),
        axis=alt.Axis(format=",d", tickCount=min(4, most), domain=False, ticks=False, labelPadding=8),
    )
    curve, old = (painter.values([{"x": n, "clicks": c} for n, c in points]) for points in (now, before))
    line = alt.Chart(old).mark_line(color=MUTED, strokeWidth=1.2, strokeDash=[4, 3])
    dashed = [line.encode(x=x, y=y)] if len(before) > 1 else []
    if len(days) <= BARS:
        # Bars of a few days are kept narrow.
        half = min(0.4, 0.05 * len(days))
        rows: list[dict[str, object]] = [
            {"x": n - half, "x2": n + half, "clicks": count, "partial": day == report.partial_day}
            for n, (day, count) in enumerate(zip(days, clicks, strict=True))
        ]
        bars = (
            alt.Chart(painter.values(rows))
            .mark_rect(stroke=ACCENT, strokeWidth=0.5)
            .encode(x=x, x2="x2:Q", y=y, y2=alt.Y2Datum(0))
            .encode(color=alt.condition("datum.partial", alt.value(SOFT), alt.value(ACCENT)))
        )
        return alt.layer(bars, *dashed)
    line = alt.Chart(curve).mark_area(
        color=SOFT, line={"color": ACCENT, "strokeWidth": 1.5, "strokeJoin": "round"}
    )
    layers = [line.encode(x=x, y=y), *dashed]
    if report.partial_day and len(days) <= CHART_DAILY:
        today = alt.Chart(painter.values([{"x": len(days) - 1, "clicks": clicks[-1]}]))
        layers.append(today.mark_point(color=ACCENT, fill=SOFT, size=30, opacity=1).encode(x=x, y=y))
    return alt.layer(*layers)


def _heat(painter: Painter, report: Figures) -> Any:
    alt = painter.alt
    rows: list[dict[str, object]] = []
    most = 0
    for (year, month), cells in report.month_weekdays.items():
        name = f"{fmt.MONTHS[month - 1]} {year}"
        for weekday, clicks in zip(fmt.WEEKDAYS, cells, strict=True):
            if clicks is not None:
                rows.append({"month": name, "weekday": weekday, "clicks": clicks})
                most = max(most, clicks)
    for row in rows:
        row["step"] = heat_step(row["clicks"], most)
    height = max(6, min(24, 560 // len(report.month_weekdays)))
    chart = alt.Chart(painter.values(rows)).encode(
        x=alt.X("weekday:O", sort=None, axis=alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False)),
        y=alt.Y("month:O", sort=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=8)),
    )
    cells = chart.mark_rect(stroke="#ffffff", strokeWidth=2).encode(
        color=alt.Color(
            "step:O", scale=alt.Scale(domain=list(range(len(HEAT))), range=list(HEAT)), legend=None
        )
    )
    counts = chart.mark_text(fontSize=11).encode(
        text=alt.Text("clicks:Q", format=",d"),
        color=alt.condition(f"datum.step == {len(HEAT) - 1}", alt.value("#ffffff"), alt.value(INK)),
    )
    layers = alt.layer(cells, counts) if height >= 14 else cells
    return layers.properties(width=7 * 56, height=alt.Step(height), title=_title(alt, "Months and weekdays"))


def _bars(painter: Painter, title: str, counts: Mapping[str, int], width: int, offset: int = 14) -> Any:
    alt = painter.alt
    rows = [{"label": fmt.plain(label), "clicks": n} for label, n in largest(counts, 10)]
    chart = alt.Chart(painter.values(rows or [{"label": "no clicks", "clicks": 0}])).encode(
        y=alt.Y(
            "label:N",
            sort=None,
            axis=alt.Axis(domain=False, ticks=False, labelLimit=150, labelColor=INK, labelPadding=8),
        ),
        x=alt.X(
            "clicks:Q",
            axis=None,
            scale=alt.Scale(
                domain=[0, 1.25 * max([n for _, n in largest(counts, 1)], default=1)], nice=False
            ),
        ),
    )
    bars = chart.mark_bar(color=ACCENT, height=14)
    names = chart.mark_text(align="left", dx=6, color=MUTED, fontSize=12).encode(
        text=alt.Text("clicks:Q", format=",d")
    )
    return alt.layer(bars, names).properties(
        width=width, height=alt.Step(24), title=_title(alt, title, offset)
    )


def _named(dimension: str, counts: Mapping[str, int]) -> dict[str, int]:
    named: dict[str, int] = {}
    for label, n in counts.items():
        name = fmt.name_of(dimension, label)
        named[name] = named.get(name, 0) + n
    return named


def _title(alt: Any, text: str, offset: int = 14) -> Any:
    return alt.TitleParams(text, anchor="start", fontSize=16, color=INK, offset=offset, frame="group")


def largest(counts: Mapping[str, int], most: int) -> list[tuple[str, int]]:
    """Return the labels with most clicks, in order; equals by label."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]


def heat_step(clicks: Any, most: int) -> int:
    """Return the step of the heat scale: 0 for no clicks, 1 to 5 for each fifth of the most."""
    steps = len(HEAT) - 1
    return -(-clicks * steps // most) if clicks else 0


def _ticks(first: date, last: date, labels: int) -> list[date]:
    """Choose about so many days to label, at steps of whole days, weeks or months."""
    length = (last - first).days + 1
    if length <= BARS:
        step = next((n for n in (1, 2, 5, 7, 10, 14) if length <= n * labels), 21)
        return [first + timedelta(days=n) for n in range(0, length, step)]
    begins = 12 * first.year + first.month - 1 + (first.day > 1)
    ends = 12 * last.year + last.month - 1
    step = next((n for n in (1, 2, 3, 6, 12, 24, 60) if ends - begins < n * labels), 120)
    return [date(n // 12, n % 12 + 1, 1) for n in range(begins, ends + 1) if n % step == 0 or step < 2]


def _tick_name(day: date, length: int) -> str:
    if length <= BARS:
        return f"{day.day} {fmt.MONTHS[day.month - 1]}"
    return str(day.year) if day.month == 1 else fmt.MONTHS[day.month - 1]


def _fluid(svg: str) -> str:
    """Let the page set the width of a drawing and describe it."""
    return _ROOT.sub(r'<svg viewBox="0 0 \1 \2" aria-hidden="true" focusable="false">', svg, count=1)
