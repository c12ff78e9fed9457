"""Print how calls fare beside others, amid strays and in outages: `python -m benchmarks.pacing.scenarios`.

Each line is one figure, the worst of some seeds or the median where seeds differ by chance, with its goal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from random import Random
from statistics import mean, median

from slashtag._core.throttle.throttle import Throttle

from .peers import EachRetryAfter
from .servers import Down, Poison, Server, Strays, TokenBucket
from .simulate import CONCURRENCY, Session, World, run

ROW = tuple[str, float, float]


def strays(share: float, told: float | None, requests: int, seed: int) -> float:
    """Return by how much longer a job takes than one that honours each Retry-After for its call alone."""
    servers = [Strays(Server(Random(f"{seed} {share} {told}")), share, told) for _ in range(2)]
    best = run(EachRetryAfter(), servers[0], requests, seed).time
    return run(Throttle(CONCURRENCY), servers[1], requests, seed).time / best


def sharing(sessions: int, seconds: float, seed: int) -> tuple[float, float, float]:
    """Return how much of 100/s sessions use together, the least share, and the part answered 429."""
    world, rng = World(TokenBucket(Random(seed), 100, 20), seed), Random(seed)
    all_of_them = [Session(world, Throttle(CONCURRENCY), inf) for _ in range(sessions)]
    for session in all_of_them:
        world.at(0.3 * rng.random(), session.pump)
    world.run(lambda: world.now >= seconds)
    accepted = [session.done.useful for session in all_of_them]
    rejected = sum(session.done.rejects for session in all_of_them)
    return (
        sum(accepted) / (100 * seconds),
        min(accepted) / mean(accepted),
        rejected / (sum(accepted) + rejected),
    )


def outage(seconds: float, rate: float, begin: float, seed: int) -> tuple[float, int]:
    """Return by how much longer a job takes, in outages of this length, and the requests that failed."""
    limit = partial(TokenBucket, rate=rate, burst=10)
    requests = int(rate * 60)
    without = run(Throttle(CONCURRENCY), limit(Random(seed)), requests, seed).time
    server = Down(limit(Random(seed)), begin, begin + seconds)
    done = run(Throttle(CONCURRENCY), server, requests, seed)
    return (done.time - without) / seconds, done.errors


def dead(seed: int) -> int:
    """Return the requests of a job to a service that does not answer, until it is given up after 300 s."""
    throttle, world = Throttle(32), World(Down(Server(Random(seed)), 0, inf), seed)
    session = Session(world, throttle, 5000)
    session.pump()
    world.run(lambda: throttle.outage.lasted(world.now) >= 300)
    return session.done.errors


def beside_reports(seed: int) -> Sequence[float]:
    """Return how long pages wait, one a second, beside three reports at a limit of 20/s."""
    times, limit = [20 + second for second in range(30)], TokenBucket(Random(seed), 20, 10)
    return run(Throttle(32), limit, 1200, seed, operations=3, singles=times).waits


def beside_refused(count: int, told: float | None, seed: int) -> Sequence[float]:
    """Return how long others wait, 50 a second, beside calls that are always answered 429."""

    class Refused(Poison):
        def is_apart(self, request: int) -> bool:
            return 0 <= request < count

    times = [second / 50 for second in range(500)]
    return run(Throttle(32), Refused(Server(Random(seed)), 0, told), count, seed, singles=times).waits


def figures(seeds: Sequence[int]) -> Iterator[ROW]:
    """Yield the name of each figure, what was found, and its goal."""
    for share in (0.005, 0.02, 0.1):
        for told in (None, 1.0, 10.0):
            found = [strays(share, told, 40_000, seed) for seed in seeds[:1]]
            yield f"{share:.1%} strays, Retry-After {told}: times as long", median(found), 1.75
    shared = [sharing(4, 120, seed) for seed in seeds]
    yield "4 sessions on one limit: part unused", 1 - min(used for used, _, _ in shared), 0.15
    yield "4 sessions on one limit: least share missing", 1 - min(least for _, least, _ in shared), 0.5
    yield "4 sessions on one limit: answered 429", mean(lost for _, _, lost in shared), 0.15
    for seconds in (8, 300):
        for begin in (0, 30):
            found = [outage(seconds, rate, begin, seed)[0] for rate in (20, 100) for seed in seeds]
            yield f"outage of {seconds} s after {begin} s: times as long", max(found), 2
    yield "dead service: requests of 5,000 calls", max(map(dead, seeds)), 100
    waits = sorted(wait for seed in seeds for wait in beside_reports(seed))
    yield "page beside three reports at 20/s: 95 % within", waits[int(0.95 * len(waits))], 0.5
    for told in (None, 1.0, 60.0):
        longest = [max(beside_refused(20, told, seed)) for seed in seeds]
        yield f"20 refused calls, Retry-After {told}: others within", max(longest), 0.6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing.scenarios", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    missed = 0
    for name, found, goal in figures(range(options.first_seed, options.first_seed + options.seeds)):
        missed += found > goal
        print(f"{name:56}{found:>8.2f}, goal {goal:g}{'  MISSED' * (found > goal)}", flush=True)
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
