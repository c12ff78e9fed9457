"""Collection of the figures of a report: its links and the requests about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from datetime import UTC, date, datetime, tzinfo
from datetime import timezone as fixed_offset
from typing import Any, TypeVar

from .. import (
    AsyncSession,
    DateRange,
    InvalidRequestError,
    Keys,
    NotFoundError,
    PeriodStats,
    Progress,
    Query,
    RangeStats,
    ShortUrl,
    Statistics,
    UnexpectedResponseError,
    Year,
)
from .._internal import Key, check_slashtag, parse_zone
from ..export import Sharing, hourly_clicks, selection
from ._branding import Branding
from ._format import page_of
from ._report import Report, TopLink, span_before

#: The most tags that are counted by the service, one by one, as their links share slashtags with others.
MOST_TAGS = 8

R = TypeVar("R", bound=Statistics)


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

    if tags is not None and not isinstance(tags, str | bytes):
        tags = list(dict.fromkeys(tags))
    # All links of each slashtag, or the slashtag itself where no more was given.
    links: dict[str, list[Key]] = {}
    sharing, refused = Sharing(), 0
    async with selection(session, keys, tags, "slashtag", sharing=sharing, progress=step()) as (found, _):
        for key in [key async for key in found] if isinstance(found, AsyncIterable) else found or ():
            try:
                links.setdefault(check_slashtag(key), []).append(key)
            except InvalidRequestError:
                if keys is not None:
                    raise
                refused += 1
            else:
                if keys is not None and isinstance(key, ShortUrl):
                    sharing.take(key, selected=True)
    foreign = sharing.foreign
    every = [found[0] for found in links.values()]  # as links, which `collect_each` sorts by hits
    together: dict[str, Any] = {"keys": every} if tags is None else {"tags": tags}

    async def count(query: Query[R], offset: tzinfo = zone) -> R:
        """Count all links together."""
        return await session.stats.collect(query, **together, timezone=offset, progress=step())

    async def count_years() -> PeriodStats | None:
        """Count calendar years; None where the service has no such statistics or the zone no such year."""
        years: list[PeriodStats] = []
        for year in range(first.year, last.year + 1):
            begin, end = (datetime(n, 1, 1, tzinfo=zone).utcoffset() for n in (year, year + 1))
            if begin is None or begin != end:
                return None
            try:
                years.append(await count(Year(year), fixed_offset(begin)))
            except (NotFoundError, UnexpectedResponseError) as error:
                if error.status != 404:
                    raise
                return None
        return PeriodStats.merge(years)

    async def totals(query: DateRange, **which: Any) -> dict[str, int]:
        """Count slashtags or tags one by one."""
        async with session.stats.collect_each(query, timezone=zone, progress=step(), **which) as each:
            return {name: stats.total async for name, stats in each}

    def breakdown(label_of: Callable[[ShortUrl], str]) -> tuple[dict[str, int], set[str]]:
        """Return clicks by a label of links, and the labels that include clicks of links with another."""
        counts, shared = Counter[str](), set[str]()
        for slashtag, number in clicks.items():
            labels = {label_of(link) for link in links[slashtag] if isinstance(link, ShortUrl)}
            counts.update(dict.fromkeys(labels, number))
            if len(labels) > 1 or slashtag in foreign:
                shared |= labels
        # A single label says no more than the total.
        return (dict(counts), shared) if len(counts) > 1 else ({}, set())

    span = DateRange(first, min(last, today))
    stats: RangeStats | None = None
    clicks: dict[str, int] = {}
    best: list[tuple[str, RangeStats]] = []
    if places:
        total = await session.stats.collect(span, keys=(), timezone=zone)
        async with session.stats.collect_each(span, keys=every, timezone=zone, progress=step()) as each:
            async for slashtag, of_link in each:
                if of_link.total or not (of_link.days_complete and of_link.reconciles):
                    total += of_link
                if of_link.total:
                    clicks[slashtag] = of_link.total
                    best = sorted([*best, (slashtag, of_link)], key=lambda item: (-item[1].total, item[0]))
                    del best[places:]
        # Links that share a slashtag with others make the sum of a tag's links more than the tag has.
        stats = total if tags is None else None
    if stats is None:
        stats = await count(span)
    compared = DateRange(*before_span) if before_span else None
    before = await count(compared) if compared else RangeStats()
    if places and tags is None:
        together = {"keys": clicks}  # links without clicks in the span need not be asked about
    is_years = (first, last) == (date(first.year, 1, 1), date(last.year, 12, 31))
    unique = await count_years() if is_years else None
    befores = await totals(compared, keys=[slashtag for slashtag, _ in best]) if compared and best else {}
    by_tag, by_page, shared = dict[str, int](), dict[str, int](), set[tuple[str, str]]()
    if keys is None and clicks:
        listed = await session.tags.list(progress=step()).to_list()
        names: dict[int | None, str] = {None: ""} | {tag.id: tag.name for tag in listed}
        by_tag, shared_tags = breakdown(lambda link: names.get(link.tag_id, f"{link.tag_id}"))
        by_page, shared_pages = breakdown(lambda link: page_of(link.destination or ""))
        # The service counts some of the tags whose links would add up to too much.
        counted = sorted(shared_tags - {""}, key=lambda name: -by_tag[name])[:MOST_TAGS]
        by_tag |= await totals(span, tags=counted)
        shared = {("tag", name) for name in shared_tags.difference(counted)}
        shared |= {("destination", page) for page in shared_pages}
    hourly: dict[datetime, int] = {}
    if hours:
        hourly = await hourly_clicks(
            session, *span.bounds, **together, timezone=zone, confirm=confirm, progress=step()
        )
    return Report(
        start=first,
        end=last,
        zone=str(zone),
        asked_at=now,
        requests=session.metrics.requests - requests,
        selection=_selection(keys, tags, len(every)),
        links=len(every),
        links_clicked=len(clicks) if places else None,
        stats=stats,
        before=before.total,
        before_stats=before if before.days_complete and before.reconciles else RangeStats(),
        unique=None if unique is None else min(stats.total, unique.clicks_unique),
        unique_is_exact=unique is not None and unique.unique_is_exact,
        top=tuple(
            TopLink(
                slashtag=slashtag,
                short_url=getattr(links[slashtag][0], "short_url", None),
                destination=getattr(links[slashtag][0], "destination", None),
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
        repeated=len(sharing.repeated),
        foreign=len(foreign),
        refused=refused,
        branding=branding or Branding(),
    )


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
