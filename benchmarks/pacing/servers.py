"""Models of rate-limiting servers in virtual time.

A server is asked once for every request, in the order of arrival: `arrive(now)` returns its status and
Retry-After. `inside` is how many were admitted and not yet answered. `next_accept(now)` is for the oracle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from random import Random

Answer = tuple[int, float | None]
OK: Answer = (200, None)


class Server:
    """Accept everything; latency may grow with the number of requests inside."""

    uplink = 0.25  # share of the latency that passes before the server decides

    def __init__(self, rng: Random, load: float = math.inf) -> None:
        self.rng = rng
        self.load = load
        self.inside = 0

    def slowdown(self, in_flight: int) -> float:
        """Return by what the latency of a request is multiplied that departs now as one of `in_flight`."""
        return 1 + in_flight / self.load

    def arrive(self, now: float) -> Answer:
        """Decide about one request; return its status and Retry-After in seconds."""
        return OK

    def next_accept(self, now: float) -> float:
        """Return the earliest time >= now at which a request would be accepted."""
        return now


class TokenBucket(Server):
    """Refill `rate` tokens a second up to `burst`; `change` is (time, new rate) of one change midway."""

    def __init__(
        self,
        rng: Random,
        rate: float,
        burst: int,
        retry_after: float | None = None,
        change: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(rng)
        self.rate, self.burst, self.retry_after, self.change = rate, burst, retry_after, change
        self.tokens, self.at = float(burst), 0.0

    def _refill(self, now: float) -> None:
        if self.change and now >= self.change[0]:
            at, rate = self.change
            self.change = None
            self._refill(at)
            self.rate = rate
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now

    def arrive(self, now: float) -> Answer:
        self._refill(now)
        if self.tokens < 1 - 1e-9:
            return 429, self.retry_after
        self.tokens -= 1
        return OK

    def next_accept(self, now: float) -> float:
        self._refill(now)
        return now if self.tokens >= 1 - 1e-9 else now + (1 - self.tokens) / self.rate


class FixedWindow(Server):
    """Accept `limit` requests in every window of `width` seconds; the first window began before the job."""

    def __init__(self, rng: Random, limit: int, width: float, told: bool = False) -> None:
        super().__init__(rng)
        self.limit, self.width, self.told = limit, width, told
        self.phase = rng.random() * width
        self.window, self.used = -1, 0

    def _roll(self, now: float) -> float:
        """Return the seconds that the current window still lasts."""
        window = math.floor((now + self.phase) / self.width + 1e-9)
        if window != self.window:
            self.window, self.used = window, 0
        return (window + 1) * self.width - self.phase - now

    def arrive(self, now: float) -> Answer:
        left = self._roll(now)
        if self.used >= self.limit:
            return 429, math.ceil(left) if self.told else None
        self.used += 1
        return OK

    def next_accept(self, now: float) -> float:
        left = self._roll(now)
        return now if self.used < self.limit else now + left


class SlidingWindow(Server):
    """Accept a request when fewer than `limit` were accepted in the `width` seconds before it."""

    def __init__(self, rng: Random, limit: int, width: float, told: bool = False) -> None:
        super().__init__(rng)
        self.limit, self.width, self.told = limit, width, told
        self.log: deque[float] = deque()

    def arrive(self, now: float) -> Answer:
        while self.log and self.log[0] <= now - self.width + 1e-9:
            self.log.popleft()
        if len(self.log) >= self.limit:
            return 429, math.ceil(self.log[0] + self.width - now) if self.told else None
        self.log.append(now)
        return OK

    def next_accept(self, now: float) -> float:
        return now if len(self.log) < self.limit else max(now, self.log[-self.limit] + self.width)


class InFlight(Server):
    """Accept a request while fewer than `most` are inside, from their departure until their answer."""

    uplink = 0.0  # or a client that keeps `most` in flight would not fill the places

    def __init__(self, rng: Random, most: int) -> None:
        super().__init__(rng)
        self.most = most

    def arrive(self, now: float) -> Answer:
        return OK if self.inside < self.most else (429, None)

    def next_accept(self, now: float) -> float:
        return now if self.inside < self.most else math.inf


class Errors(Server):
    """Answer a share of what another server accepts with 500."""

    def __init__(self, inner: Server, share: float) -> None:
        super().__init__(inner.rng)
        self.inner, self.share = inner, share

    def arrive(self, now: float) -> Answer:
        answer = self.inner.arrive(now)
        return (500, None) if answer[0] == 200 and self.rng.random() < self.share else answer

    def next_accept(self, now: float) -> float:
        return self.inner.next_accept(now)


class Strays(Server):
    """Answer every n-th request 429, whatever the pace, in front of another server."""

    def __init__(self, inner: Server, every: int) -> None:
        super().__init__(inner.rng)
        self.inner, self.every, self.count = inner, every, 0

    def arrive(self, now: float) -> Answer:
        self.count += 1
        return (429, None) if self.count % self.every == 0 else self.inner.arrive(now)

    def next_accept(self, now: float) -> float:
        return self.inner.next_accept(now)


Make = Callable[[Random], Server]
