"""Counters of a session."""

from __future__ import annotations

from collections.abc import Callable

from .._core.throttle.throttle import Throttle


class Metrics:
    """Counters of a session and its views.

    `requests`: calls started; `replayed`: those answered by the journal; `attempts`: requests sent;
    `retries`: attempts after a failure; `throttled`: 429s; `bytes_received`: of decompressed bodies;
    `inconsistent`: statistics answers that were added although they contradict themselves;
    `learned_rate`: requests per second that the service allows, None while unknown; `in_flight`, `waiting`:
    current numbers of requests; `paused_until`: the event loop's time before which nothing is sent, 0.0 if
    not paused; `retry_at`: the event loop's time of the next retry, in the past if none waits for its time.
    """

    def __init__(
        self, throttle: Throttle, waiting: Callable[[], int], inconsistent: Callable[[], int] = int
    ) -> None:
        self._throttle = throttle
        self._waiting = waiting
        self._inconsistent = inconsistent
        self.requests = 0
        self.replayed = 0
        self.attempts = 0
        self.retries = 0
        self.bytes_received = 0
        self.retry_at = 0.0
        #: The event loop's time less `time.monotonic()`: on macOS uvloop's clock runs on during sleep.
        self.clock_offset = 0.0
        #: Whether a call has succeeded, or a warning says that none has.
        self.reached_or_warned = False

    def __repr__(self) -> str:
        names = ("requests", "replayed", "attempts", "retries", "throttled", "bytes_received", "learned_rate")
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in (*names, "in_flight", "waiting"))
        return f"Metrics({numbers})"

    @property
    def throttled(self) -> int:
        return self._throttle.throttled

    @property
    def inconsistent(self) -> int:
        return self._inconsistent()

    @property
    def learned_rate(self) -> float | None:
        return self._throttle.learned_rate

    @property
    def paused_until(self) -> float:
        return self._throttle.paused_until

    @property
    def in_flight(self) -> int:
        return self._throttle.in_flight

    @property
    def waiting(self) -> int:
        return self._waiting()
