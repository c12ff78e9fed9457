"""The plan of a command, printed instead of carried out."""

from collections.abc import AsyncIterable, Callable, Iterable
from datetime import UTC, datetime
from math import ceil
from typing import Any

from .. import AsyncSession, Keys, Plan, Query
from .._internal import FILTERED_FROM, SETTLING_SECONDS

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
    bounds: Callable[[Plan[Any]], tuple[int, int]] | None = None,
) -> None:
    """Print the numbers of batches, windows and requests, these by `bounds` if they are not the plan's."""
    if isinstance(keys, AsyncIterable):
        keys = [key async for key in keys]
    plan = session.stats.plan(query, keys=keys, tags=tags, timezone=timezone)
    requests = sorted({len(plan)} if bounds is None else {*bounds(plan)})
    links = sum(len(selector.keys) for selector in plan.selectors)
    speed = rate or ASSUMED_RATE
    why = " (what has no clicks costs less)" if len(requests) > 1 else ""
    stated = "--rate" if rate else "assumed; give yours with --rate"
    sent = session.metrics.attempts
    print(f"{'links' if tags is None else 'tags':9}{links or len(plan.selectors):,}")
    print(f"batches  {len(plan.selectors):,}")
    print(f"windows  {len(plan.time_slices):,}")
    print(f"requests {' to '.join(f'{n:,}' for n in requests)}{why}")
    print(
        f"seconds  {' to '.join(f'{ceil(n / speed):,}' for n in requests)} at {speed:g} requests/s ({stated})"
    )
    print(f"sent     {sent:,}{' (to list the links; nothing else)' if sent else ' (nothing)'}")


def bounds_of_each(plan: Plan[Any]) -> tuple[int, int]:
    """Return the fewest and the most requests of an answer for each link or tag.

    At least each batch is requested once, or each link if a window is not over. At most each link is
    requested in each window, and each batch twice more; with three windows or more, all-time statistics of
    each batch come first.
    """
    batches, windows = len(plan.selectors), len(plan.time_slices)
    series = sum(len(selector.keys) or 1 for selector in plan.selectors)
    now = datetime.now(UTC).timestamp()
    over = sum(part.settled_at < now - SETTLING_SECONDS for part in plan.time_slices)
    is_over, most = over == windows, series * windows
    if over and series > batches:
        most += batches * (2 * over + (windows >= FILTERED_FROM))
    return batches if is_over else series, most


def bounds_of_hours(plan: Plan[Any]) -> tuple[int, int]:
    """Return the fewest and the most requests of the hours of a plan: none, or all of each batch."""
    first, last = plan.span or (datetime.now(UTC).date(),) * 2
    return len(plan), len(plan) + len(plan.selectors) * (24 * ((last - first).days + 1) + 1)
