"""Collection of the figures of a report: its links and the requests about them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Any

from .. import AsyncSession, DateRange, InvalidRequestError, Keys, Progress, RangeStats, ShortUrl, parse_zone
from .._internal import many, optional
from ..export import Links, hourly_clicks, names_of_tags
from ._branding import Branding
from ._format import page_of
from ._report import Report, TopLink


async def build(
    session: AsyncSession,
    query: DateRange,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    timezone: str | tzinfo | None = None,
    top: int = 10,
    hours: bool = False,
    branding: Branding | None = None,
    progress: Progress | None = None,
) -> Report:
    """Collect all figures of a report on the clicks of a range of whole days.

    It is about `keys` (slashtags or ShortUrls, also asynchronous), the links with one of `tags`, or all links
    of the account. Each figure is exact for any number of links and days, unless the report says otherwise.
    The total, days and breakdowns of tags are those of the tags themselves, also where a slashtag belongs to
    further links; rows of links are counted by slashtag.

    Each link is counted alone (`collect_each`), for the `top` links with most clicks, their change, the
    number of links with clicks, and clicks by tag and destination. With `top=0` none of these is in the
    report, which then takes far fewer requests. The change takes at most one request for each of these links
    and 32 days. Tags and destinations (not with `keys`) add up their links, without further requests but the
    listing of tags; tags whose links share a slashtag with links of another tag are counted by the service,
    one request each for 32 days.

    With `hours`, a report of at most 32 days shows the hours of the week: one request for each hour of a day
    with clicks, and each tag or 100 links that have them (`slashtag.export.hourly_clicks`).

    The range is compared with the previous one (`DateRange.with_previous`): whole months with whole months.
    One that is not over is counted up to now.

    `progress` is called with (steps done, steps known so far): items listed, requests, slashtags. Raises
    TypeError for a wrong selector, InvalidRequestError before anything is sent, and what a request raises
    (Statistics endpoints).
    """
    zone = parse_zone(timezone)
    now = datetime.now(UTC).astimezone(zone)
    start, end, span, previous = _whole_days(query, zone, now)
    if not isinstance(top, int) or top < 0:
        raise InvalidRequestError(f"top is {top!r}; it must be a number of links, 0 or more")
    if hours:
        # Refuses a span that is too long before anything is sent.
        await hourly_clicks(session, *span.bounds, keys=(), timezone=zone)
    if tags is not None and not isinstance(tags, str | bytes):
        tags = list(dict.fromkeys(tags))
    collector, requests_before = _Collector(session, zone, progress), session.metrics.requests
    links = await Links.read(session, keys, tags, collector.step())

    # Clicks in all, and of each link
    selected: dict[str, Any] = {"keys": links.keys} if tags is None else {"tags": tags}
    total, clicks, best = await collector.count_links(span, links.keys, top)
    # Links that share a slashtag with others make the sum of a tag's links more than the tag has.
    stats = total if top and tags is None else await collector.count(span, selected)

    # The span before, of all links and of the best ones
    before = await collector.count(previous, selected)
    top_links = await collector.compare(best, previous, links)

    # What else there is about links with clicks
    labels = await collector.count_labels(span, links, clicks if keys is None else {})
    hourly: dict[datetime, int] = {}
    if hours:
        clicked: dict[str, Any] = {"keys": links.of(clicks)} if top and tags is None else selected
        hourly = await hourly_clicks(
            session, *span.bounds, **clicked, timezone=zone, progress=collector.step()
        )
    return Report(
        start=start,
        end=end,
        zone=str(zone),
        asked_at=now,
        requests=session.metrics.requests - requests_before,
        selection=_selection(keys, tags, len(links.by_slashtag)),
        links=len(links.by_slashtag),
        links_clicked=len(clicks) if top else None,
        stats=stats,
        before=before.total,
        before_stats=before if before.days_complete and before.reconciles else RangeStats(),
        top=top_links,
        **labels,
        hourly=hourly,
        repeated=len(links.repeated),
        foreign=len(links.foreign),
        uncountable=len(links.uncountable),
        branding=branding or Branding(),
    )


class _Collector:
    """Requests of a report, with one count of progress for all of them."""

    def __init__(self, session: AsyncSession, zone: tzinfo, progress: Progress | None) -> None:
        self._session = session
        self._zone = zone
        self._progress = progress
        self._done = 0

    def step(self) -> Progress:
        """Return the callback of the next step, which adds to what is done."""
        before = self._done

        def advance(done: int, total: int | None) -> object:
            self._done = before + done
            return None if self._progress is None else self._progress(self._done, before + (total or done))

        return advance

    async def count(self, span: DateRange, selected: Mapping[str, Any]) -> RangeStats:
        """Count links or tags together."""
        return await self._session.stats.collect(span, **selected, timezone=self._zone, progress=self.step())

    async def totals(self, session: AsyncSession, span: DateRange, **selected: Any) -> dict[str, int]:
        """Count slashtags or tags one by one."""
        each = session.stats.collect_each(span, **selected, timezone=self._zone, progress=self.step())
        return {name: stats.total for name, stats in (await each.to_dict()).items()}

    async def count_links(
        self, span: DateRange, keys: Iterable[str | ShortUrl], top: int
    ) -> tuple[RangeStats, dict[str, int], dict[str, RangeStats]]:
        """Count each link alone; return the sum, the clicks of those that have any, and the best `top`."""
        clicks: dict[str, int] = {}
        best: list[tuple[str, RangeStats]] = []
        total = await self.count(span, {"keys": ()})
        each = self._session.stats.collect_each(
            span, keys=keys if top else (), timezone=self._zone, progress=self.step()
        )
        async with each:
            async for slashtag, stats in each:
                if stats.total or not (stats.days_complete and stats.reconciles):
                    total += stats
                if stats.total:
                    clicks[slashtag] = stats.total
                    best = sorted([*best, (slashtag, stats)], key=lambda item: (-item[1].total, item[0]))
                    del best[top:]
        return total, clicks, dict(best)

    async def compare(
        self, best: Mapping[str, RangeStats], previous: DateRange, links: Links
    ) -> tuple[TopLink, ...]:
        """Return the best links with their clicks in the span before."""
        before, foreign = await self.totals(self._session, previous, keys=links.of(best)), links.foreign
        return tuple(
            TopLink(
                slashtag=slashtag,
                short_url=next((link.short_url for link in links.by_slashtag[slashtag]), None),
                destination=next((link.destination for link in links.by_slashtag[slashtag]), None),
                clicks=stats.total,
                before=before[slashtag],
                by_day=stats.clicks,
                is_shared=slashtag in foreign,
            )
            for slashtag, stats in best.items()
        )

    async def count_labels(self, span: DateRange, links: Links, clicks: Mapping[str, int]) -> dict[str, Any]:
        """Return the fields `tag`, `destination` and `shared` of a report, from the clicks of slashtags.

        A single label says no more than the total. Tags whose links would add up to too much are counted by
        the service.
        """
        if not clicks:
            return {}
        names = await optional(self._session, "clicks by tag", names_of_tags)
        by_tag, shared_tags = dict[str, int](), set[str]()
        if names is not None:
            named: dict[int | None, str] = {None: ""} | names
            by_tag, shared_tags = links.clicks_by(
                lambda link: named.get(link.tag_id, f"{link.tag_id}"), clicks
            )
        by_page, shared_pages = links.clicks_by(lambda link: page_of(link.destination or ""), clicks)
        totals = await optional(
            self._session,
            "clicks of single tags",
            partial(self.totals, span=span, tags=sorted(shared_tags - {""})),
        )
        by_tag |= totals or {}
        shared = {("tag", name) for name in shared_tags.difference(totals or ())}
        shared |= {("destination", page) for page in shared_pages}
        return {"tag": by_tag, "destination": by_page, "shared": frozenset(shared)}


def _whole_days(query: DateRange, zone: tzinfo, now: datetime) -> tuple[date, date, DateRange, DateRange]:
    """Return the first and last day, what can be counted of them, and what that is compared with."""
    if not isinstance(query, DateRange):
        raise InvalidRequestError(f"a report is about a DateRange, not {query!r}")
    query = query.resolve(zone, now)
    start, end = query.bounds
    if isinstance(start, datetime) or isinstance(end, datetime):
        raise InvalidRequestError("a report covers whole days: give dates, not date-times")
    if start > now.date():
        raise InvalidRequestError(f"the span of the report begins on {start}, after today, {now.date()}")
    return (start, end, *query.with_previous(zone, now))


def _selection(keys: Keys | None, tags: Sequence[str] | None, links: int) -> str:
    if keys is not None:
        return many(links, "chosen link")
    if tags is None:
        return "all links of the account"
    return f"links tagged {', '.join(tags)}" if tags else "no links"
