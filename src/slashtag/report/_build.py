"""How a report comes to be: which links, what is asked about them, what is to be said with it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from datetime import UTC, date, datetime, tzinfo
from typing import Literal

from msgspec import Struct

from .._core.selectors import check_slashtag
from .._core.split import format_offset, offset_at, parse_zone
from .._errors import InvalidRequestError, NotFoundError
from .._models import RangeStats, ShortUrl, Tag
from .._resources.collect import Key, Keys
from .._resources.listing import Progress
from .._session import AsyncSession
from ..export._jobs import ids_of
from ._ask import Asking, ContradictionError, Count, Meter
from ._figures import Report, TopLink
from ._search import Search
from ._span import Span


class Chosen(Struct):
    """Collect the slashtags of a report, each once, and what the listing tells about them."""

    hits: dict[str, int] = {}
    short_urls: dict[str, str | None] = {}
    shared: int = 0
    refused: int = 0
    foreign: int = 0

    def add(self, key: Key) -> None:
        """Take a slashtag or a link. Raises InvalidRequestError where it cannot be asked for."""
        slashtag = check_slashtag(key)
        if not isinstance(key, ShortUrl):
            self.hits.setdefault(slashtag, 0)
            return
        self.shared += slashtag in self.short_urls
        self.hits[slashtag] = self.hits.get(slashtag, 0) + key.hits
        self.short_urls.setdefault(slashtag, key.short_url)

    @property
    def unclicked(self) -> set[str]:
        """Give the slashtags that the listing says never had a click."""
        return {key for key in self.short_urls if not self.hits[key]}

    @property
    def keys(self) -> list[str]:
        """Give the slashtags, those with most hits first: neighbours are asked for together."""
        return sorted(self.hits, key=lambda key: -self.hits[key])


async def build(
    session: AsyncSession,
    start: date | str,
    end: date | str,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    timezone: str | tzinfo | None = None,
    places: int = 10,
    count_links: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Ask for all figures of a report on the clicks from `start` to `end`, both included.

    It is about `keys` (slashtags or ShortUrls, also asynchronous), the links that bear one of `tags`, or all
    links of the account. `places` links with most clicks are told apart. Each figure is exact for any number
    of links and days, unless the report says otherwise.

    For b batches of at most 100 links and w windows of at most 32 days it takes about 2bw requests, for
    three windows or more about b(w + 3), as all-time months then stand in for most of the span before, and w
    for each of the `places`, whose links are found by counting groups. To know how many links have clicks
    takes up to one request for each link that ever had any: without `count_links` a lower bound is told.

    `progress` is called with (requests done, requests known of so far). Raises TypeError for a wrong
    selector, InvalidRequestError before anything is asked, and what a request raises (Statistics endpoints).
    """
    _check(keys, tags, places)
    zone = parse_zone(timezone)
    now = datetime.now(UTC)
    span = Span(start, end, zone, now)
    tags = None if tags is None else list(dict.fromkeys(tags))
    meter = Meter(progress)
    asked = session.metrics.requests
    chosen = await _choose(session, keys, tags, meter)
    try:
        asking = Asking(session, span, zone, meter, guided=True)
        found = await _find(asking, span, chosen, places, count_links=count_links)
    except (ContradictionError, NotFoundError):
        asking = Asking(session, span, zone, meter, guided=False)
        found = await _find(asking, span, chosen, places, count_links=count_links)
    count, clicked, top = found
    unique, unique_is_exact, unique_from = await _unique(asking, span, zone, count)
    return Report(
        start=span.first,
        end=span.last,
        zone=_zone_name(timezone, zone, now),
        asked_at=now.astimezone(zone),
        requests=session.metrics.requests - asked,
        selection=_selection(keys, tags, len(chosen.hits)),
        links=len(chosen.hits),
        links_clicked=clicked,
        links_clicked_is_exact=count_links,
        stats=count.stats,
        before=count.before,
        unique=unique,
        unique_is_exact=unique_is_exact,
        unique_from=unique_from,
        top=tuple(
            TopLink(slashtag=key, short_url=chosen.short_urls.get(key), clicks=stats.total, days=stats.clicks)
            for key, stats in top
        ),
        notes=tuple(_notes(chosen)),
    )


def _check(keys: object, tags: object, places: object) -> None:
    if keys is not None and tags is not None:
        raise TypeError("at most one of keys= and tags= selects what a report is about")
    for name, given in (("keys", keys), ("tags", tags)):
        if isinstance(given, str | bytes):
            raise TypeError(f"{name}= takes an iterable, not one {type(given).__name__}: {name}=[...]")
    if not isinstance(places, int) or places < 0:
        raise InvalidRequestError(f"places is {places!r}; it must be a number of links, 0 or more")


async def _choose(session: AsyncSession, keys: Keys | None, tags: list[str] | None, meter: Meter) -> Chosen:
    chosen = Chosen()
    if isinstance(keys, AsyncIterable):
        async for key in keys:
            chosen.add(key)
        return chosen
    if keys is not None:
        for key in keys:
            chosen.add(key)
        return chosen
    ids: set[int] | None = None
    if tags is not None:
        known: list[Tag] = []
        async with session.tags.list().pages() as tag_pages:
            async for tag_page in tag_pages:
                meter.one()
                known += tag_page.items
        ids = ids_of(tags, known)
    others: set[str] = set()
    async with session.urls.list().pages() as pages:
        async for page in pages:
            meter.one()
            for url in page.items:
                if ids is not None and url.tag_id not in ids:
                    others.add(url.slashtag)
                    continue
                try:
                    chosen.add(url)
                except InvalidRequestError:
                    chosen.refused += 1
    chosen.foreign = len(others & chosen.hits.keys())
    return chosen


async def _find(
    asking: Asking, span: Span, chosen: Chosen, places: int, *, count_links: bool
) -> tuple[Count, int, list[tuple[str, RangeStats]]]:
    """Return the sums, how many links have clicks (at least), and those with most."""
    count = await asking.count(chosen.keys, chosen.unclicked)
    search = Search(asking.weigh, asking.measure, settled=span.has_ended)
    if count_links:
        singles = await search.singles(count.groups)
        return count, await asking.have_clicks(singles), await search.top(singles, places)
    top = await search.top(count.groups, places)
    # Those in place have clicks, and one of each group that has any.
    return count, max(len(top), len(count.groups)), top


async def _unique(
    asking: Asking, span: Span, zone: tzinfo, count: Count
) -> tuple[int, bool, Literal["years", "clicks"]]:
    """Return the most unique clicks there can be, whether that is exact, and what says so."""
    total = count.stats.total
    years = span.years(zone)
    if not total or years is None:
        return total, not total, "clicks"
    keys = [key for group in count.groups for key in group.keys]
    try:
        stats = await asking.unique(keys, years)
    except NotFoundError:
        return total, False, "clicks"
    if span.is_whole_year and stats.unique_is_exact:
        return stats.clicks_unique, True, "years"
    return min(total, stats.clicks_unique), False, "years"


def _zone_name(timezone: str | tzinfo | None, zone: tzinfo, now: datetime) -> str:
    offset = f"UTC{format_offset(offset_at(zone, now))}"
    if timezone is None or offset == "UTC+00:00":
        return "UTC" if timezone is None or isinstance(timezone, str) else str(zone)
    return offset if isinstance(timezone, str) else str(zone)


def _selection(keys: Keys | None, tags: list[str] | None, links: int) -> str:
    if keys is not None:
        return "1 chosen link" if links == 1 else f"{links:,} chosen links"
    if tags is None:
        return "all links of the account"
    return f"links tagged {', '.join(tags)}" if tags else "no links"


def _notes(chosen: Chosen) -> Iterable[str]:
    if chosen.shared:
        yield (
            f"Links that share their slashtag with another one, on another domain: {chosen.shared:,}. "
            "The service counts clicks by slashtag, so such links are one here."
        )
    if chosen.foreign:
        yield (
            f"Slashtags that a link without the tag bears too, on another domain: {chosen.foreign:,}. "
            "The service counts clicks by slashtag, so clicks of those links are included."
        )
    if chosen.refused:
        yield (
            f"Links left out: {chosen.refused:,}. The service cannot be asked about a slashtag that is "
            "empty, holds a comma or is too long."
        )
