"""`slashtag top`: the links, or tags, with most clicks, and how these changed."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Self

from typer import Option

from ... import AsyncSession, DateRange, InvalidRequestError, Progress, Query
from ..._by_tag import ByTag
from ..._internal import many, rank
from ..._shared_slashtags import Bounds, Links
from ...export import LINK_COLUMNS, LinkColumns, with_columns
from ...tables import Column, Row, Table
from ..comparison import dates_of, unlike_lengths
from ..output import COLUMNS, OutputOptions, change, columns_of, percent, told_change
from ..run import Run, command
from ..selection import (
    COMPARE,
    PeriodArguments,
    ResolvedPeriod,
    SelectionOptions,
    note_of_shared,
    query_of,
    read_by_tag,
    report_overlap,
)

COUNTS = (
    Column("clicks", "int"),
    Column("percent", "float"),
    Column("clicks_before", "int"),
    Column("change_percent", "float"),
)
#: Bounds of slashtags that links which are not selected have too, where there are any; empty for others.
AT_MOST = Column("clicks_at_most", "int"), Column("clicks_before_at_most", "int")
TOP = Table((Column("slashtag"), *COUNTS))
TOP_TAGS = Table((Column("tag"), *COUNTS))
#: Columns that are drawn, each from this width of the terminal on.
WIDTHS = {
    "slashtag": 0,
    "tag": 0,
    "short_url": 0,
    "destination": 0,
    "clicks": 0,
    "percent": 0,
    "clicks_before": 80,
    "change_percent": 60,
    "clicks_at_most": 0,
}
#: So many links, or tags, are shown unless another number is given.
LIMIT = 20
Spans = tuple[DateRange, DateRange]


@command
async def top(
    period: PeriodArguments,
    selection: SelectionOptions,
    run: Run,
    output: OutputOptions,
    by: Literal["clicks", "growth", "decline", "tag", "tag-growth", "tag-decline"] = Option(
        "clicks",
        help="Links by most clicks; or by most clicks more, or fewer, than before. Tags by the same.",
    ),
    no_clicks: bool = Option(
        False, "--no-clicks", help="The links without clicks, those that had most before first."
    ),
    limit: int | None = Option(
        None, min=1, metavar="N", help="The most links, or tags, to show. Default: 20; all with --no-clicks."
    ),
    compare: str | None = COMPARE,
    columns: str | None = COLUMNS,
) -> None:
    """Show the links or tags with most clicks: their share of all clicks, and how these changed.

    The span is the last 30 days unless given, and is compared with the span before unless --compare says
    otherwise. Whole months are compared with whole months; a span that is not over, with the other one up to
    the same day and time of day. Links are counted in groups of 100, and only the groups with most clicks one
    by one. Links whose clicks fell to 0 are listed --by decline. The service counts links on different
    domains with the same slashtag as one. Where links without the --tag have a slashtag too, its clicks are
    at least what is shown, and at most clicks_at_most, which is empty for other links; it is ranked by what
    it has at least. The last row --by tag is of links without a tag, so that all rows add up to all clicks.
    """
    timezone = selection.timezone
    of_tags, rank_by = by.startswith("tag"), by.removeprefix("tag").strip("-") or "clicks"
    names = columns_of(columns)
    with_columns(TOP, names)  # refuses other columns
    if no_clicks and by != "clicks":
        raise InvalidRequestError(f"--no-clicks is of links without clicks, and goes without --by {by}")
    limit = limit if no_clicks else limit or LIMIT
    if of_tags and names:
        raise InvalidRequestError("--columns goes with links, not with tags")
    resolved = period.resolve(timezone, compare, default="30d")
    last: list[Ranked] = []
    idle: int | None = 0
    async with run.session() as session:
        with run.bars() as start_bar:
            progress = start_bar("reading", "links")
            selected = await selection.resolve(run, session, progress, lists_all=of_tags or bool(names))
            spans = resolved.so_far, resolved.before
            if of_tags:
                by_tag = await read_by_tag(run, session, selected, progress)
                progress = start_bar("counting", "tags")
                total, now, before = await _count_tags(run, session, by_tag, resolved, timezone, progress)
                found = [Ranked.known(name, clicks, before[name]) for name, clicks in now.items()]
                last = [each for each in found if each.name == by_tag.no_tag]
                found, links = [each for each in found if each.name != by_tag.no_tag], by_tag.links
            else:
                links = await Links.read(session, selected.keys, selected.tags, progress)
                progress = start_bar("counting", "requests")
                count = _LinkCount(session, links, selected.tags, spans, timezone, progress)
                if no_clicks:
                    rank_by = "decline"
                    total, found = await count.without_clicks()
                else:
                    total, found, idle = await count.with_most(limit or LIMIT, rank_by)
        ranked = sorted(
            (each for each in found if no_clicks or each.may_be_ranked(rank_by)),
            key=lambda each: each.rank(rank_by),
            reverse=True,
        )
        shown = [*ranked[:limit], *last]
        # Of the rows only, as it says which of them have several tags.
        of_shown = {} if of_tags else {each.name: links.by_slashtag[each.name] for each in shown}
        if names and selected.keys is not None:  # a given link shares its clicks with others of its slashtag
            all_links = await Links.sharing(session, [*of_shown], progress, selected.listed)
            of_shown = all_links.by_slashtag
        more = await LinkColumns.read(session, names, of_shown)
    if no_clicks and len(shown) < len(ranked):
        run.say(f"{many(len(ranked) - len(shown), 'more link')} without clicks: --limit shows more")
    is_shared = any(each.is_shared for each in shown)
    title = f"top {resolved.text.replace(' to ', '..')}"
    table = with_columns(Table((TOP_TAGS if of_tags else TOP).columns + AT_MOST * is_shared, title), names)
    is_drawn = output.form == "table"
    rows: list[Row] = []
    for each in shown:
        name, *counts = each.row(total, is_drawn=is_drawn)
        rows.append((name, *more.cells(each.name), *counts)[: len(table.columns)])
    output.print(table, rows, {name: WIDTHS[name] for name in table.names if name in WIDTHS})
    if of_tags and (left := [each for each in found if each not in shown and each.clicks.least]):
        clicks = sum(each.clicks.least for each in left)
        why = "--limit shows more" if limit and len(ranked) > limit else f"their clicks are no {rank_by}"
        run.say(f"{many(len(left), 'more tag')} with {many(clicks, 'click')}: {why}")
    # The span before has as many days, or as many whole months.
    if compare is not None and (lengths := unlike_lengths(resolved)):
        run.say(lengths)
    of = many(len(links.by_slashtag), "link")
    if no_clicks:
        of += f", {len(found):,} of them without"
        ends = dates_of(resolved.whole)[1]
        created = [[link.created_at for link in links.by_slashtag[each.name]] for each in found]
        if later := sum(bool(of) and all(at and at.date() > ends for at in of) for of in created):
            run.say(f"{later:,} of these links: created after the span")
    if of_tags:
        of = many(len(found), "tag") + " and of links without one" * bool(last)
    run.say(
        f"{resolved.text}, compared with {resolved.text_before} ({resolved.zone}): "
        f"{many(total, 'click')} of {of}; {output.written}{run.cost()}"
    )
    others = ",".join(name for name in LINK_COLUMNS if name not in names)
    if output.file is not None and others and not of_tags:
        run.say(f"more columns: --columns {','.join([*names, others])}")
    if not of_tags and not no_clicks and idle != 0:
        told = "links" if idle is None else many(idle, "link")
        run.say(f"--no-clicks lists the {told} without clicks")
    if links.uncountable:
        run.warn(f"{many(len(links.uncountable), 'link')} whose slashtag cannot be requested", "left out: ")
    if selection.tag and (shared := links.repeated | links.foreign):
        run.say(note_of_shared(len(shared)))


async def _count_tags(
    run: Run,
    session: AsyncSession,
    by_tag: ByTag,
    resolved: ResolvedPeriod,
    timezone: str | None,
    progress: Progress,
) -> tuple[int, dict[str, int], dict[str, int]]:
    """Return the clicks of all, and those of each tag now and before; print what is missing of them."""
    queries = [query_of(session, span, timezone) for span in (resolved.so_far, resolved.before)]
    (stats, now, too_many), (_, before, _) = [
        await by_tag.count(session, query, timezone=timezone, progress=progress) for query in queries
    ]
    report_overlap(run, too_many, is_over=resolved.is_over)
    of_now, of_before = [{name: counts[""] for name, counts in each.items()} for each in (now, before)]
    return stats.total, of_now, of_before


class _LinkCount(NamedTuple):
    """How links are counted in two spans; those of `tags` by what may be theirs of shared slashtags."""

    session: AsyncSession
    links: Links
    tags: list[str] | None
    spans: Spans
    timezone: str | None
    progress: Progress

    async def with_most(self, limit: int, by: Any) -> tuple[int, list["Ranked"], int | None]:
        """Return the clicks of all links, the first ones, and how many links have none, None if unknown.

        Among the first are slashtags that others have too.
        """
        (query, before), stats = self._queries, self.session.stats
        keys = self.links.keys_of(self.links.own)
        ranking = await rank(
            stats, query, limit, keys=keys, before=before, by=by, timezone=self.timezone, step=self._step
        )
        total, shared = await self._with_shared(ranking.total)
        found = [*(Ranked.known(*place) for place in ranking.places), *shared]
        idle = None if ranking.idle is None else ranking.idle + sum(not each.clicks.most for each in shared)
        return total, found, idle

    async def without_clicks(self) -> tuple[int, list["Ranked"]]:
        """Return the clicks of all links, and the links that have, or may have, none."""
        query, before = self._queries
        clicks = await self._count_each(query, self.links.own)
        earlier = await self._count_each(before, [key for key in self.links.own if not clicks[key]])
        total, shared = await self._with_shared(sum(clicks.values()))
        found = [Ranked.known(key, 0, count) for key, count in earlier.items()]
        return total, [*found, *(each for each in shared if not each.clicks.least)]

    async def _with_shared(self, total: int) -> tuple[int, list["Ranked"]]:
        """Return the clicks of all links, and the slashtags that other links have too."""
        if not self.links.foreign:
            return total, []
        now, before = [
            await self.links.shares(self.session, span, timezone=self.timezone, progress=self._step)
            for span in self.spans
        ]
        shared = [Ranked(key, share.total, before[key].total, is_shared=True) for key, share in now.items()]
        of_tags = await self.session.stats.collect(self._queries[0], tags=self.tags, timezone=self.timezone)
        # Less only if the service contradicts itself, which is counted.
        return max(of_tags.total, total + sum(each.clicks.least for each in shared)), shared

    async def _count_each(self, query: Query[Any], slashtags: Iterable[str]) -> dict[str, int]:
        keys, collect_each = self.links.keys_of(slashtags), self.session.stats.collect_each
        each = collect_each(query, keys=keys, timezone=self.timezone, progress=self._step)
        return {key: stats.total async for key, stats in each}

    @property
    def _queries(self) -> list[Query[Any]]:
        return [query_of(self.session, span, self.timezone) for span in self.spans]

    def _step(self, *_: object) -> None:
        self.progress(self.session.metrics.requests, None)


class Ranked(NamedTuple):
    """The clicks of a slashtag or a tag, and those it is compared with."""

    name: str
    clicks: Bounds
    before: Bounds
    is_shared: bool = False

    @classmethod
    def known(cls, name: str, clicks: int, before: int) -> Self:
        """Return one whose clicks are known."""
        return cls(name, Bounds(clicks, clicks), Bounds(before, before))

    def rank(self, by: str) -> int:
        """Return by how many clicks it is ranked, those that it has at least."""
        if by == "growth":
            return self.clicks.least - self.before.most
        return self.before.least - self.clicks.most if by == "decline" else self.clicks.least

    def may_be_ranked(self, by: str) -> bool:
        """Whether it may have a place."""
        if by == "growth":
            return self.clicks.most > self.before.least
        return self.before.most > self.clicks.least if by == "decline" else self.clicks.most > 0

    def row(self, total: int, *, is_drawn: bool) -> Row:
        """Return its row of TOP; where that is drawn, with words where a change has no number."""
        (clicks, most), (before, most_before) = self.clicks, self.before
        known = before if self.clicks.are_equal and self.before.are_equal else None
        changed = told_change(clicks, known) if is_drawn else change(clicks, known)
        at_most = (most, most_before) if self.is_shared else (None, None)
        return (self.name, clicks, percent(clicks, total), before, changed, *at_most)
