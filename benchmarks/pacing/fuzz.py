"""Run the throttle against random limits of all kinds: `python -m benchmarks.pacing.fuzz --count 1000`.

Each job has at least 1,000 requests and takes an oracle about a minute. The goals: utilisation 0.94 on
average and 0.79 at the 5th percentile, waste at most 12 % at the 95th.
"""

from __future__ import annotations

import argparse
import math
import sys
from random import Random
from statistics import mean, quantiles

from slashtag._core.throttle.throttle import Throttle

from .servers import Errors, FixedWindow, InFlight, Server, SlidingWindow, TokenBucket
from .simulate import CONCURRENCY, MEAN, oracle, run

SECONDS = 60.0  # oracle time of a job


def limit(rng: Random) -> tuple[str, Server, int]:
    """Return the description of a random limit, the server, and the number of requests of its job."""
    rate = _log_uniform(rng, 5, 600)
    kind = rng.choice(("bucket", "bucket", "fixed", "sliding", "in flight", "change"))
    server: Server
    if kind == "in flight":
        most, told = rng.randint(4, 60), rng.choice((None, 1.0))
        server, rate, label = InFlight(rng, most, told), most / MEAN, f"K = {most}, {told}"
    elif kind in ("bucket", "change"):
        burst = int(
            _log_uniform(rng, max(3, rate / 50), 200)
        )  # what jitter alone makes impossible is left out
        told = rng.choice((None, None, 1.0))
        after = rate * rng.choice((0.5, 2)) if kind == "change" else rate
        server = TokenBucket(rng, rate, burst, told, (SECONDS / 2, after) if kind == "change" else None)
        label = f"{rate:.1f}/s, burst {burst}, {told}" + (f", then {after:.1f}/s" if after != rate else "")
        rate = min((rate + after) / 2, CONCURRENCY / MEAN)
    else:
        width = _log_uniform(rng, 1, 60)
        size, rounding = max(5, int(rate * width)), rng.choice((None, math.ceil, math.floor))
        server = (FixedWindow if kind == "fixed" else SlidingWindow)(rng, size, width, rounding)
        rate, label = size / width, f"{kind} {size}/{width:.1f} s, {rounding and rounding.__name__}"
    if rng.random() < 0.1:
        server, label = Errors(server, 0.02), label + ", 2 % of errors"
    return label, server, max(1000, int(rate * SECONDS))


def _log_uniform(rng: Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def measure(seed: int) -> tuple[float, float, str]:
    """Return utilisation, waste and the description of one random limit."""
    label, server, requests = limit(Random(seed))
    best = oracle(limit(Random(seed))[1], requests, seed)
    try:
        done = run(Throttle(CONCURRENCY), server, requests, seed, give_up=50 * best)
    except RuntimeError as error:
        return 0.0, math.inf, f"{label}: {error}"
    return best / done.time, done.rejects / requests, label


def report(found: list[tuple[float, float, str]]) -> bool:
    """Print a summary and the worst jobs; return whether the goals are met."""
    use, waste = [job[0] for job in found], [job[1] for job in found]
    low, high = quantiles(use, n=20)[0], quantiles(waste, n=20)[-1]
    print(f"{len(found)} limits")
    print(f"utilisation: mean {mean(use):.3f}, 5th percentile {low:.3f}, least {min(use):.3f}")
    print(f"waste: mean {mean(waste):.1%}, 95th percentile {high:.1%}, most {max(waste):.1%}")
    for utilisation, lost, label in sorted(found)[:10]:
        print(f"  {utilisation:.3f}  {lost:6.1%}  {label}")
    return mean(use) >= 0.94 and low >= 0.79 and high <= 0.12


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.count)
    return 0 if report([measure(seed) for seed in seeds]) else 1


if __name__ == "__main__":
    sys.exit(main())
