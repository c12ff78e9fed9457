"""Collection of the figures of a report: its links and the requests about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from .. import (
    AsyncSession,
    DateRange,
    InvalidRequestError,
    NotFoundError,
    PeriodStats,
    RangeStats,
    ShortUrl,
    Year,
)
from .._internal import Key, Keys, Progress, check_slashtag, format_offset, parse_zone
from ..export import Sharing, hourly_clicks, selection
from ._branding import Branding
from ._documents import Report
from ._figures import TopLink, span_before
from ._format import page_of

#: So many tags whose links share slashtags with others are counted by the service, one by one.
MOST_TAGS = 8


class Links:
    """The links of a report, or only their slashtags where these were given."""

    def __init__(self) -> None:
        #: All that were given of each slashtag.
        self.by_slashtag: dict[str, list[Key]] = {}
        self.sharing = Sharing()
        #: Number of listed links that statistics cannot be requested for.
        self.refused = 0

    def add(self, key: Key, *, is_listed: bool) -> None:
        """Add a slashtag or link. Raises InvalidRequestError for a bad one, but not if it is listed."""
        try:
            slashtag = check_slashtag(key)
        except InvalidRequestError:
            if not is_listed:
                raise
            self.refused += 1
            return
        if isinstance(key, ShortUrl) and not is_listed:
            self.sharing.take(key, selected=True)
        self.by_slashtag.setdefault(slashtag, []).append(key)

    def breakdown(
        self, clicks: Mapping[str, int], label_of: Callable[[ShortUrl], str]
    ) -> tuple[dict[str, int], set[str]]:
        """Return clicks by a label of links, and the labels that include clicks of links with another."""
        counts: Counter[str] = Counter()
        shared: set[str] = set()
        for slashtag, number in clicks.items():
            found = {label_of(link) for link in self.by_slashtag[slashtag] if isinstance(link, ShortUrl)}
            counts.update(dict.fromkeys(found, number))
            if len(found) > 1 or slashtag in self.sharing.foreign:
                shared |= found
        # A single label says no more than the total.
        return (dict(counts), shared) if len(counts) > 1 else ({}, set())


async def build(
    session: AsyncSession,
    start: date | str,
    end: date | str,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    timezone: str | tzinfo | None = None,
    places: int = 10,
    hours: bool = False,
    branding: Branding | None = None,
    confirm: Callable[[int], object] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Collect all figures of a report on the clicks from `start` to `end`, both included.

    It is about `keys` (slashtags or ShortUrls, also asynchronous), the links with one of `tags`, or all links
    of the account. Each figure is exact for any number of links and days, unless the report says otherwise.
    The total, days and breakdowns of tags are those of the tags themselves, also where a slashtag belongs to
    further links; rows of links are counted by slashtag.

    Each link is counted alone (`collect_each`), for the `places` links with most clicks, their change, the
    number of links with clicks, and clicks by tag and destination. With `places=0` none of these is in the
    report, which then takes far fewer requests. The change takes at most one request for each of these links
    and 32 days. Tags and destinations (not with `keys`) add up their links, without further requests but the
    listing of tags; the 8 tags with most clicks whose links share a slashtag with links of another tag are
    counted by the service, one request each for 32 days.

    With `hours`, a report of at most 32 days shows the hours of the week: one request for each hour of a day
    with clicks, and each tag or 100 links that have them (`slashtag.export.hourly_clicks`), whose number
    `confirm` is called with before they are sent; it sends none by raising.

    Where the span is not over, clicks up to now are counted, and the days that are over are compared with as
    many days from the start of the span before.

    `progress` is called with (steps done, steps known so far): items listed, requests, slashtags. Raises
    TypeError for a wrong selector, InvalidRequestError before anything is sent, and what a request raises
    (Statistics endpoints).
    """
    if not isinstance(places, int) or places < 0:
        raise InvalidRequestError(f"places is {places!r}; it must be a number of links, 0 or more")
    zone = parse_zone(timezone)
    now = datetime.now(UTC).astimezone(zone)
    today = now.date()
    first, last = _whole_days(start, end, today)
    if hours:
        # Refuses a span that is too long before anything is sent.
        await hourly_clicks(session, first, last, keys=(), timezone=zone)
    before_span = span_before(first, last, today)
    requests = session.metrics.requests
    done = 0

    def step() -> Progress:
        """Return the callback of the next step, which adds to what is done."""
        before = done

        def report(so_far: int, total: int | None) -> None:
            nonlocal done
            done = before + so_far
            if progress is not None:
                progress(done, before + (total or so_far))

        return report

    links = Links()
    if tags is not None and not isinstance(tags, str | bytes):
        tags = list(dict.fromkeys(tags))
    chosen = selection(session, keys, tags, "slashtag", sharing=links.sharing, progress=step())
    async with chosen as (found, _):
        if isinstance(found, AsyncIterable):
            async for key in found:
                links.add(key, is_listed=keys is None)
        else:
            for key in found or ():
                links.add(key, is_listed=False)
    # As links, which `collect_each` sorts by hits.
    every = [found[0] for found in links.by_slashtag.values()]

    async def count(query: DateRange) -> RangeStats:
        """Count all links together."""
        chosen = every if tags is None else None
        return await session.stats.collect(query, keys=chosen, tags=tags, timezone=zone, progress=step())

    async def count_year(year: int) -> PeriodStats | None:
        """Count a calendar year; None where the service has no such statistics or the zone no such year."""
        begin, end = (datetime(n, 1, 1, tzinfo=zone).utcoffset() for n in (year, year + 1))
        if begin is None or begin != end:
            return None
        try:
            return await session.stats.collect(
                Year(year), keys=clicked, tags=tags, timezone=format_offset(begin), progress=step()
            )
        except NotFoundError:
            return None

    async def totals(query: DateRange, **which: Any) -> dict[str, int]:
        """Count slashtags or tags one by one."""
        async with session.stats.collect_each(query, timezone=zone, progress=step(), **which) as each:
            return {name: stats.total async for name, stats in each}

    until = min(last, today)
    span = DateRange(first, until)
    total: RangeStats | None = None
    clicks: dict[str, int] | None = None
    best: list[tuple[str, RangeStats]] = []
    if places:
        none = await session.stats.collect(span, keys=(), timezone=zone)
        async with session.stats.collect_each(span, keys=every, timezone=zone, progress=step()) as each:
            total, clicks, best = await _add_up(each, none, places)
    # Links without clicks in the span need not be asked about.
    clicked = (every if clicks is None else clicks) if tags is None else None
    # Links that share a slashtag with others make the sum of a tag's links more than the tag has.
    stats = total if total is not None and tags is None else await count(span)
    before = await count(DateRange(*before_span)) if before_span else RangeStats()
    years: list[PeriodStats | None] = [None]
    if (first, last) == (date(first.year, 1, 1), date(last.year, 12, 31)):
        years = [await count_year(year) for year in range(first.year, last.year + 1)]
    unique = PeriodStats.merge([year for year in years if year]) if all(years) else None
    befores: dict[str, int] = {}
    if before_span and best:
        befores = await totals(DateRange(*before_span), keys=[slashtag for slashtag, _ in best])
    by_tag, by_page, shared = dict[str, int](), dict[str, int](), set[tuple[str, str]]()
    if keys is None and clicks:
        listed = await session.tags.list(progress=step()).to_list()
        names: dict[int | None, str] = {None: ""} | {tag.id: tag.name for tag in listed}
        by_tag, shared_tags = links.breakdown(clicks, lambda link: names.get(link.tag_id, f"{link.tag_id}"))
        by_page, shared_pages = links.breakdown(clicks, lambda link: page_of(link.destination or ""))
        # The service counts some of the tags whose links would add up to too much.
        counted = sorted(shared_tags - {""}, key=lambda name: -by_tag[name])[:MOST_TAGS]
        by_tag |= await totals(span, tags=counted)
        shared = {("tag", name) for name in shared_tags.difference(counted)}
        shared |= {("destination", page) for page in shared_pages}
    hourly: dict[datetime, int] = {}
    if hours:
        hourly = await hourly_clicks(
            session, first, until, keys=clicked, tags=tags, timezone=zone, confirm=confirm, progress=step()
        )
    foreign = links.sharing.foreign
    return Report(
        start=first,
        end=last,
        zone=str(zone),
        asked_at=now,
        requests=session.metrics.requests - requests,
        selection=_selection(keys, tags, len(every)),
        links=len(every),
        links_clicked=None if clicks is None else len(clicks),
        stats=stats,
        before=before.total,
        before_stats=before if before.days_complete and before.reconciles else RangeStats(),
        unique=None if unique is None else min(stats.total, unique.clicks_unique),
        unique_is_exact=unique is not None and unique.unique_is_exact,
        top=tuple(
            TopLink(
                slashtag=slashtag,
                short_url=getattr(links.by_slashtag[slashtag][0], "short_url", None),
                destination=getattr(links.by_slashtag[slashtag][0], "destination", None),
                clicks=of_link.total,
                before=befores.get(slashtag),
                days=of_link.clicks,
                is_shared=slashtag in foreign,
            )
            for slashtag, of_link in best
        ),
        tag=by_tag,
        destination=by_page,
        shared=frozenset(shared),
        hourly=hourly,
        repeated=len(links.sharing.repeated),
        foreign=len(foreign),
        refused=links.refused,
        branding=branding or Branding(),
    )


async def _add_up(
    each: AsyncIterable[tuple[str, RangeStats]], total: RangeStats, places: int
) -> tuple[RangeStats, dict[str, int], list[tuple[str, RangeStats]]]:
    """Return the sum of links, the clicks of each that has any, and the links with most clicks."""
    clicks: dict[str, int] = {}
    best: list[tuple[str, RangeStats]] = []
    async for slashtag, stats in each:
        if stats.total or not (stats.days_complete and stats.reconciles):
            total = RangeStats.merge([total, stats])
        if stats.total:
            clicks[slashtag] = stats.total
            best.append((slashtag, stats))
            best = sorted(best, key=lambda item: (-item[1].total, item[0]))[:places]
    return total, clicks, best


def _whole_days(start: date | str, end: date | str, today: date) -> tuple[date, date]:
    first, last = DateRange(start, end).bounds
    if isinstance(first, datetime) or isinstance(last, datetime):
        raise InvalidRequestError("a report covers whole days: give dates, not date-times")
    if first > today:
        raise InvalidRequestError(f"the span of the report begins on {first}, after today, {today}")
    if first - date.min <= last - first or last.year > 9998:
        raise InvalidRequestError(f"{start} to {end} lies outside the calendar")
    return first, last


def _selection(keys: Keys | None, tags: Sequence[str] | None, links: int) -> str:
    if keys is not None:
        return "1 chosen link" if links == 1 else f"{links:,} chosen links"
    if tags is None:
        return "all links of the account"
    return f"links tagged {', '.join(tags)}" if tags else "no links"
