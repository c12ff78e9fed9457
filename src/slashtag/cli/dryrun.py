"""What a command would ask, told instead of asked."""

from datetime import UTC, datetime
from math import ceil
from typing import Any

from .. import AsyncSession, DateRange
from .._core.guide import Guide
from .._core.plan import Plan
from .._core.split import parse_zone
from .._resources.collect_each import GUIDED_FROM

#: Requests/s that a plan is reckoned with where --rate tells none.
ASSUMED_RATE = 20.0


def tell_plan(session: AsyncSession, plan: Plan[Any], rate: float | None) -> None:
    """Print how many batches and windows make how many requests."""
    _tell(session, plan, rate, [len(plan)])


def tell_each(
    session: AsyncSession, plan: Plan[Any], rate: float | None, timezone: Any, range_end: str
) -> None:
    """Print the same for one answer a link or tag: bounds, where all-time statistics guide."""
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
    _tell(session, plan, rate, sorted({least, most}))


def _tell(session: AsyncSession, plan: Plan[Any], rate: float | None, requests: list[int]) -> None:
    links = sum(len(selector.keys) for selector in plan.selectors)
    tags = sum(selector.tag is not None for selector in plan.selectors)
    speed = rate or ASSUMED_RATE
    seconds = " to ".join(f"{ceil(n / speed):,}" for n in requests)
    stated = "--rate" if rate else "assumed; --rate tells yours"
    print(f"{'tags' if tags else 'links':9}{tags or links:,}")
    print(f"batches  {len(plan.selectors):,}")
    print(f"windows  {len(plan.time_slices):,}")
    print(f"requests {' to '.join(f'{n:,}' for n in requests)}{_why(requests)}")
    print(f"seconds  {seconds} at {speed:g} requests/s ({stated})")
    sent = session.metrics.attempts
    print(f"sent     {sent:,}" + (" (to know the links; nothing else)" if sent else " (nothing)"))


def _why(requests: list[int]) -> str:
    return " (links without clicks cost less)" if len(requests) > 1 else ""
