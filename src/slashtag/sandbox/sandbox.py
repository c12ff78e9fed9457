"""Sandbox: an account, the service over it, and what requests meet on their way to the service."""

import asyncio
import random
import sqlite3
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.resources import files
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Literal, Self, Unpack

import msgspec
from aiohttp import web
from anyio.from_thread import start_blocking_portal

from .account import Account, seconds
from .faults import NEEDS_ANSWER, Fault, FaultPlan, apply_fault, html_page, json_answer
from .generate import fill
from .routes import Behaviour, Envelope, Service, error_data
from .rules import Request, split_target
from .store import Store
from .token_bucket import TokenBucket

# Above any `max_target`, so that the option decides and not the web server's own limit.
_MAX_LINE = 2**20
# Seconds that an answer under way has to finish when the sandbox stops.
_GRACE = 1.0
# The OpenAPI description of the service. The file is JSON, which YAML includes.
_OPENAPI = files(__name__.rpartition(".")[0]).joinpath("openapi.yaml")


@dataclass(slots=True)
class Arrival:
    """A request that arrived, and its outcome.

    `path` is as on the wire, percent-encoded; `at` is seconds since the start; `in_flight` counts the
    requests under way then, this one included; `no_cache` whether caches were asked for no answer; `status`
    is None until one is sent; `fault` is the kind of its fault, or `"limit"` where it was one too many.
    """

    method: str
    path: str
    query: dict[str, str]
    at: float
    in_flight: int
    no_cache: bool = False
    body: bytes = b""
    status: int | None = None
    fault: str | None = None


class Sandbox(Account):
    """The service of docs/service.md on loopback, with an account of its own.

    `async with` (or `start` and `stop`) runs it in the current loop, `with` in a thread of its own.

    The account is generated from the numbers of `urls`, `clicks` and `tags`, from `seed`, `since` and
    `until`, or read from the file `store` if that holds one. Requests over `rate` a second (with `burst` at
    once) get a 429, with Retry-After unless `retry_after` is None. Each answer takes `latency` seconds, or a
    random time between a pair of bounds. A request target longer than `max_target` bytes gets a 414 with an
    HTML page. What the document leaves open is an option: see Behaviour. Raises ValueError for a wrong value.

    `requests` lists the requests that arrived so far, in order, and may be cleared; `latency`, `faults` and
    `headers`, which every answer has (another `Date`, or an `Age`), may be set while the sandbox runs.
    """

    def __init__(
        self,
        *,
        urls: int = 5_000,
        clicks: int = 200_000,
        seed: int = 7,
        tags: int = 20,
        since: datetime | str = "2022-01-01T00:00:00+00:00",
        until: datetime | str = "2025-12-31T23:59:59+00:00",
        store: str | Path | None = None,
        port: int = 0,
        apikey: str = "sandboxapikey0123456789",
        apisecret: str = "sandboxsecret01",
        rate: float | None = None,
        burst: float = 10,
        retry_after: Literal["seconds"] | None = "seconds",
        latency: float | tuple[float, float] = 0.0,
        faults: Iterable[Fault] = (),
        max_target: int = 8190,
        **behaviour: Unpack[Behaviour],
    ) -> None:
        if unknown := behaviour.keys() - Behaviour.__optional_keys__:
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        first, last = seconds(since), seconds(until)
        if last < first:
            raise ValueError(f"until ({until}) is before since ({since})")
        self._port = port
        self._tasks: set[asyncio.Task[object]] = set()
        self._thread = ExitStack()
        self.apikey = apikey
        self.apisecret = apisecret
        self.requests: list[Arrival] = []
        self.latency = latency
        self.headers: dict[str, str] = {}
        self._limit = None if rate is None else TokenBucket(rate, burst)
        self._retry_after = retry_after
        self._max_target = max_target
        self._rng = random.Random(f"{seed}/latency")
        self._seed = seed
        self._plan = FaultPlan(faults, seed)
        self._behaviour = msgspec.convert(behaviour, Behaviour)
        self._path = store
        self._fill = partial(fill, urls=urls, clicks=clicks, tags=tags, seed=seed, since=first, until=last)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults; setting them resets their counters."""
        return self._plan.faults

    @faults.setter
    def faults(self, faults: Iterable[Fault]) -> None:
        self._plan = FaultPlan(faults, self._seed)

    @property
    def port(self) -> int:
        """The port it listens on. Raises RuntimeError while it does not run."""
        if self._store is None:
            raise RuntimeError("the sandbox is not running")
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        """Base address, without a path. Raises RuntimeError while it does not run."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Generate or open the account and listen.

        Raises OSError where the port is taken, and where the file `store` cannot hold or be the account.
        """
        if self._store is not None:
            raise RuntimeError("the sandbox is running already")
        with ExitStack() as opened:
            try:
                store = opened.enter_context(closing(Store(self._path)))
                if store.is_new:
                    self._fill(store)
                    store.finish()
            except sqlite3.Error as error:
                raise OSError(f"{self._path}: {error}") from None
            self._service = Service(store, self._behaviour, self.apikey, self.apisecret)
            self._began = monotonic()
            self._server = web.Server(self._handle, access_log=None, max_line_size=_MAX_LINE)
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._server, "127.0.0.1", self._port)
            opened.pop_all()
        self._store = store

    async def stop(self) -> None:
        """Close all connections and stop. May be called again."""
        store, self._store = self._store, None
        if store is None:
            return
        # Stop accepting before the listener is closed. A connection accepted just before is known to the
        # server only some iterations of the loop later; without them it would stay open.
        with suppress(NotImplementedError):  # the loop of Windows, which has no readers
            for sock in self._listener.sockets:
                asyncio.get_running_loop().remove_reader(sock.fileno())
        for _turn in range(3):
            await asyncio.sleep(0)
        self._listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server.pre_shutdown()
        await self._server.shutdown(_GRACE)
        store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(self))
            self._thread = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Record a request and answer it; the description of the service is given to anybody, unrecorded."""
        if request.raw_path == "/openapi.json":
            return web.Response(body=_OPENAPI.read_bytes(), content_type="application/json")
        path, query = split_target(request.raw_path)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        no_cache = "no-cache" in request.headers.get("Cache-Control", "")
        at, in_flight = monotonic() - self._began, len(self._tasks)
        arrival = Arrival(request.method, path, query, at, in_flight, no_cache)
        self.requests.append(arrival)
        try:
            response = await self._respond(request, arrival)
        finally:
            self._tasks.discard(task)
        if response is None:
            return web.Response()  # never sent: the connection is gone
        arrival.status = response.status
        if not response.prepared:
            response.headers.update(self.headers)
        return response

    async def _respond(self, request: web.BaseRequest, arrival: Arrival) -> web.StreamResponse | None:
        if len(request.raw_path.encode(errors="surrogateescape")) > self._max_target:
            response = html_page(414)
            response.force_close()
            return response
        wait = None if self._limit is None else self._limit.admit(arrival.at)
        fault = self._plan.pick(arrival.method, arrival.path) if wait is None else None
        arrival.body = await request.read()
        if self.latency:
            low, high = self.latency if isinstance(self.latency, tuple) else (self.latency, self.latency)
            await asyncio.sleep(self._rng.uniform(low, high))
        if wait is not None:
            arrival.fault = "limit"
            refusal = Envelope(429, "Too many requests. Please slow down.", error_data(arrival.path))
            headers = {"Retry-After": str(max(1, ceil(wait)))} if self._retry_after else {}
            return json_answer(429, refusal, headers)
        if fault is not None:
            arrival.fault = fault.kind
        done: Envelope | None = None
        if fault is None or fault.after_work or fault.kind in NEEDS_ANSWER:
            asked = Request(arrival.method, arrival.path, arrival.query, request.headers, arrival.body)
            done = self._service.answer(asked)
        if fault is not None:
            return await apply_fault(fault, request, msgspec.json.encode(done))
        assert done is not None
        return json_answer(done.status, done)
