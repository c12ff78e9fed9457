"""Calls and cancellations against a server that fails in every way: no answer is another call's, no write is
done twice or lost, nothing stays open."""

from __future__ import annotations

import asyncio
import gc
import random
import re
from collections import Counter
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from slashtag import AsyncSession, OutcomeUnknownError, RetryPolicy, SlashtagError

from ..support.sending import connect, until

LENGTH = re.compile(rb"content-length: (\d+)", re.I)
POLICY = RetryPolicy(max_attempts=6, backoff_base=0.0005, backoff_cap=0.002)


def answer(status: int, number: str) -> bytes:
    body = b'{"status": %d, "message": "ok", "data": {"number": "%s"}}' % (status, number.encode())
    return b"HTTP/1.1 %d Odd\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Server(asyncio.Protocol):
    """One connection: each request is answered with its number, or in one of the faulty ways."""

    def __init__(self, chance: random.Random, done: Counter[str], opened: set[Server]) -> None:
        self.chance, self.done, self.opened, self.buffer = chance, done, opened, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.opened.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.opened.discard(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if end and len(rest) >= (size := int(length[1]) if length else 0):
            self.buffer = rest[size:]
            method, target, _ = head.decode().split(" ", 2)
            self.reply(method, target.rpartition("/")[2])

    def reply(self, method: str, number: str) -> None:
        chance, good = self.chance, answer(200, number)
        other, some = answer(chance.choice((200, 408)), "other"), chance.randrange(1, len(good))
        #: What is sent, and whether the connection ends; `late` and `behind` nobody asked for.
        faults = {
            "reset": (b"", True),
            "hang up": (b"", True),
            "cut": (good[:some], True),
            "stall": (good[:some], False),
            "behind": (good + other, False),
            "partial": (good + other[:some], False),
            "late": (good, False),
            "close": (good, True),
            "interim": (b"HTTP/1.1 103 Odd\r\n\r\n" * 100 + good, False),
            # From something in between: a write may have been done.
            "500": (b"HTTP/1.1 500 Odd\r\nContent-Length: 4\r\n\r\nnope", False),
            "408": (b"HTTP/1.1 408 Odd\r\nContent-Length: 4\r\n\r\nnope", False),
        }
        kind = chance.choice(list(faults)) if chance.random() < 0.2 else "ok"
        if method != "GET" and (kind not in ("500", "408") or chance.random() < 0.5):
            self.done[number] += 1
        sent, ends = faults.get(kind, (good, False))
        self.transport.write(sent)
        if kind == "reset":
            self.transport.abort()
        elif kind == "late":
            asyncio.get_running_loop().call_soon(self.late, other)
        elif ends:
            self.transport.close()

    def late(self, other: bytes) -> None:
        # Behind a request that is written already it could not be told from the answer.
        if not self.transport.is_closing() and not self.buffer:
            self.transport.write(other)
            self.transport.close()


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
async def test_no_answer_reaches_another_caller_and_no_write_is_done_twice(given: bool) -> None:
    chance, done, opened = random.Random(given), Counter[str](), set[Server]()
    ends = Counter[str]()
    loop, before = asyncio.get_running_loop(), len(asyncio.all_tasks())
    server = await loop.create_server(lambda: Server(chance, done, opened), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def ask(session: AsyncSession, number: int) -> None:
        method = "POST" if chance.random() < 0.4 else "GET"
        try:
            data = await session.request(method, f"echo/{number}")
        except OutcomeUnknownError:
            ends["unknown"] += 1
        except SlashtagError:
            ends["failed though done"] += done[str(number)]
        else:
            ends["answered"] += 1
            assert data == {"number": str(number)}

    async def work(session: AsyncSession) -> None:
        for number in numbers:
            task = asyncio.create_task(ask(session, number))
            if chance.random() < 0.1:
                loop.call_later(chance.random() * 0.02, task.cancel)
            with suppress(asyncio.CancelledError):
                await task

    numbers = iter(range(400))
    async with (
        aiohttp.ClientSession() as http,
        connect(url, timeout=0.25, retry=POLICY, concurrency=24, http=http if given else None) as session,
    ):
        await asyncio.gather(*(work(session) for _ in range(40)))
        assert session.metrics.in_flight == session.metrics.waiting == 0
    server.close()
    await until(lambda: not opened)
    gc.collect()
    assert len(asyncio.all_tasks()) == before
    assert max(done.values()) == 1
    assert ends["answered"] > 100
    assert ends["unknown"]
    assert not ends["failed though done"]
