"""Measure the CPU of public calls beside the same work written by hand, and beside other clients.

python benchmarks/request.py [--size FACTOR] [--rounds N] [--json]

The work: GET statistics of 2.6 KB about 100 slashtags, with both headers. By hand is what one would write
over aiohttp: join the slashtags, get, read, decode by msgspec, add up. All take turns; figures are medians of
ratios. With PYTHONPATH=OTHER/src the calls are those of another version of slashtag.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._measure import Cost, Row, middle, paired, parser, ratio, report, scaled
from slashtag import AsyncSession, DateRange, ShortUrl

TIMEOUT = 30.0
ACCOUNT = {"apikey": "k" * 24, "apisecret": "s" * 16}
HEADERS = ACCOUNT | {"Accept": "application/json"}
QUERY = DateRange("2024-01-01", "2024-02-01")
YEARS = DateRange("2021-01-01", "2024-01-31")  # 36 requests a batch
RANGE = "2024-01-01T00:00:00+00:00,2024-02-01T23:59:59+00:00"
#: Batches of slashtags: each request has its own.
BATCHES = [[f"campaign-{batch:04}-{n:03}" for n in range(100)] for batch in range(1_500)]
KEYS = [key for batch in BATCHES for key in batch]
LINKS = [ShortUrl(id=n, slashtag=key) for n, key in enumerate(KEYS)]
WORKERS = 32
#: Work on the nth batch.
One = Callable[[int], Awaitable[object]]
Run = Callable[[int], object]


class Data(msgspec.Struct, gc=False):
    total_clicks: int
    device: dict[str, int]
    browser: dict[str, int]
    platform: dict[str, int]
    country: dict[str, int]
    referrer: dict[str, int]
    clicks: dict[str, int]


class Answer(msgspec.Struct, gc=False):
    status: int
    data: Data


TYPED, PLAIN = msgspec.json.Decoder(Answer), msgspec.json.Decoder()


def params(n: int) -> dict[str, str]:
    return {"url_keys": ",".join(BATCHES[n]), "date_range": RANGE}


async def by_workers(one: One, requests: int, in_flight: int) -> None:
    """Let workers pull from one iterator: what costs least."""
    numbers = iter(range(requests))

    async def worker() -> None:
        for n in numbers:
            await one(n % len(BATCHES))

    await asyncio.gather(*(worker() for _ in range(in_flight)))


async def by_gather(one: One, requests: int, in_flight: int) -> None:
    """Make a task for each request, under a semaphore: what is written most."""
    places = asyncio.Semaphore(in_flight)

    async def task(n: int) -> None:
        async with places:
            await one(n % len(BATCHES))

    await asyncio.gather(*(task(n) for n in range(requests)))


class ByHand:
    """What one would write over aiohttp."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url, self.http = url, http
        self.sums = dict[str, dict[str, int]]()

    async def collect(self, n: int) -> None:
        """Ask for a batch and add it to the sums."""
        async with self.http.get(self.url, params=params(n)) as response:
            response.raise_for_status()
            data = TYPED.decode(await response.read()).data
        for name in ("clicks", "device", "browser", "platform", "country", "referrer"):
            into = self.sums.setdefault(name, {})
            for label, clicks in getattr(data, name).items():
                into[label] = into.get(label, 0) + clicks

    async def request(self, n: int) -> object:
        async with self.http.get(self.url, params=params(n)) as response:
            response.raise_for_status()
            return PLAIN.decode(await response.read())["data"]


async def with_httpx(package: str, url: str, stack: AsyncExitStack) -> One:
    """Give httpx, or its successor httpx2, which has the same interface, with tenacity."""
    import tenacity

    httpx = import_module(package)
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    client = httpx.AsyncClient(headers=HEADERS, timeout=TIMEOUT, trust_env=False, limits=limits)
    http = await stack.enter_async_context(client)

    @tenacity.retry(
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_random_exponential(),
        retry=tenacity.retry_if_exception_type(httpx.HTTPError),
    )
    async def one(n: int) -> object:
        response = await http.get(url, params=params(n))
        response.raise_for_status()
        return response.json()["data"]

    return one


async def with_rust(package: str, url: str, stack: AsyncExitStack) -> One:
    """Give pyreqwest or wreq, which are written in Rust."""
    seconds = timedelta(seconds=TIMEOUT)
    if package == "wreq":
        wreq = import_module("wreq")
        http = await stack.enter_async_context(
            wreq.Client(headers=HEADERS, timeout=seconds, no_proxy=True, tls_verify=True)
        )
    else:
        builder = import_module("pyreqwest.client").ClientBuilder()
        http = await stack.enter_async_context(
            builder.default_headers(HEADERS).timeout(seconds).no_proxy().build()
        )

    async def one(n: int) -> object:
        if package == "wreq":
            response = await http.get(url, query=params(n))
            response.raise_for_status()
        else:
            response = await http.get(url).query(params(n)).build().send()
            response.error_for_status()
        return PLAIN.decode(await response.bytes())["data"]

    return one


PEERS = {"httpx": with_httpx, "httpx2": with_httpx, "pyreqwest": with_rust, "wreq": with_rust}


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Measure calls beside the same by hand, then beside peers."""
    with ExitStack() as stack:
        base_url = stack.enter_context(_server.running())
        runner = stack.enter_context(asyncio.Runner())
        clients = AsyncExitStack()
        stack.callback(lambda: runner.run(clients.aclose()))
        calls, absent = runner.run(opened(base_url, clients))
        session, hand = calls.pop("session"), calls.pop("by hand")

        async def collect(n: int) -> object:
            return await session.stats.collect(QUERY, keys=BATCHES[n])

        async def request(n: int) -> object:
            return await session.request("GET", "stats", params=params(n))

        def work(one: One, in_flight: int = 1, driver: Any = by_workers) -> Run:
            return lambda requests: runner.run(driver(one, requests, in_flight))

        def fan_out(keys: list[Any]) -> Run:
            asked = keys[: 100 * scaled(1_500, size)]
            return lambda _: runner.run(session.stats.collect(QUERY, keys=asked))

        async def job(requests: int, journal: Path | None = None) -> None:
            async with AsyncSession(base_url, **ACCOUNT, journal=journal) as client:
                await client.stats.collect(YEARS, keys=KEYS[: 100 * (requests // 36)])

        def with_journal(requests: int) -> None:
            with TemporaryDirectory() as folder:
                runner.run(job(requests, Path(folder) / "journal"))

        by_hand = work(hand.collect, WORKERS)
        for what, requests, ours, theirs, goal in (
            ("one collect a call", 140, work(collect), work(hand.collect), "<= 1.3"),
            ("session.request", 140, work(request), work(hand.request), "<= 1.3"),
            ("collect, a fan-out of 1,500", 1_500, fan_out(KEYS), by_hand, "<= 1.2"),
            ("the same, of listed links", 1_500, fan_out(LINKS), by_hand, None),
        ):
            n = scaled(requests, size)
            costs = taking_turns({"ours": ours, "theirs": theirs}, n, rounds)
            note = f"{each(costs['ours'], n)} and {each(costs['theirs'], n)} us a request"
            yield Row(f"{what} / by hand over aiohttp", ratio(*costs.values()), goal=goal, note=note)
        costs = taking_turns(
            {"with": with_journal, "without": lambda n: runner.run(job(n))}, max(n, 36), rounds
        )
        yield Row("collect of 3 years, with a journal / without", ratio(*costs.values()), goal="<= 1.15")
        for in_flight, requests, goal in ((1, 60, "<= 0.35"), (16, 320, "<= 0.10")):
            n = scaled(requests, size, in_flight)
            runs = {"ours": work(request, in_flight)}
            for name, one in calls.items():
                driver = by_gather if "httpx" in name else by_workers
                runs[name] = work(one, in_flight, driver)
            costs = taking_turns(runs, n, max(1, rounds // 3))
            for name in PEERS:
                told = f"{name} + tenacity + gather" if "httpx" in name else name
                what = f"session.request / {told}, {in_flight} in flight"
                if name in absent:
                    yield Row(what, None, note=absent[name])
                else:
                    found = ratio(costs["ours"], costs[name])
                    yield Row(what, found, goal=goal if "httpx" in name else None)


async def opened(base_url: str, clients: AsyncExitStack) -> tuple[dict[str, Any], dict[str, str]]:
    """Open all clients, and tell why some are absent."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    http = await clients.enter_async_context(aiohttp.ClientSession(headers=HEADERS, timeout=timeout))
    session = await clients.enter_async_context(AsyncSession(base_url, **ACCOUNT, timeout=TIMEOUT))
    found: dict[str, Any] = {"session": session, "by hand": ByHand(f"{base_url}/stats", http)}
    absent = dict[str, str]()
    for name, made in PEERS.items():
        try:
            one = await made(name, f"{base_url}/stats", clients)
            await one(0)
        except ImportError:
            absent[name] = "not installed"
        except Exception as error:  # a peer may be broken in any way
            absent[name] = f"does not run: {type(error).__name__}"
        else:
            found[name] = one
    return found, absent


def taking_turns(runs: dict[str, Run], requests: int, rounds: int) -> dict[str, list[Cost]]:
    """Exempt from garbage collection what is there before: nobody pays for others."""
    gc.collect()
    gc.freeze()
    return paired({name: (lambda run=run: run(requests)) for name, run in runs.items()}, rounds)


def each(costs: list[Cost], requests: int) -> str:
    return f"{1e6 * middle(costs) / requests:.0f}"


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size, options.rounds or 25), options.json)


if __name__ == "__main__":
    main()
