"""Statistics that are asked past caches, batch by batch, to hold them against what is known."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Batcher, Selector, select
from .._core.queries import Query
from .._errors import SlashtagError
from .._records import ShortUrl
from .._summed_statistics import Statistics
from .stats import Stats

R = TypeVar("R", bound=Statistics)
log = logging.getLogger("slashtag")


class CurrentStatistics(Struct, frozen=True):
    """Statistics as the service has them now: asked past caches, and kept in no journal.

    An answer that was made before `not_before` (epoch seconds, by the service's clock) is an error.
    """

    stats: Stats
    not_before: float = 0.0

    @property
    def counts_batches(self) -> bool:
        """Whether the service counts all slashtags of a batch, as far as answers of the last minutes show."""
        return not self.stats._sender.health.is_not_additive

    def batches(self, keys: Iterable[str | ShortUrl]) -> list[Selector]:
        """Return slashtags in batches, without those that cannot be requested."""

        def leave_out(key: object, error: SlashtagError) -> None:
            log.debug("%r is left out: %s", key, error)

        batcher = Batcher(self.stats._max_keys_bytes, leave_out)
        return list(select(list(keys), None, None, batcher))

    async def ask(
        self, query: Query[R], selector: Selector, zone: tzinfo, *, new_connection: bool = False
    ) -> R:
        """Return the statistics of one batch or tag; raises what requests raise.

        `new_connection` is for a second opinion: another backend may answer.
        """
        stats = self.stats
        fetcher = stats._fetcher()
        running_sum = query._running_sum(query.span(zone))
        for time_slice in query._time_slices(zone, datetime.now(UTC), stats._range_end):
            call = replace(
                query._call(selector, time_slice),
                freshness="new connection" if new_connection else "no cache",
                replayable=False,
                period_end=self.not_before,
            )
            running_sum.add(await fetcher.fetch(call, time_slice.window, is_result=False))
        return running_sum.result()
