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

from slashtag._core.throttle.throttle import Throttle, Ticket
from slashtag._sending.admission import TURNS

from .servers import Server, TokenBucket
from .simulate import CONCURRENCY, REJECTION, Latency

SESSIONS, RATE, BURST = 4, 100, 20


class Session:
    """A throttle, and the calls that were answered 429 and may be sent again, in two queues."""

    def __init__(self, start: float) -> None:
        self.throttle = Throttle(CONCURRENCY)
        self.start = start
        self.alarm = inf
        self.accepted = 0
        self.rejected = 0
        self._returned: list[Ticket] = []
        self._refused: list[Ticket] = []
        self._turns = 0  # of new calls before the next that returned

    def back(self, ticket: Ticket) -> None:
        """Let a call that was answered 429 wait for its turn."""
        (self._refused if ticket.is_refused else self._returned).append(ticket)

    def ready_at(self, now: float) -> float:
        """Return when the next request may depart."""
        return self.throttle.ready_at(now, beside=self._queue() is self._refused)

    def depart(self, now: float) -> Ticket:
        """Send a request, of a new call unless one that returned has its turn."""
        queue = self._queue()
        self._turns = TURNS if queue is self._returned else max(self._turns - (queue is None), 0)
        return self.throttle.depart(now, queue.pop(0) if queue else None)

    def _queue(self) -> list[Ticket] | None:
        if self.throttle.exhausted:
            return None
        return self._refused or (None if self._turns else self._returned) or None


def share(server: Server, starts: list[float], seconds: float, seed: int) -> list[Session]:
    """Let sessions send requests until `seconds`; return them."""
    rng, latency, order = Random(seed), Latency(seed), count()
    sessions = [Session(start) for start in starts]
    events: list[tuple[float, int, Session, str, Ticket | None, float]] = []

    def at(time: float, session: Session, kind: str, ticket: Ticket | None = None, what: float = 0.0) -> None:
        heappush(events, (time, next(order), session, kind, ticket, what))

    for session in sessions:
        at(session.start, session, "wake")
    told: float | None = None
    while True:
        now, _, session, kind, ticket, what = heappop(events)
        if now > seconds:
            return sessions
        if kind == "arrive" and ticket:
            status, told = server.arrive(now, 0)
            server.inside += status != 429
            took = what * (REJECTION if status == 429 else 1)
            at(ticket.sent + took, session, "accepted" if status == 200 else "rejected", ticket, told or 0.0)
            continue
        if kind == "accepted" and ticket:
            server.inside -= 1
            session.accepted += 1
            session.throttle.accepted(ticket, now)
        elif kind == "rejected" and ticket:
            session.rejected += 1
            at(max(session.throttle.rejected(ticket, now, what or None), now), session, "back", ticket)
        elif ticket:
            session.back(ticket)
        elif what == session.alarm:
            session.alarm = inf
        while (ready := session.ready_at(now)) <= now:
            ticket, took = session.depart(now), latency()
            at(now + server.uplink * took, session, "arrive", ticket, took)
        if now < ready < session.alarm:
            session.alarm = ready
            late = rng.random() * (0.002 if rng.random() < 0.98 else 0.010)  # as timers are
            at(ready + late, session, "wake", None, ready)


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
