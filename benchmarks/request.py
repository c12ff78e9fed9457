"""Measure the CPU of one request, of ours and of other clients, as ratios of rounds taken in turns.

python benchmarks/request.py [--size FACTOR] [--rounds N] [--json]

The work: GET a statistics answer of 2.6 KB about 100 slashtags, with both headers, and decode it. `bare` is
plain aiohttp and a typed msgspec decode under the same timeout; `naive` is the same with `json()`.
`collect` is the whole library over three years, splitting and summing too, beside `bare` with a plain sum;
with one window each request has slashtags of its own, which are checked and batched for it alone.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._clients import (
    SPAN,
    One,
    Run,
    bare,
    by_gather,
    by_workers,
    collect,
    collect_calls,
    ours,
    with_httpx,
    with_httpx2,
    with_pyqwest,
    with_pyreqwest,
    with_requests,
    with_wreq,
    wrk,
)
from benchmarks._measure import Cost, Row, Timer, middle, paired, parser, ratio, report, scaled
from slashtag import DateRange

FAR = "0.010-0.030"

#: (in flight, requests) near, and 10-30 ms away.
NEAR = ((1, 140), (16, 350), (64, 1400))
AWAY = ((1, 40), (16, 320), (64, 1280))


CLIENTS = (bare, ours, with_httpx, with_httpx2, with_pyqwest, with_pyreqwest, with_wreq)
#: Clients in Rust; pyqwest is used most.
PEERS = ("pyqwest", "pyreqwest", "wreq")
FASTEST = [name + loop for name in ("bare", "slashtag", *PEERS) for loop in ("", " + uvloop")]
SLOW = ["httpx2 + tenacity + gather", "httpx + tenacity + gather", "requests in threads"]
COMPARED = [
    *FASTEST,
    "naive",
    "bare, summed",
    "collect",
    "collect, one window",
    "collect, a call",
    "bare, a call",
]
NAMES = {
    "with_httpx": "httpx + tenacity + gather",
    "with_httpx2": "httpx2 + tenacity + gather",
    "with_pyqwest": "pyqwest",
    "with_pyreqwest": "pyreqwest",
    "with_wreq": "wreq",
}


def contenders(base_url: str, stack: ExitStack) -> tuple[dict[str, Run], dict[str, str]]:
    """Open all clients on an asyncio loop and on a uvloop; give those that run, and why others do not."""
    loops: dict[str, Any] = {"": None}
    absent: dict[str, str] = {}
    try:
        import uvloop
    except ImportError:
        absent["uvloop"] = "not installed"
    else:
        loops[" + uvloop"] = uvloop.new_event_loop
    runs: dict[str, Run] = {}
    for loop, factory in loops.items():
        runner = stack.enter_context(asyncio.Runner(loop_factory=factory))
        clients = AsyncExitStack()
        stack.callback(lambda runner=runner, clients=clients: runner.run(clients.aclose()))
        for client in CLIENTS:
            try:
                made = runner.run(client(base_url, clients))
            except ImportError:
                absent[NAMES[client.__name__]] = "not installed"
                continue
            for name, one in made.items():
                driver = by_gather if "gather" in name else by_workers
                run = _run(runner, driver, one)
                try:
                    run(1, 1)
                except Exception as error:  # a peer may be broken in any way
                    if client in (bare, ours):
                        raise
                    absent[name] = f"does not run: {type(error).__name__}"
                else:
                    runs[name + loop] = run
        runs[f"collect{loop}"] = collect(runner, base_url, stack, DateRange("2022-01-01", "2024-12-31"), 35)
        if not loop:
            runs |= collect_calls(runner, base_url, stack)
        runs[f"collect, one window{loop}"] = collect(runner, base_url, stack, DateRange(*SPAN), 1)
    try:
        runs["requests in threads"] = with_requests(base_url)
    except ImportError:
        absent["requests in threads"] = "not installed"
    return runs, absent


def _run(runner: asyncio.Runner, driver: Any, one: One) -> Run:
    return lambda requests, in_flight: runner.run(driver(one, requests, in_flight))


def settle() -> None:
    """Exempt from garbage collection what is there before the first round: with it nobody pays for others."""
    gc.collect()
    gc.freeze()


def measure(
    runs: dict[str, Run], names: list[str], requests: int, in_flight: int, rounds: int
) -> dict[str, list[Cost]]:
    """Let some contenders take turns."""
    return paired(
        {name: (lambda run=runs[name]: run(requests, in_flight)) for name in names if name in runs}, rounds
    )


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Measure near and away."""
    with ExitStack() as stack:
        runs, absent = contenders(stack.enter_context(_server.running()), stack)
        settle()
        for in_flight, work in NEAR:
            requests = scaled(work, size, in_flight)
            costs = measure(runs, COMPARED, requests, in_flight, rounds)
            yield from near(costs, absent, requests, in_flight)
            if in_flight <= 16:  # nothing new comes of the slow ones with more
                slow = measure(runs, ["slashtag", *SLOW], requests, in_flight, max(1, rounds // 5))
                gather = {1: "<= 0.20", 16: "<= 0.10"}[in_flight]
                for name, goal in zip(SLOW, (gather, gather, None), strict=True):
                    yield against(slow, absent, "slashtag", name, f"{in_flight} in flight", goal)
            if in_flight == 16:
                yield wrk_row(runs, stack, 4 * requests, size, min(5, rounds))
    with ExitStack() as stack:
        runs, absent = contenders(stack.enter_context(_server.running(FAR)), stack)
        settle()
        for in_flight, work in AWAY:
            requests = scaled(work, size, in_flight)
            costs = measure(runs, FASTEST, requests, in_flight, max(1, rounds // 3))
            place = f"{in_flight} in flight, 10-30 ms away"
            for name, goal in (("bare", None), *((peer, "<= 1.00") for peer in PEERS)):
                yield against(costs, absent, "slashtag", name, place, goal)
            for name in PEERS:
                yield against(costs, absent, "slashtag + uvloop", f"{name} + uvloop", place, None)


def near(
    costs: dict[str, list[Cost]], absent: dict[str, str], requests: int, in_flight: int
) -> Iterator[Row]:
    """Compare what was measured without distance."""
    place = f"{in_flight} in flight"
    at_16 = in_flight == 16
    yield Row(f"CPU of a request, {place}", 1e6 * middle(costs["slashtag"]) / requests, "us")
    yield against(costs, absent, "slashtag", "bare", place, "<= 1.00" if at_16 else None)
    yield against(costs, absent, "slashtag", "naive", place, "<= 0.85" if at_16 else None)
    yield against(costs, absent, "slashtag + uvloop", "naive", place, "<= 0.65" if at_16 else None)
    yield against(costs, absent, "collect", "bare, summed", place, None)
    yield against(costs, absent, "collect, one window", "bare, summed", place, None)
    yield against(
        costs, absent, "collect, a call", "bare, a call", place, "<= 1.15" if in_flight == 1 else None
    )
    for name in PEERS:
        yield against(costs, absent, "slashtag", name, place, "<= 1.00" if in_flight == 1 else None)
    saturated = "<= 1.15" if in_flight == 64 else None
    yield against(costs, absent, "slashtag + uvloop", "wreq + uvloop", place, saturated)


def against(
    costs: dict[str, list[Cost]], absent: dict[str, str], one: str, other: str, place: str, goal: str | None
) -> Row:
    """Compare the CPU of two contenders."""
    what = f"{one} / {other}, {place}"
    missing = [name for name in (one, other) if name not in costs]
    if missing:
        why = [reason for name, reason in absent.items() if any(name in gone for gone in missing)]
        return Row(what, None, goal=goal, note=", ".join(why))
    wall = ratio(costs[one], costs[other], "wall")
    return Row(what, ratio(costs[one], costs[other]), goal=goal, note=f"in time {wall:.2f}")


def wrk_row(runs: dict[str, Run], stack: ExitStack, requests: int, size: float, rounds: int) -> Row:
    """Compare with a client in C that decodes nothing: what the kernel asks for, and little more."""
    what = "slashtag + uvloop / wrk, 16 in flight"
    base_url = stack.enter_context(_server.running())
    ours = runs.get("slashtag + uvloop")
    ratios: list[float] = []
    for _ in range(rounds):
        floor = wrk(base_url, 16, size)
        if floor is None or ours is None:
            why = "not installed" if floor is None else "uvloop not installed"
            return Row(what, None, goal="<= 8", note=why)
        with Timer() as timer:
            ours(requests, 16)
        ratios.append(timer.cost.cpu / requests / floor)
    return Row(what, median(ratios), goal="<= 8", note=f"{1e6 * floor:.1f} us")


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size, options.rounds or 25), options.json)


if __name__ == "__main__":
    main()
