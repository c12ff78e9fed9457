"""Keep to a rate limit that you know, instead of having it learnt."""

import asyncio
from time import perf_counter

from account import account

from slashtag import AsyncSession, DateRange

LIMIT = 50


async def main() -> None:
    began = perf_counter()
    async with AsyncSession(rate=LIMIT) as session:
        stats = await session.stats.collect(DateRange("2022-01-01", "2025-12-31"), keys=session.urls.list())
        metrics = session.metrics
    seconds = perf_counter() - began
    print(
        f"{stats.total} clicks; {metrics.requests} requests in {seconds:.1f} s, {metrics.throttled} refused"
    )


if __name__ == "__main__":
    with account(rate=LIMIT):
        asyncio.run(main())
