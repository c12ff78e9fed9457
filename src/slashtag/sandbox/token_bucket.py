"""A rate limit as services have it; docs/service.md shows none."""


class TokenBucket:
    """`rate` requests a second, and `burst` at once after a pause, by any monotonic clock."""

    def __init__(self, rate: float, burst: float) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("rate is positive and burst at least 1")
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = float("-inf")

    def admit(self, now: float) -> float | None:
        """Return None to admit a request, or the seconds after which another try may succeed."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        return (1 - self._tokens) / self._rate
