"""Measure how much sooner a listing ends that asks for pages ahead.

python benchmarks/listing.py [--size FACTOR] [--rounds N] [--json]

An account of 200 pages of 500 links, answers 20 and 100 ms away; beside it, one page at a time. Each page
that is taken allows one more ahead, up to 8 or 16.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._measure import Row, middle, paired, parser, ratio, report, scaled
from slashtag import AsyncSession

GOALS = {8: ">= 6.5", 16: ">= 9"}


async def read(base_url: str, pages: int, prefetch: int) -> None:
    """Read a listing to its end."""
    async with AsyncSession(base_url, apikey="k" * 24, apisecret="s" * 16) as session:
        items = 0
        async for page in session.urls.list(prefetch=prefetch).pages():
            items += len(page.items)
        assert items == pages * _server.PAGE_SIZE


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Measure at both distances."""
    pages = scaled(200, size, 3)
    for distance in (0.020, 0.100):
        with _server.running(distance, pages) as base_url:
            # Pages are made once by the service: not at the expense of the first.
            asyncio.run(read(base_url, pages, 32))
            work = {
                str(prefetch): partial(lambda ahead: asyncio.run(read(base_url, pages, ahead)), prefetch)
                for prefetch in (1, *GOALS)
            }
            costs = paired(work, rounds, warm=False)
        for prefetch, goal in GOALS.items():
            ahead = costs[str(prefetch)]
            yield Row(
                f"list {pages} pages {1000 * distance:.0f} ms away, {prefetch} ahead / one at a time",
                ratio(costs["1"], ahead, "wall"),
                goal=goal,
                note=f"{middle(ahead, 'wall'):.2f} s, CPU {middle(ahead):.2f} s",
            )


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size, options.rounds or 3), options.json)


if __name__ == "__main__":
    main()
