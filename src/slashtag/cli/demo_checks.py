"""Comparison of answers with the true figures of a sandbox's account."""

from dataclasses import asdict
from typing import Any

from msgspec import structs

from .. import GeoStats, PeriodStats, ShortUrl, Statistics
from ..sandbox import TrueCountry, TruePeriod, TrueRange, TrueUrl


def differences(stats: Statistics, truth: TrueRange | TruePeriod | TrueCountry) -> list[str]:
    """Return the names of the totals and maps that differ; every label is compared.

    Unique clicks summed from several answers are compared with their bounds.
    """
    true = asdict(truth)
    found: dict[str, Any] = {name: getattr(stats, name) for name in true}
    if isinstance(stats, GeoStats):
        # The service ends each map of places with the rest that it does not name; here that is zero.
        for name, counts in found.items():
            found[name] = {label: n for label, n in counts.items() if (label, n) != ("Other", 0)}
        true["places_are_exact"], found["places_are_exact"] = True, stats.places_are_exact
    if isinstance(stats, PeriodStats) and not stats.unique_is_exact:
        bounds = {
            "clicks_unique": true["clicks_unique"] <= stats.clicks_unique <= true["clicks_total"],
            "clicks_repeated": 0 <= stats.clicks_repeated <= true["clicks_repeated"],
        }
        found |= {name: true[name] for name, holds in bounds.items() if holds}
    return [name for name, value in true.items() if found[name] != value]


def listing_differences(listed: list[ShortUrl], truth: list[TrueUrl]) -> list[str]:
    """Return the fields in which listed links differ; their order counts."""
    if len(listed) != len(truth):
        return ["number of links"]
    wrong: set[str] = set()
    for url, true in zip(listed, truth, strict=True):
        found = structs.asdict(url)
        for name in ("created_at", "updated_at"):
            found[name] = found[name].isoformat(" ")
        wrong.update(name for name, value in found.items() if value != getattr(true, name))
    return sorted(wrong)
