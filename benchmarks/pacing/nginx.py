"""Run the client against real nginx limits: `python -m benchmarks.pacing.nginx`, where nginx is installed.

nginx (its own configuration, prefix and port, on loopback) limits, and passes on to a backend that answers
after a lognormal latency. The client is a whole session of slashtag. limit_req: `rate` and `burst` with
nodelay; limit_conn: `most` connections at work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from aiohttp import web

ROOT = Path(__file__).resolve().parents[2]
if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(ROOT))

from benchmarks.pacing.simulate import CONCURRENCY, MEAN, Latency  # noqa: E402
from slashtag import AsyncSession  # noqa: E402

CONFIGURATION = """
worker_processes 1; daemon off; master_process off; pid {home}/pid; error_log {home}/error.log crit;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
    limit_req_zone $binary_remote_addr zone=rate:1m rate={rate}r/s; limit_req_status 429;
    limit_conn_zone $binary_remote_addr zone=work:1m; limit_conn_status 429;
    upstream backend {{ server 127.0.0.1:{backend}; keepalive 128; }}
    server {{
        listen 127.0.0.1:{port}; keepalive_requests 1000000;
        location / {{
            {limit}
            proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Limit:
    """One limit of nginx, with its goals; `rate` in requests/s, `most` requests at work (0: any)."""

    rate: int
    burst: int
    most: int
    utilisation: float
    waste: float = 0.04

    def __str__(self) -> str:
        return f"limit_conn {self.most}" if self.most else f"limit_req {self.rate} r/s, burst {self.burst}"

    def directive(self) -> str:
        return (
            f"limit_conn work {self.most};"
            if self.most
            else f"limit_req zone=rate burst={self.burst} nodelay;"
        )

    def requests(self, seconds: float) -> int:
        return int(self.most / MEAN * seconds) if self.most else int(self.rate * seconds) + self.burst

    def best(self, requests: int) -> float:
        """Return the seconds that a client takes which knows the limit."""
        return requests * MEAN / self.most if self.most else (requests - self.burst - 1) / self.rate + MEAN


LIMITS = [
    *(Limit(20, 10, 0, 0.95), Limit(100, 20, 0, 0.95), Limit(200, 50, 0, 0.92)),
    *(Limit(20, 20, 0, 0.95), Limit(100, 10, 0, 0.95), Limit(200, 20, 0, 0.92)),
    *(Limit(1, 0, 4, 0.88), Limit(1, 0, 16, 0.88)),
]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def nginx(limit: Limit, backend: int) -> Iterator[int]:
    """Run an nginx of our own in a folder of its own; yield its port, and end it by its process."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        port = free_port()
        file = Path(home, "nginx.conf")
        file.write_text(
            CONFIGURATION.format(
                home=home, rate=limit.rate, backend=backend, port=port, limit=limit.directive()
            )
        )
        process = subprocess.Popen(["nginx", "-p", home, "-c", str(file), "-e", f"{home}/error.log"])
        stack.callback(process.wait)
        stack.callback(process.terminate)
        for _ in range(100):
            time.sleep(0.05)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        else:
            raise RuntimeError("nginx does not answer")
        yield port


async def serve(seed: int) -> tuple[web.AppRunner, int]:
    """Answer every request with an empty page of links, after a latency."""
    latency = Latency(seed)

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(latency())
        data = {"page": int(request.query.get("page", 1)), "pageSize": 1, "items": []}
        return web.json_response({"status": 200, "message": "OK", "data": data})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner, port


async def job(port: int, requests: int) -> tuple[float, int]:
    """Return the seconds that a session takes for some requests, and the 429s it met."""
    left = iter(range(1, requests + 1))
    async with AsyncSession(
        f"http://127.0.0.1:{port}", apikey="k" * 25, apisecret="s" * 16, concurrency=CONCURRENCY
    ) as session:

        async def work() -> None:
            for page in left:
                await session.urls.page(page, pagesize=1)

        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(2 * CONCURRENCY)))
        return time.perf_counter() - start, session.metrics.throttled


async def measure(limit: Limit, seconds: float, seed: int) -> tuple[float, float]:
    """Return utilisation and waste of one job."""
    runner, backend = await serve(seed)
    requests = limit.requests(seconds)
    try:
        with nginx(limit, backend) as port:
            took, rejects = await job(port, requests)
    finally:
        await runner.cleanup()
    return limit.best(requests) / took, rejects / requests


async def share(port: int, seconds: float) -> tuple[int, int]:
    """Ask for so many seconds; return the requests answered and the 429s met."""
    async with AsyncSession(
        f"http://127.0.0.1:{port}", apikey="k" * 25, apisecret="s" * 16, concurrency=CONCURRENCY
    ) as session:
        pages = count(1)
        answered = 0

        async def work() -> None:
            nonlocal answered
            while True:
                await session.urls.page(next(pages), pagesize=1)
                answered += 1

        workers = [asyncio.create_task(work()) for _ in range(2 * CONCURRENCY)]
        await asyncio.wait(workers, timeout=seconds)
        done = answered
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        return done, session.metrics.throttled


async def together(processes: int, seconds: float, seed: int) -> tuple[float, float, float]:
    """Return what processes use of one limit together, their waste, and the smallest share of the largest."""
    limit = Limit(100, 20, 0, 0.90, 0.05)
    runner, backend = await serve(seed)
    try:
        with nginx(limit, backend) as port:
            command = (sys.executable, "-m", "benchmarks.pacing.nginx", "--client", str(port))
            clients = [
                await asyncio.create_subprocess_exec(
                    *command, "--seconds", str(seconds), cwd=ROOT, stdout=asyncio.subprocess.PIPE
                )
                for _ in range(processes)
            ]
            told = [json.loads((await client.communicate())[0]) for client in clients]
    finally:
        await runner.cleanup()
    answered = [client["answered"] for client in told]
    rejected = sum(client["throttled"] for client in told)
    used = sum(answered) / (limit.rate * seconds + limit.burst)
    return used, rejected / sum(answered), min(answered) / max(answered)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing.nginx", description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="scale every job; goals hold at 1")
    parser.add_argument("--only", default="", help="limits whose name contains this")
    parser.add_argument("--together", type=int, help="so many processes on one limit of 100 r/s instead")
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=50.0, help="how long processes share a limit")
    options = parser.parse_args()
    if options.client:
        answered, throttled = asyncio.run(share(options.client, options.seconds))
        print(json.dumps({"answered": answered, "throttled": throttled}))
        return 0
    if shutil.which("nginx") is None:
        print("nginx is not installed; nothing measured", file=sys.stderr)
        return 0
    chosen = Random()
    if options.together:
        used, waste, fair = asyncio.run(together(options.together, options.seconds, chosen.randrange(2**32)))
        met = used >= 0.9 and waste <= 0.05 and fair >= 1 / 3
        print(
            f"{options.together} processes, limit_req 100 r/s, burst 20, {options.seconds:g} s: "
            f"used {used:.3f} (goal 0.90), waste {waste:.1%} (goal 5 %), "
            f"smallest share of the largest {fair:.2f} (goal 0.33)  {'yes' if met else 'NO'}"
        )
        return 0 if met else 1
    missed = 0
    print(
        f"{'':32}{'utilisation':>16}{'waste':>18}\n{'nginx':32}{'goal':>8}{'found':>8}{'goal':>10}{'found':>8}"
    )
    for limit in LIMITS:
        if options.only not in str(limit):
            continue
        utilisation, waste = asyncio.run(measure(limit, 50 * options.size, chosen.randrange(2**32)))
        met = utilisation >= limit.utilisation and waste <= limit.waste
        missed += not met
        figures = f"{limit.utilisation:>8.2f}{utilisation:>8.3f}{limit.waste:>10.1%}{waste:>8.1%}"
        print(f"{limit!s:32}{figures}  {'yes' if met else 'NO'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
