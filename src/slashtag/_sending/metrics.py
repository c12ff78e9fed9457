"""Counters of a session, and its state now."""

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from .._errors import RateLimitError, SlashtagError
from .admission import Admission


@dataclass(eq=False, repr=False)
class Metrics:
    """Counters of a session and its views, and their state now; `to_dict()` is JSON.

    `name`: the session's; `requests`: calls started; `replayed`: those answered by the journal; `attempts`:
    requests sent, those answered 429 too; `retries`: attempts after a failure; `throttled`: 429s;
    `bytes_received`: of decompressed bodies; `inconsistent`: statistics answers that were added although they
    contradict themselves, and days to which their hours do not add up; `unreadable`: members of records that
    are None or have U+FFFD, as they cannot be read, and answers that have it elsewhere; `failures`: attempts
    that failed, by the name of their error; `statuses`: answers by status;
    `last_success`: when the last good answer came, in epoch seconds, None before the first; `is_outage`:
    whether the service has not answered for so long that one request at a time is sent;
    `learned_rate`: requests per second that the service allows, None while unknown; `in_flight`, `waiting`:
    current numbers of requests; `paused_for`: seconds from now in which nothing is sent, 0 if not paused;
    `oldest_answer`: the earliest time at which the service made an answer, in epoch seconds and by its own
    clock, None while unknown.
    """

    _admission: Admission
    name: str = ""
    requests: int = 0
    replayed: int = 0
    attempts: int = 0
    retries: int = 0
    throttled: int = 0
    bytes_received: int = 0
    inconsistent: int = 0
    unreadable: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    last_success: float | None = None
    oldest_answer: float | None = None
    _quiet_until: float = 0.0  # loop time before which no long wait is told of as a warning

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name, as json.dumps takes them; `failures` and `statuses` are dicts."""
        told = {name: getattr(self, name) for name in _NAMES}
        return told | {"failures": dict(self.failures), "statuses": dict(self.statuses)}

    def __repr__(self) -> str:
        return f"Metrics({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def _note_failure(self, error: SlashtagError) -> None:
        """Note how an attempt failed."""
        self.failures[type(error).__name__] += 1
        self.throttled += isinstance(error, RateLimitError)
        if (status := getattr(error, "status", None)) is not None:
            self.statuses[status] += 1

    @property
    def learned_rate(self) -> float | None:
        return self._admission.throttle.learned_rate

    @property
    def is_outage(self) -> bool:
        return self._admission.throttle.outage.is_on

    @property
    def paused_for(self) -> float:
        # By the clock of event loops, as another thread may ask.
        return max(0.0, self._admission.throttle.paused_until - monotonic())

    @property
    def in_flight(self) -> int:
        return self._admission.throttle.in_flight

    @property
    def waiting(self) -> int:
        return self._admission.waiting


_NAMES = [
    *(name for name in Metrics.__dataclass_fields__ if not name.startswith("_")),
    *(name for name, value in vars(Metrics).items() if isinstance(value, property)),
]
