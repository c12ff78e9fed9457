"""The plan of a command, printed instead of carried out."""

from collections.abc import AsyncIterable, Callable, Iterable
from datetime import UTC, datetime
from math import ceil
from typing import Any

from .. import AsyncSession, Keys, Plan, Query

#: Requests/s assumed for a plan unless --rate gives the limit.
ASSUMED_RATE = 20.0


async def print_plan(
    session: AsyncSession,
    query: Query[Any],
    keys: Keys | None,
    tags: Iterable[str] | None,
    *,
    timezone: str | None,
    rate: float | None,
    most: Callable[[Plan[Any]], int] | None = None,
) -> None:
    """Print the numbers of batches, windows and requests: those of the plan, or at `most` so many."""
    if isinstance(keys, AsyncIterable):
        keys = [key async for key in keys]
    plan = session.stats.plan(query, keys=keys, tags=tags, timezone=timezone)
    requests, bound = (len(plan), "") if most is None else (most(plan), "at most ")
    links = sum(len(selector.keys) for selector in plan.selectors)
    speed, stated = (rate, "--rate") if rate else (ASSUMED_RATE, "assumed; give yours with --rate")
    sent = session.metrics.attempts
    print(f"{'links' if tags is None else 'tags':9}{links or len(plan.selectors):,}")
    print(f"batches  {len(plan.selectors):,}")
    print(f"windows  {len(plan.time_slices):,}")
    print(f"requests {bound}{requests:,}")
    print(f"seconds  {bound}{ceil(requests / speed):,} at {speed:g} requests/s ({stated})")
    print(f"sent     {sent:,}{' (to list the links; nothing else)' if sent else ' (nothing)'}")


def most_of_each(plan: Plan[Any]) -> int:
    """Return the most requests of an answer for each link or tag.

    Each link is requested in each window, and each batch twice more; all-time statistics of a batch come
    first.
    """
    batches, windows = len(plan.selectors), len(plan.time_slices)
    series = sum(len(selector.keys) or 1 for selector in plan.selectors)
    return series * windows + (batches * (2 * windows + 1) if series > batches else 0)


def most_of_hours(plan: Plan[Any]) -> int:
    """Return the most requests of the hours of a plan: all of each batch."""
    first, last = plan.span or (datetime.now(UTC).date(),) * 2
    return len(plan) + len(plan.selectors) * (24 * ((last - first).days + 1) + 1)
