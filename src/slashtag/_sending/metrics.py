"""Counters of a session, and its state now."""

import asyncio
import logging
from dataclasses import dataclass, make_dataclass
from time import monotonic
from types import SimpleNamespace
from typing import Any

from .admission import Admission

#: Seconds by which clocks may differ: some services write their local time as GMT.
MOST_BEHIND = 86_400.0

log = logging.getLogger("slashtag")


def _loop_time() -> float:
    """Return the event loop's time, also to another thread."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return monotonic()


@dataclass(eq=False, repr=False)
class Metrics:
    """Counters of a session and its views, and their state now; `to_dict()` is JSON.

    `requests`: calls started; `replayed`: those answered by the journal; `attempts`: requests sent;
    `retries`: attempts after a failure; `throttled`: 429s; `bytes_received`: of decompressed bodies;
    `inconsistent`: statistics answers that were added although they contradict themselves;
    `unreadable`: members of records that are None, and texts of other answers that have U+FFFD, because they
    cannot be read;
    `learned_rate`: requests per second that the service allows, None while unknown; `in_flight`, `waiting`:
    current numbers of requests; `paused_for`: seconds from now in which nothing is sent, 0 if not paused;
    `retry_in`: seconds until the next retry, 0 if none waits for its time; `oldest_answer`: the earliest time
    at which the service made an answer, in epoch seconds and by its own clock, None while unknown;
    `clock_behind`: the most seconds by which this machine's clock was behind the service's, 0 if it was not.
    A pickled copy has the numbers as they were.
    """

    _admission: Admission
    requests: int = 0
    replayed: int = 0
    attempts: int = 0
    retries: int = 0
    bytes_received: int = 0
    inconsistent: int = 0
    unreadable: int = 0
    oldest_answer: float | None = None
    clock_behind: float = 0.0
    #: The event loop's time of the next retry, past if none waits for its time.
    _retry_at: float = 0.0
    #: The event loop's time at which a copy was pickled.
    _at: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return all numbers by name, as json.dumps and exporters of metrics take them."""
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        # Only pydantic calls this, so it is installed.
        from pydantic_core import core_schema as schemas

        numbers = handler.generate_schema(dict[str, int | float | None])
        shown = schemas.plain_serializer_function_ser_schema(cls.to_dict, return_schema=numbers)
        return schemas.is_instance_schema(cls, serialization=shown)

    def __repr__(self) -> str:
        names = ("requests", "replayed", "attempts", "retries", "throttled", "bytes_received", "learned_rate")
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in (*names, "in_flight", "waiting"))
        return f"Metrics({numbers})"

    def _note_clock(self, made: float, now: float) -> None:
        """Note when an answer that is here now was made, by the service's clock."""
        self.oldest_answer = made if self.oldest_answer is None else min(self.oldest_answer, made)
        behind = made - now
        if behind > MOST_BEHIND >= self.clock_behind:
            days, text = behind / 86_400, "days that are over may be left out, as if they were to come"
            log.warning("this machine's clock is %.1f days behind the service's: %s", days, text)
        self.clock_behind = max(self.clock_behind, behind)

    def _sends_again(self, at: float, now: float) -> None:
        """Note a retry at this time of the event loop, unless another one comes before it."""
        is_other_earlier = now < self._retry_at < at
        if not is_other_earlier:
            self._retry_at = at

    def __getstate__(self) -> dict[str, Any]:
        throttle = SimpleNamespace(learned_rate=self.learned_rate, in_flight=self.in_flight)
        throttle.paused_until = self._admission.throttle.paused_until
        admission = SimpleNamespace(waiting=self.waiting, throttled=self.throttled, throttle=throttle)
        return vars(self) | {"_admission": admission, "_at": self._now}

    @property
    def _now(self) -> float:
        return _loop_time() if self._at is None else self._at

    @property
    def throttled(self) -> int:
        return self._admission.throttled

    @property
    def learned_rate(self) -> float | None:
        return self._admission.throttle.learned_rate

    @property
    def paused_for(self) -> float:
        return max(0.0, self._admission.throttle.paused_until - self._now)

    @property
    def retry_in(self) -> float:
        return max(0.0, self._retry_at - self._now)

    @property
    def in_flight(self) -> int:
        return self._admission.throttle.in_flight

    @property
    def waiting(self) -> int:
        return self._admission.waiting


_NAMES = [
    *(name for name in Metrics.__dataclass_fields__ if not name.startswith("_")),
    *(name for name, value in vars(Metrics).items() if isinstance(value, property) and name != "_now"),
]
# What takes it as a dataclass, such as dataclasses.asdict and FastAPI, gets the numbers.
_as_numbers: Any = make_dataclass("Metrics", [(name, float | None) for name in _NAMES])
Metrics.__dataclass_fields__ = _as_numbers.__dataclass_fields__
