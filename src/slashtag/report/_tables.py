"""The parts of the page that show labels of the service: links, countries, devices ... as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from . import _format as words
from ._countries import COUNTRIES
from ._draw import largest

if TYPE_CHECKING:
    from ._figures import Report, TopLink

#: Labels of a dimension that are shown at once, and at most; the others are one row.
SHOWN = 8
MOST = 500
#: The box that a trend is drawn in.
WIDE, HIGH = 240, 34

_NONE_TOLD = "Not told by the service"


def counts_card(dimension: str, title: str, counts: Mapping[str, int], total: int) -> Iterator[str]:
    """Yield the card of one dimension: its largest labels with bars, all others on demand."""
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
        yield _rest(f"{words.number(len(more) + rest)} others", clicks, most, total)
    untold = total - sum(counts.values())
    if untold > 0:
        yield _rest(_NONE_TOLD, untold, most, total)
    yield "</tbody></table>"
    if more:
        yield f"<details><summary>The {words.number(len(more) + rest)} others</summary>"
        yield f'<table class="counts" data-dimension="{dimension}">'
        yield f'<caption class="sr">Clicks by {dimension}, continued</caption>'
        yield _head(dimension.capitalize())
        for label, clicks in more:
            yield _row(dimension, label, clicks, most, total)
        if rest:
            yield _rest(f"{words.number(rest)} more", _beyond(counts, ranked), most, total)
        yield "</tbody></table></details>"
    yield "</section>"


def top_links(report: Report) -> Iterator[str]:
    """Yield the card of the links with most clicks."""
    if not report.top:
        return
    by_week = any(link.by_week for link in report.top)
    yield '<section class="card tall" aria-labelledby="top-links"><h2 id="top-links">Top links</h2>'
    together = sum(link.clicks for link in report.top)
    yield (
        f'<p class="lead">{words.many(len(report.top), "link has", "links have")} '
        f"{words.share(together, report.total)} of all clicks. Trends by {'week' if by_week else 'day'}.</p>"
    )
    yield (
        '<table class="links" id="links-table"><caption class="sr">Links with most clicks</caption>'
        "<thead><tr>"
        '<th scope="col">Link</th><th scope="col" class="trend">Trend</th>'
        '<th scope="col" class="n">Clicks</th></tr></thead><tbody>'
    )
    for place, link in enumerate(report.top, 1):
        url = f"<small>{_label(link.short_url)}</small>" if link.short_url else ""
        yield (
            f'<tr><th scope="row"><span class="place"><span class="muted">{place}</span>'
            f"{_label(link.slashtag or '(empty)')}{url}</span></th>"
            f'<td class="trend">{_spark(link)}</td>'
            f'<td class="n">{_clicks(link.clicks)}'
            f"<small>{words.share(link.clicks, report.total)}</small></td></tr>"
        )
    yield "</tbody></table></section>"


def days_table(report: Report) -> Iterator[str]:
    """Yield the days as a table, on demand."""
    yield '<details><summary>All days as a table</summary><div class="all" tabindex="0" role="region" '
    yield 'aria-label="All days"><table id="days"><caption class="sr">Clicks by day</caption>'
    yield '<thead><tr><th scope="col">Day</th><th scope="col" class="n">Clicks</th></tr></thead><tbody>'
    for when, clicks in report.stats.clicks.items():
        yield (
            f'<tr><th scope="row"><time datetime="{when}">{words.weekday(when)}</time></th>'
            f'<td class="n">{words.number(clicks)}</td></tr>'
        )
    yield "</tbody></table></div></details>"


def _head(name: str) -> str:
    return (
        f'<thead><tr><th scope="col">{name}</th><th scope="col" class="n">Clicks</th>'
        '<th scope="col" class="n p">Share</th></tr></thead><tbody>'
    )


def _row(dimension: str, label: str, clicks: int, most: int, total: int) -> str:
    name = words.name_of(dimension, label)
    has_code = dimension == "country" and label in COUNTRIES
    code = f'<span class="code">{words.text(label)}</span>' if has_code else ""
    return (
        f'<tr data-label="{words.text(label)}"><th scope="row">{_bar(_label(name, code), clicks, most)}</th>'
        f"{_numbers(clicks, total)}</tr>"
    )


def _rest(name: str, clicks: int, most: int, total: int) -> str:
    bar = _bar(f'<span class="label muted">{name}</span>', min(clicks, most), most, " rest")
    return f'<tr class="rest"><th scope="row">{bar}</th>{_numbers(clicks, total)}</tr>'


def _bar(label: str, clicks: int, most: int, kind: str = "") -> str:
    return f'<span class="bar{kind}" style="--w:{100 * clicks / most:.1f}%">{label}</span>'


def _numbers(clicks: int, total: int) -> str:
    return f'<td class="n">{_clicks(clicks)}</td><td class="n p">{words.share(clicks, total)}</td>'


def _clicks(clicks: int) -> str:
    return f'<data value="{clicks}">{words.number(clicks)}</data>'


def _label(label: str, code: str = "") -> str:
    # A label that reads from right to left, or turns the direction, turns nothing around it.
    return f'<span class="label" title="{words.text(label)}"><bdi>{words.text(label)}</bdi>{code}</span>'


def _beyond(counts: Mapping[str, int], ranked: Sequence[tuple[str, int]]) -> int:
    return sum(counts.values()) - sum(n for _, n in ranked)


def _spark(link: TopLink) -> str:
    """Draw the clicks of a link by day or week."""
    series = link.series
    counts = list(series.values())
    if len(counts) < 2:
        return '<span class="muted">one day</span>'
    most = max(counts)
    when = next(day for day, n in series.items() if n == most)
    by, peak = ("week", "in the week of") if link.by_week else ("day", "on")
    told = (
        f"{link.slashtag}: {words.many(link.clicks, 'click', 'clicks')}, by {by}; "
        f"most {peak} {words.day(when)}: {words.number(most)}"
    )
    step = WIDE / (len(counts) - 1)
    points = [(n * step, HIGH - 1 - (HIGH - 3) * clicks / most) for n, clicks in enumerate(counts)]
    line = "L".join(f"{_short(x)},{_short(y)}" for x, y in points)
    return (
        f'<svg class="spark" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{words.text(told)}"><title>{words.text(told)}</title>'
        f'<path class="area" d="M0,{HIGH}L{line}L{WIDE},{HIGH}Z"/><path class="line" d="M{line}"/></svg>'
    )


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
