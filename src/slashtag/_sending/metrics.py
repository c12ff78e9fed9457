"""Counters of a session."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from types import SimpleNamespace
from typing import Any

from .admission import Admission


@dataclass(eq=False, repr=False)
class Metrics:
    """Counters of a session and its views.

    `requests`: calls started; `replayed`: those answered by the journal; `attempts`: requests sent;
    `retries`: attempts after a failure; `throttled`: 429s; `bytes_received`: of decompressed bodies;
    `inconsistent`: statistics answers that were added although they contradict themselves;
    `unreadable`: members of records that are None because they cannot be read;
    `learned_rate`: requests per second that the service allows, None while unknown; `in_flight`, `waiting`:
    current numbers of requests; `paused_until`: the event loop's time before which nothing is sent, past if
    not paused; `oldest_answer`: the earliest time at which the service made an answer, in epoch seconds and
    by its own clock, inf while unknown; `retry_at`: the event loop's time of the next retry, past if none
    waits for its time. A pickled copy has the numbers as they were.
    """

    _admission: Admission
    requests: int = 0
    replayed: int = 0
    attempts: int = 0
    retries: int = 0
    bytes_received: int = 0
    inconsistent: int = 0
    unreadable: int = 0
    oldest_answer: float = inf
    retry_at: float = 0.0

    def __repr__(self) -> str:
        names = ("requests", "replayed", "attempts", "retries", "throttled", "bytes_received", "learned_rate")
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in (*names, "in_flight", "waiting"))
        return f"Metrics({numbers})"

    def answered(self, made: float | None) -> None:
        """Note when an answer was made."""
        if made is not None and made < self.oldest_answer:
            self.oldest_answer = made

    def sends_again(self, at: float, now: float) -> None:
        """Note a retry at this time of the event loop, unless another one comes before it."""
        if not now < self.retry_at < at:
            self.retry_at = at

    def __getstate__(self) -> dict[str, Any]:
        names = ("throttled", "learned_rate", "paused_until", "in_flight")
        throttle = SimpleNamespace(**{name: getattr(self, name) for name in names})
        return vars(self) | {"_admission": SimpleNamespace(waiting=self.waiting, throttle=throttle)}

    @property
    def throttled(self) -> int:
        return self._admission.throttle.throttled

    @property
    def learned_rate(self) -> float | None:
        return self._admission.throttle.learned_rate

    @property
    def paused_until(self) -> float:
        return self._admission.throttle.paused_until

    @property
    def in_flight(self) -> int:
        return self._admission.throttle.in_flight

    @property
    def waiting(self) -> int:
        return self._admission.waiting
