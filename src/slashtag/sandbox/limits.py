"""Rate limits as services have them; docs/service.md shows none."""

from collections import deque
from dataclasses import dataclass, field


class Limiter:
    """Limit that decides about one request at a time; `now` is in seconds of any monotonic clock."""

    def admit(self, now: float) -> float | None:
        """Return None to admit a request, or the seconds after which another try may succeed."""
        raise NotImplementedError

    def release(self) -> None:
        """Note that an admitted request has been answered."""


@dataclass
class TokenBucket(Limiter):
    """`rate` requests a second, and `burst` at once after a pause; `rate` may change at any time."""

    rate: float
    burst: float = 10
    _tokens: float = field(default=0.0, init=False, repr=False)
    _at: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.burst < 1:
            raise ValueError("rate is positive and burst at least 1")

    def admit(self, now: float) -> float | None:
        """Take a token, or return the time until there is one."""
        if self._at is None:
            self._tokens = self.burst
        else:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return (1 - self._tokens) / self.rate


@dataclass
class FixedWindow(Limiter):
    """`limit` requests in each window of `seconds`; windows are aligned to the clock."""

    limit: int
    seconds: float = 1.0
    _window: int | None = field(default=None, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.limit < 1 or self.seconds <= 0:
            raise ValueError("limit is at least 1 and seconds positive")

    def admit(self, now: float) -> float | None:
        """Count in the current window, or return the time until the next one."""
        window = int(now // self.seconds)
        if window != self._window:
            self._window, self._count = window, 0
        if self._count < self.limit:
            self._count += 1
            return None
        return (window + 1) * self.seconds - now


@dataclass
class SlidingWindow(Limiter):
    """`limit` requests in any span of `seconds`."""

    limit: int
    seconds: float = 1.0
    _times: deque[float] = field(default_factory=deque[float], init=False, repr=False)

    def __post_init__(self) -> None:
        if self.limit < 1 or self.seconds <= 0:
            raise ValueError("limit is at least 1 and seconds positive")

    def admit(self, now: float) -> float | None:
        """Count the last `seconds`, or return the time until one of the counted leaves them."""
        while self._times and self._times[0] <= now - self.seconds:
            self._times.popleft()
        if len(self._times) < self.limit:
            self._times.append(now)
            return None
        return self._times[0] + self.seconds - now


@dataclass
class InFlightCap(Limiter):
    """`limit` requests at once."""

    limit: int
    retry_after: float = 1.0
    in_flight: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError("limit is at least 1")

    def admit(self, now: float) -> float | None:
        """Admit a request while fewer than `limit` are under way."""
        if self.in_flight < self.limit:
            self.in_flight += 1
            return None
        return self.retry_after

    def release(self) -> None:
        """Count one request less."""
        self.in_flight -= 1
