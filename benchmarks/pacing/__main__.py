"""Print what the throttle reaches against simulated servers: `python -m benchmarks.pacing`.

Each class of servers is one line: the mean utilisation of the throttle (the time of an oracle that knows the
limit, over its time), the least, its mean waste (429s over requests), and how many goals are met; beside it
what botocore's adaptive mode and plain exponential backoff reach. A job that takes them over ten times the
time of the oracle counts as 0, and its 429s are left out. `--each` prints a line for each server too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(ROOT))

from benchmarks.pacing.cases import Case, cases  # noqa: E402
from benchmarks.pacing.peers import PEERS  # noqa: E402
from benchmarks.pacing.simulate import CONCURRENCY, Policy, oracle, run  # noqa: E402
from slashtag._core.throttle.throttle import Throttle  # noqa: E402

SEEDS = 3
PATIENCE, PATIENCE_WITH_PEERS = 50, 10  # times the oracle's time, after which the utilisation counts as 0
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


def measure(case: Case, policy: type[Policy] | None, chosen: list[int], size: float) -> dict[str, float]:
    """Return the median utilisation and 429s of one policy (None: the throttle) on one server."""
    utilisation, rejects = [], []
    requests = max(int(case.requests * size), 1)
    for seed in chosen:
        best = oracle(case.server(seed), requests, seed, scale=case.scale, ahead=case.ahead)
        client = Throttle(CONCURRENCY) if policy is None else policy()
        try:
            server, give_up = case.server(seed), (PATIENCE if policy is None else PATIENCE_WITH_PEERS) * best
            done = run(client, server, requests, seed, scale=case.scale, give_up=give_up, ahead=case.ahead)
        except RuntimeError:
            utilisation.append(0.0)
            rejects.append(10 * requests)
            continue
        utilisation.append(best / done.time)
        rejects.append(done.rejects)
    return {
        "utilisation": round(median(utilisation), 4),
        "rejects": median(rejects),
        "waste": round(median(rejects) / requests, 5),
        "least_utilisation": round(min(utilisation), 4),
        "most_rejects": max(rejects),
    }


def is_met(case: Case, found: dict[str, float]) -> bool:
    """Return whether what was measured meets the goals of a server."""
    return found["utilisation"] >= case.utilisation and found["rejects"] <= case.most_rejects


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


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pacing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--size", type=float, default=1.0, help="scale every job; goals hold at 1")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds the medians are taken of")
    parser.add_argument("--first-seed", type=int, help="take this seed and those after it, not the commit's")
    parser.add_argument("--only", default="", help="servers whose class and name contain this")
    parser.add_argument("--each", action="store_true", help="print each server, not its class only")
    options = parser.parse_args()

    chosen = seeds(options.seeds)
    if options.first_seed is not None:
        chosen = [options.first_seed + n for n in range(options.seeds)]
    results = list[dict[str, Any]]()
    # Each class is printed once, when its last server is measured.
    for case in sorted(cases(), key=lambda case: case.row):
        if options.only not in f"{case.row}: {case.label}":
            continue
        if not options.json and (not results or results[-1]["row"] != case.row):
            _class(results)
        found = measure(case, None, chosen, options.size)
        met = is_met(case, found)
        peers = {name: measure(case, kind, chosen[:1], options.size) for name, kind in PEERS.items()}
        goal = {"utilisation": case.utilisation, "rejects": case.most_rejects}
        results.append(
            {"row": case.row, "server": case.label, "requests": case.requests, "goal": goal}
            | {"found": found, "met": met, "peers": peers}
        )
        if options.each and not options.json:
            _line(f"  {case.label}", results[-1:])
    costs = {"unpaced": round(cost(None), 2), "paced": round(cost(900.0), 2)}
    missed = [result for result in results if not result["met"]]
    if options.json:
        print(json.dumps({"seeds": chosen, "rows": results, "microseconds": costs}, indent=1))
    else:
        _class(results)
        print(f"\n{len(results) - len(missed)} of {len(results)} goals met; seeds {chosen}")
        spent = ", ".join(f"{value:.2f} us {name}" for name, value in costs.items())
        print(f"CPU a request on the success path: {spent} (goal {MOST_MICROSECONDS:g} us)")
    return 1 if missed or max(costs.values()) > MOST_MICROSECONDS else 0


def _class(results: list[dict[str, Any]]) -> None:
    """Print the head of the table, or the class of the last result."""
    if not results:
        print(f"{'':46}{'slashtag':^21}{'goals':>8}" + "".join(f"{name:>20}" for name in PEERS))
        print(
            f"{'':46}{'mean':>7}{'least':>7}{'waste':>7}{'met':>8}" + f"{'mean':>13}{'waste':>7}" * len(PEERS)
        )
        return
    row = results[-1]["row"]
    _line(row, [result for result in results if result["row"] == row])


def _line(name: str, results: list[dict[str, Any]]) -> None:
    clients = [[result["found"] for result in results]]
    clients += [[result["peers"][peer] for result in results] for peer in PEERS]
    met = f"{sum(result['met'] for result in results):>5}/{len(results):<2}"
    least = f"{min(found['least_utilisation'] for found in clients[0]):>7.3f}"
    use = [mean(found["utilisation"] for found in client) for client in clients]
    lost = [[found["waste"] for found in client if found["utilisation"]] for client in clients]  # ended
    waste = [f"{mean(shares):>7.1%}" if shares else f"{'-':>7}" for shares in lost]
    theirs = "".join(f"{used:>13.3f}{share}" for used, share in zip(use[1:], waste[1:], strict=True))
    print(f"{name:46}{use[0]:>7.3f}{least}{waste[0]}{met}{theirs}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
