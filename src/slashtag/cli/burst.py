"""Look for a rate limit with a short burst of the cheapest GET."""

from collections.abc import Iterator
from math import sqrt
from time import perf_counter

from .. import AsyncSession, RateLimitError
from .._fanout import Agenda
from .probes import PATIENCE

#: Bounds of the burst: requests, seconds, and how many at once.
BURST, SECONDS, IN_FLIGHT = 150, 5.0, 16
#: Refusals so many seconds after the first are those of a rate that was tried anew.
_LATER = 1.5


class Burst:
    """Send a burst and hold what came of it; the session must be fresh, as it learns the limit meanwhile."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session.with_options(retry=PATIENCE)
        self._metrics = session.metrics
        self.answered = 0
        #: Requests/s that were answered: in all, and after the first that was refused.
        self.speed = 0.0
        self.kept = 0.0
        #: Whether a rate that was found was refused again, so that the limit is not above it.
        self.bounded = False
        #: Why it ended early, if it did.
        self.stopped: RateLimitError | None = None

    async def run(self) -> None:
        """Send it."""
        metrics = self._metrics
        began = at_limit = perf_counter()
        before_limit, at_first = 0, 0

        def numbers() -> Iterator[int]:
            while perf_counter() - began < SECONDS and metrics.attempts < BURST:
                yield self.answered

        async def ask(_: int) -> None:
            nonlocal at_limit, before_limit, at_first
            await self._session.urls.page(1, pagesize=1)
            self.answered += 1
            if not metrics.throttled:
                # What is let in at once, after a pause, does not tell the rate.
                at_limit, before_limit = perf_counter(), self.answered
            elif perf_counter() - at_limit < _LATER:
                at_first = metrics.throttled

        try:
            await Agenda(numbers(), ask, IN_FLIGHT).run()
        except RateLimitError as error:
            self.stopped = error
        ended = perf_counter()
        self.speed = self.answered / (ended - began)
        self.bounded = metrics.throttled > at_first > 0
        self.kept = (self.answered - before_limit) / (ended - at_limit)

    @property
    def limited(self) -> bool:
        """Tell whether any request was refused."""
        return self._metrics.throttled > 0

    @property
    def rate(self) -> float:
        """Return about the limit in requests/s.

        Pauses that the service asks for hold what was kept below the limit, and the search for it goes
        above: the limit lies between the two, or above both where it is not `bounded`.
        """
        learned = self._metrics.learned_rate
        return sqrt(learned * self.kept) if learned and self.kept else learned or self.kept
