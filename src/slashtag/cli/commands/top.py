"""`slashtag top`: the links with most clicks, or with most more or fewer than before."""

from typing import Literal

from typer import Option

from ... import AsyncSession, DateRange, ShortUrl
from ..._wording import many
from ...counts import Compared, Rows, change, compared, count, percent
from ...tables import Row
from ..asking import By, query_of
from ..output import OutputOptions, table_of
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, Selected, SelectionOptions, note_of_shared

TOP = (
    *("slashtag", "id", "destination", "tag", "clicks", "percent"),
    *("compared_with", "clicks_before", "change_percent"),
)
#: Columns that are drawn, each from this width of the terminal on.
WIDTHS = {
    "slashtag": 0,
    "tag": 120,
    "destination": 100,
    "clicks": 0,
    "percent": 0,
    "clicks_before": 80,
    "change_percent": 60,
}
RankedBy = Literal["clicks", "growth", "decline"]


@command
async def top(
    period: PeriodArguments,
    selection: SelectionOptions,
    run: Run,
    output: OutputOptions,
    by: RankedBy = Option("clicks", help="Most clicks, or most clicks more, or fewer, than before."),
    limit: int = Option(20, min=1, metavar="N", help="The most links to show."),
    compare: str | None = COMPARE,
) -> None:
    """Show the links with most clicks: their share of all clicks, and how these changed.

    The span is the last 30 days unless given, compared with the span before. Links that share a slashtag are
    counted as one.
    """
    resolved = period.resolve(selection.timezone, compare, default="30d")
    async with run.session() as session:
        with run.bars() as start_bar:
            progress = start_bar("reading", "links")
            selected = await selection.resolve(run, session, progress)
            listed = selected.listed or await session.urls.list(progress=progress).to_list()
            names = await session.tags.names()
            chosen = _chosen(selected, listed, names)
            start_bar("counting", "requests")
            total, now, before = await _count(
                session, run, chosen, (resolved.so_far, resolved.before), by, limit, selection.timezone
            )
        about = run.about(
            session,
            span=resolved.days,
            timezone=selection.timezone or "+00:00",
            compared_with=resolved.spans.before,
        )
    rows = compared(now, before, "slashtag", resolved.spans)
    ranked = [row for row in sorted(rows, key=lambda row: -_rank(row, by)) if _rank(row, by) > 0][:limit]
    links: dict[str, list[ShortUrl]] = {}
    for link in chosen:
        links.setdefault(link.slashtag or "", []).append(link)
    title = f"top {resolved.days}, compared with {resolved.spans.before}"
    output.print(table_of(TOP, title), [_row(row, links, names, total) for row in ranked], WIDTHS, about)
    if note := note_of_shared(Selected([*chosen], listed=listed).shared):
        # The total and the shares have clicks of links that are not selected too.
        run.warn(note, "shared: ")
    run.say(
        f"{resolved.text}, compared with {resolved.text_before} ({resolved.zone}): {many(total, 'click')} "
        f"of {many(len(links), 'link')}; {output.written}{run.cost()}"
    )
    if output.file is not None:
        run.say(str(about))


def _chosen(selected: Selected, listed: list[ShortUrl], names: dict[int, str]) -> list[ShortUrl]:
    """Return the links that are selected, of all that are listed."""
    if selected.tags is not None:
        return [link for link in listed if names.get(link.tag_id or 0) in selected.tags]
    return [link for link in selected.keys or listed if isinstance(link, ShortUrl)]


async def _count(
    session: AsyncSession,
    run: Run,
    links: list[ShortUrl],
    spans: tuple[DateRange, DateRange],
    by: RankedBy,
    limit: int,
    timezone: str | None,
) -> tuple[int, Rows, Rows]:
    """Return the clicks of all links, those of the links that may be first, and theirs before."""
    stats = session.stats
    # Of a year the clicks of the first places take a twelfth of the requests.
    query, before = [
        query_of(session, span, timezone, By(label="day" * (by != "clicks")), None) for span in spans
    ]
    if by == "clicks":
        first = await stats.top(query, limit, keys=links, timezone=timezone)
        whole = await stats.collect(query, keys=links, timezone=timezone)
        earlier = [link for link in links if link.slashtag in first]
    else:
        first = await stats.collect_each(query, keys=links, timezone=timezone).to_dict()
        whole = await stats.collect(query, keys=(), timezone=timezone)
        whole, earlier = whole.merge(first.values()), links
    run.note_statistics(whole, ("total",))
    then = await stats.collect_each(before, keys=earlier, timezone=timezone).to_dict()
    return whole.total, count(first), count(then)


def _rank(row: Compared, by: RankedBy) -> int:
    more = row.clicks - (row.before or 0)
    return {"clicks": row.clicks, "growth": more, "decline": -more}[by]


def _row(row: Compared, links: dict[str, list[ShortUrl]], names: dict[int, str], total: int) -> Row:
    """Return the row of a slashtag; of several links it has the destinations and tags of all."""
    slashtag = row.labels[0] or ""
    of = links.get(slashtag, [])
    destinations = dict.fromkeys(link.destination or "" for link in of)
    tags = dict.fromkeys(names.get(link.tag_id or 0, "") for link in of)
    return (
        slashtag,
        of[0].id if len(of) == 1 else None,
        ", ".join(filter(None, destinations)) or None,
        ", ".join(filter(None, tags)) or None,
        row.clicks,
        percent(row.clicks, total),
        row.compared_with,
        row.before,
        change(row.clicks, row.before),
    )
