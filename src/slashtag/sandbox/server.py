"""Sandbox: the service and its life cycle on a socket of this machine."""

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, Self, Unpack

import msgspec
from aiohttp import web
from anyio.from_thread import BlockingPortal, start_blocking_portal

from .account import Account, seconds
from .faults import Fault
from .gateway import Gateway
from .generate import fill
from .limits import Limiter, TokenBucket
from .options import Behaviour, BehaviourOptions
from .routes import Service
from .store import Store

# Above any `max_target`, so that the option decides and not the web server's own limit.
_MAX_LINE = 2**20
# Seconds that an answer under way has to finish when the sandbox stops.
_GRACE = 1.0


class Sandbox(Account, Gateway):
    """The service of docs/service.md on loopback, with an account of its own.

    `async with` (or `start` and `stop`) runs it in the current loop, `with` in a thread of its own.

    The account is generated from the numbers of `urls`, `clicks` and `tags`, from `seed`, `since` and
    `until`, or read from the file `store` if that holds one. Requests over `rate` a second (with `burst` at
    once) or refused by `limiter` get a 429 with Retry-After in the form of `retry_after`. Each answer takes
    `latency` seconds, or a random time between a pair of bounds. A request target longer than `max_target`
    bytes gets a 414 with an HTML page. With `keep_requests=False` `requests` stays empty, for runs of days.
    What the document leaves open is an option: see Behaviour. Raises ValueError for a wrong value.

    `requests` lists the requests that arrived so far, in order, and may be cleared; `max_in_flight` is the
    largest number under way at once so far; `latency` and `faults` may be set while the sandbox runs.
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
        bucket = None if rate is None else TokenBucket(rate, burst)
        super().__init__(
            limiters=[one for one in (bucket, limiter) if one is not None],
            retry_after=retry_after,
            latency=latency,
            faults=faults,
            max_target=max_target,
            keep_requests=keep_requests,
            seed=seed,
        )
        first, last = seconds(since), seconds(until)
        if last < first:
            raise ValueError(f"until ({until}) is before since ({since})")
        self.apikey = apikey
        self.apisecret = apisecret
        self._behaviour = msgspec.convert(behaviour, Behaviour)
        self._path = store
        self._fill = partial(fill, urls=urls, clicks=clicks, tags=tags, seed=seed, since=first, until=last)
        self._address = (host, port)
        self._running: tuple[web.Server, asyncio.Server] | None = None
        self._thread = ExitStack()
        self._portal: BlockingPortal | None = None

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

    async def start(self) -> None:
        """Generate or open the account and listen. Raises OSError where the port is taken."""
        if self._running is not None:
            raise RuntimeError("the sandbox is running already")
        loop = asyncio.get_running_loop()
        store = Store(self._path)
        try:
            if store.is_new:
                self._fill(store)
            service = Service(store, self._behaviour, self.apikey, self.apisecret)
            handle = partial(self._handle, service)
            server = web.Server(handle, access_log=None, max_line_size=_MAX_LINE)
            listener = await loop.create_server(server, *self._address)
        except BaseException:
            store.close()
            raise
        self._store, self._running = store, (server, listener)
        self._began = loop.time()

    async def stop(self) -> None:
        """Close all connections and stop. May be called again."""
        if self._portal is None:
            await self._stop()
        else:
            self.close()  # it runs in another loop

    async def _stop(self) -> None:
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
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.pre_shutdown()
        await server.shutdown(_GRACE)
        self.store.close()
        self._store = None

    def close(self) -> None:
        """End the thread that `with` started. May be called again."""
        self._portal = None
        self._thread.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            portal.call(self.start)
            stack.callback(portal.call, self._stop)
            self._portal, self._thread = portal, stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
