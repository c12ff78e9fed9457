"""The clients that the cost of a request is compared over, each a function from a number to an answer."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from importlib import import_module
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import msgspec

from slashtag import AsyncSession, DateRange

TIMEOUT = 30.0
KEY, SECRET = "k" * 24, "s" * 16
HEADERS = {"apikey": KEY, "apisecret": SECRET, "Accept": "application/json"}
#: Variable that names the file of the authority to trust over TLS; OpenSSL reads it by itself.
AUTHORITY = "SSL_CERT_FILE"
BATCHES = 64
SPAN = ("2024-01-01", "2024-02-01")
One = Callable[[int], Awaitable[object]]
Run = Callable[[int, int], object]


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


DECODER = msgspec.json.Decoder(Answer)


def keys(batch: int) -> list[str]:
    """Give the 100 slashtags of a batch."""
    return [f"campaign-{batch:03}-{n:03}" for n in range(100)]


def parameters() -> list[dict[str, str]]:
    """Give the query of each batch."""
    start, end = SPAN
    span = f"{start}T00:00:00+00:00,{end}T23:59:59+00:00"
    return [{"url_keys": ",".join(keys(n)), "date_range": span} for n in range(BATCHES)]


async def by_workers(one: One, requests: int, in_flight: int) -> None:
    """Send requests by workers that pull from one iterator: what costs least."""
    numbers = iter(range(requests))

    async def worker() -> None:
        for n in numbers:
            await one(n % BATCHES)

    await asyncio.gather(*(worker() for _ in range(in_flight)))


async def by_gather(one: One, requests: int, in_flight: int) -> None:
    """Send requests by a task for each, under a semaphore: what is written most."""
    places = asyncio.Semaphore(in_flight)

    async def task(n: int) -> None:
        async with places:
            await one(n % BATCHES)

    await asyncio.gather(*(task(n) for n in range(requests)))


async def bare(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    http = await stack.enter_async_context(
        aiohttp.ClientSession(headers=HEADERS, timeout=aiohttp.ClientTimeout(total=TIMEOUT))
    )
    url, queries = f"{base_url}/stats", parameters()
    sums: dict[str, dict[str, int]] = {}

    async def typed(n: int) -> Data:
        async with http.get(url, params=queries[n]) as response:
            response.raise_for_status()
            return DECODER.decode(await response.read()).data

    async def naive(n: int) -> object:
        async with http.get(url, params=queries[n]) as response:
            response.raise_for_status()
            return (await response.json())["data"]

    async def summed(n: int) -> None:
        data = await typed(n)
        for name in ("clicks", "device", "browser", "platform", "country", "referrer"):
            into = sums.setdefault(name, {})
            for label, clicks in getattr(data, name).items():
                into[label] = into.get(label, 0) + clicks

    return {"bare": typed, "naive": naive, "bare, summed": summed}


async def ours(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    session = await stack.enter_async_context(
        AsyncSession(base_url, apikey=KEY, apisecret=SECRET, timeout=TIMEOUT, concurrency=64)
    )
    # Calls as `collect` makes them; their cost is in the rows of `collect`.
    plan = session.stats.plan(DateRange(*SPAN), keys=[key for n in range(BATCHES) for key in keys(n)])
    calls = [request.call for request in plan._requests()]
    # Without the check that keeps statistics to `session.stats`.
    send = session._sender.send
    return {"slashtag": lambda n: send(calls[n])}


def collect(runner: asyncio.Runner, base_url: str, stack: ExitStack, query: DateRange, windows: int) -> Run:
    """The whole library; a single window is its worst, as each request has slashtags of its own."""
    sessions: dict[int, AsyncSession] = {}
    names: list[str] = []  # made in the round that does not count

    @stack.callback
    def close() -> None:
        for session in sessions.values():
            runner.run(session.aclose())

    async def run(requests: int, in_flight: int) -> None:
        if in_flight not in sessions:
            sessions[in_flight] = AsyncSession(
                base_url, apikey=KEY, apisecret=SECRET, timeout=TIMEOUT, concurrency=in_flight
            )
        batches = -(-requests // windows)
        while len(names) < 100 * batches:
            names.extend(keys(len(names) // 100))
        await sessions[in_flight].stats.collect(query, keys=islice(names, 100 * batches))

    return lambda requests, in_flight: runner.run(run(requests, in_flight))


def collect_calls(runner: asyncio.Runner, base_url: str, stack: ExitStack) -> dict[str, Run]:
    """One `collect` a call, of 100 slashtags and one window; beside it aiohttp that does the same by hand."""
    sessions: list[AsyncSession] = []
    http: list[aiohttp.ClientSession] = []
    batches = [keys(n) for n in range(BATCHES)]
    query, span = DateRange(*SPAN), parameters()[0]["date_range"]

    @stack.callback
    def close() -> None:
        for client in http:
            runner.run(client.close())
        for session in sessions:
            runner.run(session.aclose())

    async def ours(n: int) -> object:
        if not sessions:
            sessions.append(AsyncSession(base_url, apikey=KEY, apisecret=SECRET, timeout=TIMEOUT))
        return await sessions[0].stats.collect(query, keys=batches[n])

    async def bare(n: int) -> object:
        if not http:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT)
            http.append(aiohttp.ClientSession(headers=HEADERS, timeout=timeout))
        params = {"url_keys": ",".join(batches[n]), "date_range": span}
        async with http[0].get(f"{base_url}/stats", params=params) as response:
            response.raise_for_status()
            data = DECODER.decode(await response.read()).data
        sums: dict[str, dict[str, int]] = {}
        for name in ("clicks", "device", "browser", "platform", "country", "referrer"):
            into = sums.setdefault(name, {})
            for label, clicks in getattr(data, name).items():
                into[label] = into.get(label, 0) + clicks
        return sums

    return {
        "collect, a call": lambda requests, in_flight: runner.run(by_workers(ours, requests, in_flight)),
        "bare, a call": lambda requests, in_flight: runner.run(by_workers(bare, requests, in_flight)),
    }


async def with_httpx(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    return await _with_httpx("httpx", base_url, stack)


async def with_httpx2(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    return await _with_httpx("httpx2", base_url, stack)


async def _with_httpx(package: str, base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    """Give httpx, or its successor httpx2, which has the same interface."""
    import tenacity

    httpx = import_module(package)
    http = await stack.enter_async_context(
        httpx.AsyncClient(
            headers=HEADERS,
            timeout=TIMEOUT,
            trust_env=False,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=64),
        )
    )
    url, queries = f"{base_url}/stats", parameters()

    @tenacity.retry(
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_random_exponential(),
        retry=tenacity.retry_if_exception_type(httpx.HTTPError),
    )
    async def one(n: int) -> object:
        response = await http.get(url, params=queries[n])
        response.raise_for_status()
        return response.json()["data"]

    return {f"{package} + tenacity + gather": one}


async def with_pyreqwest(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    from pyreqwest.client import ClientBuilder

    made = ClientBuilder().default_headers(HEADERS).timeout(timedelta(seconds=TIMEOUT)).no_proxy()
    if authority := os.environ.get(AUTHORITY):
        made = made.add_root_certificate_pem(Path(authority).read_bytes())
    http = await stack.enter_async_context(made.build())
    url, queries = f"{base_url}/stats", parameters()

    async def one(n: int) -> Data:
        response = await http.get(url).query(queries[n]).build().send()
        response.error_for_status()
        return DECODER.decode(await response.bytes()).data

    return {"pyreqwest": one}


async def with_pyqwest(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    import pyqwest

    # By default it keeps two idle connections, and measures for OpenTelemetry.
    transport = pyqwest.HTTPTransport(timeout=TIMEOUT, pool_max_idle_per_host=64, enable_otel=False)
    http = pyqwest.Client(await stack.enter_async_context(transport))
    url, queries = f"{base_url}/stats", parameters()

    async def one(n: int) -> Data:
        response = await http.get(url, HEADERS, params=queries[n])
        assert response.status == 200
        return DECODER.decode(response.content).data

    return {"pyqwest": one}


async def with_wreq(base_url: str, stack: AsyncExitStack) -> dict[str, One]:
    import wreq

    authority = os.environ.get(AUTHORITY)
    http = await stack.enter_async_context(
        wreq.Client(
            headers=HEADERS,
            timeout=timedelta(seconds=TIMEOUT),
            no_proxy=True,
            tls_verify=Path(authority) if authority else True,
        )
    )
    url, queries = f"{base_url}/stats", parameters()

    async def one(n: int) -> Data:
        response = await http.get(url, query=queries[n])
        response.raise_for_status()
        return DECODER.decode(await response.bytes()).data

    return {"wreq": one}


def with_requests(base_url: str) -> Run:
    """Threads, each with a session of its own."""
    import requests

    url, queries = f"{base_url}/stats", parameters()

    def run(count: int, in_flight: int) -> None:
        numbers = iter(range(count))

        def worker() -> None:
            with requests.Session() as http:
                http.trust_env = False
                http.headers.update(HEADERS)
                for n in numbers:
                    response = http.get(url, params=queries[n % BATCHES], timeout=TIMEOUT)
                    response.raise_for_status()
                    DECODER.decode(response.content)

        with ThreadPoolExecutor(in_flight) as pool:
            for done in [pool.submit(worker) for _ in range(in_flight)]:
                done.result()

    return run


def wrk(base_url: str, in_flight: int, seconds: float) -> float | None:
    """Return the CPU seconds of one request of wrk, None where it does not run."""
    command = shutil.which("wrk")
    if command is None:
        return None
    url = f"{base_url}/stats?{urlencode(parameters()[0], safe=',')}"
    options = ["-t1", f"-c{in_flight}", f"-d{max(1, round(seconds))}s"]
    headers = [part for name, value in HEADERS.items() for part in ("-H", f"{name}: {value}")]
    process = subprocess.Popen([command, *options, *headers, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    done = re.search(r"(\d+) requests in", told)
    return (usage.ru_utime + usage.ru_stime) / int(done[1]) if done and not status else None
