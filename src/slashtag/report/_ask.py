"""What a report asks of the service: many slashtags at once, as few times as can be."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import tzinfo

from msgspec import Struct
from msgspec.structs import replace

from .._core.plan import Plan
from .._core.queries import AllTime, DateRange, TimeSlice, Year
from .._core.split import Month, flattened, windows
from .._errors import SlashtagError
from .._fanout import WorkerPool
from .._models import PeriodStats, RangeStats
from .._resources.collect_each import GUIDED_FROM
from .._resources.listing import Progress
from .._session import AsyncSession
from ._search import WORKERS, Group
from ._span import Span, edges

#: Under which the clicks of the whole span are counted, where all-time months do not guide.
SPAN: Month = (0, 0)


class ContradictionError(SlashtagError):
    """Tell that all-time months and days differ, so that the months cannot guide; never seen outside."""


class Meter:
    """Count requests, and tell a `progress`."""

    def __init__(self, progress: Progress | None) -> None:
        self.done = 0
        self._total = 0
        self._progress = progress

    def expect(self, requests: int) -> Progress:
        """Announce requests; return what is to be called as each is answered."""
        self._total += requests
        return self.tick

    def one(self) -> None:
        """Count one request that nobody announced."""
        self.expect(1)(0, None)

    def tick(self, _done: int = 0, _total: int | None = None) -> None:
        """Count one answer."""
        self.done += 1
        # A batch that was halved takes more requests than announced.
        self._total = max(self._total, self.done)
        if self._progress is not None:
            self._progress(self.done, self._total)


class Count(Struct, frozen=True):
    """Hold the sums over all slashtags, and the groups asked about as one that have clicks in the span."""

    stats: RangeStats
    before: int
    groups: list[Group]


class Asking:
    """Ask for one report in one zone, guided by all-time months or not."""

    def __init__(
        self, session: AsyncSession, span: Span, zone: tzinfo, meter: Meter, *, guided: bool
    ) -> None:
        self._stats = session.stats
        self._span = span
        self._zone = zone
        self._meter = meter
        self._guided = guided and len(windows(span.first, span.last, zone)) >= GUIDED_FROM

    async def count(self, keys: Sequence[str], unclicked: Container[str]) -> Count:
        """Count the clicks of the span and of the one before it.

        Days are asked for in full, and all-time months held against them before these guide anything else.
        Only where all-time statistics and the hits of the listing (`unclicked`) agree that slashtags never
        had a click, none is looked for.

        Raises ContradictionError where days differ from the all-time months that guided, NotFoundError
        where there are no all-time statistics.
        """
        span = self._span
        batches = self._plan(span.question, keys).selectors
        parts: dict[int, tuple[RangeStats, int, Group]] = {}

        async def work(n: int) -> None:
            keys = batches[n].keys
            if not self._guided:
                stats = await self._range(span.question, keys)
                before = await self._range(span.question_before, keys)
                parts[n] = stats, before.total, Group(keys, {SPAN: stats.total})
                return
            ever = await self._all_time(keys)
            quiet = span.has_ended and not ever and all(key in unclicked for key in keys)
            stats = await self._range(span.question, keys, () if quiet else None)
            if span.lags(stats, ever):
                # Clicks have come since; where they have not, the months are behind the days for good.
                ever = await self._all_time(keys)
            if span.lags(stats, ever) or span.contradicted(stats, ever):
                raise ContradictionError(f"days and all-time months of {batches[n]} differ")
            parts[n] = stats, await self._before(keys, ever), Group(keys, span.bounds(ever))

        await WorkerPool(range(len(batches)), work, WORKERS).run()
        done = [parts[n] for n in range(len(batches))]
        nothing = self._plan(span.question, ()).tally().result()
        stats = RangeStats.merge([nothing, *(stats for stats, _, _ in done)])
        clicked = [group for stats, _, group in done if stats.total]
        return Count(stats, sum(before for _, before, _ in done), clicked)

    async def weigh(self, keys: Sequence[str]) -> Mapping[Month, int]:
        """Count the clicks of some slashtags together: the most that they can have in the span."""
        if self._guided:
            return self._span.bounds(await self._all_time(keys))
        return {SPAN: (await self._range(self._span.question, keys)).total}

    async def measure(self, group: Group) -> RangeStats:
        """Count the days of the span, where the group can have clicks."""
        return await self._range(self._span.question, group.keys, group.counts if self._guided else None)

    async def have_clicks(self, singles: Iterable[Group]) -> int:
        """Count the slashtags, each a group of its own, that have clicks in the span."""
        inside = {SPAN, *self._span.inside()}
        sure = 0
        doubtful: list[Group] = []
        for group in singles:
            if inside.isdisjoint(month for month, n in group.counts.items() if n):
                doubtful.append(group)
            else:
                sure += 1

        async def work(group: Group) -> None:
            nonlocal sure
            for edge in self._span.edges():
                if (await self._range(edge, group.keys, group.counts)).total:
                    sure += 1
                    break

        await WorkerPool(doubtful, work, WORKERS).run()
        return sure

    async def unique(self, keys: Sequence[str], years: Mapping[int, str]) -> PeriodStats:
        """Count calendar years, for their unique clicks."""
        found: list[PeriodStats] = []
        for year, offset in years.items():
            plan = self._stats.plan(Year(year), keys=keys, timezone=offset)
            found.append(await self._stats.run(plan, progress=self._meter.expect(len(plan))))
        return PeriodStats.merge(found)

    async def _before(self, keys: Sequence[str], ever: Mapping[Month, int]) -> int:
        """Count the span before: all-time months where they are exact, days for the rest."""
        span = self._span
        whole = span.inside_before()
        total = sum(ever.get(month, 0) for month in whole)
        for edge in edges(span.before_first, span.before_last, whole):
            total += (await self._range(edge, keys, ever)).total
        return total

    async def _all_time(self, keys: Sequence[str]) -> dict[Month, int]:
        """Ask for the clicks of all months, by one request."""
        answer = await self._stats.collect(
            AllTime(), keys=keys, timezone=self._span.fixed, progress=self._meter.expect(1)
        )
        found = flattened(answer.clicks_breakdown)
        if sum(found.values()) != answer.total:
            raise ContradictionError(f"all-time months of {len(keys)} slashtags do not add up")
        return found

    async def _range(
        self, query: DateRange, keys: Sequence[str], active: Container[Month] | None = None
    ) -> RangeStats:
        """Ask for the windows of some days, or for those of them that active months can have clicks in."""
        plan = self._plan(query, keys)
        if active is not None:
            pieces = tuple(piece for piece in plan.pieces if self._may_have_clicks(piece, active))
            plan = replace(plan, pieces=pieces, stop=len(plan.selectors) * len(pieces))
        return await self._stats.run(plan, progress=self._meter.expect(len(plan)))

    def _plan(self, query: DateRange, keys: Sequence[str]) -> Plan[RangeStats]:
        return self._stats.plan(query, keys=keys, timezone=self._zone)

    def _may_have_clicks(self, piece: TimeSlice, active: Container[Month]) -> bool:
        window = piece.window
        if window is None:
            return True
        touched = self._span.touched(window.first, window.last)
        return any(month in active or self._span.is_recent(month) for month in touched)
