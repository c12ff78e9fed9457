"""The links with most clicks, found with few requests.

The service counts any 100 links in one request. Groups of links are counted together; the groups with most
clicks are halved until the first places are all held by single links: no link has more clicks than its group.
Where many places are asked for, a table of all links takes fewer requests.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from heapq import nlargest
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from .._core.batches import Key, Keys, check_iterable, check_slashtag, halves, in_batches
from .._core.queries import DateRange, Query, Year
from .._core.windows import Zone, parse_zone
from .._errors import InvalidRequestError
from .._fanout import results_of
from .._summed_statistics import Statistics

R = TypeVar("R", bound=Statistics)
#: Most clicks; most clicks more, or fewer, than in another span.
RankedBy = Literal["clicks", "growth", "decline"]
#: From one place in so many links on all are counted. Measured: with fewer places that takes more requests.
FEW_LINKS = 20
#: Of so many groups both halves are counted.
CHECKED = 2
CountTogether = Callable[[Sequence[str]], Awaitable[int]]

log = logging.getLogger("slashtag")


class Counting(Protocol):
    """What counts clicks: `session.stats`."""

    @property
    def collect(self) -> Callable[..., Awaitable[Any]]:
        """Count links together."""
        ...

    @property
    def collect_each(self) -> Callable[..., Any]:
        """Count links one by one."""
        ...


class TopLink(NamedTuple):
    """One of the first links: its clicks in the span it is ranked by, and in the other one."""

    slashtag: str
    clicks: int
    others: int


class Ranking(NamedTuple, Generic[R]):
    """The clicks of all links, those of the first ones before and now, and their statistics.

    `idle` is the number of links without clicks, None where that is not known.
    """

    total: int
    places: list[TopLink]
    stats: dict[str, R]
    idle: int | None = None


async def rank(
    stats: Counting,
    query: Query[R],
    n: int,
    *,
    keys: Keys,
    before: Query[R] | None = None,
    by: RankedBy = "clicks",
    timezone: Zone = None,
    step: Callable[..., object] = lambda *_: None,
) -> Ranking[R]:
    """Return the first `n` links; with `before` also their clicks then. `step` is called after each request.

    Links of equal clicks come in any order. Raises what `collect` raises (Statistics: common selector).
    """
    zone, at = parse_zone(timezone), datetime.now(UTC)
    # Once: today must not move at midnight.
    query = query.resolve(None if timezone is None else zone, at)
    by_slashtag = await _by_slashtag(keys)
    found: dict[str, R] = {}
    # Clicks of every link, where that takes fewer requests.
    tables: dict[Query[Any], dict[str, Any]] = {}
    slashtags = list(by_slashtag)

    def keys_of(slashtags: Sequence[str]) -> list[Key]:
        return [key for slashtag in slashtags for key in by_slashtag[slashtag]]

    async def count(query: Query[R], slashtags: Sequence[str]) -> int:
        if query in tables:
            parts = [tables[query][slashtag] for slashtag in slashtags]
        else:
            parts = [await stats.collect(query, keys=keys_of(slashtags), timezone=timezone)]
            step()
        if len(slashtags) == 1 and query is not before:
            found[slashtags[0]] = parts[0]
        return sum(part.total for part in parts)

    async def count_before(slashtags: Sequence[str]) -> int:
        return 0 if before is None else await count(before, slashtags)

    asked: Query[Any] = query
    last = date(asked.year, 12, 31) if isinstance(asked, Year) else (asked.span(zone) or [date.max])[-1]
    is_over = last < at.astimezone(zone).date()

    async def count_each(query: Query[Any]) -> None:
        results = stats.collect_each(query, keys=keys_of(slashtags), timezone=timezone, progress=step)
        tables[query] = await results.to_dict()

    for each in (query, before) if n * FEW_LINKS >= len(slashtags) and is_over else ():
        if isinstance(each, DateRange):
            await count_each(each)
    # No link has lost more clicks than it had in the span before.
    now_and_before: tuple[CountTogether, CountTogether] = partial(count, query), count_before
    first, others = now_and_before[::-1] if by == "decline" else now_and_before
    places_of = partial(first_places, first, others, slashtags, n, by_change=by != "clicks")
    try:
        total, places = await places_of(is_fixed=is_over)
    except _NotAdditiveError:
        log.warning("the clicks of two halves of a batch are not those of the batch: links are counted alone")
        for each in filter(None, (query, before)):
            await count_each(each)
        total, places = await places_of()
    if by == "decline":
        total, places = await count(query, slashtags), [TopLink(key, b, a) for key, a, b in places]
    idle = len(slashtags) - len(places) if by == "clicks" and len(places) < n else None
    if query in tables:
        idle = sum(not stats.total for stats in tables[query].values())
    return Ranking(total, places, {place.slashtag: found[place.slashtag] for place in places}, idle)


async def _by_slashtag(keys: Keys) -> dict[str, list[Key]]:
    """Return the links of each slashtag, or it itself, those with most hits first."""
    found: dict[str, list[Key]] = {}
    check_iterable("keys", keys)
    for key in [key async for key in keys] if isinstance(keys, AsyncIterable) else keys:
        try:
            found.setdefault(check_slashtag(key), []).append(key)
        except InvalidRequestError as error:
            if isinstance(key, str):
                raise
            log.warning("a link is left out, as its statistics cannot be requested: %s", error)

    def hits(slashtag: str) -> int:
        return sum(getattr(link, "hits", None) or 0 for link in found[slashtag])

    return {slashtag: found[slashtag] for slashtag in sorted(found, key=hits, reverse=True)}


class _NotAdditiveError(Exception):
    """Clicks of two halves that are not those of the whole: the service counts a part of what is asked."""


async def first_places(
    count: CountTogether,
    count_others: CountTogether,
    keys: Sequence[str],
    limit: int,
    *,
    by_change: bool,
    is_fixed: bool = False,
) -> tuple[int, list[TopLink]]:
    """Return the clicks of all links and at most `limit` with most clicks, or with most more than others.

    `count` counts the clicks of some slashtags in one span, `count_others` those in another one. The order of
    `keys` decides only how many requests it takes: few if links with many clicks are adjacent. Links of
    equal clicks come in any order, the same in every run. If no new clicks can come (`is_fixed`), both halves
    of the first groups are counted, and _NotAdditiveError is raised where they are not the group. Raises what
    counting raises.
    """
    parts = [tuple(part) for part in in_batches(keys)]
    # The highest rank that one of a group can have: their clicks together, but of a single link its rank.
    bounds = dict(zip(parts, await results_of(count, parts), strict=True))
    total, places = sum(bounds.values()), dict[tuple[str, ...], TopLink]()
    checked = nlargest(CHECKED, bounds, key=bounds.__getitem__)

    async def refined(group: tuple[str, ...]) -> dict[tuple[str, ...], int]:
        """Return the bounds of the two halves of a group, or the rank of a single link."""
        if len(group) == 1:
            # Counted anew, as new clicks may have come between two requests.
            clicks, others = await results_of(lambda of: of(group), (count, count_others))
            places[group] = TopLink(group[0], clicks, others)
            return {group: clicks - others if by_change else clicks}
        first, second = map(tuple, halves(group))
        clicks, left = await count(first), bounds[group]
        if is_fixed and group in checked and clicks + await count(second) != left:
            raise _NotAdditiveError
        return {first: clicks, second: max(0, left - clicks)}

    while True:
        best = nlargest(limit, bounds, key=lambda group: (bounds[group], group in places))
        best = [group for group in best if bounds[group] > 0]
        unsettled = [group for group in best if group not in places]
        if not unsettled:
            return total, [places[group] for group in best]
        for group, finer in zip(unsettled, await results_of(refined, unsettled), strict=True):
            del bounds[group]
            bounds |= finer
