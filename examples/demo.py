"""The main job on a made-up account: list links, collect their clicks, compare every figure with the truth.

The account is served on this machine and limits its callers, which the client has to find out. `make demo`
runs this. The exit code is 1 if any figure differs.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable
from datetime import date
from typing import Any

from slashtag import AllTime, AsyncSession, CountryGeo, DateRange, Year
from slashtag.sandbox import Sandbox

URLS, CLICKS, RATE = 5_000, 200_000, 60
SPAN = date(2024, 1, 1), date(2024, 12, 31)
#: What a result and the truth both have.
LABELS = "device", "browser", "platform", "country", "referrer"
BY_DAY = "total_clicks", "clicks", *LABELS
BY_MONTH = "clicks_total", "clicks_breakdown", *LABELS
PLACES = "state", "city", "postalcode"


async def run(box: Sandbox) -> bool:
    """Do the job step by step; return whether every figure was exact."""
    session = AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret)
    exact: list[bool] = []

    async def step(what: str, work: Awaitable[Any], truth: Any, members: tuple[str, ...]) -> Any:
        print(f"{what} ...")
        sent, began = session.metrics.attempts, time.perf_counter()
        found: Any = await work
        exact.append(figures(found, members) == figures(truth, members))
        requests, seconds = session.metrics.attempts - sent, time.perf_counter() - began
        number = f"{found.total:,} clicks" if hasattr(found, "total") else f"{len(found):,} links"
        verdict = "as in the click log" if exact[-1] else "NOT as in the click log"
        print(f"  {number} in {requests:,} requests and {seconds:.1f} s: {verdict}")
        return found

    async with session:
        links = await step(
            "Listing all links, page after page",
            session.urls.list().to_list(),
            box.truth.urls(),
            ("id", "slashtag", "short_url", "destination", "hits", "tag_id"),
        )
        await step(
            "Counting every day of 2024 over all links: 100 links and 32 days in a request",
            session.stats.collect(DateRange(*SPAN), keys=links),
            box.truth.range(*SPAN),
            BY_DAY,
        )
        tag = box.truth.tags()[0].name
        await step(
            f"Counting the months of 2024 of the tag {tag!r}",
            session.stats.collect(Year(2024), tag=tag),
            box.truth.year(2024, tag=tag),
            BY_MONTH,
        )
        await step(
            "Counting all time over all links",
            session.stats.collect(AllTime(), keys=links),
            box.truth.alltime(),
            BY_MONTH,
        )
        await step(
            "Counting the places of Germany over all links",
            session.stats.collect(CountryGeo("DE", *SPAN), keys=links),
            box.truth.range(*SPAN, country="DE"),
            PLACES,
        )
        refused = session.metrics.throttled
        print(f"{session.metrics.attempts:,} requests, of which the service refused {refused} with 429.")
    return all(exact)


def figures(found: Any, members: tuple[str, ...]) -> Any:
    """Return what is compared; the service ends places with a rest, which is 0 here."""
    if "slashtag" in members:
        return [[getattr(each, name) for name in members] for each in found]
    values: list[Any] = [getattr(found, name) for name in members]
    return [{key: n for key, n in of.items() if n} if hasattr(of, "items") else of for of in values]


def main() -> int:
    """Serve the account and run the steps on it."""
    print(f"A made-up account of {URLS:,} links and {CLICKS:,} clicks, on this machine.")
    print(f"It allows {RATE} requests a second, which the client has to find out.")
    # In a thread of its own, so that client and service do not share a loop.
    with Sandbox(urls=URLS, clicks=CLICKS, rate=RATE, burst=10, latency=0.02) as box:
        is_exact = asyncio.run(run(box))
    print("Every figure is exact." if is_exact else "Some figures are WRONG.")
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
