"""`slashtag top`: the links with most clicks, or with most more or fewer than before."""

from typing import Literal

from typer import Option

from ... import ShortUrl
from ..._wording import many
from ...counts import Compared, compared, comparison, count, percent
from ...export import link_cells
from ..asking import Breakdown, queries_of
from ..output import OutputOptions, table_of
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, Selected, SelectionOptions, in_words, warn_of_shared

TOP = (
    *("slashtag", "id", "destination", "tag", "clicks", "percent"),
    *("compared_with", "clicks_before", "change_percent"),
)
#: Columns that are drawn.
DRAWN = ("slashtag", "tag", "clicks", "percent", "clicks_before", "change_percent")
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
    resolved, zone = period.resolve(selection.timezone, compare, default="30d"), selection.timezone
    against = resolved.spans.before
    async with run.session() as session:
        # Clicks of a year alone take a twelfth of the requests, those of each link fewer of the days.
        of = Breakdown(dimension="day" * (by != "clicks"))
        query, query_before = queries_of(session, [resolved.so_far, resolved.before], zone, of)
        stats = session.stats
        with run.bars() as start_bar:
            progress = start_bar("reading", "links")
            selected = await selection.resolve(run, session, progress)
            listed = selected.listed or await session.urls.list(progress=progress).to_list()
            names = await session.tags.names()
            chosen = listed if selected.keys is None else selected.keys
            if selected.tags is not None:
                chosen = [link for link in listed if names.get(link.tag_id or 0) in selected.tags]
            start_bar("counting", "requests")
            if by == "clicks":
                first = await stats.top(query, limit, keys=chosen, timezone=zone)
            else:
                first = await stats.collect_each(query, keys=chosen, timezone=zone).to_dict()
            whole = await stats.collect(query, keys=chosen, timezone=zone)
            ranked = [link for link in chosen if link.slashtag in first]
            before = await stats.collect_each(query_before, keys=ranked, timezone=zone).to_dict()
        run.note_statistics(whole, ("total",))
        # The total and the shares have clicks of links that are not selected too.
        warn_of_shared(run, Selected(chosen, listed=listed).shared)
        about = run.about(session, span=resolved.days, compared_with=against, **selection.told)
    rows = compared(count(first), count(before), "slashtag", resolved.spans)
    rows = [row for row in sorted(rows, key=lambda row: -_rank(row, by)) if _rank(row, by) > 0][:limit]
    keys = [row.labels[0] or "" for row in rows]
    links: dict[str, list[ShortUrl]] = {}
    for link in chosen:
        links.setdefault(link.slashtag or "", []).append(link)
    table = table_of(TOP)
    cells = [
        (*link_cells(key, links[key], names), row.clicks, percent(row.clicks, whole.total), *comparison(row))
        for key, row in zip(keys, rows, strict=True)
    ]
    written = output.print(table, cells, DRAWN, about)
    total = f"{many(whole.total, 'click')} of {many(len(chosen), 'link')}"
    run.say(f"{in_words(resolved, zone)}, compared with {against}: {total}; {written}{run.cost()}")


def _rank(row: Compared, by: RankedBy) -> int:
    more = row.clicks - (row.before or 0)
    return {"clicks": row.clicks, "growth": more, "decline": -more}[by]
