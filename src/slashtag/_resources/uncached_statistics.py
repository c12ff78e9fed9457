"""Statistics to hold against what is known, for what is built on top: of warehouses and files."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.batches import Batcher, Selector, select
from .._core.plan import empty_sum, make_plan
from .._core.queries import Query
from .._errors import SlashtagError
from .._records import ShortUrl
from .._summed_statistics import Statistics
from .stats import Stats

R = TypeVar("R", bound=Statistics)
log = logging.getLogger("slashtag")


class UncachedStatistics(Struct, frozen=True):
    """Statistics to hold against what is known: requested batch by batch, and in no journal.

    An answer that was made before `not_before` (epoch seconds) is an error.
    """

    stats: Stats
    not_before: float = 0.0

    @property
    def counts_batches(self) -> bool:
        """Whether the service counts all slashtags of a batch, as far as answers of the last minutes show."""
        return not self.stats._sender.health.is_not_additive

    @property
    def workers(self) -> int:
        """The number of requests of the session that are made at once."""
        return self.stats._workers

    def batches(self, keys: Iterable[str | ShortUrl]) -> list[Selector]:
        """Return slashtags in batches, without those that cannot be requested."""

        def leave_out(key: object, error: SlashtagError) -> None:
            log.debug("%r is left out: %s", key, error)

        batcher = Batcher(self.stats._max_keys_bytes, leave_out)
        return list(select(list(keys), None, None, batcher))

    async def ask(self, query: Query[R], selector: Selector, zone: tzinfo, *, again: bool = False) -> R:
        """Return the statistics of one batch or tag, or a second answer; raises what requests raise."""
        stats = self.stats
        fetcher = stats._fetcher()
        plan = make_plan(query, [selector], zone, datetime.now(UTC), stats._range_end)
        running_sum = empty_sum(plan.query, plan.span)
        for request in plan._requests():
            call = replace(request.call, again=again, replayable=False, made_after=self.not_before)
            running_sum.add(await fetcher.fetch(call, request.time_slice.window, is_result=False))
        return running_sum.result()
