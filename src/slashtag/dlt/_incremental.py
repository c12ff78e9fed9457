"""Tables of clicks, by day or by month and label: what a load requests again, and which rows it brings."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import groupby
from typing import Any

from msgspec import json
from msgspec.structs import replace

from .. import (
    AsyncSession,
    BadRequestError,
    DateRange,
    RangeStats,
    ShortUrl,
    SlashtagError,
    parse_zone,
)
from .._internal import (
    DAY,
    FEW_KEYS,
    MAX_KEYS,
    Kind,
    Selector,
    UncachedStatistics,
    WorkerPool,
    ask_until_sure,
    days,
    halves,
    in_batches,
    last_day,
)
from ..tables import Column, Table, arrow_table
from ._records import Listed, Monitor, ReadListed, ReadReload, Series, TableRecord, checked_record

#: At most so many new or changed series are requested one by one: to ask for them together, and to check what
#: is inferred from the answers, takes about as many requests.
_MOST_ALONE = 20
_ROWS_PER_TABLE = 20_000
Rows = Iterable[tuple[Any, ...]]
#: Kinds of the columns that are no texts.
_KINDS: dict[str, Kind] = {"date": "date", "month": "date", "clicks": "int"}


@dataclass
class ClicksLoad:
    """One load of a table of clicks, which is by day, or by month and label of `dimensions`.

    `key` names its first columns, of which the first is "slashtag" or "tag". `state`, which dlt keeps at the
    destination, has a TableRecord. Slashtags with the same hits as before are requested in batches. Raises
    ConfigurationError if the record is not one of this table.
    """

    name: str
    key: tuple[str, ...]
    state: dict[str, Any]
    since: date
    lookback: int
    timezone: str
    monitor: Monitor
    dimensions: tuple[str, ...] = ()
    #: Whether days without clicks are rows where the destination has no others.
    zeros: bool = True

    def empty(self) -> Any:
        """Return the table without rows."""
        return self._table([])

    @property
    def missing(self) -> list[str]:
        """What is listed and not loaded, or not all of it, or about which answers disagreed."""
        return [key for key in self._series if key not in self._after or key in self._disagreed]

    @property
    def _disagreed(self) -> set[str]:
        return self._doubtful | {*self._reload.doubtful} if self.key[0] == "slashtag" else self._doubtful

    async def tables(
        self, read: ReadListed, read_reload: ReadReload, session: AsyncSession
    ) -> AsyncGenerator[Any, None]:
        """Yield Arrow tables of the rows that are new or different; the state is updated at the end."""
        self._zone = parse_zone(self.timezone)
        self._last_load = checked_record(self.state, self.name, self.timezone, session.base_url)
        self._reload = await read_reload(session)
        if self._reload.only:
            if self._last_load is not None:
                self._begin_reload(self._last_load, await read(session) if self.key[0] == "tag" else None)
                async with aclosing(self._earlier(session)) as parts:
                    async for table in self._in_tables(parts):
                        yield table
            return
        listed = await read(session)
        self._begin(listed)
        if self._last_load is None:
            # Creates the table, also if there are no links or tags.
            yield self._table([])
        if self.since > self._today:
            self._after |= self._series
            return
        async with aclosing(self._rows(session)) as parts:
            async for table in self._in_tables(parts):
                yield table
        # What a cache has answered is older than the listing.
        listed_at, oldest = listed.now.timestamp(), session.metrics.oldest_answer
        answered = listed_at if oldest is None else min(listed_at, oldest)
        record = TableRecord(
            timezone=self.timezone,
            base_url=session.base_url,
            since=self.since,
            recorded=self._today - self.lookback * DAY,
            through=datetime.fromtimestamp(answered, self._zone).date(),
            dimensions=self.dimensions,
            series=self._after,
            zeros=self.zeros,
            earlier=None
            if self._may_have is None
            else tuple({*self._may_have, *self._series} - {*self._after}),
        )
        self.through = record.through
        # As one str: dlt copies its state several times.
        self.state["record"] = json.encode(record).decode()

    async def _in_tables(self, parts: AsyncGenerator[Rows, None]) -> AsyncGenerator[Any, None]:
        rows: list[tuple[Any, ...]] = []
        async for part in parts:
            rows += part
            if len(rows) >= _ROWS_PER_TABLE:
                yield self._table(rows)
                rows = []
        if rows:
            yield self._table(rows)

    def _begin(self, listed: Listed) -> None:
        """Decide which series are continued, and from which day on."""
        self._series = listed.series
        self._today = listed.now.astimezone(self._zone).date()
        self._first, self.through = self.since, self._today
        #: Series of the load before whose links are the same, and those of this load.
        self._before: dict[str, Series] = {}
        self._after: dict[str, Series] = {}
        self._doubtful = set[str]()
        last_load = self._last_load
        #: What may have rows at the destination, None: anything.
        self._may_have: set[str] | None = set()
        if last_load is not None:
            self._may_have = None if last_load.earlier is None else {*last_load.earlier, *last_load.series}
        # Earlier days are missing, or days were over by a clock that was ahead, or dimensions are missing.
        if last_load is None or last_load.since > self.since or last_load.through > self._today + DAY:
            return
        if self.zeros and not last_load.zeros:
            return
        if not set(self.dimensions) <= set(last_load.dimensions):
            return
        self.since = last_load.since
        first = min(last_load.through, self._today) - self.lookback * DAY
        self._first = max(self.since, self._unit(first))
        self._before = {
            key: last_load.series[key]
            for key, series in self._series.items()
            if key in last_load.series and last_load.series[key].ids == series.ids
        }

    def _begin_reload(self, last_load: TableRecord, listed: Listed | None) -> None:
        """Prepare to load some days only, of those that were over at the last load."""
        self._series = last_load.series if listed is None else listed.series
        self._before, self._after = dict.fromkeys(self._series, Series(())), dict(self._series)
        if listed is None:
            # Rows of a slashtag that was renamed since have another name.
            self._before |= dict.fromkeys(self._reload.days, Series(()))
        self.since, self.through = last_load.since, last_load.through
        self._today = self._first = last_load.through
        if self.dimensions:
            self._first += DAY
        self._doubtful, self._last_load = set[str](), None  # nothing is known of what is loaded

    def _table(self, rows: list[tuple[Any, ...]]) -> Any:
        columns = [Column(name, _KINDS.get(name, "text")) for name in (*self.key, "clicks")]
        columns.append(Column("deleted" if self.dimensions else "final", "bool"))
        return arrow_table(Table(tuple(columns)), rows)

    def _unit(self, day: date) -> date:
        """Return the day, or the first one of its month: clicks of either are recorded."""
        return day.replace(day=1) if self.dimensions else day

    def _counts(self, stats: RangeStats) -> Mapping[date, int]:
        """Return the clicks by day or month."""
        if not self.dimensions:
            return stats.clicks
        counts = Counter[date]()
        for day, clicks in stats.clicks.items():
            counts[self._unit(day)] += clicks
        return counts

    async def _rows(self, session: AsyncSession) -> AsyncGenerator[Rows, None]:
        """Yield the rows that are new or different, series by series, and fill `_after`."""
        before, series, first = self._before, self._series, self._first
        unchanged = dict.fromkeys(
            key for key, last in before.items() if last.hits is not None and last.hits == series[key].hits
        )
        for key in await self._find_different(session, DateRange(first, self._today), list(unchanged)):
            del unchanged[key]
        for key in unchanged:
            clicks = before[key].clicks
            self._after[key] = replace(series[key], clicks=self._recent(clicks))
            if not self.dimensions:
                yield self._days(key, {day: clicks.get(day, 0) for day in days(first, self._today)})
        new = [key for key in series if key not in before]
        changed = [key for key in before if key not in unchanged]
        for keys, start in ((new, self.since), (changed, first)):
            recent: dict[str, dict[date, int]] = {key: {} for key in keys}
            # All days at once, or those of each month.
            months = [list(month) for _, month in groupby(days(start, self._today), self._unit)]
            for span in months if self.dimensions else [[start, self._today]]:
                whole: dict[str, dict[date, int]] = {}
                async with aclosing(self._collect(session, keys, span[0], span[-1])) as each:
                    async for key, counts, rows, is_whole in each:
                        yield rows
                        if is_whole and key in recent:
                            whole[key] = recent[key] | self._recent(counts)
                recent = whole
            self._after |= {key: replace(series[key], clicks=clicks) for key, clicks in recent.items()}
        async with aclosing(self._earlier(session)) as parts:
            async for part in parts:
                yield part
        if self.key[0] == "slashtag" and not self.dimensions:
            await self._check_busiest(session)
        for key in self._after.keys() & self._disagreed:
            self._after[key] = replace(self._after[key], hits=None)

    async def _check_busiest(self, session: AsyncSession) -> None:
        """Compare the last days that are over with second answers for the links with the most hits."""
        oldest = session.metrics.oldest_answer
        # Of an answer that a cache kept, days were not over that are now.
        over = self._today if oldest is None else datetime.fromtimestamp(oldest, self._zone).date()
        span = max(self.since, self._today - self.lookback * DAY), min(over, self._today) - DAY
        keys = [key for key in self._series if key in self._after and key not in self._doubtful][:MAX_KEYS]
        source = UncachedStatistics(session.stats)
        batches = source.batches(self._links_of(keys)) if span[0] <= span[1] else []
        for batch in batches[:1] if source.counts_batches else ():
            loaded = sum((Counter(self._after[key].clicks) for key in batch.keys), Counter[date]())
            try:
                # Twice: backends that answer in turn are both asked.
                for _ in range(2):
                    stats = await source.ask(DateRange(*span), batch, self._zone, again=True)
                    if stats.reconciles and any(loaded[day] != n for day, n in stats.clicks.items()):
                        text = "answers about the last days disagree, as of a backend that lags behind"
                        break
                else:
                    return
            except SlashtagError as error:
                if error.is_fatal:
                    raise
                text = f"no second answer: {error}"
            self._doubtful.update(batch.keys)
            self.monitor.note(self.name, text, batch.keys)

    async def _collect(
        self, session: AsyncSession, keys: list[str], start: date, end: date
    ) -> AsyncGenerator[tuple[str, Mapping[date, int], Rows, bool], None]:
        """Request days; yield of each series its clicks, its rows and whether the answer has all days."""
        name = f"{self.name} {start:%Y-%m}" if self.dimensions else self.name
        each = session.stats.collect_each(
            DateRange(start, end),
            keys=self._links_of(keys) if self.key[0] == "slashtag" else None,
            tags=keys if self.key[0] == "tag" else None,
            timezone=self._zone,
            inferred=len(keys) > _MOST_ALONE,
            progress=self.monitor.progress and partial(self.monitor.progress, name),
            on_error=self.monitor.on_error,
        )
        async with each:
            async for key, stats in each:
                counts = dict(self._counts(stats))
                doubtful = await self._fallen(session, key, counts)
                if self.dimensions:
                    rows: Rows = () if doubtful else self._labels(key, stats)
                else:
                    rows = self._days(key, {day: n for day, n in counts.items() if day not in doubtful})
                yield key, counts | doubtful, rows, stats.reconciles and stats.days_complete

    async def _fallen(self, session: AsyncSession, key: str, counts: Mapping[date, int]) -> dict[date, int]:
        """Return what is held of days or months that have fewer clicks now, unless a second answer agrees.

        Clicks do not disappear of themselves: a backend that lags behind may have answered.
        """
        held = {
            unit: n for unit, (n, is_over) in self._known(key).items() if is_over and n > counts.get(unit, n)
        }
        if not held:
            return {}
        last = min(self._today, last_day(max(held)) if self.dimensions else max(held))
        source = UncachedStatistics(session.stats)
        (selector,) = [Selector(tag=key)] if self.key[0] == "tag" else source.batches(self._links_of([key]))
        span = DateRange(max(self.since, min(held)), last)

        async def ask(again: bool) -> Mapping[date, int]:
            return self._counts(await source.ask(span, selector, self._zone, again=again))

        def find_doubt(found: Mapping[date, int]) -> object:
            return all(found.get(unit) == counts[unit] for unit in held) and "fewer clicks than are held"

        # Twice: backends that answer in turn are both asked.
        *_, again = await ask_until_sure(key, ask, find_doubt, first=counts, most=3)
        if find_doubt(again):
            return {}
        self._doubtful.add(key)
        unit = min(held)
        text = (
            f"{self.name} has {held[unit]:,} clicks of {unit}; of two answers now one says "
            f"{counts[unit]:,}, the other {again.get(unit, 0):,}: nothing was changed"
        )
        is_tag = self.key[0] == "tag"
        self.monitor.note(f"{self.key[0]} {key!r}", text, () if is_tag else (key,), key if is_tag else None)
        return held

    async def _earlier(self, session: AsyncSession) -> AsyncGenerator[Rows, None]:
        """Yield rows of days that are loaded again, but for those that are requested anyway.

        A series of which they do not come is not in `_after` then: the next load requests all of it.
        """
        groups: dict[tuple[date, date], list[str]] = {}
        for key in self._before:
            for start, end in self._spans_again(key):
                groups.setdefault((start, end), []).append(key)
        for (start, end), keys in groups.items():
            lacking = set(keys)
            async with aclosing(self._collect(session, keys, start, end)) as each:
                async for key, _, rows, is_whole in each:
                    lacking -= {key} if is_whole else set()
                    yield rows
            for key in lacking:
                self._after.pop(key, None)

    def _spans_again(self, key: str) -> list[tuple[date, date]]:
        """Return the runs of days, or the months, of a series that are loaded again before `_first`."""
        reload, first = self._reload, self._first
        is_tag = self.key[0] == "tag"
        wanted = reload.days_of_tag(self._series[key].ids) if is_tag else set(reload.days.get(key, ()))
        if reload.span is not None:
            start, end = reload.span
            wanted.update(days(max(start, self.since), min(end, first - DAY)))
        if not self.dimensions:
            ordered = sorted(day for day in wanted if self.since <= day < first)
            runs = groupby(enumerate(ordered), lambda pair: pair[1].toordinal() - pair[0])
            return [(run[0][1], run[-1][1]) for run in (list(run) for _, run in runs)]
        months = sorted({self._unit(day) for day in wanted if self._unit(day) < first})
        return [(max(month, self.since), min(last_day(month), self._today)) for month in months]

    def _is_again(self, unit: date) -> bool:
        """Whether all series have a day or month loaded again."""
        if self._reload.span is None:
            return False
        start, end = self._reload.span
        return self._unit(start) <= unit <= end

    def _links_of(self, slashtags: Iterable[str]) -> list[ShortUrl | str]:
        """Return the links of slashtags: a journal knows them by their ids."""
        # A slashtag that no link had at the last load is in no listing.
        ids = {key: self._series[key].ids if key in self._series else () for key in slashtags}
        return [ShortUrl(id=id, slashtag=key) for key in ids for id in ids[key]] + [
            key for key in ids if not ids[key]
        ]

    def _recent(self, clicks: Mapping[date, int]) -> dict[date, int]:
        """Return the clicks that are recorded, without zeros."""
        recorded = self._unit(self._today - self.lookback * DAY)
        return {unit: count for unit, count in clicks.items() if count and unit >= recorded}

    def _known(self, key: str) -> dict[date, tuple[int, bool]]:
        """Return the clicks that the destination holds of the last days or months, and if they were over."""
        if self._last_load is None or key not in self._before:
            return {}
        last_load, counts = self._last_load, self._before[key].clicks
        units = dict.fromkeys(map(self._unit, days(last_load.recorded, last_load.through)))
        return {unit: (counts.get(unit, 0), unit < last_load.through) for unit in units}

    def _days(self, key: str, clicks: Mapping[date, int]) -> Rows:
        """Return the rows of the days that are missing or different at the destination."""
        known = self._known(key)
        if (expected := self._reload.days.get(key)) and self.key[0] == "slashtag":
            # A link may have been renamed since that was counted, and another one have its slashtag.
            clicks = {day: n for day, n in clicks.items() if expected.get(day, n) == n}
        rows = ((day, (count, day < self._today)) for day, count in clicks.items())
        return (
            (key, day, *row)
            for day, row in rows
            if self._is_again(day)
            or (row != known.get(day) and (self.zeros or row[0] or self._may_hold(key, day, known)))
        )

    def _may_hold(self, key: str, day: date, known: Mapping[date, tuple[int, bool]]) -> bool:
        """Return whether the destination may have clicks of a day, which a row without has to replace."""
        if day in known:
            return known[day][0] > 0
        if self._last_load is not None and key in self._before:
            return day <= self._last_load.through
        return self._may_have is None or key in self._may_have

    def _labels(self, key: str, stats: RangeStats) -> Rows:
        """Return the rows of a month, or one that deletes those that another load may have brought.

        No rows if its clicks are the same as before.
        """
        ((month, total),) = self._counts(stats).items()
        if self._known(key).get(month, (None,))[0] == total and not self._is_again(month):
            return []
        rows = [
            (key, month, dimension, label, clicks, False)
            for dimension, label, clicks in stats.rows()
            if dimension in self.dimensions
        ]
        return rows or ([(key, month, "", "", 0, True)] if "record" in self.state else [])

    async def _find_different(self, session: AsyncSession, span: DateRange, keys: list[str]) -> list[str]:
        """Return the slashtags whose clicks may not be those of the load before.

        They are requested in batches, and a batch whose sum is another is halved. Those of a batch
        that fails may be different: requested one by one, the one at fault is a failure.
        """
        different: list[str] = []

        async def compare(batch: Sequence[str]) -> Sequence[Sequence[str]]:
            try:
                stats = await session.stats.collect(span, keys=self._links_of(batch), timezone=self._zone)
                known = sum((Counter(self._before[key].clicks) for key in batch), Counter[date]())
                is_same = all(known[unit] == clicks for unit, clicks in self._counts(stats).items())
                if stats.reconciles and stats.days_complete and is_same:
                    return ()
                if len(batch) > FEW_KEYS:
                    return halves(batch)
            except SlashtagError as error:
                if error.is_fatal or not (self.monitor.on_error or isinstance(error, BadRequestError)):
                    raise
            different.extend(batch)
            return ()

        await WorkerPool(in_batches(keys), compare, UncachedStatistics(session.stats).workers).run()
        return different
