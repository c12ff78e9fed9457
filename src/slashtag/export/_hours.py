"""Clicks of every hour of some days, which the service has no statistics of."""

import logging
from collections import Counter
from collections.abc import AsyncIterable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from .. import (
    AsyncSession,
    DateRange,
    InvalidRequestError,
    Keys,
    Plan,
    Progress,
    RangeStats,
    parse_zone,
)
from .._internal import Selector, WorkerPool, by_selector, windows

#: The longest span of hours, in days, and the most requests that are prepared at once.
MOST_DAYS, WORKERS = 32, 64

log = logging.getLogger("slashtag")


async def hourly_clicks(
    session: AsyncSession,
    start: date | str,
    end: date | str,
    *,
    keys: Keys | None = None,
    tags: Iterable[str] | None = None,
    timezone: str | tzinfo | None = None,
    progress: Progress | None = None,
) -> dict[datetime, int]:
    """Return the clicks of every hour from `start` to `end`, both included, of at most 32 days.

    Each hour has the datetime of its first second, with the offset that the zone has then: 23 or 25 on a day
    on which the offset changes. A range of datetimes may cut its first and last hour. Counted together are
    `keys` (also asynchronous), the links with one of `tags`, or all links of the account.

    The days are counted first, for each batch of links (or tag) alone. Then every hour of a day with clicks
    takes one request for each batch that has any on that day. `progress` is
    called with (requests done, requests known so far). A day that is over and whose hours do not add up to
    its clicks is logged as a warning. Raises what `collect` raises (Statistics for a date or date range).
    """
    session = session._as_one_operation()
    zone, now = parse_zone(timezone), datetime.now(UTC)
    query = DateRange(start, end).resolve(None if timezone is None else zone, now)
    hours = list(_hours(query, zone))
    clicks = dict.fromkeys((start for start, _ in hours), 0)
    if keys is None and tags is None:
        keys = session.urls.list()
    if isinstance(keys, AsyncIterable):
        keys = [key async for key in keys]
    whole = session.stats.plan(query, keys=keys, tags=tags, timezone=zone)
    days = RangeStats()
    jobs: list[tuple[Selector, datetime, datetime]] = []
    done, total = 0, len(whole)

    def step(*_: object) -> object:
        nonlocal done
        done += 1
        return None if progress is None else progress(done, total)

    async def count_days(batch: tuple[Selector, Plan[RangeStats]]) -> None:
        nonlocal days
        selector, plan = batch
        stats = await session.stats.run(plan, progress=step)
        days += stats
        # A day without clicks is known only from days that are complete.
        known = stats.days_complete and stats.reconciles
        jobs.extend(
            (selector, first, last)
            for first, last in hours
            if first <= now and (stats.clicks[first.date()] or not known)
        )

    async def count_hour(job: tuple[Selector, datetime, datetime]) -> None:
        selector, first, last = job
        of: dict[str, Any] = {"tag": selector.tag} if selector.tag else {"keys": selector.keys}
        stats = await session.stats.collect(DateRange(first, last), **of, timezone=first.tzinfo)
        clicks[first] += stats.total
        step()

    await WorkerPool(by_selector(whole), count_days, WORKERS).run()
    total += len(jobs)
    await WorkerPool(jobs, count_hour, WORKERS).run()
    left, today = Counter(days.clicks), now.astimezone(zone).date()
    for hour, count in clicks.items():
        left[hour.date()] -= count
    wrong = [day for day, count in left.items() if count and day < today]
    if wrong and days.days_complete:
        log.warning("the hours do not add up to the clicks of the day on %s", ", ".join(map(str, wrong)))
    return clicks


def _hours(query: DateRange, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    """Yield the first and last second of the hours of a range; a change of the offset ends one too."""
    first, last = query.span(zone)
    if (last - first).days >= MOST_DAYS:
        raise InvalidRequestError(f"{first} to {last} is more than the {MOST_DAYS} days of an hourly series")
    for window in windows(*query.bounds, zone):
        begins = window.start
        while begins <= window.end:
            ends = min(begins.replace(minute=59, second=59), window.end)
            yield begins, ends
            begins = ends + timedelta(seconds=1)
