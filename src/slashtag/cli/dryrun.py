"""The plan of a command, printed instead of carried out."""

from datetime import UTC, datetime
from math import ceil
from typing import Any

from .. import AsyncSession, DateRange, Plan
from .._internal import GUIDED_FROM, Guide, parse_zone

#: Requests/s assumed for a plan unless --rate gives the limit.
ASSUMED_RATE = 20.0


def print_plan(session: AsyncSession, plan: Plan[Any], rate: float | None) -> None:
    """Print the numbers of batches, windows and requests of one sum."""
    _print(session, plan, rate, [len(plan)])


def print_plan_of_each(
    session: AsyncSession, plan: Plan[Any], rate: float | None, timezone: Any, range_end: str
) -> None:
    """Print the same for an answer for each link or tag.

    Where all-time statistics come first, to find the months with clicks, requests have two bounds.
    """
    series = sum(len(selector.keys) or 1 for selector in plan.selectors)
    windows = len(plan.time_slices)
    most = least = series * windows
    if windows >= GUIDED_FROM and isinstance(plan.query, DateRange):
        zone, now = parse_zone(timezone), datetime.now(UTC)
        guide = Guide(plan.query, zone, now)
        recent = len(guide.time_slices(guide.always, range_end))
        asked = len(guide.offsets) * len(plan.selectors)
        least = asked + series * recent
        shared = sum(len(selector.keys) > 1 for selector in plan.selectors)
        most += len(guide.offsets) * (series + shared)
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
