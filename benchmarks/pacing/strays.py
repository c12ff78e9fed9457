"""Answer some requests of a service without a limit 429: `python -m benchmarks.pacing.strays`.

Printed is the time of a job over that of a client which honours each Retry-After for its request alone: the
median and the worst of some seeds. The goal holds for medians of jobs that take such a client about a minute.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from statistics import median

from slashtag._core.throttle.throttle import Throttle

from .peers import EachRetryAfter
from .servers import Server, Strays
from .simulate import CONCURRENCY, run

GOAL = 1.75
SHARES, TOLD = (0.005, 0.01, 0.02, 0.05, 0.1), (None, 1.0, 2.0, 10.0)  # of requests; seconds
JOBS = ((40_000, 1.0), (2000, 1.0), (1000, 0.3), (400, 1.0))  # requests, and by what latency is multiplied


def cost(share: float, told: float | None, requests: int, scale: float, seed: int) -> float:
    """Return by how much longer one job takes with the throttle."""
    servers = [Strays(Server(Random(f"{seed} {share} {told}")), share, told) for _ in range(2)]
    best = run(EachRetryAfter(), servers[0], requests, seed, scale=scale).time
    return run(Throttle(CONCURRENCY), servers[1], requests, seed, scale=scale).time / best


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing.strays", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    met = True
    for requests, scale in JOBS:
        print(f"{requests} requests, latency x {scale:g}; Retry-After " + ", ".join(map(str, TOLD)))
        for share in SHARES:
            seeds = range(options.first_seed, options.first_seed + options.seeds)
            row = [[cost(share, told, requests, scale, seed) for seed in seeds] for told in TOLD]
            met &= requests < JOBS[0][0] or all(median(found) <= GOAL for found in row)
            figures = "".join(f"{median(found):>8.2f} ({max(found):.2f})" for found in row)
            print(f"{share:>7.1%}{figures}", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
