"""Measure slashtag.dask: two workers beside one process, and four that share a limit, one of them killed.

python benchmarks/cluster.py [--size FACTOR] [--rounds N] [--json]

Two workers on two cores pay where decoding and adding up is the bottleneck: answers of 1,000 referrers,
canned, so that the service takes a tenth of the time of its client. One process has uvloop, as the workers
have. A machine with other work has no two cores to give: each round waits for a while until it is quiet, and
where some rounds were quiet only these count. Then a limit of 100 requests/s, that four
workers learn to share.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import distributed
import psutil

from benchmarks import _server
from benchmarks._measure import Row, parser, report, scaled
from slashtag import AsyncSession, DateRange, Plan
from slashtag.dask import collect
from slashtag.sandbox import Sandbox

try:
    from uvloop import run
except ImportError:
    run = asyncio.run

SPAN = DateRange("2022-01-01", "2024-12-31")
APIKEY, APISECRET = "k" * 24, "s" * 16
REFERRERS = 1_000
LIMIT = 100.0
#: Cores that others may use in a round that counts, and seconds to wait for it.
QUIET, PATIENCE = 0.25, 15.0


def plan_of(base_url: str, slashtags: int) -> Plan[Any]:
    session = AsyncSession(base_url, apikey=APIKEY, apisecret=APISECRET)
    return session.stats.plan(SPAN, keys=[f"campaign-{n}" for n in range(slashtags)])


def alone(base_url: str, plan: Plan[Any]) -> Any:
    """Ask in this process."""

    async def ask() -> Any:
        async with AsyncSession(base_url, apikey=APIKEY, apisecret=APISECRET) as session:
            return await session.stats.run(plan)

    return run(ask())


@contextmanager
def workers(n: int, base_url: str) -> Iterator[Any]:
    """Run a cluster on this machine; gives its client."""
    # Workers are told by the environment, as everywhere.
    named = {"BASE_URL": base_url, "APIKEY": APIKEY, "APISECRET": APISECRET}
    os.environ.update({f"SLASHTAG_{name}": value for name, value in named.items()})
    with (
        distributed.LocalCluster(
            n_workers=n,
            threads_per_worker=2,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_port=0,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(n)
        yield client


@dataclass(frozen=True)
class Used:
    """Hold what some work took: seconds, and cores of the machine that others had meanwhile."""

    seconds: float
    others: float


def measured(work: Callable[[], object]) -> Used:
    """Do some work."""
    busy, ours, began = _busy(), _ours(), perf_counter()
    work()
    seconds = perf_counter() - began
    return Used(seconds, max(0.0, (_busy() - busy) - (_ours() - ours)) / seconds)


def _busy() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _ours() -> float:
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return float(sum(used.user + used.system for used in times))


def wait_until_quiet(patience: float) -> None:
    """Wait for others to leave the machine alone, not for ever."""
    until = monotonic() + patience
    while monotonic() < until:
        busy, ours = _busy(), _ours()
        psutil.cpu_percent(0.5)
        if (_busy() - busy) - (_ours() - ours) < 0.5 * QUIET:
            return


def two_workers(size: float, rounds: int) -> Iterator[Row]:
    """Compare two workers with one process, in turns."""
    with _server.running(referrers=REFERRERS) as base_url, workers(2, base_url) as client:
        plan = plan_of(base_url, scaled(30_000, size, 400))
        # Sessions are a job's; what is warm are the workers, and the answers that are made once.
        warm = plan.split(-(-len(plan) // 1_000))[0]
        alone(base_url, warm)
        collect(client, warm)
        pairs: list[tuple[Used, Used]] = []
        for n in range(rounds):
            work = [lambda: alone(base_url, plan), lambda: collect(client, plan)]
            wait_until_quiet(PATIENCE * min(1.0, size))
            first, second = (measured(work[at]) for at in ((0, 1) if n % 2 else (1, 0)))
            pairs.append((first, second) if n % 2 else (second, first))
        yield row_of_two(len(plan), pairs)


def row_of_two(requests: int, pairs: Sequence[tuple[Used, Used]]) -> Row:
    """Give the row of pairs of one process and two workers."""
    quiet = [pair for pair in pairs if max(used.others for used in pair) <= QUIET]
    counted = quiet or pairs
    one, two = (median(pair[at].seconds for pair in counted) for at in (0, 1))
    others = max(used.others for pair in counted for used in pair)
    return Row(
        "collect, two Dask workers on two cores: speed / one process",
        median(one.seconds / two.seconds for one, two in counted),
        goal=">= 1.4",
        note=f"{requests:,} requests in {two:.2f} s, alone {one:.2f} s; others had up to {others:.2f} cores "
        f"in {len(counted)} of {len(pairs)} rounds",
    )


def four_workers(size: float) -> Iterator[Row]:
    """Let four workers share a limit, twice; the second time one of them is killed."""
    # The seconds in which sessions learn the limit count; in a job of half a minute they would be most of it.
    links = scaled(20_000, size, 100)
    account: dict[str, Any] = {"urls": links, "clicks": 10 * links, "apikey": APIKEY, "apisecret": APISECRET}
    with Sandbox(**account) as box:
        keys = [url.slashtag for url in box.truth.urls()]
        asking = AsyncSession(box.base_url, apikey=APIKEY, apisecret=APISECRET)
        plan = asking.stats.plan(SPAN, keys=keys)
        want = alone(box.base_url, plan)
    with Sandbox(**account, rate=LIMIT) as box, workers(4, box.base_url) as client:
        # What a fresh worker has to import is not the limit's.
        collect(client, plan.split(-(-len(plan) // 8))[0])
        for kill in (False, True):
            box.requests.clear()
            victims = [next(iter(client.run(os.getpid).values()))] if kill else []

            def step(done: int, total: int, victims: list[int] = victims) -> None:
                if 2 * done >= total and victims:
                    os.kill(victims.pop(), signal.SIGKILL)

            began = perf_counter()
            stats = collect(client, plan, progress=step)
            seconds = perf_counter() - began
            sent, refused = len(box.requests), sum(one.status == 429 for one in box.requests)
            share, waste = (sent - refused) / seconds / LIMIT, refused / sent
            which = f"four workers share {LIMIT:.0f} requests/s" + kill * ", one killed midway"
            note = f"{len(plan):,} requests, {refused:,} times 429, {seconds:.1f} s"
            differ = float(stats != want or bool(victims))
            yield Row(
                f"{which}: answers unlike one process's", differ, unit="answers", goal="<= 0", note=note
            )
            note = "no goal while a worker is missing" if kill else ""
            yield Row(f"{which}: share of it used", share, goal=None if kill else ">= 0.85", note=note)
            yield Row(f"{which}: 429s / requests", waste, goal=None if kill else "<= 0.1", note=note)


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Measure both."""
    yield from two_workers(size, rounds)
    yield from four_workers(size)


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size, options.rounds or 7), options.json)


if __name__ == "__main__":
    main()
