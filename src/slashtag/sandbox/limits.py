"""Limits and faults: what a request meets before the service, in this order.

1. A target longer than `max_target`: a 414 with an HTML page, at once.
2. More requests than `rate` allows: a 429.
3. A fault. Only requests that came so far count for its `every`, `share` and `times`.

Then `latency` passes, and it is refused, fails, or is answered. The service has an order too: path (404),
credentials (401), parameters (400).
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from math import ceil, inf
from typing import Literal

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError

from .rules import Arrival, Envelope, error_data

_KINDS = re.compile("(html-|envelope-)?[2-5][0-9]{2}|truncated-json|truncated-body|reset|stall")
_POLL = 0.05


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Failure of matching requests: every `every`-th, or a random `share` of them, at most `times` times.

    `kind` is one of:

    - `"500"`, or any other status: that status with a JSON envelope;
    - `"html-502"`, `"html-200"`: that status with an HTML page, as proxies send it;
    - `"envelope-400"`: HTTP 200 whose envelope says 400;
    - `"truncated-json"`: 200 with half of the JSON and a Content-Length that fits the half;
    - `"truncated-body"`: the Content-Length of the whole answer, half of it, then the connection is closed;
    - `"reset"`: the connection is aborted;
    - `"stall"`: nothing is sent for `seconds`, then the connection is aborted.

    `method`, `path` (still percent-encoded, a glob such as `/api/v1/stats*`) and `slashtag` (one that is
    asked for, or the key of an update) narrow what matches. With
    `after_work` the request is carried out before its answer is lost, as it always is where a part of the
    answer is sent. `headers` are added to a status or an HTML page. Requests refused by a limiter are not
    counted. Raises ValueError for an unknown kind.
    """

    kind: str
    every: int = 1
    share: float | None = None
    method: str | None = None
    path: str = "*"
    slashtag: str | None = None
    seconds: float = 60.0
    after_work: bool = False
    times: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not _KINDS.fullmatch(self.kind):
            raise ValueError(f"unknown kind of fault: {self.kind!r}")
        if self.kind[-1].isdigit():
            HTTPStatus(int(self.kind[-3:]))  # raises ValueError for a status without a name

    def matches(self, arrival: Arrival) -> bool:
        """Return whether this is the method, the path and the slashtag of a request."""
        if self.method not in (None, arrival.method) or not fnmatchcase(arrival.path, self.path):
            return False
        return self.slashtag is None or self.slashtag in arrival.slashtags


class TokenBucket:
    """`rate` requests a second, and `burst` at once after a pause, by any monotonic clock."""

    def __init__(self, rate: float, burst: float) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("rate is positive and burst at least 1")
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = float("-inf")

    def admit(self, now: float) -> float | None:
        """Return None to admit a request, or the seconds after which another try may succeed."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return (1 - self._tokens) / self._rate


class Limits:
    """The way of a request to its answer; the same seed and requests give the same faults."""

    def __init__(
        self,
        rate: float | None,
        burst: float,
        retry_after: Literal["seconds"] | None,
        latency: float,
        faults: Iterable[Fault],
        max_target: int,
        seed: int,
    ) -> None:
        if not 0 <= latency < inf:
            raise ValueError(f"latency is a number of seconds, not {latency!r}")
        self.latency = latency
        self._bucket = None if rate is None else TokenBucket(rate, burst)
        self._retry_after = retry_after
        self._max_target = max_target
        self._seed = seed
        self._rng = random.Random(f"{seed}/latency")
        self.faults = faults

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults; setting them resets their counters."""
        return self._faults

    @faults.setter
    def faults(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        self._rngs = [random.Random(f"{self._seed}/{n}") for n in range(len(self._faults))]
        #: Requests that each fault matched, and that it let fail.
        self._matched, self._failed = Counter[int](), Counter[int]()

    async def respond(
        self, request: web.BaseRequest, arrival: Arrival, answer: Callable[[], Envelope]
    ) -> web.StreamResponse | None:
        """Answer a request, or let it fail; None if there is nothing left to send."""
        if len(request.raw_path.encode(errors="surrogateescape")) > self._max_target:
            response = _html_page(414)
            response.force_close()
            return response
        wait = None if self._bucket is None else self._bucket.admit(arrival.at)
        fault = self._due_fault(arrival) if wait is None else None
        try:
            arrival.body = await request.read()
        except ConnectionError:
            return None
        except (web.RequestPayloadError, HttpProcessingError) as error:
            # A body that is not what its headers say: compressed, say, or in chunks.
            detail = f"Bad request. The body cannot be read: {error}"
            response = _json_answer(400, Envelope(400, detail, error_data(arrival.path)))
            response.force_close()
            return response
        if self.latency:
            await asyncio.sleep(self.latency * self._rng.uniform(0.5, 1.5))
        if wait is not None:
            arrival.fault = "limit"
            refusal = Envelope(429, "Too many requests. Please slow down.", error_data(arrival.path))
            headers = {"Retry-After": str(max(1, ceil(wait)))} if self._retry_after else {}
            return _json_answer(429, refusal, headers)
        if fault is not None:
            arrival.fault = fault.kind
            return await _apply_fault(fault, request, answer)
        done = answer()
        return _json_answer(done.status, done)

    def _due_fault(self, arrival: Arrival) -> Fault | None:
        """Count a request and return the first fault that is due."""
        due: Fault | None = None
        for n, fault in enumerate(self._faults):
            if not fault.matches(arrival):
                continue
            self._matched[n] += 1
            hit = self._matched[n] % fault.every == 0
            if fault.share is not None:
                hit = self._rngs[n].random() < fault.share
            if hit and due is None and (fault.times is None or self._failed[n] < fault.times):
                self._failed[n] += 1
                due = fault
        return due


async def _apply_fault(
    fault: Fault, request: web.BaseRequest, answer: Callable[[], Envelope]
) -> web.StreamResponse | None:
    """Let a request fail, carried out by `answer` or not; return None if there is nothing left to send."""
    form, _, what = fault.kind.rpartition("-")
    done = answer() if fault.after_work or form == "truncated" else None
    if what in ("reset", "stall"):
        # Not longer than the caller is connected, who would count as in flight.
        loop = asyncio.get_running_loop()
        end = loop.time() + fault.seconds * (what == "stall")
        while request.transport is not None and (left := end - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, _POLL))
        if request.transport is not None:
            request.transport.abort()
        return None
    if form == "truncated":
        whole = msgspec.json.encode(done)
        half = whole[: len(whole) // 2]
        if what == "json":
            return web.Response(body=half, content_type="application/json")
        cut = web.StreamResponse(headers={"Content-Type": "application/json"})
        cut.content_length = len(whole)
        await cut.prepare(request)
        await cut.write(half)
        if request.transport is not None:
            request.transport.close()
        return cut
    status = int(what)
    if form == "html":
        return _html_page(status, fault.headers)
    phrase = "Too many requests." if status == 429 else f"{HTTPStatus(status).phrase}."
    refused = Envelope(status, f"Bad request. {phrase}" if status == 400 else phrase, None)
    return _json_answer(200 if form == "envelope" else status, refused, fault.headers)


def _json_answer(status: int, data: object, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer with a JSON body."""
    body = msgspec.json.encode(data)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def _html_page(status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an error page as a proxy in front of the service sends it."""
    title = f"{status} {HTTPStatus(status).phrase}"
    text = f"<html><head><title>{title}</title></head><body><h1>{title}</h1><hr>nginx</body></html>"
    return web.Response(status=status, text=text, content_type="text/html", headers=headers)
