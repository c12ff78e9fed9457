"""Run sessions that know nothing of each other on one limit: `python -m benchmarks.pacing.sharing`.

Four sessions, each with calls that never end, share a token bucket of 100/s. Printed are the part of the
limit that is used, the smallest of the shares of the sessions (1: all the same), and the part of the
requests that is answered 429. The goal: 0.85 of the limit, and no session under half of its share.
"""

from __future__ import annotations

import argparse
import sys
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from statistics import mean

from slashtag._core.queue import Flow, Place, Queue
from slashtag._core.throttle.throttle import Throttle, Ticket

from .servers import Server, TokenBucket
from .simulate import CONCURRENCY, POOL, REJECTION, Latency

SESSIONS, RATE, BURST = 4, 100, 20


class Session:
    """A throttle, and calls that never end: as one is answered another one comes."""

    def __init__(self, start: float) -> None:
        self.throttle = Throttle(CONCURRENCY)
        self.start = start
        self.alarm = inf
        self.accepted = 0
        self.rejected = 0
        self.queue: Queue[int] = Queue()
        self.flow = Flow()
        self.places: dict[int, Place] = {}
        self.met: dict[int, Ticket] = {}  # the tickets of calls answered 429
        self._calls = count()
        for _ in range(POOL):
            self.come()

    def come(self) -> None:
        """Let a new call wait."""
        call = next(self._calls)
        self.places[call] = self.queue.place(self.flow)
        self.queue.put(self.places[call], call)

    def ready_at(self, now: float) -> float:
        """Return when the next call may depart."""
        return self.throttle.ready_at(now) if len(self.queue) else inf

    def depart(self, now: float) -> tuple[int, Ticket]:
        """Send the request of the next call."""
        call = self.queue.pop(exhausted=self.throttle.exhausted)
        return call, self.throttle.depart(now, self.met.pop(call, None))


def share(server: Server, starts: list[float], seconds: float, seed: int) -> list[Session]:
    """Let sessions send requests until `seconds`; return them."""
    rng, latency, order = Random(seed), Latency(seed), count()
    sessions = [Session(start) for start in starts]
    events: list[tuple[float, int, Session, str, int, Ticket, float]] = []
    nothing = Ticket()

    def at(
        time: float, session: Session, kind: str, call: int = -1, ticket: Ticket = nothing, what: float = 0.0
    ) -> None:
        heappush(events, (time, next(order), session, kind, call, ticket, what))

    for session in sessions:
        at(session.start, session, "wake")
    while True:
        now, _, session, kind, call, ticket, what = heappop(events)
        if now > seconds:
            return sessions
        if kind == "arrive":
            status, told = server.arrive(now, 0)
            server.inside += status != 429
            took = what * (REJECTION if status == 429 else 1)
            kind = "accepted" if status == 200 else "rejected"
            at(ticket.sent + took, session, kind, call, ticket, told or 0.0)
            continue
        if kind == "accepted":
            server.inside -= 1
            session.accepted += 1
            session.come()
            session.throttle.accepted(ticket, now)
        elif kind == "rejected":
            session.rejected += 1
            session.met[call] = ticket
            session.queue.put_back(session.places[call])
            at(max(session.throttle.rejected(ticket, now, what or None), now), session, "back", call, ticket)
        elif kind == "back":
            session.queue.put(session.places[call], call, ticket.rejects, is_refused=ticket.refusals > 0)
        elif what == session.alarm:
            session.alarm = inf
        while (ready := session.ready_at(now)) <= now:
            call, ticket = session.depart(now)
            took = latency()
            at(now + server.uplink * took, session, "arrive", call, ticket, took)
        if now < ready < session.alarm:
            session.alarm = ready
            late = rng.random() * (0.002 if rng.random() < 0.98 else 0.010)  # as timers are
            at(ready + late, session, "wake", what=ready)


def measure(seed: int, seconds: float, sessions: int = SESSIONS) -> tuple[float, float, float]:
    """Return the part of the limit that is used, the least share, and the part of requests answered 429."""
    rng = Random(seed)
    starts = [0.3 * rng.random() for _ in range(sessions)]
    found = share(TokenBucket(Random(seed), RATE, BURST), starts, seconds, seed)
    accepted = [session.accepted for session in found]
    rejected = sum(session.rejected for session in found)
    return (
        sum(accepted) / (RATE * seconds),
        min(accepted) / mean(accepted),
        rejected / (sum(accepted) + rejected),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pacing.sharing", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    met = True
    for seconds in (60, 180):
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        used, least, lost = zip(*(measure(seed, seconds) for seed in seeds), strict=True)
        met &= min(used) >= 0.85 and min(least) >= 0.5
        print(
            f"{SESSIONS} sessions for {seconds} s: {mean(used):.2f} used (worst {min(used):.2f}), "
            f"least share {mean(least):.2f} (worst {min(least):.2f}), {mean(lost):.1%} answered 429",
            flush=True,
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
