"""The plan of a command, printed instead of carried out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any

from .. import AsyncSession, DateRange, Plan
from .._internal import GUIDED_FROM, SETTLING_SECONDS, Guide, parse_zone

#: Requests/s assumed for a plan unless --rate gives the limit.
ASSUMED_RATE = 20.0


def print_plan(session: AsyncSession, plan: Plan[Any], rate: float | None) -> None:
    """Print the numbers of batches, windows and requests of one sum."""
    _print(session, plan, rate, [len(plan)])


def print_plan_of_each(
    session: AsyncSession, plan: Plan[Any], rate: float | None, timezone: Any, range_end: str
) -> None:
    """Print the same for an answer for each link or tag, where requests have two bounds.

    At least each batch is asked once a window, if it has no clicks there; a window that is not over is asked
    of each link. With three windows or more, all-time statistics of each batch come first and may rule out
    all months but the present and the last one. At most each link is asked in each window, or as many parts
    of batches, and 1 % is spent on what might have saved requests.
    """
    zone, now = parse_zone(timezone), datetime.now(UTC)
    batches = len(plan.selectors)
    series = sum(len(selector.keys) or 1 for selector in plan.selectors)
    over = now.timestamp() - SETTLING_SECONDS

    def fewest(time_slices: Sequence[Any]) -> int:
        return sum(batches if part.settled_at < over else series for part in time_slices)

    least = fewest(plan.time_slices)
    most = int(series * len(plan.time_slices) * 1.01)
    if len(plan.time_slices) >= GUIDED_FROM and isinstance(plan.query, DateRange):
        guide = Guide(plan.query, zone, now)
        least = min(least, fewest(guide.time_slices(guide.always, range_end)))
        least += len(guide.offsets) * batches
        most += (len(guide.offsets) + (guide.in_utc is not None)) * batches
    _print(session, plan, rate, sorted({least, most}))


def _print(session: AsyncSession, plan: Plan[Any], rate: float | None, requests: list[int]) -> None:
    links = sum(len(selector.keys) for selector in plan.selectors)
    tags = sum(selector.tag is not None for selector in plan.selectors)
    speed = rate or ASSUMED_RATE
    seconds = " to ".join(f"{ceil(n / speed):,}" for n in requests)
    stated = "--rate" if rate else "assumed; give yours with --rate"
    why = " (links without clicks cost less)" if len(requests) > 1 else ""
    print(f"{'tags' if tags else 'links':9}{tags or links:,}")
    print(f"batches  {len(plan.selectors):,}")
    print(f"windows  {len(plan.time_slices):,}")
    print(f"requests {' to '.join(f'{n:,}' for n in requests)}{why}")
    print(f"seconds  {seconds} at {speed:g} requests/s ({stated})")
    sent = session.metrics.attempts
    print(f"sent     {sent:,}" + (" (to list the links; nothing else)" if sent else " (nothing)"))
