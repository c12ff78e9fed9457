"""Rate limits as services have them; docs/service.md shows none."""


class Limiter:
    """Limit that decides about one request at a time, by any monotonic clock; this one admits all."""

    def admit(self, now: float) -> float | None:
        """Return None to admit a request, or the seconds after which another try may succeed."""
        return None

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
