"""Requests before they reach the service: recording, limits, latency and faults."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from importlib.resources import files
from math import ceil
from time import time
from typing import Literal

import msgspec
from aiohttp import web

from .faults import Fault, FaultPlan, apply_fault, html_page
from .limits import Limiter
from .routes import Envelope, Service, error_data
from .rules import Request, split_target


def openapi() -> bytes:
    """Return the OpenAPI description of the service. The file is JSON, which YAML includes."""
    return files(__package__).joinpath("openapi.yaml").read_bytes()


@dataclass(slots=True)
class Arrival:
    """A request that arrived, and its outcome.

    `path` is as on the wire, percent-encoded; `at` is seconds since the start; `in_flight` counts the
    requests under way then, this one included; `status` is None until one is sent; `fault` is the kind of
    its fault, or `"limit"` where a limiter refused it.
    """

    method: str
    path: str
    query: dict[str, str]
    at: float
    in_flight: int
    body: bytes = b""
    status: int | None = None
    fault: str | None = None


class Gateway:
    """Way of requests to the service, on which they are recorded and may fail.

    `requests` lists what arrived so far, in order, and may be cleared; `max_in_flight` is the largest number
    of requests under way at once so far; `latency` and `faults` may be set at any time.
    """

    def __init__(
        self,
        *,
        limiters: Sequence[Limiter],
        retry_after: Literal["seconds", "date"] | None,
        latency: float | tuple[float, float],
        faults: Iterable[Fault],
        max_target: int,
        keep_requests: bool,
        seed: int,
    ) -> None:
        if retry_after not in ("seconds", "date", None):
            raise ValueError(f"retry_after is 'seconds', 'date' or None, not {retry_after!r}")
        self.requests: list[Arrival] = []
        self.max_in_flight = 0
        self.latency = latency
        self._limiters = limiters
        self._retry_after = retry_after
        self._max_target = max_target
        self._keep_requests = keep_requests
        self._seed = seed
        self._rng = random.Random(f"{seed}/latency")
        self._tasks: set[asyncio.Task[object]] = set()
        self._began = 0.0
        self._plan = FaultPlan(faults, seed)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults; setting them resets their counters."""
        return self._plan.faults

    @faults.setter
    def faults(self, faults: Iterable[Fault]) -> None:
        self._plan = FaultPlan(faults, self._seed)

    async def _handle(self, service: Service, request: web.BaseRequest) -> web.StreamResponse:
        """Record a request and answer it; the description of the service is given to anybody, unrecorded."""
        if request.raw_path == "/openapi.json":
            return web.Response(body=openapi(), content_type="application/json")
        path, query = split_target(request.raw_path)
        at = asyncio.get_running_loop().time() - self._began
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        arrival = Arrival(request.method, path, query, at, len(self._tasks))
        if self._keep_requests:
            self.requests.append(arrival)
        self.max_in_flight = max(self.max_in_flight, arrival.in_flight)
        admitted: list[Limiter] = []
        try:
            response = await self._respond(service, request, arrival, admitted)
            if response is None:
                return web.Response()  # never sent: the connection is gone
            arrival.status = response.status
            return response
        finally:
            for limiter in admitted:
                limiter.release()
            self._tasks.discard(task)

    async def _respond(
        self, service: Service, request: web.BaseRequest, arrival: Arrival, admitted: list[Limiter]
    ) -> web.StreamResponse | None:
        if len(request.raw_path.encode(errors="surrogateescape")) > self._max_target:
            response = html_page(414)
            response.force_close()
            return response
        wait = self._admit(arrival.at, admitted)
        fault = self._plan.pick(arrival.method, arrival.path) if wait is None else None
        arrival.body = await request.read()
        if self.latency:
            low, high = self.latency if isinstance(self.latency, tuple) else (self.latency, self.latency)
            await asyncio.sleep(self._rng.uniform(low, high))
        if wait is not None:
            arrival.fault = "limit"
            return self._refuse(arrival.path, wait)
        if fault is not None:
            arrival.fault = fault.kind
        status, body = 0, b""
        if fault is None or fault.works_first:
            headers = {name.lower(): value for name, value in request.headers.items()}
            done = service.answer(Request(arrival.method, arrival.path, arrival.query, headers, arrival.body))
            status, body = done.status, msgspec.json.encode(done)
        if fault is not None:
            return await apply_fault(fault, request, status, body)
        response = web.Response(status=status, body=body, content_type="application/json")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(service.methods(arrival.path))
        return response

    def _admit(self, now: float, admitted: list[Limiter]) -> float | None:
        """Ask the limiters in turn; append those that admit the request to `admitted`."""
        for limiter in self._limiters:
            wait = limiter.admit(now)
            if wait is not None:
                return wait
            admitted.append(limiter)
        return None

    def _refuse(self, path: str, wait: float) -> web.Response:
        """Build the 429 of a limiter (unlike the 429 of the tag limit)."""
        headers: dict[str, str] = {}
        if self._retry_after == "seconds":
            headers["Retry-After"] = str(max(1, ceil(wait)))
        elif self._retry_after == "date":
            # A date has whole seconds: round up, so that it is never too early.
            when = datetime.fromtimestamp(ceil(time() + wait), UTC)
            headers["Retry-After"] = format_datetime(when, usegmt=True)
        body = msgspec.json.encode(Envelope(429, "Too many requests. Please slow down.", error_data(path)))
        return web.Response(status=429, body=body, content_type="application/json", headers=headers)
