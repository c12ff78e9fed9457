"""Measure the peak memory of long jobs beside short ones, each in a process of its own.

python benchmarks/memory.py [--size FACTOR] [--json]

Listing 2,000 pages and 200; 100,000 statistics requests and 1,000, over the same century of days.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._measure import Row, parser, report, scaled

CENTURY = 100  # years: 1,142 windows of 32 days


def peak(base_url: str, job: str, amount: int, years: int = CENTURY) -> float:
    """Run a job in a process of its own; return its peak in MB."""
    command = [sys.executable, __file__, "--base-url", base_url]
    command += ["--job", job, "--amount", str(amount), "--years", str(years)]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {status}")
    return usage.ru_maxrss / 1024


async def run(base_url: str, job: str, amount: int, years: int) -> None:
    """Do a job: list all pages, or ask about `amount` batches of slashtags."""
    from slashtag import AsyncSession, DateRange

    async with AsyncSession(base_url, apikey="k" * 24, apisecret="s" * 16) as session:
        if job == "pages":
            async for _ in session.urls.list().pages():
                pass
        else:
            keys = (f"k{n}" for n in range(100 * amount))
            await session.stats.collect(DateRange("1925-01-01", f"{1924 + years}-12-31"), keys=keys)


def rows(size: float) -> Iterator[Row]:
    """Compare the long with the short."""
    peaks = list[float]()
    for pages in (scaled(200, size, 10), scaled(2000, size, 100)):
        with _server.running(pages=pages) as base_url:
            peaks.append(peak(base_url, "pages", pages))
    yield _row("listing 2,000 pages / 200", peaks)
    with _server.running() as base_url:
        years = scaled(CENTURY, min(1.0, 10 * size))
        peaks = [peak(base_url, "statistics", batches, years) for batches in (1, scaled(88, size, 2))]
    yield _row("100,000 statistics requests / 1,000", peaks)


def _row(what: str, peaks: list[float]) -> Row:
    short, long = peaks
    note = f"{long:.1f} and {short:.1f} MB"
    return Row(f"peak memory, {what}: difference", long - short, "MB", "<= 2", note)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--job", choices=("pages", "statistics"), help="used by the script itself")
    made.add_argument("--amount", type=int, default=0)
    made.add_argument("--years", type=int, default=CENTURY)
    made.add_argument("--base-url", default="")
    options = made.parse_args()
    if options.job:
        asyncio.run(run(options.base_url, options.job, options.amount, options.years))
    else:
        report(rows(options.size), options.json)


if __name__ == "__main__":
    main()
