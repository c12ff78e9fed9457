"""Print what the throttle and other clients reach by class of servers: `python -m benchmarks.pacing`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import version
from itertools import product
from math import inf
from pathlib import Path
from statistics import mean
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(ROOT))

from benchmarks.pacing.cases import GOALS, Case, cases  # noqa: E402
from benchmarks.pacing.peers import PEERS  # noqa: E402
from benchmarks.pacing.simulate import CONCURRENCY, Policy, oracle, run  # noqa: E402
from slashtag._core.throttle.throttle import Throttle  # noqa: E402

SEEDS = 3
MOST_MICROSECONDS = 2.5


def seeds(count: int) -> list[int]:
    """Derive seeds from the commit, so that nobody tunes to them; outside a checkout from the version."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = version("slashtag")
    return [int(sha256(f"{found} {n}".encode()).hexdigest()[:12], 16) for n in range(count)]


def measure(case: Case, policy: Callable[[], Policy], seed: int, size: float) -> tuple[float, float]:
    """Return the utilisation of one server, and the 429s a request; a job that is never done used nothing."""
    requests = max(int(case.requests * size), 1)
    best = oracle(case.server(seed), requests, seed)
    try:
        done = run(policy(), case.server(seed), requests, seed, give_up=50 * best)
    except RuntimeError:
        return 0.0, 10.0
    return best / done.time, done.rejects / requests


def cost(rate: float | None, requests: int = 200_000) -> float:
    """Return the CPU of ready_at, depart and accepted together, in microseconds a request."""
    throttle = Throttle(CONCURRENCY, rate)
    now, step = 1.0, 1.1 / (rate or 1000.0)
    start = process_time()
    for _ in range(requests):
        now += step
        if throttle.ready_at(now) <= now:
            throttle.accepted(throttle.depart(now), now)
    return (process_time() - start) / requests * 1e6


def throttle() -> Throttle:
    return Throttle(CONCURRENCY)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--size", type=float, default=1.0, help="scale every job; goals hold at 1")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds the means are taken of")
    parser.add_argument("--only", default="", help="classes whose name contains this")
    parser.add_argument("--each", action="store_true", help="print each server, without the other clients")
    parser.add_argument("--png", type=Path, help="draw departures over time for four servers")
    options = parser.parse_args()

    chosen = seeds(options.seeds)
    clients: dict[str, Callable[[], Policy]] = {"slashtag": throttle} | ({} if options.each else dict(PEERS))
    results = []
    if not options.json:
        print(f"{'mean used, 429s a request':34}{'goal':>14}" + "".join(f"{name:>17}" for name in clients))
    for row, goal in GOALS.items():
        servers = [case for case in cases() if case.row == row and options.only in row]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
        for case, (name, policy) in product(servers, clients.items()):
            # A seed is enough for the others.
            for seed in chosen if policy is throttle else chosen[:1]:
                found[name].append(measure(case, policy, seed, options.size))
            if options.each:
                last = found[name][-len(chosen) :]
                print(f"  {case.label:46}" + "".join(f"{used:>8.3f}{waste:>7.1%}" for used, waste in last))
        if not servers:
            continue
        means = {
            name: (mean(used for used, _ in jobs), mean(waste for _, waste in jobs))
            for name, jobs in found.items()
        }
        used, waste = means["slashtag"]
        met = used >= goal.utilisation and waste <= goal.waste
        results.append({"class": row, "goal": goal._asdict(), "means": means, "met": met})
        if not options.json:
            most = f"{goal.waste:.0%}" if goal.waste < inf else "-"
            figures = "".join(f"{used:>9.3f}{waste:>8.1%}" for used, waste in means.values())
            print(
                f"{row:34}{goal.utilisation:>8.2f}{most:>6}{figures}{'' if met else '  MISSED'}", flush=True
            )
    costs = {"unpaced": round(cost(None), 2), "paced": round(cost(900.0), 2)}
    missed = [result for result in results if not result["met"]]
    if options.json:
        print(json.dumps({"seeds": chosen, "classes": results, "microseconds": costs}, indent=1))
    else:
        print(f"\n{len(results) - len(missed)} of {len(results)} goals met; seeds {chosen}")
        spent = ", ".join(f"{value:.2f} us {name}" for name, value in costs.items())
        print(f"CPU a request on the success path: {spent} (goal {MOST_MICROSECONDS:g} us)")
    if options.png:
        from benchmarks.pacing.chart import draw

        draw(options.png, chosen[0])
        print(f"wrote {options.png}", file=sys.stderr)
    return 1 if missed or max(costs.values()) > MOST_MICROSECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
