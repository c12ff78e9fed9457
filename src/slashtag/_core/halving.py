"""Halving: the answer for one half of a batch is the batch's answer minus that for the other half.

A difference is exact only if both answers count the same clicks completely. Otherwise `additive` or
`difference` returns None, and the second half is requested too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from .._models import RangeStats, without_zeros
from .call import SETTLING_SECONDS

K = TypeVar("K")


def of_one_run(whole: float, part: float) -> bool:
    """Return whether two answers may be subtracted, by when the runs that fetched them were at work.

    A journal may hold the answers of several runs, between which clicks have come in.
    """
    return abs(whole - part) <= SETTLING_SECONDS


def additive(stats: RangeStats) -> RangeStats | None:
    """Return an answer in a form that can be subtracted, None if it does not reconcile.

    Its days must lie in the window and add up to the total. Each map must add up to it too, or be empty:
    otherwise it may list only the most frequent labels, and a difference of such maps can be wrong without
    being negative. See docs/service.md, Statistics for a date or date range.
    """
    if not stats.reconciles:
        return None
    maps: dict[str, Any] = {name: without_zeros(getattr(stats, name)) for name in RangeStats.DIMENSIONS}
    return _reconciled(stats.total_clicks, maps)


def difference(whole: RangeStats, part: RangeStats) -> RangeStats | None:
    """Return the difference of two additive answers, None if they are inconsistent."""
    maps: dict[str, Any] = {}
    for name in RangeStats.DIMENSIONS:
        maps[name] = subtract(getattr(whole, name), getattr(part, name))
        if maps[name] is None:
            return None
    return _reconciled(whole.total_clicks - part.total_clicks, maps)


def _reconciled(total: int, maps: dict[str, Any]) -> RangeStats | None:
    for name, counts in maps.items():
        adds_up = sum(counts.values()) == total and all(n > 0 for n in counts.values())
        if not adds_up and (counts or name == "clicks"):
            return None
    return RangeStats(total_clicks=total, **maps)


def subtract(whole: Mapping[K, int], part: Mapping[K, int]) -> dict[K, int] | None:
    """Return the counts of `whole` minus `part`, without zeros; None if one would be negative."""
    rest = dict(whole)
    for label, n in part.items():
        left = rest.get(label, 0) - n
        if left < 0:
            return None
        rest[label] = left
    return without_zeros(rest)
