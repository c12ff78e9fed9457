"""Accounts on the sandbox, clients of them, and what is compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from slashtag import AsyncSession, DateRange, GeoStats, PeriodStats, RangeStats, RetryPolicy
from slashtag.sandbox import Sandbox, TrueCounts
from tests.support import wire
from tests.support.sending import connect

QUICK = RetryPolicy(max_attempts=15, backoff_base=0.001, backoff_cap=0.002)

START, END = date(2023, 1, 1), date(2025, 12, 31)
YEARS = DateRange(START, END)
KEYS = 1_250
ZONES = ["America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "Asia/Kolkata"]

T = TypeVar("T")

RANGE = ("total_clicks", "clicks", "device", "browser", "platform", "country", "referrer")
PERIOD = (
    "clicks_total",
    "clicks_breakdown",
    "browser",
    "country",
    "device",
    "platform",
    "referrer",
    "timezone",
)


#: Makes a session for a sandbox or a scripted server, quick to retry.
client = partial(connect, retry=QUICK, timeout=30)


@asynccontextmanager
async def serving(
    *, session: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Sandbox, AsyncSession]]:
    """Run a sandbox, empty unless told otherwise, and a session for it."""
    async with (
        Sandbox(**{"urls": 0, "clicks": 0, "tags": 0} | options) as box,
        client(box, **session or {}) as api,
    ):
        yield box, api


@asynccontextmanager
async def scripted(script: wire.Script, **options: Any) -> AsyncIterator[tuple[wire.Wire, AsyncSession]]:
    """Run a scripted server and a session for it."""
    async with wire.Wire(script) as server, client(server, **options) as api:
        yield server, api


def counts(stats: RangeStats | TrueCounts) -> dict[str, Any]:
    """What the truth of a range and its statistics have in common."""
    return {name: getattr(stats, name) for name in RANGE}


def period(stats: PeriodStats | TrueCounts) -> dict[str, Any]:
    """What the truth of a period and its statistics have in common, whatever it was merged of."""
    return {name: getattr(stats, name) for name in PERIOD}


def places(stats: GeoStats | TrueCounts) -> dict[str, dict[str, int]]:
    """The named places of a country."""
    maps = {name: getattr(stats, name) for name in ("state", "city", "postalcode")}
    return {
        name: {label: n for label, n in counts.items() if label != "Other"} for name, counts in maps.items()
    }


class Account:
    """An account in a file, that any number of sandboxes may serve, and its truth."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with Sandbox(store=path, urls=1_300, clicks=40_000, since="2022-12-01T00:00:00+00:00") as box:
            self.keys = list(dict.fromkeys(url.slashtag for url in box.truth.urls()))[:KEYS]
            for zone in ("UTC", *ZONES):
                # The seconds on both sides of what could be cut wrongly.
                for instant in edges(zone):
                    box.add_click(self.keys[7], instant)
        assert len(self.keys) == KEYS

    def serve(self, **options: Any) -> Sandbox:
        """A sandbox of this account, that nobody may change."""
        return Sandbox(store=self.path, **options)

    @cache  # noqa: B019
    def truth(self, zone: str | None = None, keys: tuple[str, ...] | None = None) -> TrueCounts:
        """The truth of three years over these keys, or all."""
        with self.serve() as box:
            return box.truth.range(START, END, keys=keys or self.keys, timezone=zone and ZoneInfo(zone))


def edges(name: str) -> Iterable[datetime]:
    """The seconds around the ends of three years, the transitions of a zone and its midnights then."""
    zone = ZoneInfo(name)
    days = [START, END + timedelta(days=1)]
    at, end = datetime(2023, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    while at < end:
        later = at + timedelta(days=1)
        if later.astimezone(zone).utcoffset() != at.astimezone(zone).utcoffset():
            later = at + timedelta(minutes=30)
        if later.astimezone(zone).utcoffset() != at.astimezone(zone).utcoffset():
            yield from (later + timedelta(seconds=n) for n in (-3601, -3600, -1, 0, 1, 3599, 3600))
            days += [at.astimezone(zone).date() + timedelta(days=n) for n in (0, 1, 2)]
        at = later
    for day in days:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        yield from (midnight.astimezone(UTC) + timedelta(seconds=n) for n in (-1, 0, 1))


async def slowly(items: Iterable[T]) -> AsyncIterator[T]:
    """The same, asynchronously."""
    for item in items:
        await asyncio.sleep(0)
        yield item


def page_of(number: int, ids: Sequence[int], size: int) -> wire.Answer:
    """A page of links, canned."""
    return wire.ok({"page": number, "pageSize": size, "items": [{"id": n, "slashtag": f"s{n}"} for n in ids]})
