"""Tables of the page: links, countries, devices ... and days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from . import _format as fmt
from ._draw import largest
from ._figures import Figures, TopLink

#: Labels of a dimension shown at once, and in all; the others are one row.
SHOWN = 8
MOST = 500
#: Width and height of a trend.
WIDE, HIGH = 240, 34

_NOT_SENT = "Not sent by the service"


def counts_card(dimension: str, title: str, counts: Mapping[str, int], total: int) -> Iterator[str]:
    """Yield the card of one dimension: its largest labels with bars, the others in an element to open."""
    ranked = largest(counts, MOST)
    rest = len(counts) - len(ranked)
    shown, more = (ranked, []) if len(ranked) <= SHOWN + 1 and not rest else (ranked[:SHOWN], ranked[SHOWN:])
    most = max(ranked[0][1] if ranked else 0, 1)
    yield f'<section class="card half" aria-labelledby="{dimension}"><h2 id="{dimension}">{title}</h2>'
    yield f'<table class="counts" data-dimension="{dimension}">'
    yield f'<caption class="sr">Clicks by {dimension}</caption>'
    yield _head(dimension.capitalize())
    for label, clicks in shown:
        yield _row(dimension, label, clicks, most, total)
    if more:
        clicks = sum(n for _, n in more) + _beyond(counts, ranked)
        yield _rest(f"{fmt.number(len(more) + rest)} others", clicks, most, total)
    missing = total - sum(counts.values())
    if missing > 0:
        yield _rest(_NOT_SENT, missing, most, total)
    yield "</tbody></table>"
    if more:
        yield f"<details><summary>The {fmt.number(len(more) + rest)} others</summary>"
        yield f'<table class="counts" data-dimension="{dimension}">'
        yield f'<caption class="sr">Clicks by {dimension}, continued</caption>'
        yield _head(dimension.capitalize())
        for label, clicks in more:
            yield _row(dimension, label, clicks, most, total)
        if rest:
            yield _rest(f"{fmt.number(rest)} more", _beyond(counts, ranked), most, total)
        yield "</tbody></table></details>"
    yield "</section>"


def top_links(report: Figures) -> Iterator[str]:
    """Yield the card of the links with most clicks."""
    if not report.top:
        return
    by_week = any(link.by_week for link in report.top)
    yield '<section class="card tall" aria-labelledby="top-links"><h2 id="top-links">Top links</h2>'
    lead = f"Trends by {'week, from Monday' if by_week else 'day'}, each on its own scale."
    if any(link.is_shared for link in report.top):
        lead += " Rows marked * include clicks of other links, see below."
    else:
        together = fmt.share(sum(link.clicks for link in report.top), report.total)
        lead = f"{fmt.many(len(report.top), 'link has', 'links have')} {together} of all clicks. {lead}"
    yield f'<p class="lead">{lead}</p>'
    yield (
        '<table class="links" id="links-table"><caption class="sr">Links with most clicks</caption>'
        "<thead><tr>"
        '<th scope="col">Link</th><th scope="col" class="trend">Trend</th>'
        '<th scope="col" class="n">Clicks</th></tr></thead><tbody>'
    )
    for place, link in enumerate(report.top, 1):
        url = f"<small>{_label(link.short_url)}</small>" if link.short_url else ""
        star = '<span class="code">*</span>' if link.is_shared else ""
        share = "" if link.is_shared else f"<small>{fmt.share(link.clicks, report.total)}</small>"
        yield (
            f'<tr><th scope="row"><span class="place"><span class="muted">{place}</span>'
            f"{_label(link.slashtag, star)}{url}</span></th>"
            f'<td class="trend">{_spark(link)}</td>'
            f'<td class="n">{_clicks(link.clicks)}{share}</td></tr>'
        )
    yield "</tbody></table></section>"


def days_table(report: Figures) -> Iterator[str]:
    """Yield the days as a table, in an element to open."""
    yield '<details><summary>All days as a table</summary><div class="all" tabindex="0" role="region" '
    yield 'aria-label="All days"><table id="days"><caption class="sr">Clicks by day</caption>'
    yield '<thead><tr><th scope="col">Day</th><th scope="col" class="n">Clicks</th></tr></thead><tbody>'
    for when, clicks in report.stats.clicks.items():
        so_far = " (so far)" if when == report.partial_day else ""
        yield (
            f'<tr><th scope="row"><time datetime="{when}">{fmt.weekday(when)}</time>{so_far}</th>'
            f'<td class="n">{fmt.number(clicks)}</td></tr>'
        )
    yield "</tbody></table></div></details>"


def _head(name: str) -> str:
    return (
        f'<thead><tr><th scope="col">{name}</th><th scope="col" class="n">Clicks</th>'
        '<th scope="col" class="n p">Share</th></tr></thead><tbody>'
    )


def _row(dimension: str, label: str, clicks: int, most: int, total: int) -> str:
    name = fmt.name_of(dimension, label)
    has_code = dimension == "country" and label in fmt.countries()
    code = f'<span class="code">{fmt.text(label)}</span>' if has_code else ""
    return (
        f'<tr data-label="{fmt.text(label)}"><th scope="row">{_bar(_label(name, code), clicks, most)}</th>'
        f"{_numbers(clicks, total)}</tr>"
    )


def _rest(name: str, clicks: int, most: int, total: int) -> str:
    bar = _bar(f'<span class="label muted">{name}</span>', min(clicks, most), most, " rest")
    return f'<tr class="rest"><th scope="row">{bar}</th>{_numbers(clicks, total)}</tr>'


def _bar(label: str, clicks: int, most: int, kind: str = "") -> str:
    return f'<span class="bar{kind}" style="--w:{100 * clicks / most:.1f}%">{label}</span>'


def _numbers(clicks: int, total: int) -> str:
    return f'<td class="n">{_clicks(clicks)}</td><td class="n p">{fmt.share(clicks, total)}</td>'


def _clicks(clicks: int) -> str:
    return f'<data value="{clicks}">{fmt.number(clicks)}</data>'


def _label(label: str, code: str = "") -> str:
    # <bdi> keeps a label written right to left from reordering the text around it.
    return f'<span class="label" title="{fmt.text(label)}"><bdi>{fmt.text(label)}</bdi>{code}</span>'


def _beyond(counts: Mapping[str, int], ranked: Sequence[tuple[str, int]]) -> int:
    return sum(counts.values()) - sum(n for _, n in ranked)


def _spark(link: TopLink) -> str:
    """Draw the trend of a link."""
    series = link.series
    counts = list(series.values())
    if len(counts) < 2:
        return '<span class="muted">one day</span>'
    most = max(counts)
    when = next(day for day, n in series.items() if n == most)
    by, peak = ("week", "in the week of") if link.by_week else ("day", "on")
    description = (
        f"{link.slashtag}: {fmt.many(link.clicks, 'click', 'clicks')}, by {by}; "
        f"most {peak} {fmt.day(when)}: {fmt.number(most)}"
    )
    step = WIDE / (len(counts) - 1)
    points = [(n * step, HIGH - 1 - (HIGH - 3) * clicks / most) for n, clicks in enumerate(counts)]
    line = "L".join(f"{_short(x)},{_short(y)}" for x, y in points)
    return (
        f'<svg class="spark" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{fmt.text(description)}"><title>{fmt.text(description)}</title>'
        f'<path class="area" d="M0,{HIGH}L{line}L{WIDE},{HIGH}Z"/><path class="line" d="M{line}"/></svg>'
    )


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
