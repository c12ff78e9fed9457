"""Tell a service that does not answer from requests that fail for a reason of their own.

A failure is a 5xx, a 408, or no answer; an answer is all else. While others are answered it concerns its own
request alone. FAILURES more, of requests that were sent after the first one had failed, with no answer
between them, are an outage: one request at a time departs, after a pause of half of the time since the first
failure, up to LONGEST_PAUSE. The Retry-After of a 503 makes a pause longer, up to all of that time: one wrong
answer costs little, a real pause is kept.

Any answer ends an outage, and nothing is learnt from it: it is idle time, after which all is as before.
Without an answer it lasts until those who wait give up. Failures that are FORGOTTEN seconds older than the
next one are no part of its outage.
"""

from collections.abc import Callable
from logging import INFO, WARNING
from math import inf

FAILURES = 5  # fewer may be chance; with 7 a single call would use up the attempts that it has by default
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 15.0  # seconds: 300 s without an answer take about 40 requests
FORGOTTEN = 300.0  # seconds without a failure: the service may be back

#: Is called with a level of `logging`, and a text.
Notify = Callable[[int, str], object]


class Outage:
    """Failures in a row, and when the next request may find out whether the service answers again.

    `notify` is called when an outage begins, and when it ends.
    """

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self.is_on = False
        self.next_at = 0.0  # when the next request may depart
        self._failures = 0  # in a row, of requests that were sent after the first one had failed
        self.began = self._last = -inf  # times of the first of them, and of the last
        self._told = 0.0  # seconds of pauses that the service asked for
        self._quiet_until = -inf

    def lasted(self, now: float) -> float:
        """Return the seconds from the first failure to the last, without those that the service asked for.

        0 if there is none, or was none for so long that the service may answer again for all that is known.
        """
        return self._last - self.began - self._told if self.is_on and now - self._last <= FORGOTTEN else 0.0

    def answered(self, now: float) -> None:
        """Take note of an answer, whatever it says."""
        if self.is_on:
            self._notify(INFO, f"the service answers again, after {now - self.began:.0f} s")
        self.is_on, self._failures, self._last = False, 0, -inf

    def failed(self, sent: float, now: float, retry_after: float | None) -> None:
        """Take note of a failure of a request."""
        if now - self._last > FORGOTTEN:
            self.began, self._failures, self._told = now, 0, 0.0
        elif sent >= self.began:
            self._failures += 1
        self._last = now
        if self._failures >= FAILURES and not self.is_on:
            self.is_on = True
            # One that comes again soon is no warning: there may be hundreds.
            self._notify(
                INFO if now < self._quiet_until else WARNING,
                "only failures: one request at a time is sent until the service answers",
            )
            self._quiet_until = now + FORGOTTEN
        if self.is_on:
            waited = now - self.began
            told = min(retry_after or 0.0, waited)
            self.next_at = now + max(min(waited / 2, LONGEST_PAUSE), SHORTEST_PAUSE, told)
            self._told += told
