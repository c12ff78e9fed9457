"""Print the goals table of pacing beside what the throttle reaches: `python -m benchmarks.pacing`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).resolve().parents[2]
if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(ROOT))

from benchmarks.pacing.cases import Case, cases  # noqa: E402
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


def measure(case: Case, policy: type[Policy] | None, chosen: list[int], size: float) -> dict[str, float]:
    """Return the median utilisation and 429s of one policy (None: the throttle) on one server."""
    utilisation, rejects = [], []
    requests = max(int(case.requests * size), 1)
    for seed in chosen:
        best = oracle(case.server(seed), requests, seed)
        client = Throttle(CONCURRENCY) if policy is None else policy()
        try:
            done = run(client, case.server(seed), requests, seed, give_up=50 * best)
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--size", type=float, default=1.0, help="scale every job; goals hold at 1")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds the medians are taken of")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--peers", action="store_true", help="add the figures of four other strategies")
    parser.add_argument("--png", type=Path, help="draw departures over time for four servers")
    options = parser.parse_args()

    chosen = seeds(options.seeds)
    results = []
    if not options.json:
        _head(options.peers)
    row = ""
    for case in cases():
        if options.only not in f"{case.row}: {case.label}":
            continue
        found = measure(case, None, chosen, options.size)
        met = found["utilisation"] >= case.utilisation and found["rejects"] <= case.most_rejects
        peers = {}
        if options.peers:
            peers = {name: measure(case, kind, chosen[:1], options.size) for name, kind in PEERS.items()}
        goal = {"utilisation": case.utilisation, "rejects": case.most_rejects}
        results.append(
            {"row": case.row, "server": case.label, "requests": case.requests, "goal": goal}
            | {"found": found, "met": met, "peers": peers}
        )
        if not options.json:
            if case.row != row:
                print(f"{case.row}")
                row = case.row
            _line(case, found, met, peers)
    costs = {"unpaced": round(cost(None), 2), "paced": round(cost(900.0), 2)}
    missed = [r for r in results if not r["met"]]
    if options.json:
        print(json.dumps({"seeds": chosen, "rows": results, "microseconds": costs}, indent=1))
    else:
        print(f"\n{len(results) - len(missed)} of {len(results)} goals met; seeds {chosen}")
        spent = ", ".join(f"{value:.2f} us {name}" for name, value in costs.items())
        print(f"CPU a request on the success path: {spent} (goal {MOST_MICROSECONDS:g} us)")
    if options.png:
        from benchmarks.pacing.chart import draw

        draw(options.png, chosen[0])
        print(f"wrote {options.png}", file=sys.stderr)
    return 1 if missed or max(costs.values()) > MOST_MICROSECONDS else 0


def _head(peers: bool) -> None:
    print(f"{'':34}{'utilisation':^24}{'429s':^28}{'waste':>7}")
    print(
        f"{'server':34}{'goal':>8}{'median':>8}{'least':>8}{'goal':>10}{'median':>9}{'most':>9}{'':7}", end=""
    )
    print("  met  " + "".join(f"{name:>20}" for name in PEERS) if peers else "  met")


def _line(case: Case, found: dict[str, float], met: bool, peers: dict[str, dict[str, float]]) -> None:
    print(
        f"  {case.label:32}{case.utilisation:>8.2f}{found['utilisation']:>8.3f}"
        f"{found['least_utilisation']:>8.3f}{case.most_rejects:>10.0f}{found['rejects']:>9.0f}{found['most_rejects']:>9.0f}{found['waste']:>7.1%}"
        f"  {'yes' if met else 'NO ':5}"
        + "".join(f"{peer['utilisation']:>11.2f} {peer['waste']:>8.1%}" for peer in peers.values()),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
