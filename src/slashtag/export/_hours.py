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
    Progress,
    parse_zone,
)
from .._internal import check_selector, run_workers, tell, windows

#: The longest span of hours, in days, and the most of them that are counted at once.
MOST_DAYS, WORKERS = 32, 64


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

    The days are counted first, then every hour of a day with clicks, each in a request for a tag or 100
    links. `progress` is called with (hours done, hours to count). A day that is over and whose hours do not
    add up to its clicks is logged as a warning, and counted in `metrics.inconsistent`. A listed link that
    cannot be requested is left out with a warning: `collect` of the same days counts it in `missing`. Raises
    what `collect` raises. See docs/service.md, Statistics for a date or date range.
    """
    check_selector(0, keys=keys, tags=tags)
    session = session._as_one_operation()
    zone, now = parse_zone(timezone), datetime.now(UTC)
    query = DateRange(start, end)
    hours = list(_hours(query, zone))
    if keys is None and tags is None:
        keys = session.urls.list()
    if isinstance(keys, AsyncIterable):
        keys = [key async for key in keys]
    of: dict[str, Any] = {"keys": keys, "tags": None if tags is None else list(tags)}
    days = await session.stats.collect(query, **of, timezone=zone)
    # A day without clicks is known only from days that add up.
    is_known = days.days_complete and days.reconciles
    jobs = [each for each in hours if each[0] <= now and (days.clicks.get(each[0].date()) or not is_known)]
    clicks = {first: 0 for first, _ in hours}
    done = 0

    async def count(hour: tuple[datetime, datetime]) -> None:
        nonlocal done
        stats = await session.stats.collect(DateRange(*hour), **of, timezone=hour[0].tzinfo)
        clicks[hour[0]] = stats.total
        done += 1
        if progress is not None:
            progress(done, len(jobs))

    await run_workers(jobs, count, WORKERS)
    left, today = Counter(days.clicks), now.astimezone(zone).date()
    for hour, counted in clicks.items():
        left[hour.date()] -= counted
    wrong = [day for day, n in left.items() if n and day < today]
    if wrong and days.days_complete:
        text = f"the hours do not add up to the clicks of the day on {', '.join(map(str, wrong))}"
        tell(session.name, logging.WARNING, text)
        session.metrics.inconsistent += len(wrong)
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
