"""What is held of clicks, compared with the service: sums of months first, and down to link and day.

| What is compared | By which requests |
|---|---|
| months with one UTC offset | all time of a hundred links; in a zone with two offsets, two |
| the month of the last load, if links were not clicked since | the same |
| other parts of months, and months in which the offset changes | a range of days of a hundred links |
| every month, where all time is not the sum of ranges | the same |
| a month that differs | the same, then halves of the links, on the days that differ |
| a link that differs | its days, and once more over another connection |

All-time statistics with fewer clicks than the `hits` of their links are requested once more, over another
connection: a backend may lag behind. What two answers disagree about is neither proved nor a difference.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta, timezone, tzinfo
from functools import partial
from itertools import chain

from msgspec import Struct

from .. import AllTime, DateRange, PeriodStats, RangeStats, ShortUrl, SlashtagError
from .._internal import (
    Selector,
    UncachedStatistics,
    WorkerPool,
    ask_until_sure,
    days,
    in_thread,
    is_refusal,
    last_day,
    many,
    windows,
)
from ._held import NO_DAY, NO_MONTH, Day, Held, Month, Span, months_between

log = logging.getLogger("slashtag")
#: Number of a batch that differs, a part of it, and days.
_Item = tuple[int, Selector, Span]
#: Text of what cannot be proved because a second answer was another one.
DISAGREE = "two answers of the service disagree: ask again later"


class Difference(Struct, frozen=True):
    """Day of a link of which the destination or file holds other clicks than the service counts.

    `held` are the clicks of all its `rows`. `counted` is None where the service's answers contradict each
    other, and the rows are wrong by themselves.
    """

    slashtag: str
    date: date
    held: int
    counted: int | None
    rows: int

    @property
    def problem(self) -> str:
        """What is wrong, in words."""
        if self.rows != 1:
            return f"{self.rows} rows" if self.rows else "no row"
        return (
            "too many clicks" if self.counted is not None and self.held > self.counted else "clicks missing"
        )


class Unproved(Struct, frozen=True):
    """Slashtags about which the service's answers prove nothing, and why."""

    slashtags: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        first, *others = self.slashtags
        more = f" and {many(len(others), 'other')}" if others else ""
        return f"{first!r}{more}: {self.reason}"


class Comparison:
    """One comparison of days from `first` to `last`, all of which are over.

    `links` has what is asked about, by slashtag, and `held_as` the slashtag that its rows have, where it is
    another one. Those in `has_rows` should have a row for each day. `loaded` is the last day that rows may
    have, which was not over; slashtags with the same hits as then are `unclicked`. `differences` and
    `unproved` are the result. Requests that fail leave their links unproved, unless it `raises`.
    """

    def __init__(
        self,
        source: UncachedStatistics,
        held: Held,
        links: Mapping[str, Sequence[ShortUrl]],
        span: Span,
        zone: tzinfo,
        *,
        held_as: Mapping[str, str] | None = None,
        has_rows: Collection[str] = (),
        loaded: date | None = None,
        unclicked: Collection[str] = (),
        by_day: bool = False,
        progress: Callable[[int, int | None], object] | None = None,
        raises: bool = False,
    ) -> None:
        self._source, self._held, self._links, self._zone = source, held, links, zone
        self._held_as, self._unclicked = held_as or {}, unclicked
        self._has_rows = has_rows
        self._progress, self._raises = progress, raises
        self.differences: list[Difference] = []
        self.unproved: list[Unproved] = []
        #: Slashtags of batches that differed: when a fault is gone, another one may show that it cancelled.
        self.touched: set[str] = set()
        #: Whether all-time statistics are the sum of the service's ranges, as far as is known.
        self.trusts_all_time = not by_day
        self._spans = months_between(*span)
        #: Months that all-time statistics show, by the offset that they are requested with.
        self._whole: dict[timedelta, list[Span]] = {}
        #: The month of the last load, if some of its days were over, and its days up to the last load.
        self._present: tuple[Span, Span] | None = None
        for start, end in self._spans:
            first, *others = dict.fromkeys(each.offset for each in windows(start, last_day(end), zone))
            if others or start.day != 1:
                continue
            if end == last_day(end):
                self._whole.setdefault(first, []).append((start, end))
            elif loaded is not None and end < loaded <= last_day(end):
                self._present = (start, end), (start, loaded)
                self._whole.setdefault(first, [])
                self._present_offset = first
        #: What is held, by span and slashtag.
        self._months: dict[Span, dict[str, Month]] = {}
        #: All-time statistics that the test has asked for, by batch and offset.
        self._tested: dict[tuple[tuple[str, ...], timedelta], PeriodStats] = {}
        self._asked: set[tuple[Span, tuple[str, ...]]] = set()

    async def run(self, *, tests: bool) -> None:
        """Compare; first, if it `tests`, all-time statistics with a range that they contain."""
        await self._read_months()
        batches = self._source.batches(
            chain.from_iterable(links or [key] for key, links in self._links.items())
        )
        if tests and self.trusts_all_time and any(self._whole.values()) and batches:
            await self._test(batches)
        doubtful: dict[Span, list[Selector]] = {span: [] for span in self._spans}
        if self.trusts_all_time and self._whole:
            await self._compare_all_time(batches, doubtful)
        shown = {*chain.from_iterable(self._whole.values())} if self.trusts_all_time else set[Span]()
        shown |= {self._present[0]} if self._present and self.trusts_all_time else set()
        for span in self._spans:
            await self._compare_days(span, doubtful[span] if span in shown else batches)
        if shown and not self.trusts_all_time:
            for span in self._spans:
                await self._compare_days(span, batches)
        await self._check_rows()

    async def _read_months(self) -> None:
        held, start = self._held, self._spans[0][0]
        by_slashtag = await in_thread(partial(held.months, start, self._spans[-1][1]))
        self.held_slashtags = by_slashtag.keys()
        self._months = {span: {} for span in self._spans}
        for slashtag, months in by_slashtag.items():
            for span in self._spans:
                if span[0] in months:
                    self._months[span][slashtag] = months[span[0]]
        if self._present is not None:
            _, span = self._present
            found = await in_thread(partial(held.months, *span))
            self._months[span] = {slashtag: months[span[0]] for slashtag, months in found.items()}
        self._find_wrong_rows()

    def _doubt(self, slashtags: tuple[str, ...], reason: str) -> None:
        """Note what is not proved, once."""
        if all(each.slashtags != slashtags for each in self.unproved):
            self.unproved.append(Unproved(slashtags, reason))

    def _names(self, slashtags: Iterable[str]) -> list[str]:
        """Return what the rows of slashtags have."""
        return [self._held_as.get(slashtag, slashtag) for slashtag in slashtags]

    def _held_in(self, span: Span, slashtags: Iterable[str]) -> int:
        months = self._months[span]
        return sum(months.get(name, NO_MONTH).clicks for name in self._names(slashtags))

    # -- all time

    async def _test(self, batches: Sequence[Selector]) -> None:
        """Compare the busiest month of the busiest batch with its days, as the service has both."""
        offset, spans = max(self._whole.items(), key=lambda item: len(item[1]))
        batch = max(batches, key=lambda each: sum(self._held_in(span, each.keys) for span in spans))
        try:
            ever = self._tested[batch.keys, offset] = await self._ask_all_time(batch, offset)
            busiest = max(spans, key=lambda span: counted_in(ever, span))
            if await self._agreed(batch, offset, busiest, ever) is None:
                self.trusts_all_time = False
        except SlashtagError as error:
            if error.is_fatal or not is_refusal(error):
                raise
            log.info("all-time statistics cannot be used: %s", error)
            self.trusts_all_time = False
        if not self.trusts_all_time:
            log.warning(
                "all-time statistics of this service are not the sum of its ranges: days are compared"
            )

    async def _agreed(self, batch: Selector, offset: timedelta, span: Span, ever: PeriodStats) -> int | None:
        """Return the clicks of a month by all-time statistics and by its days; None if they differ twice."""

        async def ask(again: bool) -> tuple[int, int]:
            of_months = await self._ask_all_time(batch, offset, True) if again else ever
            return counted_in(of_months, span), (await self._ask_days(batch, span, again)).total

        answers = await ask_until_sure(batch, ask, lambda sums: sums[0] != sums[1] and "its days differ")
        of_month, of_days = answers[-1]
        return of_days if of_days == of_month else None

    async def _ask_all_time(self, batch: Selector, offset: timedelta, again: bool = False) -> PeriodStats:
        return await self._source.ask(AllTime(), batch, timezone(offset), again=again)

    async def _ask_days(self, batch: Selector, span: Span, again: bool = False) -> RangeStats:
        return await self._source.ask(DateRange(*span), batch, self._zone, again=again)

    async def _compare_all_time(
        self, batches: Sequence[Selector], doubtful: Mapping[Span, list[Selector]]
    ) -> None:
        """Find the months of batches that differ."""
        total, done = len(batches), 0

        async def compare(batch: Selector) -> Sequence[Selector]:
            nonlocal total, done
            try:
                for span in await self._different_months(batch):
                    doubtful[span].append(batch)
            except SlashtagError as error:
                parts = self._parts_after(batch, error)
                total += len(parts)
                return parts
            finally:
                done += 1
                if self._progress is not None:
                    self._progress(done, total)
            return ()

        await WorkerPool(batches, compare, self._source.workers).run()

    async def _different_months(self, batch: Selector) -> list[Span]:
        """Return the months of a batch whose sum is another, or may be."""
        different: list[Span] = []
        hits = sum(link.hits or 0 for key in batch.keys for link in self._links[key])
        for offset, spans in self._whole.items():
            is_present = self._present is not None and offset == self._present_offset
            answers = await ask_until_sure(
                batch,
                partial(self._ask_all_time, batch, offset),
                # A cut answer, a backend that lags behind, or a service that counts hits in another way.
                lambda ever: (
                    (ever.total < hits or not ever.reconciles) and f"{hits} hits, {ever.total} clicks"
                ),
                first=self._tested.get((batch.keys, offset)),
            )
            wanted, ever = {span: self._held_in(span, batch.keys) for span in spans}, answers[-1]
            for answer in answers:
                different += [span for span in spans if counted_in(answer, span) != wanted[span]]
            if is_present and self._present is not None:
                over, loaded = self._present
                is_same = counted_in(ever, over) == self._held_in(loaded, batch.keys)
                if not (is_same and all(key in self._unclicked for key in batch.keys)):
                    different.append(over)
            if not ever.reconciles:
                return self._spans
        # A row too many may hide clicks that are missing.
        names = set(self._names(batch.keys))
        different += [span for span, wrong in self._wrong.items() if not names.isdisjoint(wrong)]
        return list(dict.fromkeys(different))

    def _parts_after(self, batch: Selector, error: SlashtagError) -> Sequence[Selector]:
        """Return the halves of a batch that was refused; note one that failed."""
        if error.is_fatal or (self._raises and not is_refusal(error)):
            raise error
        if is_refusal(error) and len(batch.keys) > 1:
            return batch.halves()
        self._doubt(batch.keys, str(error))
        return ()

    # -- days

    async def _compare_days(self, span: Span, batches: Iterable[Selector]) -> None:
        """Compare the days of a month, or of a part of it, and take apart what differs."""
        roots = [batch for batch in batches if (span, batch.keys) not in self._asked]
        if not roots:
            return
        self._asked.update((span, batch.keys) for batch in roots)
        names, names_wrong = self._names(key for batch in roots for key in batch.keys), self._wrong[span]
        held = await in_thread(partial(self._held.days, *span, names))
        #: Links that have fewer clicks than are held.
        fewer: list[tuple[Selector, dict[date, int], Counter[date] | None]] = []
        #: What is left to explain of each batch, by day; None where nothing was answered.
        left: list[Counter[date] | None] = [None] * len(roots)

        def expected(batch: Selector) -> Counter[date]:
            clicks = Counter[date]()
            for name in self._names(batch.keys):
                for day, found in held.get(name, {}).items():
                    clicks[day] += found.clicks
            return clicks

        async def compare(item: _Item) -> Sequence[_Item]:
            n, batch, days = item
            try:
                ask = partial(self._ask_days, batch, days)
                stats = (await ask_until_sure(batch, ask, contradiction))[-1]
                if contradiction(stats):
                    self._doubt(batch.keys, "the service's answers contradict themselves")
                    return ()
                of_batch = expected(batch)
                differ = {day: of_batch[day] - n for day, n in stats.clicks.items() if of_batch[day] != n}
                if left[n] is None:
                    left[n] = Counter(differ)
                    if differ or not names_wrong.isdisjoint(self._names(batch.keys)):
                        self.touched.update(batch.keys)
                    if not differ and span in self._whole_spans:
                        await self._explain(batch, span)
                if not differ:
                    return ()
                if len(batch.keys) > 1:
                    narrow = min(differ), max(differ)
                    return [(n, half, narrow) for half in batch.halves()]
                if max(differ.values()) > 0:
                    fewer.append((batch, differ, left[n]))
                else:
                    await self._confirm(batch, differ, held, left[n])
            except SlashtagError as error:
                parts = self._parts_after(batch, error)
                if not parts and left[n] is not None:
                    left[n] = Counter()  # which is told
                return [(n, part, days) for part in parts]
            return ()

        items = [(n, batch, span) for n, batch in enumerate(roots)]
        await WorkerPool(items, compare, self._source.workers).run()
        # One after the other, so that backends which answer in turn are all asked.
        for batch, differ, rest in fewer:
            try:
                await self._confirm(batch, differ, held, rest)
            except SlashtagError as error:
                self._parts_after(batch, error)
        for batch, rest in zip(roots, left, strict=True):
            if rest and any(rest.values()):
                reason = f"its links do not add up to it on {min(day for day, n in rest.items() if n)}"
                self._doubt(batch.keys, reason)

    @property
    def _whole_spans(self) -> set[Span]:
        return set(chain.from_iterable(self._whole.values())) if self.trusts_all_time else set()

    async def _explain(self, batch: Selector, span: Span) -> None:
        """Find out why all-time statistics of a batch differ from what is held, and its days do not."""
        offset = next(offset for offset, spans in self._whole.items() if span in spans)
        ever = await self._ask_all_time(batch, offset, again=True)
        agreed = await self._agreed(batch, offset, span, ever)
        if agreed is None:
            self.trusts_all_time = False
            log.warning("all-time statistics of %s contradict its days: all days are compared", batch)
        elif agreed != self._held_in(span, batch.keys):
            self._doubt(batch.keys, DISAGREE)

    async def _confirm(
        self,
        batch: Selector,
        differ: Mapping[date, int],
        held: Mapping[str, Mapping[date, Day]],
        left: Counter[date] | None,
    ) -> None:
        """Ask about a link that differs once more, twice if it has fewer clicks, and note its days."""
        (name,) = self._names(batch.keys)
        of_link, span = held.get(name, {}), (min(differ), max(differ))
        again = [await self._ask_days(batch, span, again=True)]
        if max(differ.values()) > 0:
            # A backend that lags behind may answer more than once, but not in place of all others.
            again.append(await self._ask_days(batch, span, again=True))
        disagree = not all(stats.reconciles for stats in again)
        for day, surplus in differ.items():
            if left is not None:
                left[day] -= surplus
            clicks, rows = of_link.get(day, NO_DAY)
            if all(stats.clicks[day] == clicks - surplus for stats in again):
                self.differences.append(Difference(name, day, clicks, clicks - surplus, rows))
            else:
                disagree = True
        if disagree:
            self._doubt(batch.keys, DISAGREE)

    # -- rows

    def _find_wrong_rows(self) -> None:
        """Find the slashtags that have a day twice in a month, or lack one that should be there.

        A destination without rows of zero clicks is told from its rows: most days without clicks have none.
        """
        lengths = {span: (span[1] - span[0]).days + 1 for span in self._spans}
        found = [self._months[span].get(name, NO_MONTH) for span in self._spans for name in self._has_rows]
        zeros, clicked = sum(month.zeros for month in found), sum(month.rows - month.zeros for month in found)
        self._has_zeros = 2 * zeros > sum(lengths.values()) * len(self._has_rows) - clicked
        names = {*self._names(self._links)}
        self._wrong: dict[Span, set[str]] = {}
        for span, length in lengths.items():
            self._wrong[span] = {
                name
                for name in names
                if (month := self._months[span].get(name, NO_MONTH)).rows != month.days
                or (self._has_zeros and name in self._has_rows and month.days < length)
            }

    async def _check_rows(self) -> None:
        """Note days that have no row, or several, of which the sums do not tell."""
        unproved = {name for each in self.unproved for name in self._names(each.slashtags)}
        told = {(each.slashtag, each.date) for each in self.differences}
        for span, wrong in self._wrong.items():
            held = await in_thread(partial(self._held.days, *span, wrong)) if wrong else {}
            for name in wrong:
                needs_rows = self._has_zeros and name in self._has_rows
                for day in days(*span):
                    clicks, rows = held.get(name, {}).get(day, NO_DAY)
                    if (rows > 1 or (not rows and needs_rows)) and (name, day) not in told:
                        counted = None if name in unproved else clicks
                        self.differences.append(Difference(name, day, clicks, counted, rows))


def contradiction(stats: RangeStats) -> object:
    """Return what is wrong with the days of an answer, if anything is."""
    return not (stats.reconciles and stats.days_complete) and "its days contradict its total"


def counted_days(differences: Iterable[Difference]) -> dict[str, dict[date, int]]:
    """Return what the service counts on days that differ, by slashtag."""
    found: dict[str, dict[date, int]] = {}
    for each in differences:
        if each.counted is not None:
            found.setdefault(each.slashtag, {})[each.date] = each.counted
    return found


def counted_in(ever: PeriodStats, span: Span) -> int:
    """Return the clicks of a month in all-time statistics."""
    return ever.clicks_breakdown.get(span[0].year, {}).get(span[0].month, 0)
