"""Limits and faults: what a request may meet before the service, and the answers that it gets then."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus

import msgspec
from aiohttp import web

from .rules import Arrival, Envelope

_KINDS = re.compile("(html-|envelope-)?[2-5][0-9]{2}|truncated-json|truncated-body|reset|stall")


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

    `method` and `path` (still percent-encoded, a glob such as `/api/v1/stats*`) narrow what matches. With
    `after_work` the request is carried out before its answer is lost, as it always is where a part of the
    answer is sent. `headers` are added to a status or an HTML page. Requests refused by a limiter are not
    counted. Raises ValueError for an unknown kind.
    """

    kind: str
    every: int = 1
    share: float | None = None
    method: str | None = None
    path: str = "*"
    seconds: float = 60.0
    after_work: bool = False
    times: int | None = None
    headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not _KINDS.fullmatch(self.kind):
            raise ValueError(f"unknown kind of fault: {self.kind!r}")
        if self.kind[-1].isdigit():
            HTTPStatus(int(self.kind[-3:]))  # raises ValueError for a status without a name


class TokenBucket:
    """`rate` requests a second, and `burst` at once after a pause, by any monotonic clock."""

    def __init__(self, rate: float, burst: float) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("rate is positive and burst at least 1")
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = 0.0

    def admit(self, now: float) -> float | None:
        """Return None to admit a request, or the seconds after which another try may succeed."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return (1 - self._tokens) / self._rate


class Faults:
    """Faults, and how many requests each met; the same seed and requests give the same faults."""

    def __init__(self, faults: Collection[Fault], seed: int) -> None:
        self.all = msgspec.convert(faults, tuple[Fault, ...])
        self._rng = random.Random(seed)
        #: Requests that each fault matched, and that it let fail.
        self._matched, self._failed = Counter[int](), Counter[int]()

    def due(self, arrival: Arrival) -> Fault | None:
        """Count a request and return the first fault that is due."""
        due: Fault | None = None
        for n, fault in enumerate(self.all):
            if fault.method not in (None, arrival.method) or not fnmatchcase(arrival.path, fault.path):
                continue
            self._matched[n] += 1
            is_nth = self._matched[n] % fault.every == 0
            hit = is_nth if fault.share is None else self._rng.random() < fault.share
            if hit and due is None and (fault.times is None or self._failed[n] < fault.times):
                self._failed[n] += 1
                due = fault
        return due


async def apply_fault(
    fault: Fault, request: web.BaseRequest, answer: Callable[[], Envelope]
) -> web.StreamResponse | None:
    """Let a request fail, carried out by `answer` or not; return None if there is nothing left to send."""
    form, _, what = fault.kind.rpartition("-")
    done = answer() if fault.after_work or form == "truncated" else None
    if what in ("reset", "stall"):
        await asyncio.sleep(fault.seconds * (what == "stall"))
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
        return html_page(status, fault.headers)
    refused = Envelope(status, f"{HTTPStatus(status).phrase}.", None)
    return json_answer(refused, fault.headers, 200 if form == "envelope" else status)


def json_answer(
    answer: Envelope, headers: Mapping[str, str] | None = None, status: int | None = None
) -> web.Response:
    """Return an answer with a JSON body, by default under the status of its envelope."""
    body = msgspec.json.encode(answer)
    return web.Response(
        status=status or answer.status, body=body, content_type="application/json", headers=headers
    )


def html_page(status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an error page as a proxy in front of the service sends it."""
    title = f"{status} {HTTPStatus(status).phrase}"
    text = f"<html><head><title>{title}</title></head><body><h1>{title}</h1><hr>nginx</body></html>"
    return web.Response(status=status, text=text, content_type="text/html", headers=headers)
