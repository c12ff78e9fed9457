"""What a caller sees of a load: progress, failures and counts."""

from __future__ import annotations

from collections.abc import Callable

from .. import AsyncSession, Failure


class Monitor:
    """Callbacks and counts of a load.

    `progress` is called with (table, series done, series or None) by another thread. `on_error` is called
    with each Failure while the rest goes on, as in `session.stats.collect_each`; without it the first is
    raised.
    """

    def __init__(
        self,
        progress: Callable[[str, int, int | None], object] | None = None,
        on_error: Callable[[Failure], object] | None = None,
    ) -> None:
        self._progress = progress
        self.on_error = on_error
        #: Requests sent, answers 429, and requests answered by the journal of an interrupted load.
        self.requests = self.throttled = self.replayed = 0

    def progress(self, table: str) -> Callable[[int, int | None], object]:
        """Return the callback for one table."""
        tell = self._progress
        return (lambda done, total: None) if tell is None else (lambda done, total: tell(table, done, total))

    def count(self, session: AsyncSession) -> None:
        """Add the counts of a session that has ended."""
        metrics = session.metrics
        self.requests += metrics.attempts
        self.throttled += metrics.throttled
        self.replayed += metrics.replayed
