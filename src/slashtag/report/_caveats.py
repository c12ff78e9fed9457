"""What a reader has to know about the numbers of a report, in words."""

from __future__ import annotations

from collections.abc import Iterator

from . import _format as fmt
from ._figures import Figures


def caveats(report: Figures) -> Iterator[tuple[str, str]]:
    """Yield each caveat as its first words and the rest."""
    stats = report.stats
    yield "Days", f"are whole days in {report.zone}, the first and the last one included."
    if report.unfinished:
        yield (
            "Not over yet:",
            f"{report.unfinished}. Averages and the comparison leave out the day that is not over.",
        )
    if not stats.days_complete:
        yield (
            "Days are missing:",
            "the service left out the days of some windows. The total is complete; the figures by day, month "
            "and weekday are not.",
        )
    if not stats.reconciles:
        yield (
            "Days and totals differ:",
            "for some windows the days that the service sent do not add up to the total that it sent.",
        )
    if report.shows_unique:
        yield (
            "Unique clicks",
            "are exact: one answer of the service covers all links and days."
            if report.unique_is_exact
            else "are an upper bound: the sum of what the service counts for each calendar year and for each "
            "tag or group of up to 100 links. A visitor of several of them is counted once in each.",
        )
    yield "Labels", "are as the service sends them; Unknown is what it did not recognise."
    if report.before_span and report.is_complete and report.before_stats.total_clicks:
        yield "Changes", f"below shares compare with {fmt.days(*report.before_span)}."
    for note in report.notes:
        head, _, rest = note.partition(": ")
        yield f"{head}:", rest
