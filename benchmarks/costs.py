"""Measure what stray 429s, a clock of milliseconds and closed connections cost.

python benchmarks/costs.py [--size FACTOR] [--json]

The time of strays is simulated and compared with that of a client that honours each Retry-After once, for its
request alone. The rest is sent over real sockets, both ways, on asyncio and uvloop. Notes have what the
version before the mend took.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._measure import Row, parser, report, scaled
from benchmarks.pacing.peers import EachRetryAfter
from benchmarks.pacing.servers import Server, Strays
from benchmarks.pacing.simulate import CONCURRENCY, run
from slashtag import AsyncSession, OutcomeUnknownError
from slashtag._core.call import Call, Repeat
from slashtag._core.throttle.throttle import Throttle

Reply = Callable[[asyncio.StreamWriter, str], bool]
#: (share, Retry-After) -> what the last version took for 2,000 requests; without strays 3.2 s.
BEFORE = {(0.05, None): "515 to 2,498 s", (0.1, 1.0): "over 20,000 s"}


def answer(status: int, extra: bytes = b"") -> bytes:
    """Return an envelope of this status."""
    body = b'{"status": %d, "message": "ok", "data": {}}' % status
    return b"HTTP/1.1 %d Odd\r\n%sContent-Length: %d\r\n\r\n%s" % (status, extra, len(body), body)


def strays(requests: int) -> Iterator[Row]:
    """Simulate requests to a service without a limit that answers some with 429."""
    for share in (0.005, 0.01, 0.02, 0.05, 0.1):
        for told in (None, 1.0, 2.0):
            ours, ideal = (
                run(policy, Strays(Server(Random(1)), share, told), requests, 1, give_up=20_000).time
                for policy in (Throttle(CONCURRENCY), EachRetryAfter())
            )
            what = f"{share:.1%} stray 429s" + (f", Retry-After {told:g}" if told else "")
            before = BEFORE.get((share, told))
            note = f"{requests:,} requests: {ours:.1f} s" + (f"; before: {before}" if before else "")
            yield Row(what, ours / ideal, goal="<= 3", note=note)


Work = Callable[[AsyncSession], Coroutine[Any, Any, tuple[float, str]]]


async def serve(reply: Reply, work: Work) -> tuple[float, str]:
    """Run work against a server and return its figure and a note; `reply`: whether to keep the connection."""

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
    repeat: Repeat = "always" if method == "GET" else "if unsent"
    return Call(method=method, path=f"echo/{number}", returns=dict, body=body, repeat=repeat)


def stray_reads(size: float) -> tuple[Reply, Work]:
    """Read 400 times where 1 answer in 10 is a stray 429 with Retry-After: 1."""
    chance, reads = Random(1), scaled(400, size)

    def reply(writer: asyncio.StreamWriter, _: str) -> bool:
        is_stray = chance.random() < 0.1
        writer.write(answer(429, b"Retry-After: 1\r\n") if is_stray else answer(200))
        return True

    async def work(session: AsyncSession) -> tuple[float, str]:
        began = perf_counter()
        await asyncio.gather(*(session._sender.send(call(n)) for n in range(reads)))
        return perf_counter() - began, f"{session.metrics.throttled} 429s"

    return reply, work


def busy(size: float) -> tuple[Reply, Work]:
    """Send 8 requests to a service that answers 429 for 3 seconds."""
    began = perf_counter()

    def reply(writer: asyncio.StreamWriter, _: str) -> bool:
        writer.write(answer(429 if perf_counter() - began < 3 * size else 200))
        return True

    async def work(session: AsyncSession) -> tuple[float, str]:
        await asyncio.gather(*(session._sender.send(call(n)) for n in range(8)))
        return session.metrics.throttled, ""

    return reply, work


def closing(method: str, size: float) -> tuple[Reply, Work]:
    """Send requests, 16 at a time, to a service that closes unannounced after each answer."""
    numbers = iter(range(scaled(640 if method == "GET" else 300, size)))

    def reply(writer: asyncio.StreamWriter, _: str) -> bool:
        writer.write(answer(200))
        return False

    async def work(session: AsyncSession) -> tuple[float, str]:
        unknown, began = 0, perf_counter()

        async def worker() -> None:
            nonlocal unknown
            for number in numbers:
                try:
                    await session._sender.send(call(number, method))
                except OutcomeUnknownError:
                    unknown += 1

        await asyncio.gather(*(worker() for _ in range(16)))
        return session.metrics.retries if method == "GET" else unknown, f"{perf_counter() - began:.1f} s"

    return reply, work


#: (What is measured, its unit, the goal, what it was before, server and client.)
SENT: list[tuple[str, str, str | None, str, Callable[[float], tuple[Reply, Work]]]] = [
    ("400 reads, 10 % strays, Retry-After 1", "s", None, "158 reads after 60 s", stray_reads),
    ("8 requests, 429s for 3 s", "429s", "<= 60", "19,494 on uvloop", busy),
    ("300 POSTs, each connection closed", "unknown", "<= 23", "150", partial(closing, "POST")),
    ("640 GETs, each connection closed", "retries", "<= 64", "624, 5.7 s", partial(closing, "GET")),
]


def sent(size: float) -> Iterator[Row]:
    """Send over real sockets."""
    loops: dict[str, Any] = {"asyncio": None}
    with suppress(ImportError):
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    for what, unit, goal, before, make in SENT:
        for way, switch in (("fast path", "1"), ("ClientSession", "0")):
            os.environ["SLASHTAG_FAST_PATH"] = switch
            for loop, factory in loops.items():
                with asyncio.Runner(loop_factory=factory) as runner:
                    figure, note = runner.run(serve(*make(size)))
                notes = "; ".join(filter(None, (note, f"before: {before}")))
                yield Row(f"{what}; {way}, {loop}", figure, unit, goal, notes)


def main() -> None:
    """Print all rows."""
    given = parser(__doc__).parse_args()
    report([*strays(scaled(2_000, given.size, 20)), *sent(given.size)], given.json)


if __name__ == "__main__":
    main()
