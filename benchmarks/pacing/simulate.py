"""Run sessions against a model of a server in virtual time, each with a client policy; or an oracle.

A session keeps its calls in turns, as the product does. A call answered 429 waits alone where the policy says
so, then for its turn; one that failed backs off alone with full jitter. In an outage it waits for a turn, in
which a harmless request is sent in its place. Timers are some milliseconds late, as an event loop's are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any, Protocol

from slashtag._core.turns import Turns

from .servers import NOBODY, Server

CONCURRENCY = 64
POOL = 2 * CONCURRENCY  # calls of an operation that wait or are in flight; more come as these are done
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
    waits: list[float] = field(default_factory=list)  # of single calls, from the time they came to their end


class Latency:
    """Draw latencies in seconds; the oracle meets the same ones as the client."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self._gauss, self._scale = Random(f"latency {seed}").gauss, scale

    def __call__(self) -> float:
        return self._scale * min(max(MEDIAN * math.exp(SIGMA * self._gauss(0, 1)), LOW), HIGH)


@dataclass(slots=True, eq=False)
class Call:
    """One call of a session."""

    number: int
    operation: object
    came: float
    ticket: Any = None  # of its 429s
    failures: int = 0
    is_new: bool = True  # was not sent yet


class World:
    """The time, a server, and what is to happen."""

    def __init__(self, server: Server, seed: int, scale: float = 1.0) -> None:
        self.server, self.latency, self.rng, self.now = server, Latency(seed, scale), Random(seed), 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._events, (time, next(self._order), action))

    def run(self, is_over: Callable[[], object], give_up: float = 1e5) -> None:
        """Let time pass until it is over; raises RuntimeError on a deadlock, and after `give_up` seconds."""
        while not is_over():
            if not self._events:
                raise RuntimeError(f"deadlock at {self.now:.3f}: nothing is in flight")
            self.now, _, action = heapq.heappop(self._events)
            if self.now > give_up:
                raise RuntimeError(f"gave up at {self.now:.0f}")
            action()


class Session:
    """A policy, and the calls of operations that wait for it.

    With `ahead` a call comes when all but so many of those before it are answered, as pages of a listing do.
    """

    def __init__(
        self, world: World, policy: Policy, requests: float, operations: int = 1, *, ahead: int = 0
    ) -> None:
        self.world, self.policy, self.done = world, policy, Run()
        self.keeps_log = False
        self._requests, self._operations, self._ahead = requests, operations, ahead
        self._turns: Turns[Call] = Turns()
        self._come = self._new = self._flying = 0
        self._alarm = math.inf
        self._answered, self._head = set[int](), 0  # the first call that is not answered

    def pump(self) -> None:
        """Let calls come, send those that may depart, and set the timer."""
        world, policy = self.world, self.policy
        while self._come < self._requests and self._is_wanted():
            self._put(Call(self._come, self._come % self._operations, world.now))
            self._come += 1
            self._new += 1
        ready = math.inf
        while self._turns and (ready := policy.ready_at(world.now)) <= world.now:
            self._send(self._turns.pop(exhausted=policy.exhausted))
            ready = math.inf
        if world.now < ready < self._alarm:
            self._alarm = ready
            late = world.rng.random() * (0.002 if world.rng.random() < 0.98 else 0.010)
            world.at(ready + late, partial(self._wake, ready))

    def single(self, number: int) -> None:
        """Let a single call come."""
        self._put(Call(number, object(), self.world.now, is_new=False))
        self.pump()

    def _is_wanted(self) -> bool:
        if self._ahead:
            return self._come < self._head + self._ahead
        return self._new + self._flying < POOL * self._operations

    def _put(self, call: Call, *, is_back: bool = False) -> None:
        is_back &= self.policy.exhausted or not getattr(call.ticket, "refusals", 0)
        self._turns.put(call.operation, call, is_back=is_back, exhausted=self.policy.exhausted)

    def _wake(self, alarm: float) -> None:
        if self._alarm == alarm:
            self._alarm = math.inf
        self.pump()

    def _back(self, call: Call) -> None:
        self._put(call, is_back=True)
        self.pump()

    def _send(self, call: Call) -> None:
        world = self.world
        self._new -= call.is_new
        call.is_new = False
        self._flying += 1
        number = NOBODY if call.failures and self._is_outage else call.number
        ticket = self.policy.depart(world.now, call.ticket)
        took = world.latency() * world.server.slowdown(self._flying)
        arrival = partial(self._arrive, call, number, ticket, world.now, took)
        world.at(world.now + world.server.uplink * took, arrival)

    @property
    def _is_outage(self) -> bool:
        outage = getattr(self.policy, "outage", None)
        return outage is not None and outage.is_on

    def _arrive(self, call: Call, number: int, ticket: Any, sent: float, took: float) -> None:
        world = self.world
        status, told = world.server.arrive(world.now, number)
        if self.keeps_log:
            self.done.log.append((sent, status))
        world.server.inside += status != 429
        answer = partial(self._end, call, number, ticket, status, told)
        world.at(sent + took * (REJECTION if status == 429 else 1), answer)

    def _end(self, call: Call, number: int, ticket: Any, status: int, told: float | None) -> None:
        world, policy, done = self.world, self.policy, self.done
        self._flying -= 1
        world.server.inside -= status != 429
        if status == 200:
            policy.accepted(ticket, world.now)
            if number == NOBODY:
                self._put(call, is_back=True)
            else:
                self._accept(call)
        elif status == 429:
            done.rejects += 1
            call.ticket = ticket
            again = policy.rejected(ticket, world.now, told)
            if hasattr(policy, "alone"):
                call.failures += 1
                world.at(world.now + policy.alone(call.failures, told), partial(self._back_alone, call))
            else:
                world.at(max(again or 0.0, world.now), partial(self._back, call))
        else:
            done.errors += 1
            policy.failed(ticket, world.now, told)
            call.failures += number != NOBODY
            pause = 0.0 if self._is_outage else world.rng.random() * min(0.25 * 2**call.failures, 20)
            world.at(world.now + max(pause, (told or 0.0) * (number != NOBODY)), partial(self._back, call))
        self.pump()

    def _accept(self, call: Call) -> None:
        if call.number >= self._requests:
            self.done.waits.append(self.world.now - call.came)
            return
        self.done.useful += 1
        self._answered.add(call.number)
        while self._head in self._answered:
            self._answered.remove(self._head)
            self._head += 1

    def _back_alone(self, call: Call) -> None:
        self.policy.back()  # type: ignore[attr-defined]
        self._back(call)


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
    operations: int = 1,
    ahead: int = 0,
    singles: Sequence[float] = (),
) -> Run:
    """Send `requests` under a policy until all are answered 200 that the server does not limit by themselves.

    `scale` multiplies every latency; `keep` fills the log; `watch` is called at every event. `singles` are
    the times at which single calls come, which are to be answered too.
    """
    world = World(server, seed, scale)
    session = Session(world, policy, requests, operations, ahead=ahead)
    session.keeps_log = keep
    for number, time in enumerate(singles, requests):
        world.at(time, partial(session.single, number))
    useful = sum(not server.is_apart(request) for request in range(requests))

    def is_over() -> bool:
        if watch:
            watch(world.now)
        return session.done.useful >= useful and len(session.done.waits) == len(singles)

    session.pump()
    world.run(is_over, give_up)
    session.done.time = world.now
    return session.done


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
