"""Measure requests over TLS: CPU and time of ours and of other clients, as ratios of rounds taken in turns.

python benchmarks/tls.py [--size FACTOR] [--rounds N] [--json]

The work is that of request.py, over connections that stay open. `aiofastnet` replaces the transports of an
event loop, those of TLS too. All clients verify the certificate.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._clients import AUTHORITY, Run, bare, by_workers, ours, with_wreq
from benchmarks._measure import Row, middle, paired, parser, ratio, report, scaled
from benchmarks.request import settle

#: (in flight, requests).
WORK = ((1, 140), (16, 350), (64, 1400))
CERTIFICATE = "SLASHTAG_BENCHMARK_CERTIFICATE"


def loops() -> dict[str, Any]:
    """Give what makes event loops: asyncio's and uvloop's, each as it is and with aiofastnet."""
    import aiofastnet
    import uvloop

    return {
        "": None,
        " + aiofastnet": aiofastnet.loop_factory(),
        " + uvloop": uvloop.new_event_loop,
        " + uvloop + aiofastnet": aiofastnet.loop_factory(uvloop.new_event_loop),
    }


def contenders(base_url: str, stack: ExitStack) -> dict[str, Run]:
    """Open the clients on each kind of loop; wreq has threads of its own."""
    runs: dict[str, Run] = {}
    for loop, factory in loops().items():
        runner = stack.enter_context(asyncio.Runner(loop_factory=factory))
        clients = AsyncExitStack()
        stack.callback(lambda runner=runner, clients=clients: runner.run(clients.aclose()))
        made = runner.run(bare(base_url, clients)) | runner.run(ours(base_url, clients))
        if "aiofastnet" not in loop:
            made |= runner.run(with_wreq(base_url, clients))
        for name in ("bare", "slashtag", "wreq"):
            if name in made:
                one = made[name]
                runs[name + loop] = lambda requests, in_flight, runner=runner, one=one: runner.run(
                    by_workers(one, requests, in_flight)
                )
    return runs


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Compare all of them."""
    with ExitStack() as stack:
        base_url = stack.enter_context(_server.running(certificate=os.environ[CERTIFICATE]))
        runs = contenders(base_url, stack)
        settle()
        for in_flight, work in WORK:
            yield from at(runs, scaled(work, size, in_flight), in_flight, rounds)


def at(runs: dict[str, Run], requests: int, in_flight: int, rounds: int) -> Iterator[Row]:
    """Let all take turns with some requests in flight."""
    costs = paired({name: (lambda run=run: run(requests, in_flight)) for name, run in runs.items()}, rounds)
    yield Row(
        f"TLS: CPU of a request, {in_flight} in flight", 1e6 * middle(costs["slashtag"]) / requests, "us"
    )
    for one, other, goal in (
        ("slashtag", "bare", "<= 0.60" if in_flight == 16 else None),
        ("slashtag + aiofastnet", "slashtag", None),
        ("slashtag + uvloop", "slashtag", None),
        ("slashtag + uvloop + aiofastnet", "slashtag + uvloop", None),
        ("slashtag + uvloop", "wreq + uvloop", None),
    ):
        wall = ratio(costs[one], costs[other], "wall")
        what = f"TLS: {one} / {other}, {in_flight} in flight"
        yield Row(what, ratio(costs[one], costs[other]), goal=goal, note=f"in time {wall:.2f}")


def main() -> int:
    options = parser(__doc__).parse_args()
    if CERTIFICATE in os.environ:
        report(rows(options.size, options.rounds or 15), options.json)
        return 0
    import trustme

    # In a process of its own: aiohttp reads at its import whom to trust.
    with TemporaryDirectory() as folder:
        authority = trustme.CA()
        certificate, trusted = Path(folder, "server.pem"), Path(folder, "authority.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
        authority.cert_pem.write_to_path(trusted)
        environment = os.environ | {CERTIFICATE: str(certificate), AUTHORITY: str(trusted)}
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
