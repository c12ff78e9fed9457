"""Sandbox: an account, the service over it, and what requests meet on their way to the service."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from time import monotonic, time
from typing import Literal, Self, Unpack
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError
from anyio.from_thread import start_blocking_portal

from .generate import fill
from .limits import Fault, Limits
from .routes import Behaviour, Service
from .rules import Arrival
from .store import DIRECT, DOMAINS, LABELS, UNKNOWN, Link, Store
from .truth import Truth

# Above any `max_target`, so that the option decides and not the web server's own limit.
_MAX_LINE = 2**20
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


_server_log = logging.getLogger("slashtag.sandbox.server")


@_server_log.addFilter
def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether the server logs an error of ours, not of a sender, who is told by the answer."""
    error = None if record.exc_info is None else record.exc_info[1]
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


class Sandbox:
    """The service of docs/service.md on loopback, with an account of its own.

    `async with` (or `start` and `stop`) runs it in the current loop, `with` in a thread of its own.

    The account is generated from the numbers of `urls`, `clicks` and `tags`, from `seed`, `since` and
    `until`, or read from the file `store` if that holds one. Requests over `rate` a second (with `burst` at
    once) get a 429, with Retry-After unless `retry_after` is None. Each answer takes about `latency` seconds:
    half of it at least, one and a half at most. A request target longer than `max_target` bytes gets a 414
    with an HTML page. What the document leaves open is an option: see Behaviour. Raises ValueError for a
    wrong value.

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
        latency: float = 0.0,
        faults: Iterable[Fault] = (),
        max_target: int = 8190,
        **behaviour: Unpack[Behaviour],
    ) -> None:
        if unknown := behaviour.keys() - Behaviour.__optional_keys__:
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        first, last = _seconds(since), _seconds(until)
        if last < first:
            raise ValueError(f"until ({until}) is before since ({since})")
        self._limits = Limits(rate, burst, retry_after, latency, faults, max_target, seed)
        self._port = port
        self._tasks: set[asyncio.Task[object]] = set()
        self._thread = ExitStack()
        self.apikey = apikey
        self.apisecret = apisecret
        self.requests: list[Arrival] = []
        self.headers: dict[str, str] = {}
        self._behaviour = msgspec.convert(behaviour, Behaviour)
        self._path = store
        self._store: Store | None = None
        self._fill = partial(fill, urls=urls, clicks=clicks, tags=tags, seed=seed, since=first, until=last)

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

    @property
    def latency(self) -> float:
        """Seconds that an answer takes on average."""
        return self._limits.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._limits.latency = seconds

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults; setting them resets their counters."""
        return self._limits.faults

    @faults.setter
    def faults(self, faults: Iterable[Fault]) -> None:
        self._limits.faults = faults

    async def start(self) -> Self:
        """Generate or open the account and listen; return the sandbox.

        Raises OSError where the port is taken, and where the file `store` cannot hold or be the account.
        """
        if self._store is not None:
            raise RuntimeError("the sandbox is running already")
        with ExitStack() as opened:
            try:
                store = opened.enter_context(closing(Store(self._path, self._fill)))
            except sqlite3.Error as error:
                raise OSError(f"{self._path}: {error}") from None
            self._service = Service(store, self._behaviour, self.apikey, self.apisecret)
            self._began = monotonic()
            self._server = web.Server(
                self._handle, access_log=None, logger=_server_log, max_line_size=_MAX_LINE
            )
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._server, "127.0.0.1", self._port)
            opened.pop_all()
        self._store = store
        return self

    async def stop(self, *_: object) -> None:
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
        await self._server.shutdown(timeout=1.0)
        store.close()

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
        # Bytes that are not UTF-8 arrive as lone surrogates, which SQLite refuses.
        target = request.raw_path.encode(errors="surrogateescape").decode(errors="replace")
        path, _, query = target.partition("?")
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
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
            answer = partial(self._service.answer, arrival, request.headers)
            response = await self._limits.respond(request, arrival, answer)
        finally:
            self._tasks.discard(task)
        if response is None:
            return web.Response()  # never sent: the connection is gone
        arrival.status = response.status
        if not response.prepared:
            if response.status == 405:
                response.headers["Allow"] = ", ".join(self._service.methods(path))
            response.headers.update(self.headers)
        return response

    @property
    def store(self) -> Store:
        """The store. Raises RuntimeError while the sandbox does not run."""
        if self._store is None:
            raise RuntimeError("the sandbox is not running")
        return self._store

    @property
    def truth(self) -> Truth:
        """Counts to compare answers with; see Truth."""
        return Truth(self.store)

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

        Raises LookupError for an unknown tag or domain, sqlite3.IntegrityError if the domain already has the
        slashtag.
        """
        tags = [] if tag is None else self.store.tags("WHERE name = ?", (tag,))
        if tag is not None and not tags:
            raise LookupError(f"no tag {tag!r}")
        if domain_id not in DOMAINS:
            raise LookupError(f"no domain {domain_id}")
        at, tag_id = _seconds(created_at), tags[0].id if tags else None
        values = (slashtag, domain_id, destination, redirect_code, password, at, at, tag_id)
        return self.store.write("INSERT INTO link VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", values)

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
        TypeError for an unknown label.
        """
        texts = _LABELS | labels
        if len(texts) > len(LABELS):
            raise TypeError(f"labels are {', '.join(LABELS)}")
        click = (self._find(key)[0].id, _seconds(when_utc), visitor, *self.store.label_ids(texts.values()))
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
