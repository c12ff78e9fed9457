"""The plan of a command, printed instead of carried out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any

from .. import AsyncSession, DateRange, Plan
from .._internal import GUIDED_FROM, SETTLING_SECONDS, Guide, parse_zone

#: Requests/s assumed for a plan unless --rate gives the limit.
ASSUMED_RATE = 20.0


def print_plan(session: AsyncSession, plan: Plan[Any], rate: float | None, *bounds: int) -> None:
    """Print the numbers of batches, windows and requests; `bounds` of these, if they are not the plan's."""
    links = sum(len(selector.keys) for selector in plan.selectors)
    tags = sum(selector.tag is not None for selector in plan.selectors)
    requests = sorted(set(bounds or (len(plan),)))
    speed = rate or ASSUMED_RATE
    why = " (links without clicks cost less)" if len(requests) > 1 else ""
    stated = "--rate" if rate else "assumed; give yours with --rate"
    sent = session.metrics.attempts
    print(f"{'tags' if tags else 'links':9}{tags or links:,}")
    print(f"batches  {len(plan.selectors):,}")
    print(f"windows  {len(plan.time_slices):,}")
    print(f"requests {' to '.join(f'{n:,}' for n in requests)}{why}")
    print(
        f"seconds  {' to '.join(f'{ceil(n / speed):,}' for n in requests)} at {speed:g} requests/s ({stated})"
    )
    print(f"sent     {sent:,}{' (to list the links; nothing else)' if sent else ' (nothing)'}")


def bounds_of_each(plan: Plan[Any], timezone: str | None, range_end: str) -> tuple[int, int]:
    """Return the fewest and the most requests of an answer for each link or tag.

    At least each batch is asked once a window, if it has no clicks there; a window that is not over is asked
    of each link. With three windows or more, all-time statistics of each batch come first and may rule out
    all months but the present and the last one. At most each link is asked in each window, or as many parts
    of batches, and 1 % is spent on what might have saved requests.
    """
    now = datetime.now(UTC)
    batches = len(plan.selectors)
    series = sum(len(selector.keys) or 1 for selector in plan.selectors)
    over = now.timestamp() - SETTLING_SECONDS

    def fewest(time_slices: Sequence[Any]) -> int:
        return sum(batches if part.settled_at < over else series for part in time_slices)

    least = fewest(plan.time_slices)
    most = int(series * len(plan.time_slices) * 1.01)
    if len(plan.time_slices) >= GUIDED_FROM and isinstance(plan.query, DateRange):
        guide = Guide(plan.query, parse_zone(timezone), now)
        least = min(least, fewest(guide.time_slices(guide.always, range_end)))
        least += len(guide.offsets) * batches
        most += (len(guide.offsets) + (guide.in_utc is not None)) * batches
    return least, most
