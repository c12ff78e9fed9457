"""Measure what a journal costs: a listing and a collect with it and without, in pairs.

python benchmarks/journal.py [--size LINKS] [--pairs N] [--json]

The goal is a ratio of at most 1.15 in wall time and in this process's CPU time; the service runs in another
process. Also told: the longest time that the journal held up the event loop, and a run that is replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from slashtag import AsyncSession, DateRange
from slashtag.sandbox import Sandbox

GOAL = 1.15
SPAN = DateRange("2022-01-01", "2024-12-31")


def serve(size: int, pipe: Connection) -> None:
    """Run the service until told to stop."""
    with Sandbox(urls=size, clicks=10 * size, tags=5) as box:
        pipe.send((box.base_url, box.apikey, box.apisecret))
        pipe.recv()


class Stalls:
    """Measure the longest call of `find` and of `keep`, which are all that happens on the event loop."""

    def __init__(self, session: AsyncSession) -> None:
        self.longest = 0.0
        journal: Any = session._journal
        for name in ("find", "keep"):
            setattr(journal, name, self._timed(getattr(journal, name)))

    def _timed(self, function: Any) -> Any:
        def timed(*args: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.longest = max(self.longest, time.perf_counter() - began)

        return timed


async def job(
    service: tuple[str, str, str], journal: Path | None, *, watch: bool = False
) -> dict[str, float]:
    """List the account and collect its clicks; tell what that took."""
    base_url, apikey, apisecret = service
    wall, cpu = time.perf_counter(), time.process_time()
    stalls: Stalls | None = None
    async with AsyncSession(base_url, apikey=apikey, apisecret=apisecret, journal=journal) as session:
        if watch:
            stalls = Stalls(session)
        links = await session.urls.list().to_list()
        await session.stats.collect(SPAN, keys=links)
        told = {"requests": session.metrics.requests, "replayed": session.metrics.replayed}
    told |= {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return told | {"stall": stalls.longest if stalls else 0.0}


def measure(service: tuple[str, str, str], pairs: int, folder: Path) -> dict[str, Any]:
    """Run pairs of jobs, the first of a pair in turn with the journal and without."""
    asyncio.run(job(service, None))
    ratios: dict[str, list[float]] = {"wall": [], "cpu": []}
    requests = 0.0
    for n in range(pairs):
        order = (folder / f"{n}.journal", None)
        with_journal, without = None, None
        for path in order if n % 2 else order[::-1]:
            told = asyncio.run(job(service, path))
            with_journal, without = (told, without) if path else (with_journal, told)
        assert with_journal is not None
        assert without is not None
        requests = without["requests"]
        for name, values in ratios.items():
            values.append(with_journal[name] / without[name])
    asking = asyncio.run(job(service, folder / "watched.journal", watch=True))
    again = asyncio.run(job(service, folder / "watched.journal", watch=True))
    return {
        "requests": requests,
        "pairs": pairs,
        "goal": GOAL,
        **{name: statistics.median(values) for name, values in ratios.items()},
        **{f"{name}_spread": [min(values), max(values)] for name, values in ratios.items()},
        "longest_stall_ms": 1000 * asking["stall"],
        "longest_stall_replaying_ms": 1000 * again["stall"],
        "replayed": again["replayed"],
        "replaying_wall_ratio": again["wall"] / asking["wall"],
        "file_mb": (folder / "watched.journal").stat().st_size / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2_000, help="links of the account")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(options.size, theirs))
    process.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            told = measure(ours.recv(), options.pairs, Path(folder))
    finally:
        ours.send(None)
        process.join()
    if options.json:
        print(json.dumps(told))
        return
    print(f"{told['requests']:.0f} requests, {told['file_mb']:.1f} MB; medians of {told['pairs']} pairs")
    for name in ("wall", "cpu"):
        low, high = told[f"{name}_spread"]
        print(f"  {name:4} with / without  {told[name]:.3f}  ({low:.3f} to {high:.3f})  goal <= {GOAL}")
    print(f"  longest stall of the event loop: {told['longest_stall_ms']:.2f} ms asking, ", end="")
    print(f"{told['longest_stall_replaying_ms']:.2f} ms replaying")
    print(f"  run again: {told['replayed']} replayed in {told['replaying_wall_ratio']:.2f} of the time")


if __name__ == "__main__":
    main()
