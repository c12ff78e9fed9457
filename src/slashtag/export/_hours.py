"""Clicks by hour, which the service counts only as ranges of an hour."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
    ShortUrl,
    parse_zone,
)
from .._internal import WorkerPool
from ._selection import Links

#: The longest span, in days, and the most requests that are prepared at once.
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
    confirm: Callable[[int], object] | None = None,
    progress: Progress | None = None,
) -> dict[datetime, int]:
    """Return the clicks of every hour from `start` to `end`, both included, of at most 32 days.

    Each hour has the datetime of its first second, with the offset that the zone has then: 23 or 25 on a day
    on which the offset changes. A range of datetimes may cut its first and last hour. Counted together are
    `keys` (also asynchronous), the links with one of `tags`, or all links of the account.

    The days are counted first, for each batch of links (or tag) alone. Then every hour of a day with clicks
    takes one request for each batch that has any on that day. `confirm` is called with the number of these
    requests before they are sent, and sends none by raising; `progress` with (requests done, requests known
    so far). A day that is over and whose hours do not add up to its clicks is logged as a warning. Raises
    what `collect` raises (Statistics for a date or date range).
    """
    zone, now = parse_zone(timezone), datetime.now(UTC)
    query = DateRange(start, end).resolve(None if timezone is None else zone, now)
    hours = list(_hours(query, zone))
    clicks = dict.fromkeys((start for start, _ in hours), 0)
    listed: list[str | ShortUrl] | None = None
    if keys is not None or tags is None:
        links = await Links.read(session, keys, tags)
        # The fewer batches have clicks on a day, the fewer requests its hours take.
        listed = sorted([*links.keys, *links.refused], key=lambda key: -(getattr(key, "hits", None) or 0))
    whole = session.stats.plan(query, keys=listed, tags=tags, timezone=zone)
    days = RangeStats()
    jobs: list[tuple[Plan[RangeStats], datetime, datetime]] = []
    done, total = 0, len(whole)

    def step(*_: object) -> object:
        nonlocal done
        done += 1
        return None if progress is None else progress(done, total)

    async def count_days(batch: Plan[RangeStats]) -> None:
        nonlocal days
        stats = await session.stats.run(batch, progress=step)
        days = RangeStats.merge([days, stats])
        # A day without clicks is known only from days that are complete.
        known = stats.days_complete and stats.reconciles
        jobs.extend(
            (batch, *hour) for hour in hours if hour[0] <= now and (stats.clicks[hour[0].date()] or not known)
        )

    async def count_hour(job: tuple[Plan[RangeStats], datetime, datetime]) -> None:
        batch, start, end = job
        (selector,) = batch.selectors
        selected: dict[str, Any] = {"tag": selector.tag} if selector.tag else {"keys": selector.keys}
        stats = await session.stats.collect(DateRange(start, end), **selected, timezone=start.tzinfo)
        clicks[start] += stats.total
        step()

    batches = whole.split(len(whole.selectors)) if whole.selectors else []
    await WorkerPool(batches, count_days, WORKERS).run()
    total += len(jobs)
    if confirm is not None:
        confirm(len(jobs))
    await WorkerPool(jobs, count_hour, WORKERS).run()
    sums: Counter[date] = Counter()
    for hour, count in clicks.items():
        sums[hour.date()] += count
    today = now.astimezone(zone).date()
    wrong = [day for day, count in days.clicks.items() if day < today and sums[day] != count]
    if wrong and days.days_complete:
        log.warning("the hours do not add up to the clicks of the day on %s", ", ".join(map(str, wrong)))
    return clicks


def _hours(query: DateRange, zone: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    """Yield the first and last second of the hours of a range; a change of the offset ends one too."""
    first, last = query.span(zone)
    if (last - first).days >= MOST_DAYS:
        raise InvalidRequestError(f"{first} to {last} is more than the {MOST_DAYS} days of an hourly series")
    for window in (piece.window for piece in query.time_slices(zone, datetime.now(UTC), "inclusive")):
        assert window is not None
        begins = window.start
        while begins <= window.end:
            ends = min(begins.replace(minute=59, second=59), window.end)
            yield begins, ends
            begins = ends + timedelta(seconds=1)
