"""Print what stray 429s, a clock of milliseconds and closed connections cost; before: in the last version.

python benchmarks/costs.py [--requests 2000] [--seed 1]

The time of stray 429s is simulated; everything else is sent over real sockets, on asyncio and uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pacing.peers import EachRetryAfter
from benchmarks.pacing.servers import Server, Strays
from benchmarks.pacing.simulate import CONCURRENCY, run
from slashtag import AsyncSession, OutcomeUnknownError
from slashtag._core.call import Call
from slashtag._core.throttle.throttle import Throttle

Reply = Callable[[asyncio.StreamWriter, str], bool]
#: (share, Retry-After) -> what the last version took for 2,000 requests; without strays 3.2 s.
BEFORE = {(0.05, None): "515 to 2,498 s", (0.1, 1.0): "over 20,000 s"}


def answer(status: int, extra: bytes = b"") -> bytes:
    """Return an envelope of this status."""
    body = b'{"status": %d, "message": "ok", "data": {}}' % status
    return b"HTTP/1.1 %d Odd\r\n%sContent-Length: %d\r\n\r\n%s" % (status, extra, len(body), body)


def row(*cells: object) -> None:
    """Print a line of a table."""
    first, *others = map(str, cells)
    print(f"{first:44}" + "".join(f"{cell:>18}" for cell in others), flush=True)


def strays(requests: int, seed: int) -> None:
    """Print the simulated time of requests to a service without a limit that answers some with 429."""
    row(f"{requests:,} requests, simulated", "seconds", "Retry-After once", "ratio", "before")
    for share in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1):
        for told in (None, 1.0, 2.0) if share else (None,):
            times = []
            for policy in (Throttle(CONCURRENCY), EachRetryAfter()):
                server = Strays(Server(Random(seed)), share, told)
                times.append(run(policy, server, requests, seed, give_up=20_000).time)
            label = f"{share:.1%} strays" + (f", Retry-After {told:g}" if told else "")
            figures = (f"{time:.1f}" for time in times)
            row(label, *figures, f"{times[0] / times[1]:.2f}", BEFORE.get((share, told), ""))


async def serve(reply: Reply, work: Callable[[AsyncSession], Coroutine[Any, Any, str]]) -> str:
    """Run work against a server; `reply` returns whether to keep the connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = head.lower().partition("content-length:")[2].split("\r\n")[0]
                await reader.readexactly(int(length or 0))
                if not reply(writer, head.partition(" ")[0]):
                    break
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with AsyncSession(f"http://127.0.0.1:{port}", apikey="k" * 20, apisecret="s" * 12) as session:
        told = await work(session)
    server.close()
    return told


def call(number: int, method: str = "GET") -> Call[Any]:
    """Return a call that is sent at most once unless it reads."""
    body = None if method == "GET" else b"{}"
    return Call(method=method, path=f"echo/{number}", returns=dict, body=body, repeatable=method == "GET")


def stray_reads(seed: int) -> tuple[Reply, Callable[[AsyncSession], Coroutine[Any, Any, str]]]:
    """Read 400 times where 1 answer in 10 is a stray 429 with Retry-After: 1."""
    chance = Random(seed)

    def reply(writer: asyncio.StreamWriter, _: str) -> bool:
        is_stray = chance.random() < 0.1
        writer.write(answer(429, b"Retry-After: 1\r\n") if is_stray else answer(200))
        return True

    async def work(session: AsyncSession) -> str:
        began = perf_counter()
        await asyncio.gather(*(session.send(call(n)) for n in range(400)))
        return f"{perf_counter() - began:.1f} s, {session.metrics.throttled} 429s"

    return reply, work


def busy_service(_: int) -> tuple[Reply, Callable[[AsyncSession], Coroutine[Any, Any, str]]]:
    """Send 8 requests to a service that answers 429 at once for 3 seconds."""
    began = perf_counter()

    def reply(writer: asyncio.StreamWriter, _: str) -> bool:
        writer.write(answer(429 if perf_counter() - began < 3 else 200))
        return True

    async def work(session: AsyncSession) -> str:
        await asyncio.gather(*(session.send(call(n)) for n in range(8)))
        return f"{session.metrics.throttled} 429s"

    return reply, work


def closing(method: str, count: int) -> tuple[Reply, Callable[[AsyncSession], Coroutine[Any, Any, str]]]:
    """Send requests, 16 at a time, to a service that closes unannounced after each answer."""

    def reply(writer: asyncio.StreamWriter, _: str) -> bool:
        writer.write(answer(200))
        return False

    async def work(session: AsyncSession) -> str:
        numbers, unknown, began = iter(range(count)), 0, perf_counter()

        async def worker() -> None:
            nonlocal unknown
            for number in numbers:
                try:
                    await session.send(call(number, method))
                except OutcomeUnknownError:
                    unknown += 1

        await asyncio.gather(*(worker() for _ in range(16)))
        seconds = perf_counter() - began
        retries = session.metrics.retries
        return f"{unknown} unknown" if method != "GET" else f"{retries} retries, {seconds:.1f} s"

    return reply, work


#: What is sent -> (server and client, what the last version took).
SENT: dict[str, tuple[Callable[[int], Any], str]] = {
    "400 reads, 10 % strays with Retry-After 1": (stray_reads, "158 after 60 s"),
    "8 requests, 429s for 3 s": (busy_service, "19,494 429s"),
    "300 POSTs, closed after each answer": (lambda _: closing("POST", 300), "150 unknown"),
    "640 GETs, closed after each answer": (lambda _: closing("GET", 640), "624, 5.7 s"),
}


def main() -> None:
    """Print all tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--requests", type=int, default=2_000, help="of the simulation")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    strays(given.requests, given.seed)
    loops: dict[str, Any] = {"asyncio": None}
    with suppress(ImportError):
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    ways = [(way, loop) for way in ("fast path", "ClientSession") for loop in loops]
    print()
    row("over real sockets", *(f"{way[:4]} {loop}" for way, loop in ways), "before")
    for what, (make, before) in SENT.items():
        cells = []
        for way, loop in ways:
            os.environ["SLASHTAG_FAST_PATH"] = "1" if way == "fast path" else "0"
            with asyncio.Runner(loop_factory=loops[loop]) as runner:
                cells.append(runner.run(serve(*make(given.seed))))
        row(what, *cells, before)


if __name__ == "__main__":
    main()
