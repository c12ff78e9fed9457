"""The ways other clients meet a limit, as policies of the simulator.

Each keeps at most CONCURRENCY requests under way; one that backs off alone keeps its place meanwhile.
"""

from __future__ import annotations

import math
from random import Random

from .simulate import CONCURRENCY, Policy


class AloneWithJitter:
    """Back off each request alone: full exponential jitter, or Retry-After where it is longer."""

    exhausted = False

    def __init__(self) -> None:
        self._rng = Random(1)
        self._under_way = 0

    def ready_at(self, now: float) -> float:
        return now if self._under_way < CONCURRENCY else math.inf

    def depart(self, now: float, previous: object) -> None:
        self._under_way += 1

    def accepted(self, ticket: None, now: float) -> None:
        self._under_way -= 1

    def rejected(self, ticket: None, now: float, retry_after: float | None) -> None:
        pass

    def alone(self, tries: int, retry_after: float | None) -> float:
        return max(self._rng.random() * min(0.25 * 2**tries, 20.0), retry_after or 0.0)

    def back(self) -> None:
        self._under_way -= 1

    def failed(self, ticket: None, now: float, retry_after: float | None) -> None:
        self._under_way -= 1


class BotocoreAdaptive(AloneWithJitter):
    """Follow botocore's adaptive retry mode: a cubic of the measured rate, besides backing off alone."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled = False
        self._fill, self._tokens, self._at = 0.5, 1.0, 0.0
        self._measured, self._bucket, self._count = 0.0, 0.0, 0
        self._last_max, self._last_fail, self._k = 0.0, 0.0, 0.0

    def _refill(self, now: float) -> None:
        self._tokens = min(max(self._fill, 1.0), self._tokens + (now - self._at) * self._fill)
        self._at = now

    def ready_at(self, now: float) -> float:
        if not self._enabled:
            return super().ready_at(now)
        self._refill(now)
        return super().ready_at(now) if self._tokens >= 1 else now + (1 - self._tokens) / self._fill + 1e-6

    def depart(self, now: float, previous: object) -> None:
        super().depart(now, previous)
        if self._enabled:
            self._tokens -= 1

    def _measure(self, now: float) -> None:
        self._count += 1
        bucket = math.floor(now * 2) / 2
        if bucket > self._bucket:
            rate = self._count / (bucket - self._bucket)
            self._measured = 0.8 * rate + 0.2 * self._measured
            self._count, self._bucket = 0, bucket

    def _set(self, now: float, rate: float) -> None:
        self._refill(now)
        self._fill = max(min(rate, 2 * self._measured), 0.5)

    def accepted(self, ticket: None, now: float) -> None:
        super().accepted(ticket, now)
        self._measure(now)
        if self._enabled:
            self._set(now, 0.4 * (now - self._last_fail - self._k) ** 3 + self._last_max)

    def rejected(self, ticket: None, now: float, retry_after: float | None) -> None:
        self._measure(now)
        rate = min(self._measured, self._fill) if self._enabled else self._measured
        self._enabled, self._last_max, self._last_fail = True, rate, now
        self._k = (rate * 0.3 / 0.4) ** (1 / 3)
        self._set(now, 0.7 * rate)


class EachRetryAfter:
    """Honour each Retry-After for its request alone: the best where 429s have nothing to do with the pace."""

    exhausted = False

    def __init__(self) -> None:
        self._in_flight = 0

    def ready_at(self, now: float) -> float:
        return now if self._in_flight < CONCURRENCY else math.inf

    def depart(self, now: float, previous: object) -> None:
        self._in_flight += 1

    def accepted(self, ticket: None, now: float) -> None:
        self._in_flight -= 1

    def rejected(self, ticket: None, now: float, retry_after: float | None) -> float:
        self._in_flight -= 1
        return now + (retry_after or 0.0)

    def failed(self, ticket: None, now: float, retry_after: float | None) -> None:
        self._in_flight -= 1


PEERS: dict[str, type[Policy]] = {"botocore adaptive": BotocoreAdaptive, "plain backoff": AloneWithJitter}
