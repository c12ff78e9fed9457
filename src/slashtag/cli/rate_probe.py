"""Look for a rate limit with a short burst of the cheapest GET."""

from collections.abc import Iterator
from time import perf_counter

from .. import AsyncSession, RateLimitError
from .._fanout import WorkerPool
from .probes import PATIENCE, Observer

#: Bounds of the burst: requests, seconds, and how many at once.
BURST, SECONDS, IN_FLIGHT = 150, 5.0, 16


class Burst:
    """Send a burst and hold what came of it; the session must be fresh, as it learns the limit meanwhile."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session.with_options(retry=PATIENCE)
        self._metrics = session.metrics
        self._observer = Observer(session)
        self.answered = 0
        #: Requests/s that were answered: in all, and after the first that was refused, when nothing is let in
        #: at once any more. The limit is not below the latter, and above it as far as pauses took their time.
        self.speed = 0.0
        self.kept = 0.0
        #: Why it ended early, if it did.
        self.stopped: RateLimitError | None = None

    async def run(self) -> None:
        """Send it."""
        metrics = self._metrics
        began = at_limit = perf_counter()
        before_limit = 0

        def numbers() -> Iterator[int]:
            while perf_counter() - began < SECONDS and metrics.attempts < BURST:
                yield self.answered

        async def ask(_: int) -> None:
            nonlocal at_limit, before_limit
            await self._session.urls.page(1, pagesize=1)
            self.answered += 1
            if not metrics.throttled:
                # What is let in at once, after a pause, does not tell the rate.
                at_limit, before_limit = perf_counter(), self.answered

        try:
            await WorkerPool(numbers(), ask, IN_FLIGHT).run()
        except RateLimitError as error:
            self.stopped = error
        ended = perf_counter()
        self.speed = self.answered / (ended - began)
        self.kept = (self.answered - before_limit) / (ended - at_limit)

    @property
    def limited(self) -> bool:
        """Tell whether any request was refused."""
        return self._metrics.throttled > 0

    @property
    def stated(self) -> float | None:
        """Return the limit in requests/s, where headers of the answers tell it."""
        return self._observer.stated
