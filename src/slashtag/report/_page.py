"""The report as one HTML page without scripts, fonts or anything else to load."""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from . import _format as fmt
from ._caveats import caveats
from ._draw import Painter, days_svg, heat_step
from ._figures import Figures
from ._tables import counts_card, days_table, top_links


def page(report: Figures) -> str:
    """Return the report as a document."""
    body = (*_figures(report), '<div class="grid">', *_body(report), *_notes(report), "</div>")
    requests = fmt.many(report.requests, "request", "requests")
    return Template(fmt.read("page.html")).substitute(
        title=f"Clicks, {fmt.days(report.start, report.end)}",
        style=fmt.read("style.css"),
        header="\n".join(_header(report)),
        body="\n".join(body),
        footer=f"Collected on {fmt.text(_moment(report))}, with {requests}.",
    )


def _header(report: Figures) -> Iterator[str]:
    yield "<header>"
    yield '<p class="over">Click report</p>'
    yield f"<h1>{fmt.days(report.start, report.end)}</h1>"
    yield (
        f'<p class="about"><bdi>{fmt.text(report.selection[:1].upper() + report.selection[1:])}</bdi>'
        f" · {fmt.many(report.days, 'day', 'days')} · days in {fmt.text(report.zone)}</p>"
    )
    if report.unfinished:
        yield f'<p class="unfinished"><strong>Not over yet:</strong> {fmt.text(report.unfinished)}.</p>'
    yield "</header>"


def _figures(report: Figures) -> Iterator[str]:
    yield '<section class="grid figures" aria-label="Key figures">'
    yield _figure("Clicks", "total", report.total, (*_change(report), *_average(report)))
    links = f"{_data('links', report.links)} {'link' if report.links == 1 else 'links'}"
    if report.links_clicked is None:
        yield _figure("Links", "links", report.links, ())
    else:
        share = fmt.share(report.links_clicked, report.links)
        yield _figure("Links with clicks", "links-clicked", report.links_clicked, (f"of {links}, {share}",))
    if report.busiest is None:
        yield _figure("Busiest day", "busiest", 0, ("no day has clicks",))
    else:
        when, clicks = report.busiest
        note = f'<time datetime="{when}">{fmt.weekday(when)}</time>'
        if not report.stats.days_complete:
            note += ", of the days that were sent"
        if when == report.partial_day:
            note += ", so far"
        yield _figure("Busiest day", "busiest", clicks, (note,))
    yield _unique(report)
    yield "</section>"


def _figure(name: str, key: str, value: int, notes: tuple[str, ...], bound: str = "") -> str:
    most = f'<span class="most">{bound}</span>' if bound else ""
    lines = "".join(f"<p>{note}</p>" for note in notes)
    return (
        f'<div class="card figure"><h2>{name}</h2><p class="value">{most}{_data(key, value)}</p>{lines}</div>'
    )


def _data(key: str, value: int) -> str:
    return f'<data id="{key}" value="{value}">{fmt.number(value)}</data>'


def _change(report: Figures) -> tuple[str, ...]:
    if report.before_span is None:
        return ("no day of the span is over",)
    first, last = report.before_span
    length = "day" if report.days_over == 1 else fmt.many(report.days_over, "day", "days")
    place = "before" if report.is_complete else "at the start of the span before"
    before = (
        f"{_data('before', report.before)} in the {length} {place}, "
        f'<span id="before-span">{fmt.days(first, last)}</span>'
    )
    if report.change is None:
        return (before,)
    kind, arrow = ("up", "▲ ") if report.change > 0 else ("down", "▼ ")
    if not report.change:
        kind, arrow = "even", ""
    change = f'<data id="change" value="{report.change!r}">{fmt.change(report.change)}</data>'
    if not report.is_complete:
        before = f"{before}; today is left out"
    return (f'<span class="{kind}"><span aria-hidden="true">{arrow}</span>{change}</span> against {before}',)


def _average(report: Figures) -> tuple[str, ...]:
    average = report.average
    return (f"{average:,.1f} a day on average",) if average is not None and report.days > 1 else ()


def _unique(report: Figures) -> str:
    if report.unique_is_exact:
        return _figure("Unique clicks", "unique", report.unique, (fmt.share(report.unique, report.total),))
    why = (
        "an upper bound: a visitor of several links may be counted once for each"
        if report.unique_from == "years"
        else "an upper bound: the service counts unique clicks of calendar years only"
    )
    return _figure("Unique clicks", "unique", report.unique, (why,), "at most ")


def _body(report: Figures) -> Iterator[str]:
    stats = report.stats
    if not report.total:
        what = "there are no links" if not report.links else "no link has clicks in this span"
        yield f'<section class="card"><h2>Nothing to show</h2><p>No clicks: {what}.</p></section>'
        return
    yield from _days(report)
    yield from _heat(report)
    yield from counts_card("country", "Countries", stats.country, report.total)
    yield from top_links(report)
    yield '<div class="columns">'
    yield from counts_card("referrer", "Referrers", stats.referrer, report.total)
    yield from counts_card("device", "Devices", stats.device, report.total)
    yield from counts_card("browser", "Browsers", stats.browser, report.total)
    yield from counts_card("platform", "Platforms", stats.platform, report.total)
    yield "</div>"


def _days(report: Figures) -> Iterator[str]:
    painter = Painter()
    yield '<section class="card" aria-labelledby="by-day"><h2 id="by-day">Clicks by day</h2>'
    if not report.stats.days_complete:
        yield '<p class="lead">The service left out some days; the others are shown.</p>'
    yield f'<figure role="img" aria-label="{_description(report)}">'
    # Drawn for three widths: scaled to another screen the text would be too small or too large.
    for kind, width, height, labels in (
        ("wide", 1030, 220, 13),
        ("middle", 600, 200, 8),
        ("narrow", 290, 180, 4),
    ):
        svg = days_svg(painter, report, width=width, height=height, labels=labels)
        yield f'<div class="chart {kind}">{svg}</div>'
    yield "</figure>"
    yield from days_table(report)
    yield "</section>"


def _description(report: Figures) -> str:
    """Describe the chart of days for those who cannot see it."""
    text = f"Chart of clicks by day, {fmt.days(report.start, report.end)}"
    if report.busiest:
        when, clicks = report.busiest
        text += f": most on {fmt.weekday(when)}, {fmt.number(clicks)}"
    return f"{text}. The same as a table follows."


def _heat(report: Figures) -> Iterator[str]:
    cells = report.month_weekdays
    most = max((n for row in cells.values() for n in row if n), default=0)
    yield '<section class="card half tall" aria-labelledby="by-weekday">'
    yield '<h2 id="by-weekday">Months and weekdays</h2>'
    yield '<p class="lead">All Mondays, Tuesdays … of a month. The stronger the colour, the more clicks.</p>'
    yield f'<table class="heat{" wide-counts" if most >= 10_000 else ""}" id="heat">'
    yield '<caption class="sr">Clicks by month and weekday</caption>'
    names = "".join(f'<th scope="col">{name}</th>' for name in fmt.WEEKDAYS)
    yield f'<thead><tr><th scope="col"><span class="sr">Month</span></th>{names}</tr></thead><tbody>'
    for (year, month), row in cells.items():
        name = f'<th scope="row">{fmt.MONTHS[month - 1]} {year}</th>'
        yield f"<tr>{name}{''.join(_cell(n, most) for n in row)}</tr>"
    yield "</tbody></table></section>"


def _cell(clicks: int | None, most: int) -> str:
    if clicks is None:
        return "<td></td>"
    return f'<td class="s{heat_step(clicks, most)}">{fmt.number(clicks)}</td>'


def _notes(report: Figures) -> Iterator[str]:
    yield '<section class="card notes" aria-labelledby="notes">'
    yield '<h2 id="notes">How to read these numbers</h2><ul>'
    for head, note in caveats(report):
        yield f"<li><strong>{fmt.text(head)}</strong> {fmt.text(note)}</li>"
    yield "</ul></section>"


def _moment(report: Figures) -> str:
    return f"{fmt.day(report.asked_at.date())}, {report.asked_at:%H:%M} ({report.zone})"
