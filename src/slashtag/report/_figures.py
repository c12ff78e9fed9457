"""Collection of the figures of a report: its links and the requests about them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct

from .. import AsyncSession, DateRange, InvalidRequestError, Keys, Progress, RangeStats, ShortUrl, parse_zone
from .._internal import PREVIOUS, many
from .._shared_slashtags import Bounds, Links, Share, names_of_tags
from ..export import hourly_clicks
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
    compare: str = PREVIOUS,
    top: int = 10,
    hours: bool = False,
    branding: Branding | None = None,
    progress: Progress | None = None,
) -> Report:
    """Collect all figures of a report on the clicks of a range of whole days.

    It is about `keys` (slashtags or ShortUrls, also asynchronous), the links with one of `tags`, or all links
    of the account. Each figure is exact for any number of links and days, unless the report says otherwise.
    The total, days and breakdowns of tags are those of the tags themselves, also where a slashtag belongs to
    further links; rows of links are counted by slashtag, and have what the total of the tag leaves for it.

    Each link is counted alone (`collect_each`), for the `top` links with most clicks, their change, the
    number of links with clicks, and clicks by tag and destination. With `top=0` none of these is in the
    report, which then takes far fewer requests. In the span before, the links of destinations are counted
    alone too, so that those are found that had clicks only then; with `keys` only the `top` ones are. Tags
    and destinations (not with `keys`) add up their links, without
    further requests but the listing of tags; tags whose links share a slashtag with links of another tag are
    counted by the service, one request each for 32 days, and links without a tag have what all tags leave of
    the total. In the span before each tag is counted by the service.

    With `hours`, a report of at most 32 days shows the hours of the week: one request for each hour of a day
    with clicks, and each tag or 100 links that have them (`slashtag.export.hourly_clicks`).

    The range is compared with the previous one, or with what `compare` names, as `DateRange.with_previous`
    does: whole months with whole months. One that is not over is counted up to now.

    `progress` is called with (steps done, steps known so far): items listed, requests, slashtags. Raises
    TypeError for a wrong selector, InvalidRequestError before anything is sent, and what a request raises
    (Statistics endpoints).
    """
    session = session._as_one_operation()
    zone = parse_zone(timezone)
    now = datetime.now(UTC).astimezone(zone)
    start, end, span, previous = _whole_days(query, zone, now, compare)
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
    total, clicks, best = await collector.count_links(span, links.keys_of(links.own), top)
    shares = await collector.shares(span, links) if top else {}
    # Links that share a slashtag with others make the sum of a tag's links more than the tag has.
    stats = total if top and tags is None else await collector.count(span, selected)

    # The span before, of all links and of the best ones
    before = await collector.count(previous, selected)

    # What else there is about links with clicks
    bounds = {slashtag: Bounds(n, n) for slashtag, n in clicks.items()}
    bounds |= {slashtag: share.total for slashtag, share in shares.items() if share.most.total}
    of_labels = bounds if keys is None else {}
    by_tag = await collector.count_tags(
        [span, previous], links, of_labels, [stats.total, before.total] if tags is None else []
    )
    pages = _Pages(links, of_labels)
    earlier = await collector.totals(
        session, previous, keys=links.keys_of(dict.fromkeys([*best, *pages.slashtags]))
    )
    by_page = pages.compared(earlier)
    top_links = await collector.compare(best, earlier, shares, previous, links)
    hourly: dict[datetime, int] = {}
    if hours:
        clicked: dict[str, Any] = {"keys": links.keys_of(clicks)} if top and tags is None else selected
        hourly = await hourly_clicks(
            session, *span.bounds, **clicked, timezone=zone, progress=collector.step()
        )
    listed = list(chain(*links.by_slashtag.values()))
    return Report(
        start=start,
        end=end,
        zone=str(zone),
        asked_at=now,
        requests=session.metrics.requests - requests_before,
        compare=compare,
        selection=_selection(keys, tags, len(links.by_slashtag)),
        link=listed[0] if len(listed) == len(links.by_slashtag) == 1 else None,
        links=len(links.by_slashtag),
        links_clicked=sum(each.least > 0 for each in bounds.values()) if top else None,
        stats=stats,
        before=before.total,
        before_stats=before if before.days_complete and before.reconciles else RangeStats(),
        top=top_links[:top],
        tag=by_tag.least,
        tag_before=by_tag.before,
        destination=by_page.least,
        destination_before=by_page.before,
        shared=frozenset(
            (dimension, label)
            for dimension, counts in (("tag", by_tag), ("destination", by_page))
            for label in _ambiguous(counts.clicks)
        ),
        hourly=hourly,
        repeated=len(links.repeated),
        foreign=len(links.foreign),
        uncountable=len(links.uncountable),
        branding=branding or Branding(),
    )


class _Labels(Struct, frozen=True):
    """Clicks of labels, and those that were counted in the span before."""

    clicks: dict[str, Bounds] = {}
    before: dict[str, int] = {}

    @property
    def least(self) -> dict[str, int]:
        """The clicks that labels have at least."""
        return {label: bounds.least for label, bounds in self.clicks.items()}


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

    async def shares(self, span: DateRange, links: Links) -> dict[str, Share]:
        """Return what the selected links may have of slashtags that others have too."""
        return await links.shares(self._session, span, timezone=self._zone, progress=self.step())

    async def compare(
        self,
        best: Mapping[str, RangeStats],
        earlier: Mapping[str, int],
        shares: Mapping[str, Share],
        previous: DateRange,
        links: Links,
    ) -> tuple[TopLink, ...]:
        """Return the best links, and those with a share of a slashtag, compared with the span before.

        `earlier` are the clicks of the best links in that span.
        """
        before = {slashtag: Bounds(n, n) for slashtag, n in earlier.items()}
        shares = {slashtag: share for slashtag, share in shares.items() if share.most.total}
        if shares:
            before |= {key: share.total for key, share in (await self.shares(previous, links)).items()}
        found = [
            TopLink(
                slashtag=slashtag,
                short_url=next((link.short_url for link in links.by_slashtag[slashtag]), None),
                destination=next((link.destination for link in links.by_slashtag[slashtag]), None),
                clicks=share.least.total,
                at_most=share.most.total if slashtag in shares else None,
                before=before[slashtag].least if before[slashtag].are_equal else None,
                by_day=share.least.clicks if share.total.are_equal else {},
                is_shared=slashtag in shares,
            )
            for slashtag, share in [*((key, Share(of, of)) for key, of in best.items()), *shares.items()]
        ]
        return tuple(sorted(found, key=lambda link: (-link.clicks, link.slashtag)))

    async def count_tags(
        self, spans: Sequence[DateRange], links: Links, clicks: Mapping[str, Bounds], totals: Sequence[int]
    ) -> _Labels:
        """Return the clicks of tags in a span and in the one before; nothing if all links have the same one.

        `clicks` are those of slashtags in the span. Tags whose links share slashtags with those of others are
        counted by the service, and so are all in the span before. `totals` are the clicks of all links in
        both spans, if they are selected.
        """
        names = await self._session._optional("clicks by tag", names_of_tags) if clicks else None
        if names is None:
            return _Labels()
        named: dict[int | None, str] = {None: ""} | names
        none = dict.fromkeys(links.by_slashtag, Bounds(0, 0))
        found = links.clicks_by(lambda link: named.get(link.tag_id, f"{link.tag_id}"), {**none, **clicks})
        known = sorted({*found}.intersection(names.values()))

        async def count(span: DateRange, tags: list[str]) -> dict[str, int]:
            request = partial(self.totals, span=span, tags=tags)
            return (await self._session._optional("clicks of single tags", request) if tags else {}) or {}

        ambiguous = [name for name in known if not found[name].are_equal]
        found |= {name: Bounds(n, n) for name, n in (await count(spans[0], ambiguous)).items()}
        before = await count(spans[1], known)
        if totals and "" in found and not links.uncountable:
            # No selector stands for links without a tag: they have what all tags leave.
            if _ambiguous(found) == [""]:
                rest = totals[0] - sum(bounds.least for name, bounds in found.items() if name)
                if found[""].least <= rest <= found[""].most:
                    found[""] = Bounds(rest, rest)
            if before.keys() == {*found} - {""}:
                before[""] = max(0, totals[1] - sum(before.values()))
        return _with_clicks(found, before)


class _Pages:
    """Destinations of links, also of those without clicks; none where no clicks are given."""

    def __init__(self, links: Links, clicks: Mapping[str, Bounds]) -> None:
        none = dict.fromkeys(links.by_slashtag if clicks else (), Bounds(0, 0))
        self._clicks = links.clicks_by(lambda link: page_of(link.destination or ""), {**none, **clicks})
        #: The destination of each slashtag; not of one that links with another, or not selected, have too.
        self._of: dict[str, str] = {}
        shared = set[str]()
        for slashtag, same in links.by_slashtag.items():
            pages = {page_of(link.destination or "") for link in same}
            if len(pages) == 1 and slashtag not in links.foreign:
                self._of[slashtag] = pages.pop()
            else:
                shared |= pages
        #: Those that are compared: all of their slashtags can be counted.
        self._compared = self._clicks.keys() - shared

    @property
    def slashtags(self) -> list[str]:
        """The slashtags that are counted in the span before."""
        return [slashtag for slashtag, page in self._of.items() if page in self._compared]

    def compared(self, earlier: Mapping[str, int]) -> _Labels:
        """Return those that have clicks in either span, given the clicks of slashtags in the span before."""
        before = dict.fromkeys(self._compared, 0)
        for slashtag in self.slashtags:
            before[self._of[slashtag]] += earlier[slashtag]
        return _with_clicks(self._clicks, before)


def _with_clicks(clicks: Mapping[str, Bounds], before: Mapping[str, int]) -> _Labels:
    """Return the labels that have, or may have, clicks in either span; nothing if that is one alone."""
    found = {label: bounds for label, bounds in clicks.items() if bounds.most or before.get(label)}
    known = {label: n for label, n in before.items() if label in found}
    return _Labels(found, known) if len(found) > 1 else _Labels()


def _ambiguous(counts: Mapping[str, Bounds]) -> list[str]:
    """Return the labels whose clicks are not known."""
    return [label for label, bounds in counts.items() if not bounds.are_equal]


def _whole_days(
    query: DateRange, zone: tzinfo, now: datetime, compare: str
) -> tuple[date, date, DateRange, DateRange]:
    """Return the first and last day, what can be counted of them, and what that is compared with."""
    if not isinstance(query, DateRange):
        raise InvalidRequestError(f"a report is about a DateRange, not {query!r}")
    query = query.resolve(zone, now)
    start, end = query.bounds
    if isinstance(start, datetime) or isinstance(end, datetime):
        raise InvalidRequestError("a report covers whole days: give dates, not date-times")
    if start > now.date():
        raise InvalidRequestError(f"the span of the report begins on {start}, after today, {now.date()}")
    return (start, end, *query.with_previous(zone, now, compare))


def _selection(keys: Keys | None, tags: Sequence[str] | None, links: int) -> str:
    if keys is not None:
        return many(links, "chosen link")
    if tags is None:
        return "all links of the account"
    return f"links tagged {', '.join(tags)}" if tags else "no links"
