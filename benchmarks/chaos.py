"""Send requests while callers cancel and the server resets, stalls and adds answers that nobody asked for.

python benchmarks/chaos.py [requests]

For both ways of sending, on asyncio and uvloop: every answer has to belong to its request, no write may be
done twice, and nothing may be left open. Exits with 1 otherwise. Prints one row for each combination.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import re
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slashtag import AsyncSession, OutcomeUnknownError, RetryPolicy, SlashtagError
from slashtag._core.call import Call

LENGTH = re.compile(rb"content-length: (\d+)", re.I)
#: What the server does to one request in five.
FAULTS = ("reset", "hang up", "cut", "stall", "behind", "partial", "late", "close", "interim", "500", "408")
POLICY = RetryPolicy(max_attempts=6, backoff_base=0.0005, backoff_cap=0.002)


@dataclass
class Outcome:
    """What came of the requests."""

    #: Answers to other requests, and failures of writes that were done.
    wrong: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)
    answered: int = 0
    failed: int = 0
    cancelled: int = 0
    unknown: int = 0
    sent: int = 0
    connections: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.wrong or self.doubled or self.left_open)


def answer(status: int, number: str, extra: bytes = b"") -> bytes:
    body = b'{"status": %d, "message": "ok", "data": {"number": "%s"}}' % (status, number.encode())
    return b"HTTP/1.1 %d Odd\r\n%sContent-Length: %d\r\n\r\n%s" % (status, extra, len(body), body)


class Server(asyncio.Protocol):
    """Server that answers each request with its number, or in one of the faulty ways."""

    open = 0

    def __init__(self, chance: random.Random, done: Counter[str], outcome: Outcome) -> None:
        self.chance = chance
        self.done = done
        self.outcome = outcome
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.outcome.connections += 1
        Server.open += 1

    def connection_lost(self, error: BaseException | None) -> None:
        Server.open -= 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not end or len(rest) < size:
            return
        self.buffer = rest[size:]
        method, target, _ = head.decode().split(" ", 2)
        self.reply(method, target.rpartition("/")[2])

    def reply(self, method: str, number: str) -> None:
        chance, write = self.chance, self.transport.write
        self.outcome.sent += 1
        kind = chance.choice(FAULTS) if chance.random() < 0.2 else "ok"
        if method != "GET" and (kind not in ("500", "408") or chance.random() < 0.5):
            self.done[number] += 1
        good = answer(200, number)
        if kind == "reset":
            self.transport.abort()
        elif kind == "hang up":
            self.transport.close()
        elif kind == "cut":
            write(good[: chance.randrange(1, len(good))])
            self.transport.close()
        elif kind == "stall":
            write(good[: chance.randrange(len(good))])
        elif kind == "behind":
            write(good + answer(chance.choice((200, 408)), "smuggled"))
        elif kind == "partial":
            smuggled = answer(200, "smuggled")
            write(good + smuggled[: chance.randrange(1, len(smuggled))])
        elif kind == "late":
            write(good)
            # While the connection is idle, or in use again: the latter cannot be told from an answer, so the
            # server sends it only as long as nobody has written.
            asyncio.get_running_loop().call_soon(self.late)
        elif kind == "close":
            write(good)
            self.transport.close()
        elif kind == "interim":
            write(b"HTTP/1.1 103 Odd\r\n\r\n" * chance.choice((1, 3, 100)) + good)
        elif kind == "ok":
            write(good)
        else:  # from something in between: a write may have been done
            write(b"HTTP/1.1 %s Odd\r\nContent-Length: 4\r\n\r\nnope" % kind.encode())

    def late(self) -> None:
        if not self.transport.is_closing() and not self.buffer:
            self.transport.write(answer(408, "smuggled"))
            self.transport.close()


async def ask(session: AsyncSession, number: int, write: bool, done: Counter[str], outcome: Outcome) -> None:
    call: Call[Any] = Call(
        method="POST" if write else "GET",
        path=f"echo/{number}",
        returns=dict,
        body=b"{}" if write else None,
        repeat="if unsent" if write else "always",
    )
    try:
        data = await session._sender.send(call)
    except OutcomeUnknownError:
        outcome.unknown += 1
        outcome.failed += 1
    except SlashtagError as error:
        outcome.failed += 1
        if done[str(number)]:
            outcome.wrong.append(f"{number} was done: {error}")
    except asyncio.CancelledError:
        outcome.cancelled += 1
        raise
    else:
        outcome.answered += 1
        if data != {"number": str(number)}:
            outcome.wrong.append(f"{number}: {data}")


async def rounds(requests: int, seed: int) -> Outcome:
    """Send that many requests, 40 at a time, one in ten cancelled."""
    chance, done, outcome = random.Random(seed), Counter[str](), Outcome()
    loop = asyncio.get_running_loop()
    before = len(asyncio.all_tasks())
    opened = Server.open
    server = await loop.create_server(lambda: Server(chance, done, outcome), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    numbers = iter(range(requests))
    session = AsyncSession(
        f"http://127.0.0.1:{port}",
        apikey="k" * 20,
        apisecret="s" * 12,
        timeout=0.25,
        retry=POLICY,
        concurrency=24,
    )

    async def work() -> None:
        for number in numbers:
            task = asyncio.create_task(ask(session, number, chance.random() < 0.4, done, outcome))
            if chance.random() < 0.1:
                loop.call_later(chance.random() * 0.02, task.cancel)
            if chance.random() < 0.001:
                time.sleep(0.01)  # the caller holds up the loop
            with suppress(asyncio.CancelledError):
                await task

    async with session:
        await asyncio.gather(*(work() for _ in range(40)))
        busy = session.metrics.in_flight + session.metrics.waiting
        if busy:
            outcome.left_open.append(f"{busy} requests")
    server.close()
    await server.wait_closed()
    for _ in range(200):
        if Server.open == opened:
            break
        await asyncio.sleep(0.01)
    gc.collect()
    if Server.open != opened:
        outcome.left_open.append(f"{Server.open - opened} connections")
    if len(asyncio.all_tasks()) != before:
        outcome.left_open.append(f"{len(asyncio.all_tasks()) - before} tasks")
    outcome.doubled = [number for number, times in done.items() if times > 1]
    return outcome


def main() -> int:
    """Run all combinations."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    loops: dict[str, Any] = {"asyncio": None}
    with suppress(ImportError):
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    clean = True
    print("way             loop     answered  failed  unknown  cancelled    sent  wrong  twice  open")
    for way, switch in (("fast path", "1"), ("ClientSession", "0")):
        os.environ["SLASHTAG_FAST_PATH"] = switch
        for name, factory in loops.items():
            with asyncio.Runner(loop_factory=factory) as runner:
                got = runner.run(rounds(requests, 7))
            clean &= got.is_clean
            print(
                f"{way:14}  {name:7}  {got.answered:8}  {got.failed:6}  {got.unknown:7}  {got.cancelled:9}"
                f"  {got.sent:6}  {len(got.wrong):5}  {len(got.doubled):5}  {got.left_open or 0}",
                flush=True,
            )
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
