"""Types of the service's `data`, if they differ from the public models.

An empty map may be `[]` or null; counts are numbers or strings of digits, and lax decoding accepts both.
See docs/service.md, Statistics records.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

Nothing = Annotated[list[Any], Meta(max_length=0)]
Counts = dict[str, int] | Nothing | None
Days = dict[date, int] | Nothing | None
Months = dict[int, dict[int, int] | Nothing | None] | Nothing | None


class RangeAnswer(Struct, gc=False):
    """Answer of statistics for a date or date range."""

    total_clicks: int
    device: Counts = None
    browser: Counts = None
    platform: Counts = None
    country: Counts = None
    referrer: Counts = None
    clicks: Days | UnsetType = UNSET


class PeriodAnswer(Struct, gc=False):
    """Answer of statistics for a year or for all time."""

    clicks_total: int
    clicks_unique: int
    clicks_repeated: int
    clicks_breakdown: Months = None
    browser: Counts = None
    country: Counts = None
    device: Counts = None
    languages: Counts = None
    platform: Counts = None
    referrer: Counts = None
    timezone: Counts = None


class GeoAnswer(Struct, gc=False):
    """Answer of country geo-location statistics."""

    state: Counts = None
    city: Counts = None
    postalcode: Counts = None


class RowsUpdated(Struct, gc=False):
    """Answer of an update."""

    rows_updated: int
