"""A service of canned answers in a process of its own: as little as can answer HTTP.

python benchmarks/_server.py [--delay SECONDS] [--pages N]

It prints its port. It answers GETs under /api/v1: `urls` with pages of links, anything else with statistics
of about 140 entries, 40 of them referrers.
It ends with its standard input, so that nothing is left of it when the benchmark is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

#: Of all answers: after every period.
DATE = b"Mon, 02 Dec 2024 12:00:00 GMT"
PAGE_SIZE = 500
FIRST_ID = 100_000_000  # all ids have nine digits, so that all pages have the same length
_COUNTRIES = (
    "US DE FR GB IT ES PT NL BE LU CH AT PL CZ SK HU RO BG GR TR UA SE NO FI DK IE IS EE LV LT CA MX BR AR CL"
)


@cache
def statistics(start: date, end: date) -> bytes:
    """Give the answer for a range of days: 140 entries where it has 32 of them."""
    days = [start + timedelta(days=n) for n in range((end - start).days + 1)]
    clicks = {day.isoformat(): 100 + n for n, day in enumerate(days)}
    dimensions = {
        "device": dict.fromkeys(("Desktop", "Mobile", "Tablet", "Other"), 811),
        "browser": {f"Browser {n}": 100 + n for n in range(15)},
        "platform": {f"Platform {n}": 100 + n for n in range(14)},
        "country": {code: 100 + n for n, code in enumerate(_COUNTRIES.split())},
        "referrer": {f"news-{n:02}.example.com": 100 + n for n in range(40)},
    }
    # Days and labels add up to the total, or the answer would be inconsistent.
    total = max(sum(counts.values()) for counts in (clicks, *dimensions.values()))
    for counts in (clicks, *dimensions.values()):
        counts[next(iter(counts))] += total - sum(counts.values())
    data = {"total_clicks": total, "clicks": clicks, **dimensions}
    return _json({"status": 200, "message": "ok", "data": data})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _link(n: int) -> bytes:
    link = {
        "id": n,
        "destination": f"https://example.com/2024/{n}/a-title-of-words?utm=letter",
        "hits": n % 1000,
        "redirectCode": 301,
        "shortUrl": f"https://go.example.com/{n}",
        "slashtag": f"link-{n}",
        "createdAt": "2024-01-31 12:34:56",
        "updatedAt": "2024-02-29 23:59:59",
        "tagId": 7,
    }
    return _json(link).replace(str(n).encode(), b"%d")


_LINKS = b",".join([_link(FIRST_ID)] * PAGE_SIZE)
_IDS_A_LINK = _link(FIRST_ID).count(b"%d")


def page(number: int, pages: int) -> bytes:
    """Give a page of 500 links; those after the last have none."""
    first = FIRST_ID + PAGE_SIZE * (number - 1)
    ids = [n for n in range(first, first + PAGE_SIZE) for _ in range(_IDS_A_LINK)]
    links = _LINKS % tuple(ids) if number <= pages else b""
    return b'{"status": 200, "message": "ok", "data": {"page": %d, "pageSize": %d, "items": [%s]}}' % (
        number,
        PAGE_SIZE,
        links,
    )


def _http(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (DATE, len(body)) + body


class Service(asyncio.Protocol):
    """Answer one connection."""

    answers: ClassVar[dict[bytes, bytes]] = {}
    pages = 200
    delay = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        data = self._received + data
        *requests, self._received = data.split(b"\r\n\r\n")
        for request in requests:
            answer = self._answer(request.split(b" ", 2)[1])
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self._write, answer)
            else:
                self._transport.write(answer)

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)

    def _answer(self, target: bytes) -> bytes:
        path, _, query = target.partition(b"?")
        if path.endswith(b"/urls"):
            parameters = dict(pair.split(b"=") for pair in query.split(b"&"))
            number = int(parameters[b"page"])
            answer = self.answers.get(b"page %d" % number)
            if answer is None:
                answer = self.answers[b"page %d" % number] = _http(page(number, self.pages))
                if len(self.answers) > 300:
                    del self.answers[next(iter(self.answers))]
            return answer
        at = query.find(b"date_range=") + len(b"date_range=")
        span = query[at:].split(b"&", 1)[0].replace(b"%2C", b",").replace(b"%2c", b",")
        answer = self.answers.get(span)
        if answer is None:
            start, end = (date.fromisoformat(bound[:10].decode()) for bound in span.split(b","))
            answer = self.answers[span] = _http(statistics(start, end))
        return answer


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Service, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


@contextmanager
def running(delay: float = 0.0, pages: int = 200) -> Iterator[str]:
    """Run the service for a while; gives its base_url."""
    options = ["--delay", str(delay), "--pages", str(pages)]
    command = [sys.executable, str(Path(__file__)), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/api/v1"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    Service.delay, Service.pages = options.delay, options.pages
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve())
    else:
        uvloop.run(_serve())


if __name__ == "__main__":
    main()
