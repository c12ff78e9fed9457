"""Models of rate-limiting servers in virtual time.

A server is asked once for every request, in the order of arrival: `arrive(now, request)` returns its status
and Retry-After; a request that is sent again has the same number. `inside` is how many were admitted and not
yet answered. `next_accept(now)` is for the oracle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from random import Random

Answer = tuple[int, float | None]
Rounding = Callable[[float], float]  # of a Retry-After: math.ceil, math.floor
OK: Answer = (200, None)
NOBODY = -1  # the number of a request that belongs to no call


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

    def arrive(self, now: float, request: int) -> Answer:
        """Decide about one request; return its status and Retry-After in seconds."""
        return OK

    def is_apart(self, request: int) -> bool:
        """Return whether this request is answered 429 for a reason that is not the limit of all others."""
        return False

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

    def arrive(self, now: float, request: int) -> Answer:
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

    def __init__(self, rng: Random, limit: int, width: float, told: Rounding | None = None) -> None:
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

    def arrive(self, now: float, request: int) -> Answer:
        left = self._roll(now)
        if self.used >= self.limit:
            return 429, self.told(left) if self.told else None
        self.used += 1
        return OK

    def next_accept(self, now: float) -> float:
        left = self._roll(now)
        return now if self.used < self.limit else now + left


class SlidingWindow(Server):
    """Accept a request when fewer than `limit` were accepted in the `width` seconds before it."""

    def __init__(self, rng: Random, limit: int, width: float, told: Rounding | None = None) -> None:
        super().__init__(rng)
        self.limit, self.width, self.told = limit, width, told
        self.log: deque[float] = deque()

    def arrive(self, now: float, request: int) -> Answer:
        while self.log and self.log[0] <= now - self.width + 1e-9:
            self.log.popleft()
        if len(self.log) >= self.limit:
            return 429, self.told(self.log[0] + self.width - now) if self.told else None
        self.log.append(now)
        return OK

    def next_accept(self, now: float) -> float:
        return now if len(self.log) < self.limit else max(now, self.log[-self.limit] + self.width)


class InFlight(Server):
    """Accept a request while fewer than `most` are inside, from their departure until their answer."""

    uplink = 0.0  # or a client that keeps `most` in flight would not fill the places

    def __init__(self, rng: Random, most: int, retry_after: float | None = None) -> None:
        super().__init__(rng)
        self.most, self.retry_after = most, retry_after

    def arrive(self, now: float, request: int) -> Answer:
        return OK if self.inside < self.most else (429, self.retry_after)

    def next_accept(self, now: float) -> float:
        return now if self.inside < self.most else math.inf


class Errors(Server):
    """Answer a share of what another server accepts with 500."""

    def __init__(self, inner: Server, share: float) -> None:
        super().__init__(inner.rng)
        self.inner, self.share = inner, share

    def arrive(self, now: float, request: int) -> Answer:
        answer = self.inner.arrive(now, request)
        return (500, None) if answer[0] == 200 and self.rng.random() < self.share else answer

    def next_accept(self, now: float) -> float:
        return self.inner.next_accept(now)


class Strays(Server):
    """Answer a random share of requests 429, whatever the pace, in front of another server."""

    def __init__(self, inner: Server, share: float, retry_after: float | None = None) -> None:
        super().__init__(inner.rng)
        self.inner, self.share, self.retry_after = inner, share, retry_after

    def arrive(self, now: float, request: int) -> Answer:
        return (429, self.retry_after) if self.rng.random() < self.share else self.inner.arrive(now, request)

    def next_accept(self, now: float) -> float:
        return self.inner.next_accept(now)


class Poison(Server):
    """Answer the same share of requests 429 whenever they come, in front of another server.

    With a `rate` they are accepted at that many a second: an endpoint with a limit of its own.
    """

    def __init__(
        self, inner: Server, share: float, retry_after: float | None = None, rate: float = 0.0
    ) -> None:
        super().__init__(inner.rng)
        self.uplink = inner.uplink
        self.inner, self.share, self.seed = inner, share, inner.rng.random()
        self.retry_after, self.limit = retry_after, TokenBucket(inner.rng, rate, 1)
        self.limit.tokens = float(rate > 0)

    def is_apart(self, request: int) -> bool:
        return request != NOBODY and Random(f"{self.seed} {request}").random() < self.share

    def arrive(self, now: float, request: int) -> Answer:
        self.inner.inside = self.inside
        if not self.is_apart(request):
            return self.inner.arrive(now, request)
        status, _ = self.limit.arrive(now, request)
        return status, self.retry_after

    def next_accept(self, now: float) -> float:
        self.inner.inside = self.inside
        return self.inner.next_accept(now)


class Shared(Server):
    """Serve another client from the same limit: `size` requests at once, every `every` seconds or so."""

    def __init__(self, inner: Server, size: int, every: float) -> None:
        super().__init__(inner.rng)
        self.inner, self.size, self.every = inner, size, every
        self.burst_at = inner.rng.random() * every

    def _serve_other(self, now: float) -> None:
        while self.burst_at <= now:
            for _ in range(self.size):
                self.inner.arrive(self.burst_at, NOBODY)
            self.burst_at += self.every * self.rng.uniform(0.5, 1.5)

    def arrive(self, now: float, request: int) -> Answer:
        self._serve_other(now)
        return self.inner.arrive(now, request)

    def next_accept(self, now: float) -> float:
        self._serve_other(now)
        return min(self.inner.next_accept(now), self.burst_at)


class Lifted(Server):
    """Serve by another server's limit until a time, and without a limit from then on."""

    def __init__(self, inner: Server, at: float) -> None:
        super().__init__(inner.rng)
        self.inner, self.at = inner, at

    def arrive(self, now: float, request: int) -> Answer:
        self.inner.inside = self.inside
        return self.inner.arrive(now, request) if now < self.at else OK

    def next_accept(self, now: float) -> float:
        return self.inner.next_accept(now) if now < self.at else now


class Down(Server):
    """Answer everything 503, or with another status, between two times; another server before and after."""

    def __init__(self, inner: Server, begin: float, end: float, answer: Answer = (503, None)) -> None:
        super().__init__(inner.rng)
        self.inner, self.begin, self.end, self.answer = inner, begin, end, answer

    def arrive(self, now: float, request: int) -> Answer:
        self.inner.inside = self.inside
        return self.answer if self.begin <= now < self.end else self.inner.arrive(now, request)

    def next_accept(self, now: float) -> float:
        self.inner.inside = self.inside
        return self.end if self.begin <= now < self.end else self.inner.next_accept(now)


Make = Callable[[Random], Server]
