"""Measure questions of three years: how close to ideal, and what asking in the right order saves.

python benchmarks/spans.py [--size FACTOR] [--rounds N] [--json]

`collect` over 1,250 slashtags is 455 requests: ideal is 455 x 20 ms / 32 for answers 20 ms away, 32 in
flight; start-up is included. `collect_each` is asked about an account where 8 % of the slashtags' months have
clicks, in the sandbox; it is compared with slashtags x windows requests.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._measure import Row, parser, report, scaled
from slashtag import AsyncSession, DateRange
from slashtag.sandbox import Sandbox

SPAN = DateRange("2022-01-01", "2024-12-31")
DISTANCE, IN_FLIGHT = 0.020, 32


async def collect(base_url: str, slashtags: int) -> tuple[int, float]:
    """Collect three years in a new session; return the number of requests and the seconds."""
    keys = [f"campaign-{n}" for n in range(slashtags)]
    began = perf_counter()
    async with AsyncSession(base_url, apikey="k" * 24, apisecret="s" * 16, concurrency=IN_FLIGHT) as session:
        await session.stats.collect(SPAN, keys=keys)
        return session.metrics.attempts, perf_counter() - began


async def each(links: int) -> tuple[float, int, float]:
    """Return the share of months with clicks, the requests sent, and keys x windows by requests sent."""
    with Sandbox(urls=links, clicks=12 * links, tags=0, until="2024-12-31T23:59:59+00:00") as box:
        async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
            keys = list({link.slashtag async for link in session.urls.list()})
            windows = len(session.stats.plan(SPAN, keys=keys[:1]))
            before, months = session.metrics.attempts, 0
            async for _, stats in session.stats.collect_each(SPAN, keys=keys):
                months += len({(day.year, day.month) for day, clicks in stats.clicks.items() if clicks})
            sent = session.metrics.attempts - before
    return months / len(keys) / 36, sent, len(keys) * windows / sent


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Measure the short question, the long one, and the sparse account."""
    with _server.running(str(DISTANCE)) as base_url:
        asyncio.run(collect(base_url, 100))
        for times, goal in ((1, "<= 1.3"), (10, "<= 1.1")):
            slashtags = scaled(1250 * times, size, 100)
            found = [asyncio.run(collect(base_url, slashtags)) for _ in range(rounds)]
            requests = found[0][0]
            seconds = median(took for _, took in found)
            yield Row(
                f"collect 3 years of {slashtags:,} slashtags 20 ms away, {IN_FLIGHT} in flight / ideal",
                seconds / (requests * DISTANCE / IN_FLIGHT),
                goal=goal,
                note=f"{requests:,} requests in {seconds:.2f} s",
            )
    share, sent, saved = asyncio.run(each(scaled(400, size, 20)))
    yield Row(
        "collect_each, 3 years of a sparse account: slashtags x windows / requests",
        saved,
        goal=">= 5",
        note=f"{sent:,} requests; {share:.0%} of the months have clicks",
    )


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size, options.rounds or 5), options.json)


if __name__ == "__main__":
    main()
