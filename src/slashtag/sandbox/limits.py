"""Rate limits as services have them; docs/service.md shows none."""

from collections import deque


class Limiter:
    """Limit that decides about one request at a time; `now` is in seconds of any monotonic clock."""

    def admit(self, now: float) -> float | None:
        """Return None to admit a request, or the seconds after which another try may succeed."""
        raise NotImplementedError

    def release(self) -> None:
        """Note that an admitted request has been answered."""


class TokenBucket(Limiter):
    """`rate` requests a second, and `burst` at once after a pause; `rate` may change at any time."""

    def __init__(self, rate: float, burst: float = 10) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("rate is positive and burst at least 1")
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._at = float("-inf")

    def admit(self, now: float) -> float | None:
        """Take a token, or return the time until there is one."""
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return (1 - self._tokens) / self.rate


class FixedWindow(Limiter):
    """`limit` requests in each window of `seconds`; windows are aligned to the clock."""

    def __init__(self, limit: int, seconds: float = 1.0) -> None:
        _check(limit, seconds)
        self.limit = limit
        self.seconds = seconds
        self._window = self._count = 0

    def admit(self, now: float) -> float | None:
        """Count in the current window, or return the time until the next one."""
        window = int(now // self.seconds)
        if window != self._window:
            self._window, self._count = window, 0
        if self._count < self.limit:
            self._count += 1
            return None
        return (window + 1) * self.seconds - now


class SlidingWindow(Limiter):
    """`limit` requests in any span of `seconds`."""

    def __init__(self, limit: int, seconds: float = 1.0) -> None:
        _check(limit, seconds)
        self.limit = limit
        self.seconds = seconds
        self._times = deque[float]()

    def admit(self, now: float) -> float | None:
        """Count the last `seconds`, or return the time until one of the counted leaves them."""
        while self._times and self._times[0] <= now - self.seconds:
            self._times.popleft()
        if len(self._times) < self.limit:
            self._times.append(now)
            return None
        return self._times[0] + self.seconds - now


class InFlightCap(Limiter):
    """`limit` requests at once."""

    def __init__(self, limit: int, retry_after: float = 1.0) -> None:
        _check(limit)
        self.limit = limit
        self.retry_after = retry_after
        self.in_flight = 0

    def admit(self, now: float) -> float | None:
        """Admit a request while fewer than `limit` are under way."""
        if self.in_flight < self.limit:
            self.in_flight += 1
            return None
        return self.retry_after

    def release(self) -> None:
        """Count one request less."""
        self.in_flight -= 1


def _check(limit: int, seconds: float = 1.0) -> None:
    if limit < 1 or seconds <= 0:
        raise ValueError("limit is at least 1 and seconds positive")
