"""The figures of a report, and the requests about them."""

import re
from collections import Counter
from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from itertools import chain
from typing import Any

from msgspec import Struct

from .. import AsyncSession, DateRange, InvalidRequestError, Keys, Progress, RangeStats, ShortUrl, parse_zone
from .._internal import check_selector
from .._wording import many
from ..counts import Compared, Period, Rows, Spans, compared, count, no_tag_beside

#: Dimensions of the tables, with their titles, in the order of the page.
DIMENSIONS = {
    "tag": "Tags",
    "destination": "Destinations",
    "country": "Countries",
    "referrer": "Referrers",
    "device": "Devices",
    "browser": "Browsers",
    "platform": "Platforms",
    "weekday": "Weekdays",
}
#: The clicks of a span of more days are shown by week, and of more weeks by month.
MOST_DAYS, MOST_WEEKS = 92, 60


class TopLink(Struct, frozen=True, kw_only=True):
    """One of the links with most clicks; `links` are all with its slashtag, which are counted together."""

    slashtag: str
    links: tuple[ShortUrl, ...]
    clicks: int
    before: int


class Report(Struct, frozen=True, kw_only=True):
    """All figures on the clicks of a span, beside those of the span that it is compared with.

    `spans` has the days of both, in `zone`. `steps` are the clicks of each of its days, weeks or months (as
    `unit` says) and `tables` those of each label of DIMENSIONS, the most first, but for weekdays; one with a
    single label is left out. `top` are the links with most clicks. Of a span that is not over the clicks
    until `asked_at` are counted, and those of the other span until the same day and time. `shared` names the
    slashtags of its links that several links of the account have: rows of links and destinations have the
    clicks of all these. `complete` is False where figures, those of a link too, are missing or contradict
    each other.
    """

    title: str
    account: str
    selection: str
    zone: str
    asked_at: datetime
    spans: Spans
    stats: RangeStats
    before: RangeStats
    unit: str
    steps: list[Compared]
    tables: dict[str, list[Compared]]
    top: tuple[TopLink, ...] = ()
    shared: tuple[str, ...] = ()
    complete: bool = True


async def build(
    session: AsyncSession,
    query: DateRange,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    untagged: bool = False,
    timezone: str | tzinfo | None = None,
    compare: str = "previous",
    top: int = 10,
    title: str = "",
    progress: Progress | None = None,
) -> Report:
    """Collect the figures of a report on the clicks of whole days, and of what they are compared with.

    It is about `keys` (slashtags or ShortUrls; those that no link has are left out), the links with one of
    `tags`, those without a tag (`untagged`), or all links of the account; of these it has a table of tags
    too. `compare` is "previous", "last-year" or a span (see `DateRange.with_previous`). Each link is counted
    alone, for the `top` links with most clicks and the destinations; not with `top=0`, which takes far fewer
    requests.
    `progress` is called with (done, total) of one question after the other. Raises InvalidRequestError before
    anything is sent, TypeError for a wrong selector, and what requests raise. See docs/service.md, Statistics
    for a date or date range.
    """
    check_selector(0, keys=keys, tags=tags, untagged=untagged or None)
    zone = parse_zone(timezone)
    now = datetime.now(UTC).astimezone(zone)
    _, span, previous = period = Period.at(now, query, compare)
    spans = period.spans
    if not isinstance(top, int) or top < 0:
        raise InvalidRequestError(f"top is {top!r}; it must be a number of links, 0 or more")
    counted = session.stats
    options: dict[str, Any] = {"timezone": zone, "progress": progress}
    listed = await session.urls.list(progress=progress).to_list()
    names = None if tags is None else [*dict.fromkeys(tags)]
    chosen = await _chosen(session, listed, keys, names, untagged=untagged)
    of_tags: tuple[Mapping[Any, RangeStats], ...] = ({}, {})
    if keys is None and names is None:
        both = [await counted.by_tag(each, **options) for each in (span, previous)]
        if untagged:
            stats, before = [each[None] for each in both]
        else:
            (stats, before), of_tags = [each.total for each in both], (both[0], both[1])
    else:
        selected: dict[str, Any] = {"keys": chosen} if names is None else {"tags": names}
        stats, before = [await counted.collect(each, **selected, **options) for each in (span, previous)]
    each_link = [await _each_link(session, each, chosen if top else [], options) for each in (span, previous)]
    of_links = [clicks for clicks, _ in each_link]
    label = no_tag_beside({*chain(*of_tags)})
    by_tag: list[Rows] = [{(tag or label,): each.total for tag, each in of.items()} for of in of_tags]
    tables = {"tag": by_tag, "destination": [_by_destination(of, chosen) for of in of_links]}
    days = (spans.last - spans.first).days + 1
    unit = "day" if days <= MOST_DAYS else "week" if days <= 7 * MOST_WEEKS else "month"
    return Report(
        title=title,
        account=session.base_url,
        selection=_in_words(keys, names, len(chosen), untagged=untagged),
        zone=str(zone),
        asked_at=now,
        spans=spans,
        stats=stats,
        before=before,
        unit=unit,
        steps=compared(count(stats, "day"), count(before, "day"), unit, spans),
        tables=_tables(stats, before, tables, spans),
        top=_top(of_links, chosen, top),
        shared=_shared(chosen, listed),
        complete=all(each.complete and not each.incomplete_dimensions for each in (stats, before))
        and all(is_complete for _, is_complete in each_link),
    )


async def _chosen(
    session: AsyncSession,
    listed: list[ShortUrl],
    keys: Keys | None,
    tags: list[str] | None,
    *,
    untagged: bool,
) -> list[ShortUrl]:
    """Return the links that a report is about; raises InvalidRequestError for a tag that does not exist."""
    if untagged:
        return [link for link in listed if link.tag_id is None]
    if tags is not None:
        names = await session.tags.names(tags)
        return [link for link in listed if names.get(link.tag_id or 0) in tags]
    if keys is None:
        return listed
    given = [key async for key in keys] if isinstance(keys, AsyncIterable) else [*keys]
    wanted = {key if isinstance(key, str) else key.slashtag for key in given}
    return [link for link in listed if link.slashtag in wanted]


async def _each_link(
    session: AsyncSession, query: DateRange, links: list[ShortUrl], options: dict[str, Any]
) -> tuple[dict[str, int], bool]:
    """Return the clicks of each slashtag, and whether those of all links are known."""
    of = await session.stats.collect_each(query, keys=links, **options).to_dict()
    # One that cannot be requested is left out.
    are_all = {link.slashtag for link in links} <= of.keys()
    return {slashtag: each.total for slashtag, each in of.items()}, are_all and all(
        each.complete for each in of.values()
    )


def _top(of_links: list[dict[str, int]], links: list[ShortUrl], n: int) -> tuple[TopLink, ...]:
    """Return the slashtags with most clicks, without those that have none, given the clicks of both spans."""
    clicks, before = of_links
    best = sorted(filter(clicks.get, clicks), key=lambda slashtag: (-clicks[slashtag], slashtag))[:n]
    return tuple(
        TopLink(
            slashtag=slashtag,
            links=tuple(link for link in links if link.slashtag == slashtag),
            clicks=clicks[slashtag],
            before=before[slashtag],
        )
        for slashtag in best
    )


def _shared(chosen: Iterable[ShortUrl], listed: Iterable[ShortUrl]) -> tuple[str, ...]:
    """Return the slashtags of links that several links of the account have."""
    number = Counter(link.slashtag for link in listed)
    return tuple(sorted({link.slashtag for link in chosen if link.slashtag and number[link.slashtag] > 1}))


def _by_destination(clicks: Mapping[str, int], links: Iterable[ShortUrl]) -> Rows:
    """Return the clicks of each destination; of links that share a slashtag those of all of them."""
    pages: dict[str, set[str]] = {}
    for link in links:
        pages.setdefault(link.slashtag or "", set()).add(page_of(link.destination or ""))
    found = Counter[tuple[str, ...]]()
    for slashtag, n in clicks.items():
        found[(", ".join(sorted(pages[slashtag])),)] += n
    return dict(found)


def page_of(destination: str) -> str:
    """Return the host and path of a destination: its query may name a campaign, or a person."""
    return re.sub(r"^[a-z]+://([^/@?#]*@)?|/?([?#].*)?$", "", destination, flags=re.I | re.S) or destination


def _tables(
    stats: RangeStats, before: RangeStats, given: Mapping[str, list[Rows]], spans: Spans
) -> dict[str, list[Compared]]:
    """Return the rows of each dimension, `given` or counted; most clicks first, weekdays in their order."""
    found: dict[str, list[Compared]] = {}
    for name in DIMENSIONS:
        now, earlier = given.get(name) or [count(each, name) for each in (stats, before)]
        rows = [row for row in compared(now, earlier, name, spans) if row.clicks or row.before]
        if name != "weekday":
            rows.sort(key=lambda row: (-row.clicks, -(row.before or 0), str(row.labels[0])))
        found[name] = rows
    return {name: rows for name, rows in found.items() if len(rows) > 1}


def _in_words(keys: Keys | None, tags: list[str] | None, links: int, *, untagged: bool) -> str:
    if untagged:
        return f"{many(links, 'link')} without a tag"
    if tags is not None:
        return f"{many(links, 'link')} tagged {', '.join(tags)}"
    return f"all {many(links, 'link')} of the account" if keys is None else many(links, "chosen link")
