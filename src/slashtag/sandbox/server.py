"""Sandbox: the service and its life cycle on a socket of this machine."""

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypedDict, Unpack

from aiohttp import web

from .account import Account, seconds
from .faults import Fault
from .gateway import Arrival, Gateway
from .generate import fill
from .limits import Limiter, TokenBucket
from .options import Behaviour
from .routes import Service
from .store import Store

# Above any `max_target`, so that the option decides and not the web server's own limit.
_MAX_LINE = 2**20
# Seconds that an answer under way has to finish when the sandbox stops.
_GRACE = 1.0
# An account of at most so many links and clicks is made faster than a thread starts.
_QUICK = 2_000


class BehaviourOptions(TypedDict, total=False):
    """Options of Behaviour as keyword arguments."""

    range_end: Literal["inclusive", "exclusive"]
    range_span: Literal["elapsed", "dates"]
    day_clicks: bool
    zero_days: bool
    empty_maps: Literal["object", "array"]
    places: int
    paths: Literal["stated", "samples", "both"]
    unknown_keys: Literal["ignore", "error"]
    omitted: Literal["keep", "reset"]
    max_pagesize: int
    max_tags: int


class Sandbox(Account):
    """The service of docs/service.md on loopback, with an account of its own.

    `async with` (or `start` and `stop`) runs it in the current loop, `with` in a thread of its own.

    The account is generated from the numbers of `urls`, `clicks` and `tags`, from `seed`, `since` and
    `until`, or read from the file `store` if that holds one. Requests over `rate` a second (with `burst` at
    once) or refused by `limiter` get a 429 with Retry-After in the form of `retry_after`. Each answer takes
    `latency` seconds, or a random time between a pair of bounds. A request target longer than `max_target`
    bytes gets a 414 with an HTML page. With `keep_requests=False` `requests` stays empty, for runs of days.
    What the document leaves open is an option: see Behaviour. Raises ValueError for a wrong value.
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
        host: str = "127.0.0.1",
        port: int = 0,
        apikey: str = "sandboxapikey0123456789",
        apisecret: str = "sandboxsecret01",
        rate: float | None = None,
        burst: float = 10,
        limiter: Limiter | None = None,
        retry_after: Literal["seconds", "date"] | None = "seconds",
        latency: float | tuple[float, float] = 0.0,
        faults: Iterable[Fault] = (),
        max_target: int = 8190,
        keep_requests: bool = True,
        **behaviour: Unpack[BehaviourOptions],
    ) -> None:
        if retry_after not in ("seconds", "date", None):
            raise ValueError(f"retry_after is 'seconds', 'date' or None, not {retry_after!r}")
        self.apikey = apikey
        self.apisecret = apisecret
        bucket = None if rate is None else TokenBucket(rate, burst)
        first, last = seconds(since), seconds(until)
        if last < first:
            raise ValueError(f"until ({until}) is before since ({since})")
        self._gateway = Gateway(
            limiters=[one for one in (bucket, limiter) if one is not None],
            retry_after=retry_after,
            latency=latency,
            faults=faults,
            max_target=max_target,
            keep_requests=keep_requests,
            seed=seed,
        )
        self._behaviour = Behaviour(**behaviour)
        self._path = store
        self._fill = partial(fill, urls=urls, clicks=clicks, tags=tags, seed=seed, since=first, until=last)
        self._is_quick = max(urls, clicks) <= _QUICK
        self._address = (host, port)
        self._running: tuple[web.Server, asyncio.Server] | None = None
        self._thread: threading.Thread | None = None
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    @property
    def port(self) -> int:
        """The port it listens on. Raises RuntimeError while it does not run."""
        if self._running is None:
            raise RuntimeError("the sandbox is not running")
        _server, listener = self._running
        return int(listener.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        """Base address, without a path. Raises RuntimeError while it does not run."""
        host = self._address[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def requests(self) -> list[Arrival]:
        """Requests that arrived so far, in order; the list may be cleared."""
        return self._gateway.requests

    @property
    def max_in_flight(self) -> int:
        """Largest number of requests under way at once so far."""
        return self._gateway.max_in_flight

    @property
    def latency(self) -> float | tuple[float, float]:
        """Seconds before each answer, or their bounds; may be set while the sandbox runs."""
        return self._gateway.latency

    @latency.setter
    def latency(self, latency: float | tuple[float, float]) -> None:
        self._gateway.latency = latency

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults; setting them, also while the sandbox runs, resets their counters."""
        return self._gateway.faults

    @faults.setter
    def faults(self, faults: Iterable[Fault]) -> None:
        self._gateway.faults = tuple(faults)

    async def start(self) -> None:
        """Generate or open the account and listen. Raises OSError where the port is taken."""
        if self._running is not None:
            raise RuntimeError("the sandbox is running already")
        store = self._open() if self._is_quick else await self._open_in_thread()
        service = Service(store, self._behaviour, self.apikey, self.apisecret)
        handle = partial(self._gateway.handle, service)
        server = web.Server(handle, access_log=None, max_line_size=_MAX_LINE)
        try:
            listener = await asyncio.get_running_loop().create_server(server, *self._address)
        except BaseException:
            store.close()
            raise
        self._store, self._running = store, (server, listener)
        self._gateway.begin()

    async def stop(self) -> None:
        """Close all connections and stop. May be called again."""
        if self._thread not in (None, threading.current_thread()):
            self.close()  # it runs in another loop
            return
        running, self._running = self._running, None
        if running is None:
            return
        server, listener = running
        # Stop accepting before the listener is closed. A connection accepted just before is known to the
        # server only some iterations of the loop later; without them it would stay open.
        for sock in listener.sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
        for _turn in range(3):
            await asyncio.sleep(0)
        listener.close()
        await self._gateway.cancel_requests()
        server.pre_shutdown()
        await server.shutdown(_GRACE)
        self.store.close()
        self._store = None

    def close(self) -> None:
        """End the thread that `with` started. May be called again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._started.exception() is None:
            loop, stopping = self._started.result()
            loop.call_soon_threadsafe(stopping.set)
        thread.join()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        if self._running is not None or self._thread is not None:
            raise RuntimeError("the sandbox is running already")
        self._started = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run_thread()), name="sandbox", daemon=True
        )
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _run_thread(self) -> None:
        """Run in the thread until `close` is called."""
        try:
            await self.start()
        except BaseException as error:
            self._started.set_exception(error)
            return
        stopping = asyncio.Event()
        self._started.set_result((asyncio.get_running_loop(), stopping))
        await stopping.wait()
        await self.stop()

    def _open(self) -> Store:
        store = Store(self._path)
        try:
            if store.is_new:
                self._fill(store)
        except BaseException:
            store.close()
            raise
        return store

    async def _open_in_thread(self) -> Store:
        """Open in a thread so that the loop goes on; not one of the loop's executor, which would stay."""
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(self._open)
            # Not shielded: Python 3.14 would report a failure after a cancellation, which is raised here.
            waiting = asyncio.wrap_future(opening)
            try:
                await asyncio.wait((waiting,))
            except asyncio.CancelledError:
                try:
                    opening.result().close()
                finally:
                    if not waiting.cancel():
                        waiting.exception()
                raise
            return waiting.result()
