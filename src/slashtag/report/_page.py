"""The report as one HTML page that opens anywhere: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from . import _format as words
from ._draw import Painter, days_svg, heat_step
from ._tables import counts_card, days_table, top_links

if TYPE_CHECKING:
    from ._figures import Report

#: Nothing may be loaded and nothing may run, whatever a label might hold.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(report: Report) -> str:
    """Return the report as a document."""
    title = f"Clicks, {words.days(report.start, report.end)}"
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="robots" content="noindex">',
            f"<title>{title}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>\n{_style()}</style>",
            "</head>",
            "<body>",
            '<div class="wrap">',
            *_header(report),
            "<main>",
            *_figures(report),
            '<div class="grid">',
            *_body(report),
            *_notes(report),
            "</div>",
            "</main>",
            f"<footer>Asked on {words.text(_moment(report))}, "
            f"with {words.many(report.requests, 'request', 'requests')}.</footer>",
            "</div>",
            "</body>",
            "</html>",
            "",
        )
    )


@cache
def _style() -> str:
    return files(__name__.rpartition(".")[0]).joinpath("style.css").read_text("utf-8")


def _header(report: Report) -> Iterator[str]:
    yield "<header>"
    yield '<p class="over">Click report</p>'
    yield f"<h1>{words.days(report.start, report.end)}</h1>"
    yield (
        f'<p class="about"><bdi>{words.text(report.selection[:1].upper() + report.selection[1:])}</bdi>'
        f" · {words.many(report.days, 'day', 'days')} · days in {words.text(report.zone)}</p>"
    )
    yield "</header>"


def _figures(report: Report) -> Iterator[str]:
    yield '<section class="grid figures" aria-label="Key figures">'
    yield _figure("Clicks", "total", report.total, (*_change(report), *_average(report)))
    least = "" if report.links_clicked_is_exact else "at least "
    yield _figure(
        "Links with clicks",
        "links-clicked",
        report.links_clicked,
        (
            f"of {_data('links', report.links)} "
            f"{'link' if report.links == 1 else 'links'}, {words.share(report.links_clicked, report.links)}",
        ),
        least,
    )
    if report.busiest is None:
        yield _figure("Busiest day", "busiest", 0, ("no day has clicks",))
    else:
        when, clicks = report.busiest
        note = f'<time datetime="{when}">{words.weekday(when)}</time>'
        if not report.stats.days_complete:
            note += ", of the days that were told"
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
    return f'<data id="{key}" value="{value}">{words.number(value)}</data>'


def _change(report: Report) -> tuple[str, ...]:
    first, last = report.before_span
    length = "day" if report.days == 1 else words.many(report.days, "day", "days")
    before = (
        f"{_data('before', report.before)} in the {length} before, "
        f'<span id="before-span">{words.days(first, last)}</span>'
    )
    if report.change is None:
        return (before,)
    kind, arrow = ("up", "▲ ") if report.change > 0 else ("down", "▼ ")
    if not report.change:
        kind, arrow = "even", ""
    change = f'<data id="change" value="{report.change!r}">{words.change(report.change)}</data>'
    return (f'<span class="{kind}"><span aria-hidden="true">{arrow}</span>{change}</span> against {before}',)


def _average(report: Report) -> tuple[str, ...]:
    return (f"{report.total / report.days:,.1f} a day on average",) if report.days > 1 else ()


def _unique(report: Report) -> str:
    if report.unique_is_exact:
        return _figure("Unique clicks", "unique", report.unique, (words.share(report.unique, report.total),))
    why = (
        "an upper bound: a visitor of several links may be counted once for each"
        if report.unique_from == "years"
        else "an upper bound: the service counts unique clicks of calendar years only"
    )
    return _figure("Unique clicks", "unique", report.unique, (why,), "at most ")


def _body(report: Report) -> Iterator[str]:
    stats = report.stats
    if not report.total:
        what = "there are no links" if not report.links else "no link has clicks in this span"
        yield f'<section class="card"><h2>Nothing to show</h2><p>Nobody clicked: {what}.</p></section>'
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


def _days(report: Report) -> Iterator[str]:
    painter = Painter()
    yield '<section class="card" aria-labelledby="by-day"><h2 id="by-day">Clicks by day</h2>'
    if not report.stats.days_complete:
        yield '<p class="lead">The service left out some days: this is what it told.</p>'
    yield f'<figure role="img" aria-label="{_told(report)}">'
    # Drawn thrice: scaled to another screen the letters would be too small, or too large.
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


def _told(report: Report) -> str:
    """Say in words what the chart of days shows."""
    told = f"Chart of clicks by day, {words.days(report.start, report.end)}"
    if report.busiest:
        when, clicks = report.busiest
        told += f": most on {words.weekday(when)}, {words.number(clicks)}"
    return f"{told}. The same as a table follows."


def _heat(report: Report) -> Iterator[str]:
    cells = report.month_weekdays
    most = max((n for row in cells.values() for n in row if n), default=0)
    yield '<section class="card half tall" aria-labelledby="by-weekday">'
    yield '<h2 id="by-weekday">Months and weekdays</h2>'
    yield '<p class="lead">All Mondays, Tuesdays … of a month. The stronger the colour, the more clicks.</p>'
    yield f'<table class="heat{" wide-counts" if most >= 10_000 else ""}" id="heat">'
    yield '<caption class="sr">Clicks by month and weekday</caption>'
    names = "".join(f'<th scope="col">{name}</th>' for name in words.WEEKDAYS)
    yield f'<thead><tr><th scope="col"><span class="sr">Month</span></th>{names}</tr></thead><tbody>'
    for (year, month), row in cells.items():
        name = f'<th scope="row">{words.MONTHS[month - 1]} {year}</th>'
        yield f"<tr>{name}{''.join(_cell(n, most) for n in row)}</tr>"
    yield "</tbody></table></section>"


def _cell(clicks: int | None, most: int) -> str:
    if clicks is None:
        return "<td></td>"
    return f'<td class="s{heat_step(clicks, most)}">{words.number(clicks)}</td>'


def _notes(report: Report) -> Iterator[str]:
    yield '<section class="card notes" aria-labelledby="notes">'
    yield '<h2 id="notes">How to read these numbers</h2><ul>'
    for head, note in _caveats(report):
        yield f"<li><strong>{words.text(head)}</strong> {words.text(note)}</li>"
    yield "</ul></section>"


def _caveats(report: Report) -> Iterator[tuple[str, str]]:
    stats = report.stats
    yield "Days", f"are whole days in {report.zone}, the first and the last one included."
    if not report.is_complete:
        yield "Not over yet:", f"the span had not ended when it was asked about, on {_moment(report)}."
    if not stats.days_complete:
        yield (
            "Days are missing:",
            "the service left out the days of some windows. The total is complete, what is told by day, "
            "month and weekday is not.",
        )
    if not stats.reconciles:
        yield (
            "Days and totals differ:",
            "for some windows the days that the service told do not add up to the total that it told.",
        )
    if not report.links_clicked_is_exact:
        yield (
            "Links with clicks",
            "is a lower bound: links were asked about together, and those without clicks not told apart.",
        )
    yield "Unique clicks", _on_unique(report)
    if any(link.by_week for link in report.top):
        yield (
            "Trends",
            "show clicks by week, from Monday; the first and the last week may be cut. Each has a scale of "
            "its own.",
        )
    yield "Labels", "are as the service tells them; Unknown is what it did not recognise."
    for note in report.notes:
        head, _, rest = note.partition(": ")
        yield f"{head}:", rest


def _on_unique(report: Report) -> str:
    if not report.total:
        return "are exact: there is nobody to count."
    if report.unique_is_exact:
        return "are exact: one answer of the service covers all links and days."
    if report.unique_from == "years":
        return (
            "are an upper bound, the sum of what the service counts for the calendar years of the span and "
            "for up to 100 links each: whoever clicked links of several such groups, or in several years, is "
            "counted once in each."
        )
    return (
        "are an upper bound, all clicks: the service counts unique clicks of calendar years only, which say "
        "nothing about this span."
    )


def _moment(report: Report) -> str:
    return f"{words.day(report.asked_at.date())}, {report.asked_at:%H:%M} ({report.zone})"
