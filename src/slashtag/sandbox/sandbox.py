"""Sandbox: an account, the service over it, and what a request meets on its way to the service."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from math import ceil
from pathlib import Path
from time import monotonic, time
from typing import Any, Literal, Self, Unpack
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from anyio.from_thread import start_blocking_portal

from .generate import fill
from .limits import Fault, Faults, TokenBucket, apply_fault, html_page, json_answer
from .routes import Behaviour, Service
from .rules import Arrival, Envelope, error_data
from .store import ADD_LINK, DIRECT, LABELS, UNKNOWN, Link, Store
from .truth import Truth

# The OpenAPI description of the service.
_OPENAPI = files("slashtag.sandbox").joinpath("openapi.json")
# Labels of a click that is added without them.
_LABELS = dict.fromkeys(LABELS, UNKNOWN) | {
    "country": "US",
    "device": "Desktop",
    "browser": "Chrome",
    "platform": "Windows",
    "referrer": DIRECT,
}


class Sandbox:
    """The service of docs/service.md on loopback, with an account of its own.

    `async with` (or `start` and `stop`) runs it in the current loop, `with` in a thread of its own.

    The account is generated from the numbers of `urls`, `clicks` and `tags`, from `seed`, `since` and
    `until`, or read from the file `store` if that holds one. Requests over `rate` a second (with `burst` at
    once) get a 429, with Retry-After unless `retry_after` is None. Each answer takes about `latency` seconds:
    half of it at least, one and a half at most. A request target longer than `max_target` bytes gets a 414
    with an HTML page. What the document leaves open is an option: see Behaviour. Raises ValueError for a
    wrong value.

    `requests` lists the requests that arrived so far, in order, and may be cleared. These may be set while it
    runs: `apikey`, `apisecret`, `latency`, `faults`, `headers`, which every answer has (another `Date`, or an
    `Age`), and `middleware`, called with each request and the function that answers it.

    `port` is known once it runs, `store` and `truth` only while it does.
    """

    store: Store

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
        latency: float = 0.0,
        faults: Collection[Fault] = (),
        max_target: int = 8190,
        **behaviour: Unpack[Behaviour],
    ) -> None:
        if unknown := behaviour.keys() - Behaviour.__optional_keys__:
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        self.port = port
        self.apikey = apikey
        self.apisecret = apisecret
        self.latency = msgspec.convert(latency, float)
        self.requests: list[Arrival] = []
        self.headers: dict[str, str] = {}
        self.middleware: Callable[[Arrival, Callable[[], Envelope]], Envelope] = lambda _, answer: answer()
        self._bucket = None if rate is None else TokenBucket(rate, burst)
        self._retry_after = retry_after
        self._max_target = max_target
        self._seed = seed
        self.faults = faults
        self._behaviour = msgspec.convert(behaviour, Behaviour)
        self._path = store
        self._fill = partial(
            fill,
            urls=urls,
            clicks=clicks,
            tags=tags,
            seed=seed,
            since=_seconds(since),
            until=_seconds(until),
        )
        self._tasks: set[Any] = set()
        self._running = AsyncExitStack()

    @property
    def base_url(self) -> str:
        """Base address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults; setting them resets their counters."""
        return self._faults.all

    @faults.setter
    def faults(self, faults: Collection[Fault]) -> None:
        self._faults = Faults(faults, self._seed)

    @property
    def truth(self) -> Truth:
        """Counts to compare answers with; see Truth."""
        return Truth(self.store)

    async def start(self) -> Self:
        """Generate or open the account and listen; return the sandbox.

        Raises OSError where the port is taken, and where the file `store` cannot hold or be the account.
        """
        await self._running.enter_async_context(self._serve())
        return self

    async def stop(self, *_: object) -> None:
        """Close all connections and stop. May be called again."""
        await self._running.aclose()

    @asynccontextmanager
    async def _serve(self) -> AsyncGenerator[None]:
        try:
            store = Store(self._path, self._fill)
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: {error}") from None
        with closing(store) as self.store:
            self._began = monotonic()
            # A line may be longer than any `max_target`: that decides, not the web server's own limit.
            self._server = web.Server(self._handle, access_log=None, max_line_size=2**20)
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._server, "127.0.0.1", self.port)
            self.port = self._listener.sockets[0].getsockname()[1]
            yield
            # Stop accepting before the listener is closed. A connection accepted just before is known to the
            # server only some iterations of the loop later; without them it would stay open.
            with suppress(NotImplementedError):  # the loop of Windows, which has no readers
                for sock in self._listener.sockets:
                    loop.remove_reader(sock.fileno())
            for _turn in range(3):
                await asyncio.sleep(0)
            self._listener.close()
            # The server forgets a request whose caller is gone.
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._server.pre_shutdown()
            await self._server.shutdown(timeout=1.0)

    __aenter__, __aexit__ = start, stop

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
        path, _, query = request.raw_path.partition("?")
        self._tasks.add(task := asyncio.current_task())
        arrival = Arrival(
            request.method,
            path,
            dict(parse_qsl(query, keep_blank_values=True)),
            at=monotonic() - self._began,
            in_flight=len(self._tasks),
            no_cache="no-cache" in request.headers.get("Cache-Control", ""),
        )
        self.requests.append(arrival)
        try:
            response = await self._respond(request, arrival)
        finally:
            self._tasks.discard(task)
        if response is None:
            return web.Response()  # never sent: the connection is gone
        arrival.status = response.status
        response.headers.update(self.headers)
        return response

    async def _respond(self, request: web.BaseRequest, arrival: Arrival) -> web.StreamResponse | None:
        """Answer a request, or let it fail; None if there is nothing left to send.

        The order: the length of the target, `rate`, `faults`, which count only requests that came so far,
        `latency`, the service.
        """
        if len(request.raw_path) > self._max_target:
            return html_page(414)
        wait = None if self._bucket is None else self._bucket.admit(arrival.at)
        fault = self._faults.due(arrival) if wait is None else None
        arrival.body = await request.read()
        await asyncio.sleep(self.latency * random.uniform(0.5, 1.5))
        if wait is not None:
            arrival.fault = "limit"
            refusal = Envelope(429, "Too many requests. Please slow down.", error_data(arrival.path))
            return json_answer(refusal, {"Retry-After": str(ceil(wait))} if self._retry_after else {})
        service = Service(self.store, self._behaviour, self.apikey, self.apisecret)
        answer = partial(self.middleware, arrival, partial(service.answer, arrival, request.headers))
        if fault is not None:
            arrival.fault = fault.kind
            return await apply_fault(fault, request, answer)
        return json_answer(answer())

    def add_url(
        self,
        slashtag: str,
        *,
        destination: str = "https://www.example/",
        created_at: datetime | str | None = None,
        tag: str | None = None,
        domain_id: int = 0,
        redirect_code: int = 301,
        password: str = "",
    ) -> int:
        """Add a link, created now by default, and return its id; domains are 0 (none) to 3.

        Raises LookupError for an unknown tag, sqlite3.IntegrityError for an unknown domain, or one that has
        the slashtag already.
        """
        tag_ids = {found.name: found.id for found in self.store.tags()}
        at, tag_id = _seconds(created_at), None if tag is None else tag_ids[tag]
        return self.store.write(
            ADD_LINK, (slashtag, domain_id, destination, redirect_code, password, at, at, tag_id)
        )

    def remove_url(self, key: str | int) -> None:
        """Remove a link and its clicks, by slashtag (every domain's) or id."""
        for link in self._find(key):
            self.store.write("DELETE FROM link WHERE id = ?", (link.id,))
            self.store.write("DELETE FROM click WHERE link = ?", (link.id,))

    def add_tag(self, name: str, *, description: str = "", created_at: datetime | str | None = None) -> int:
        """Add a tag, created now by default, and return its id."""
        return self.store.add_tag(name, description, _seconds(created_at)).id

    def add_click(
        self,
        key: str | int,
        when_utc: datetime | str,
        *,
        visitor: int | None = None,
        times: int = 1,
        **labels: str,
    ) -> None:
        """Log `times` clicks of a link at one instant, each by a new visitor unless `visitor` names one.

        `labels` are country, state, city, postalcode, timezone, device, browser, platform and referrer. A
        slashtag on several domains means the first of its links. Raises LookupError for an unknown key,
        sqlite3.Error for an unknown label.
        """
        labels = _LABELS | labels
        click = (self._find(key)[0].id, _seconds(when_utc), visitor, *self.store.label_ids(labels.values()))
        self.store.add_clicks([click] * times)

    def _find(self, key: str | int) -> list[Link]:
        column = "id" if isinstance(key, int) else "slashtag"
        links = self.store.links(f"WHERE {column} = ? ORDER BY id", (key,))
        if not links:
            raise LookupError(f"no link {key!r}")
        return links


def _seconds(when: datetime | str | None) -> int:
    """Return Unix seconds of an instant, now by default; one without an offset is UTC."""
    if when is None:
        return int(time())
    instant = datetime.fromisoformat(when) if isinstance(when, str) else when
    return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())
