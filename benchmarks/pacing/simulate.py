"""Run one job against a server model in virtual time, with a client policy or with an oracle.

The client keeps the queue of a session, and its requests are one operation. A request answered 429 waits
alone where the policy says so, then in the queue; one answered 500 backs off alone with full jitter. As many
requests wait as can be sent, or few: `ahead` makes the job a listing that reads so many pages ahead.
Timers fire up to some milliseconds late, as an event loop's do.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from slashtag._core.queue import Flow, Place, Queue

from .servers import Server

CONCURRENCY = 64
POOL = 2 * CONCURRENCY  # requests of a job in the queue or in flight; more come as these are done
REJECTION = 0.5  # share of the latency after which a rejected request is answered
MEDIAN, SIGMA, LOW, HIGH = 0.0775, 0.6, 0.020, 0.300  # seconds; lognormal, cut at both ends
MEAN = 0.0906  # of that, in seconds


class Policy(Protocol):
    """Decide when requests depart; `slashtag`'s Throttle is one."""

    @property
    def exhausted(self) -> bool: ...
    def ready_at(self, now: float, /) -> float: ...
    def depart(self, now: float, previous: Any, /) -> Any: ...
    def accepted(self, ticket: Any, now: float, /) -> None: ...
    def rejected(self, ticket: Any, now: float, retry_after: float | None, /) -> float | None: ...
    def failed(self, ticket: Any, now: float, retry_after: float | None, /) -> None: ...


class Alone(Policy, Protocol):
    """Let a rejected request back off by itself; it keeps its place until it is `back`."""

    def alone(self, tries: int, retry_after: float | None, /) -> float: ...
    def back(self) -> None: ...


@dataclass
class Run:
    """State what a job took: `time` in seconds, answers by kind, and each departure with its status."""

    time: float = 0.0
    useful: int = 0
    rejects: int = 0
    errors: int = 0
    log: list[tuple[float, int]] = field(default_factory=list)


class Latency:
    """Draw latencies in seconds; the oracle meets the same ones as the client."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self._gauss, self._scale = Random(f"latency {seed}").gauss, scale

    def __call__(self) -> float:
        return self._scale * min(max(MEDIAN * math.exp(SIGMA * self._gauss(0, 1)), LOW), HIGH)


def run(
    policy: Policy,
    server: Server,
    requests: int,
    seed: int,
    *,
    scale: float = 1.0,
    keep: bool = False,
    give_up: float = 1e5,
    watch: Callable[[float], None] | None = None,
    pool: int = POOL,
    ahead: int = 0,
) -> Run:
    """Send `requests` under a policy until all are answered 200 that the server does not limit by themselves.

    `scale` multiplies every latency; `keep` fills the log; `watch` is called at every event. With `ahead` a
    request comes when all but so many of those before it are answered. Raises RuntimeError on a deadlock, and
    after `give_up` seconds.
    """
    result, latency, rng = Run(), Latency(seed, scale), Random(seed)
    queue: Queue[int] = Queue()
    flow, places = Flow(), dict[int, Place]()
    coming = iter(range(requests))
    left = sum(not server.is_apart(request) for request in range(requests))
    failures: dict[int, int] = {}
    rejects: dict[int, int] = {}
    previous: dict[int, Any] = {}  # the tickets of requests answered 429
    alone: Alone | None = policy if hasattr(policy, "alone") else None
    events: list[tuple[float, int, int, tuple[Any, ...]]] = []
    sent_once: set[int] = set()
    order, alarm, flying = 0, math.inf, 0
    wake, arrive, answer, retry, back = range(5)

    def at(time: float, kind: int, *what: Any) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (time, order, kind, what))

    def wait(request: int) -> None:
        ticket = previous.get(request)
        refused = getattr(ticket, "refusals", 0) > 0
        queue.put(places[request], request, getattr(ticket, "rejects", 0), is_refused=refused)

    def ready_at(now: float) -> float:
        return policy.ready_at(now) if len(queue) else math.inf

    now, fresh = 0.0, 0  # the requests that wait and were not sent yet
    answered, head = set[int](), 0  # the first request that is not answered

    def is_wanted() -> bool:
        return len(places) < head + ahead if ahead else fresh + flying < pool

    while left:
        while is_wanted() and (request := next(coming, None)) is not None:
            places[request] = queue.place(flow)
            wait(request)
            fresh += 1
        while (ready := ready_at(now)) <= now:
            request = queue.pop(exhausted=policy.exhausted)
            fresh -= request not in sent_once
            sent_once.add(request)
            ticket = policy.depart(now, previous.get(request))
            flying += 1
            took = latency() * server.slowdown(flying)
            at(now + server.uplink * took, arrive, request, ticket, took, now)
        if now < ready < alarm:
            alarm = ready
            late = rng.random() * (0.002 if rng.random() < 0.98 else 0.010)
            at(ready + late, wake, ready)
        if not events:
            raise RuntimeError(f"deadlock at {now:.3f}: nothing in flight, {len(queue)} waiting")
        now, _, kind, what = heapq.heappop(events)
        if now > give_up:
            raise RuntimeError(f"gave up at {now:.0f} with {result.useful} of {requests} answered")
        if kind == arrive:
            request, ticket, took, sent = what
            status, retry_after = server.arrive(now, request)
            if keep:
                result.log.append((sent, status))
            if status != 429:
                server.inside += 1
            until = sent + (REJECTION * took if status == 429 else took)
            at(until, answer, request, ticket, status, retry_after)
        elif kind == answer:
            request, ticket, status, retry_after = what
            flying -= 1
            if status != 429:
                server.inside -= 1
            if status == 200:
                policy.accepted(ticket, now)
                result.useful += 1
                left -= not server.is_apart(request)
                answered.add(request)
                while head in answered:
                    answered.remove(head)
                    head += 1
            elif status == 429:
                result.rejects += 1
                previous[request] = ticket
                again = policy.rejected(ticket, now, retry_after)
                queue.put_back(places[request])
                if alone is None and again and again > now:
                    at(again, retry, request)
                elif alone is None:
                    wait(request)
                else:
                    tries = rejects[request] = rejects.get(request, 0) + 1
                    at(now + alone.alone(tries, retry_after), back, request)
            else:
                result.errors += 1
                policy.failed(ticket, now, retry_after)
                tries = failures[request] = failures.get(request, 0) + 1
                at(now + rng.random() * min(0.25 * 2**tries, 20), retry, request)
        elif kind in (retry, back):
            if kind == back and alone is not None:
                alone.back()
            wait(what[0])
        elif what[0] == alarm:
            alarm = math.inf
        if watch:
            watch(now)
    result.time = now
    return result


def oracle(server: Server, requests: int, seed: int, *, scale: float = 1.0, ahead: int = 0) -> float:
    """Return the seconds that a client needs which knows the limit and the server's state.

    It sends the moment a request would be accepted, with no way between client and server, and repeats at
    once what fails for another reason. Requests that are limited by themselves are left out.
    """
    latency = Latency(seed, scale)
    flying: list[float] = []
    now, request = 0.0, 0
    ends: list[float] = []  # when all requests up to this one are answered
    while request < requests:
        if server.is_apart(request):
            request += 1
            continue
        while flying and flying[0] <= now:
            heapq.heappop(flying)
            server.inside -= 1
        ready = server.next_accept(now) if len(flying) < CONCURRENCY else math.inf
        if ahead and request >= ahead:
            ready = max(ready, ends[request - ahead])
        if ready > now:
            now = min(ready, flying[0]) if flying else ready
            continue
        status, _ = server.arrive(now, request)
        request += status == 200
        took = latency() * server.slowdown(len(flying) + 1) * (1 if status != 429 else REJECTION)
        heapq.heappush(flying, now + took)
        if status == 200:
            ends.append(max(now + took, ends[-1] if ends else 0.0))
        server.inside += 1
    return max(flying)
