"""The sending layer in virtual time: an event loop that never waits, and a scripted service instead of HTTP.

What takes minutes takes no time and is exact to the microsecond, whatever the machine does.
"""

from __future__ import annotations

import asyncio
import functools
import json
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from slashtag import RequestTimeoutError, RetryPolicy, SlashtagError
from slashtag._core.call import Call
from slashtag._core.scrubber import Scrubber
from slashtag._core.throttle.throttle import Throttle
from slashtag._sending.admission import Admission
from slashtag._sending.metrics import Metrics
from slashtag._sending.sender import Sender
from slashtag._sending.transport import Response

T = TypeVar("T")
LATENCY = 0.1


class _Selector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            assert timeout is not None, "a deadlock: nothing is under way, and no timer is set"
            self.now += timeout
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        self._virtual.now += 1e-9  # no two times are the same
        return self._virtual.now


def in_virtual_time(main: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """Run a coroutine function, such as a test, each time in a new loop."""

    @functools.wraps(main)
    def run(*args: Any, **options: Any) -> T:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            return runner.run(main(*args, **options))

    return run


def now() -> float:
    """Return the seconds since the loop began."""
    return asyncio.get_running_loop().time()


#: Status, message, Retry-After; or an error of the transport.
Answer = tuple[int, str, float | None] | SlashtagError
OK: Answer = (200, "ok", None)
TOO_MANY: Answer = (429, "Too many requests.", None)


def down(status: int = 503, told: float | None = None) -> Answer:
    return status, "Down.", told


@dataclass
class Service:
    """Stand in for the transport; `answer` decides about each call as it arrives, at a time of the loop."""

    answer: Callable[[Call[Any]], Answer]
    latency: float = LATENCY
    headers: Callable[[], dict[str, str]] = dict
    sent: list[tuple[float, Call[Any]]] = field(default_factory=list)
    most_in_flight: int = 0
    _in_flight: int = 0
    scrubber = Scrubber(())

    bind = staticmethod(asyncio.get_running_loop)  # it belongs to any loop

    async def exchange(self, call: Call[Any], began: float, timeout: float, max_bytes: int) -> Response:
        self.sent.append((now(), call))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            answer, headers = self.answer(call), self.headers()
            await asyncio.sleep(min(self.latency, timeout))
        finally:
            self._in_flight -= 1
        if self.latency > timeout:
            raise RequestTimeoutError("no complete answer")
        if isinstance(answer, SlashtagError):
            raise answer
        status, message, told = answer
        body = json.dumps({"status": status, "message": message, "data": {}}).encode()
        headers |= {} if told is None else {"Retry-After": f"{told:.0f}"}
        return Response(status, headers, body)

    def times(self, *paths: str) -> list[float]:
        """Return when calls of these paths were sent; of all without one."""
        return [time for time, call in self.sent if not paths or call.path in paths]


def sender(service: Service, policy: RetryPolicy | None = None, concurrency: int = 32) -> Sender:
    """Return a sender to a service."""
    admission = Admission(Throttle(concurrency))
    metrics = Metrics(admission, "shop")
    return Sender(cast("Any", service), admission, metrics, None, 30.0, policy or RetryPolicy(), 2**20)


def call(path: str = "page", method: str = "GET", **members: Any) -> Call[Any]:
    """Return a call whose answer may be anything."""
    return Call(method=method, path=path, returns=cast("Any", object), **members)


async def outcome(work: Awaitable[object]) -> SlashtagError | None:
    """Return the error of a call, None for a success."""
    try:
        await work
    except SlashtagError as error:
        return error
    return None


async def job(sends: Sender, paths: list[str], **members: Any) -> dict[str, SlashtagError | None]:
    """Send calls as an operation does, by workers that never stop; return what became of each."""
    left, found, one = iter(paths), dict[str, SlashtagError | None](), sends.of_operation()

    async def work() -> None:
        for path in left:
            found[path] = await outcome(one.send(call(path, **members)))

    await asyncio.gather(*(work() for _ in range(32)))
    return found
