"""Collection of the figures of a report: its links and the requests about them."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct

from .. import (
    AsyncSession,
    DateRange,
    InvalidRequestError,
    NotFoundError,
    PeriodStats,
    Query,
    RangeStats,
    ShortUrl,
    Statistics,
    Year,
)
from .._internal import Key, Keys, Progress, check_slashtag, format_offset, parse_zone
from ._figures import TopLink, span_before, unique_years
from ._report import Report

S = TypeVar("S", bound=Statistics)

#: Answers added up at a time: enough to be fast, few enough to hold.
MERGED_AT_ONCE = 200


class Links(Struct):
    """The slashtags of a report, each once, with their short URLs where known."""

    short_urls: dict[str, str | None] = {}
    hits: dict[str, int] = {}
    #: Slashtags of several links of the report, and those that links outside of it have too.
    repeated: set[str] = set()
    foreign: set[str] = set()
    refused: int = 0

    def add(self, key: Key) -> None:
        """Add a slashtag or a link. Raises InvalidRequestError if statistics cannot be requested for it."""
        slashtag = check_slashtag(key)
        short_url = key.short_url if isinstance(key, ShortUrl) else None
        if short_url and self.short_urls.get(slashtag):
            self.repeated.add(slashtag)
        self.short_urls[slashtag] = self.short_urls.get(slashtag) or short_url
        self.hits[slashtag] = self.hits.get(slashtag, 0) + (key.hits if isinstance(key, ShortUrl) else 0)

    @property
    def slashtags(self) -> list[str]:
        """The slashtags, most hits first: links without clicks are then ruled out together, in batches."""
        return sorted(self.hits, key=lambda slashtag: -self.hits[slashtag])

    def notes(self) -> Iterator[str]:
        """Yield what to say about them."""
        if self.repeated:
            yield (
                f"Shared slashtags: {len(self.repeated):,}. Several links, on different domains, have them. "
                "The service counts clicks by slashtag, so such links are one here."
            )
        if self.foreign:
            yield (
                f"Slashtags shared with other links: {len(self.foreign):,}, marked *. Links without the tag, "
                "on another domain, have them too. The service counts clicks of a link by slashtag, so these "
                "rows, and the number of links with clicks, include such links. The total, days and "
                "breakdowns are those of the tag alone."
            )
        if self.refused:
            yield (
                f"Links left out: {self.refused:,}. Statistics cannot be requested for a slashtag that is "
                "empty, holds a comma or is too long."
            )


class ProgressSum:
    """One progress made of the progress of several steps."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._steps: list[tuple[int, int]] = []

    def step(self) -> Progress:
        """Return the callback of one more step."""
        index = len(self._steps)
        self._steps.append((0, 0))

        def report(done: int, total: int | None) -> None:
            self._steps[index] = done, total or done
            if self._progress is not None:
                self._progress(sum(done for done, _ in self._steps), sum(total for _, total in self._steps))

        return report


class PerLink(NamedTuple):
    """Statistics of links, each counted alone: their sum, and the clicks of each that has any."""

    total: RangeStats
    clicks: dict[str, int]
    best: list[tuple[str, RangeStats]]


class Counter:
    """Statistics of the links or tags of one report."""

    def __init__(
        self,
        session: AsyncSession,
        zone: tzinfo,
        steps: ProgressSum,
        keys: Sequence[str],
        tags: Sequence[str] | None,
    ) -> None:
        self._stats = session.stats
        self._zone = zone
        self._steps = steps
        self._keys = keys
        self._tags = tags

    async def all(self, query: Query[S], zone: str | None = None, among: Iterable[str] | None = None) -> S:
        """Count all links together: by tag, or the slashtags `among` them that can have clicks."""
        keys = None if self._tags is not None else self._keys if among is None else list(among)
        return await self._stats.collect(
            query, keys=keys, tags=self._tags, timezone=zone or self._zone, progress=self._steps.step()
        )

    async def year(self, year: int, among: Iterable[str] | None) -> PeriodStats | None:
        """Count a calendar year; None where the service has no such statistics or the zone no such year."""
        begin, end = (datetime(n, 1, 1, tzinfo=self._zone).utcoffset() for n in (year, year + 1))
        if begin is None or begin != end:
            return None
        try:
            return await self.all(Year(year), format_offset(begin), among)
        except NotFoundError:
            return None

    async def each(self, span: DateRange, places: int) -> PerLink:
        """Count each link alone; keep the days of those with most clicks, equals by slashtag."""
        total = await self._stats.collect(span, keys=(), timezone=self._zone)
        clicks: dict[str, int] = {}
        best: list[tuple[str, RangeStats]] = []
        waiting: list[tuple[str, RangeStats]] = []

        def merge() -> None:
            nonlocal total, best
            total = RangeStats.merge([total, *(stats for _, stats in waiting)])
            ranked = sorted(best + waiting, key=lambda item: (-item[1].total, item[0]))
            best = ranked[:places]
            waiting.clear()

        progress = self._steps.step()
        async with self._stats.collect_each(
            span, keys=self._keys, timezone=self._zone, progress=progress
        ) as found:
            async for slashtag, stats in found:
                if stats.total or not (stats.days_complete and stats.reconciles):
                    waiting.append((slashtag, stats))
                if stats.total:
                    clicks[slashtag] = stats.total
                if len(waiting) >= MERGED_AT_ONCE:
                    merge()
        merge()
        return PerLink(total, clicks, [(slashtag, stats) for slashtag, stats in best if stats.total])


async def build(
    session: AsyncSession,
    start: date | str,
    end: date | str,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    timezone: str | tzinfo | None = None,
    places: int = 10,
    progress: Progress | None = None,
) -> Report:
    """Collect all figures of a report on the clicks from `start` to `end`, both included.

    It is about `keys` (slashtags or ShortUrls, also asynchronous), the links with one of `tags`, or all links
    of the account. Each figure is exact for any number of links and days, unless the report says otherwise.
    The total, days and breakdowns of tags are those of the tags themselves, also where a slashtag belongs to
    further links; rows of links are counted by slashtag.

    Each link is counted alone (`collect_each`), for the `places` links with most clicks and the number of
    links with clicks. With `places=0` neither is in the report, which then takes far fewer requests.

    Where the span is not over, clicks up to now are counted, and the days that are over are compared with as
    many days from the start of the span before.

    `progress` is called with (steps done, steps known so far): items listed, requests, slashtags. Raises
    TypeError for a wrong selector, InvalidRequestError before anything is sent, and what a request raises
    (Statistics endpoints).
    """
    _check_selection(keys, tags, places)
    zone = parse_zone(timezone)
    now = datetime.now(UTC).astimezone(zone)
    today = now.date()
    first, last = _whole_days(start, end, today)
    before_span = span_before(first, last, today)
    requests = session.metrics.requests
    steps = ProgressSum(progress)
    tags = None if tags is None else list(dict.fromkeys(tags))
    links = await _list_links(session, keys, tags, steps)
    count = Counter(session, zone, steps, links.slashtags, tags)
    span = DateRange(first, min(last, today))
    each = await count.each(span, places) if places else None
    # Links that share a slashtag with others make the sum of a tag's links more than the tag has.
    stats = each.total if each and tags is None else await count.all(span)
    before = await count.all(DateRange(*before_span)) if before_span else RangeStats()
    unique = await _unique(count, first, last, stats.total, each)
    return Report(
        start=first,
        end=last,
        zone=str(zone),
        asked_at=now,
        requests=session.metrics.requests - requests,
        selection=_selection(keys, tags, len(links.short_urls)),
        links=len(links.short_urls),
        links_clicked=len(each.clicks) if each else None,
        stats=stats,
        before=before.total,
        before_stats=before if before.days_complete and before.reconciles else RangeStats(),
        unique=unique.clicks,
        unique_is_exact=unique.is_exact,
        unique_from=unique.source,
        top=tuple(
            TopLink(
                slashtag=slashtag,
                short_url=links.short_urls[slashtag],
                clicks=of_link.total,
                days=of_link.clicks,
                is_shared=slashtag in links.foreign,
            )
            for slashtag, of_link in (each.best if each else ())
        ),
        notes=tuple(links.notes()),
    )


def _check_selection(keys: object, tags: object, places: object) -> None:
    if keys is not None and tags is not None:
        raise TypeError("at most one of keys= and tags= selects what a report is about")
    for name, given in (("keys", keys), ("tags", tags)):
        if isinstance(given, str | bytes):
            raise TypeError(f"{name}= takes an iterable, not one {type(given).__name__}: {name}=[...]")
    if not isinstance(places, int) or places < 0:
        raise InvalidRequestError(f"places is {places!r}; it must be a number of links, 0 or more")


def _whole_days(start: date | str, end: date | str, today: date) -> tuple[date, date]:
    first, last = DateRange(start, end).bounds
    if isinstance(first, datetime) or isinstance(last, datetime):
        raise InvalidRequestError("a report covers whole days: give dates, not date-times")
    if first > today:
        raise InvalidRequestError(f"the span of the report begins on {first}, after today, {today}")
    if first - date.min <= last - first or last.year > 9998:
        raise InvalidRequestError(f"{start} to {end} lies outside the calendar")
    return first, last


async def _list_links(
    session: AsyncSession, keys: Keys | None, tags: Sequence[str] | None, steps: ProgressSum
) -> Links:
    links = Links()
    if isinstance(keys, AsyncIterable):
        async for key in keys:
            links.add(key)
    elif keys is not None:
        for key in keys:
            links.add(key)
    else:
        ids = None if tags is None else await _tag_ids(session, tags)
        others: set[str] = set()
        async with session.urls.list(progress=steps.step()) as urls:
            async for url in urls:
                if ids is not None and url.tag_id not in ids:
                    others.add(url.slashtag)
                    continue
                try:
                    links.add(url)
                except InvalidRequestError:
                    links.refused += 1
        links.foreign = others & links.short_urls.keys()
    return links


async def _tag_ids(session: AsyncSession, names: Iterable[str]) -> set[int]:
    known = {tag.name: tag.id for tag in await session.tags.list().to_list()}
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"the account has no tag {name!r}")
    return {known[name] for name in names}


class Unique(NamedTuple):
    """Unique clicks of a span: how many at most, whether exactly so many, and where that comes from."""

    clicks: int
    is_exact: bool
    source: Literal["years", "clicks"]


async def _unique(count: Counter, first: date, last: date, total: int, each: PerLink | None) -> Unique:
    """Ask for the unique clicks of the calendar years of a span: the service counts no others."""
    years = unique_years(first, last)
    if not total or years is None:
        return Unique(total, not total, "clicks")
    found: list[PeriodStats] = []
    for year in years:
        stats = await count.year(year, each.clicks if each else None)
        if stats is None:
            return Unique(total, False, "clicks")
        found.append(stats)
    stats = PeriodStats.merge(found)
    if stats.unique_is_exact and (first, last) == (date(last.year, 1, 1), date(last.year, 12, 31)):
        return Unique(stats.clicks_unique, True, "years")
    return Unique(min(total, stats.clicks_unique), False, "years")


def _selection(keys: Keys | None, tags: Sequence[str] | None, links: int) -> str:
    if keys is not None:
        return "1 chosen link" if links == 1 else f"{links:,} chosen links"
    if tags is None:
        return "all links of the account"
    return f"links tagged {', '.join(tags)}" if tags else "no links"
