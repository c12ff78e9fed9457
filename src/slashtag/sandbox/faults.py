"""Faults: what goes wrong, for which requests, how often."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus

import msgspec
from aiohttp import web

_KINDS = re.compile("(html-|envelope-)?[2-5][0-9]{2}|truncated-json|truncated-body|reset|stall")
# These cut an answer, so the request is always carried out first.
NEEDS_ANSWER = ("truncated-json", "truncated-body")
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
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not _KINDS.fullmatch(self.kind):
            raise ValueError(f"unknown kind of fault: {self.kind!r}")
        if self.kind[-1].isdigit():
            HTTPStatus(int(self.kind[-3:]))  # raises ValueError for a status without a name


class FaultPlan:
    """Choice of the fault of each request; the same seed and requests give the same faults."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        self.faults = tuple(faults)
        self._rngs = [random.Random(f"{seed}/{n}") for n in range(len(self.faults))]
        self._matched, self._failed = Counter[int](), Counter[int]()

    def pick(self, method: str, path: str) -> Fault | None:
        """Count a request and return the first fault that is due."""
        due: Fault | None = None
        for n, fault in enumerate(self.faults):
            if fault.method not in (None, method) or not fnmatchcase(path, fault.path):
                continue
            self._matched[n] += 1
            hit = self._matched[n] % fault.every == 0
            if fault.share is not None:
                hit = self._rngs[n].random() < fault.share
            if hit and due is None and (fault.times is None or self._failed[n] < fault.times):
                self._failed[n] += 1
                due = fault
        return due


async def apply_fault(fault: Fault, request: web.BaseRequest, answer: bytes) -> web.StreamResponse | None:
    """Fail a request whose answer would have been `answer`; return None if there is nothing left to send."""
    if fault.kind in ("reset", "stall"):
        # Not longer than the caller is connected, who would count as in flight.
        loop = asyncio.get_running_loop()
        end = loop.time() + fault.seconds * (fault.kind == "stall")
        while request.transport is not None and (left := end - loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, _POLL))
        if request.transport is not None:
            request.transport.abort()
        return None
    half = answer[: len(answer) // 2]
    if fault.kind == "truncated-json":
        return web.Response(body=half, content_type="application/json")
    if fault.kind == "truncated-body":
        cut = web.StreamResponse(headers={"Content-Type": "application/json"})
        cut.content_length = len(answer)
        await cut.prepare(request)
        await cut.write(half)
        if request.transport is not None:
            request.transport.close()
        return cut
    form, _, digits = fault.kind.rpartition("-")
    status = int(digits)
    if form == "html":
        return html_page(status, fault.headers)
    phrase = "Too many requests." if status == 429 else f"{HTTPStatus(status).phrase}."
    message = f"Bad request. {phrase}" if status == 400 else phrase
    envelope = {"status": status, "message": message, "data": None}
    return json_answer(200 if form == "envelope" else status, envelope, fault.headers)


def json_answer(status: int, data: object, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer with a JSON body."""
    body = msgspec.json.encode(data)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def html_page(status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an error page as a proxy in front of the service sends it."""
    title = f"{status} {HTTPStatus(status).phrase}"
    text = f"<html><head><title>{title}</title></head><body><h1>{title}</h1><hr>nginx</body></html>"
    return web.Response(status=status, text=text, content_type="text/html", headers=headers)
