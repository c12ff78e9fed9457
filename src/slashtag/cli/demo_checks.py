"""Comparison of answers with the true figures of a sandbox's account."""

from dataclasses import fields
from typing import Any, cast

from .. import GeoStats, PeriodStats, ShortUrl, Statistics
from ..sandbox import TrueCountry, TruePeriod, TrueRange, TrueUrl

Truth = TrueRange | TruePeriod | TrueCountry


def differences(stats: Statistics, truth: Truth) -> list[str]:
    """Return the names of the totals and maps that differ; every label is compared.

    Unique clicks summed from several answers are compared with their bounds.
    """
    wrong = [
        field.name
        for field in fields(truth)
        if field.name not in ("clicks_unique", "clicks_repeated")
        and _plain(getattr(stats, field.name)) != getattr(truth, field.name)
    ]
    if isinstance(stats, PeriodStats) and isinstance(truth, TruePeriod):
        wrong += _unique_differences(stats, truth)
    if isinstance(stats, GeoStats) and not stats.places_are_exact:
        wrong.append("places_are_exact")
    return wrong


def listing_differences(listed: list[ShortUrl], truth: list[TrueUrl]) -> list[str]:
    """Return the fields in which listed links differ; their order counts."""
    if len(listed) != len(truth):
        return ["number of links"]
    wrong: set[str] = set()
    for url, true in zip(listed, truth, strict=True):
        for name in ShortUrl.__struct_fields__:
            value: Any = getattr(url, name)
            if name in ("created_at", "updated_at"):
                value = value.isoformat(" ")
            if value != getattr(true, name):
                wrong.add(name)
    return sorted(wrong)


def _plain(counts: Any) -> Any:
    # The service ends each map of places with the rest that it does not name; here that is zero.
    if not isinstance(counts, dict):
        return counts
    labels = cast("dict[object, object]", counts)
    return {label: n for label, n in labels.items() if (label, n) != ("Other", 0)}


def _unique_differences(stats: PeriodStats, truth: TruePeriod) -> list[str]:
    if stats.unique_is_exact:
        unique_holds = stats.clicks_unique == truth.clicks_unique
        repeated_holds = stats.clicks_repeated == truth.clicks_repeated
    else:
        unique_holds = truth.clicks_unique <= stats.clicks_unique <= truth.clicks_total
        repeated_holds = 0 <= stats.clicks_repeated <= truth.clicks_repeated
    return ["clicks_unique"] * (not unique_holds) + ["clicks_repeated"] * (not repeated_holds)
