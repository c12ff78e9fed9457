"""Guide: months of a range that can have clicks, according to all-time statistics, and what those cost.

There are two ways to get a per-link table over several windows. Halving requests each window of a batch,
then of one half if there are clicks. All-time statistics of a batch and its halves show in advance which half
has clicks in which months. Both use the same tree of halves, so they can be combined node by node:

    requesting all-time statistics of half a node        costs 1 request for each offset of the zone
                                                         (the other half is the difference)
    each window in which only one half has clicks        saves 1 request
                                                         (that half's answer is the node's answer)

The probability that only one half has clicks is estimated from similar nodes of this run, by clicks and
number of slashtags. The initial estimate is the probability that independent clicks all fall into one half.
To improve the estimates, nodes are also explored that seem not worth it, within the savings so far and
0.4 % of the requests for windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo

from .._models import PeriodStats, RangeStats
from .halving import subtract
from .queries import AllTime, DateRange, TimeSlice, range_slice
from .windows import (
    Month,
    Window,
    flattened,
    last_day,
    midnight,
    month_of,
    months,
    offsets_of_days,
    split_by_utc_offset,
    windows_of_month,
)

_DAY = timedelta(days=1)
#: Share of the requests for windows that may be spent on exploring.
EXPLORED = 0.004

#: Clicks by month, of all time, under each offset of a guide.
Counts = Sequence[Mapping[Month, int]]


class Guide:
    """Selection of the months of a DateRange to request, by all-time statistics of the same selector.

    The current and the previous month are always requested, as their clicks still arrive. All-time
    statistics are requested under every offset of the zone in the range; a month is skipped only if it is
    zero under all of them. The document does not show whether `timezone` has an effect on them. Until an
    answer has shown that it does, the month after one with clicks is requested too if the zone is ahead of
    UTC, and the month before if it is behind. See docs/service.md, Statistics for all time.
    """

    def __init__(self, query: DateRange, zone: tzinfo, now: datetime, range_end: str) -> None:
        self._range_end = range_end
        first, last = query.span(zone)
        today = now.astimezone(zone).date()
        recent = month_of(today.replace(day=1) - _DAY)
        #: The wall clock's time (seconds) by which all months that may be skipped had ended in every zone:
        #: answers fetched earlier, for example from a journal, are not used.
        self.settled_at = (midnight(date(*recent, 1)) + _DAY).timestamp()
        self.months = months(first, last)
        self.always = frozenset(month for month in self.months if month >= recent)
        # Computed once, because it is needed for thousands of answers.
        self._parts = split_by_utc_offset(*query.bounds, zone)
        #: Offsets under which all-time statistics are requested.
        self.offsets = offsets_of_days(zone, first, last)
        #: The time slice for each of them.
        self.all_time = [AllTime().time_slice(offset, self.settled_at) for offset in self.offsets]
        self._shifts = {1 for offset in self.offsets if offset > timedelta()}
        self._shifts |= {-1 for offset in self.offsets if offset < timedelta()}
        #: The time slice for +00:00, if needed to find out whether `timezone` has an effect.
        self.in_utc = None
        if self._shifts and len(self.offsets) == 1:
            self.in_utc = AllTime().time_slice(timedelta(), self.settled_at)
        #: The offset of each whole month that has only one.
        self._known: dict[Month, timedelta] = {}
        whole_days = not any(isinstance(bound, datetime) for bound in query.bounds)
        for month in self.months if whole_days else ():
            offsets = offsets_of_days(zone, date(*month, 1), last_day(month))
            if len(offsets) == 1 and month not in self.always:
                self._known[month] = offsets[0]

    def counts(self, answers: Sequence[PeriodStats]) -> Counts | None:
        """Return the clicks of months that have ended, or None if a breakdown does not add up."""
        found: list[Mapping[Month, int]] = []
        for answer in answers:
            counts = flattened(answer.clicks_breakdown)
            if sum(counts.values()) != answer.clicks_total or any(n < 0 for n in counts.values()):
                return None
            found.append({month: n for month, n in counts.items() if n and month not in self.always})
        return found

    def clicks(self, counts: Counts) -> list[int]:
        """Return the clicks of each month of the range that has ended, the maximum over all offsets."""
        past = (month for month in self.months if month not in self.always)
        return [max(of_offset.get(month, 0) for of_offset in counts) for month in past]

    @staticmethod
    def beyond(whole: Counts, part: Counts) -> Counts | None:
        """Return the counts of `whole` minus `part`; None if one would be negative."""
        rests = [subtract(a, b) for a, b in zip(whole, part, strict=True)]
        return None if None in rests else [rest for rest in rests if rest is not None]

    def active(self, counts: Counts, *, zone_is_read: bool) -> frozenset[Month]:
        """Return the months to request."""
        found = {month for of_offset in counts for month in of_offset}
        if not zone_is_read:
            found.update([_shifted(month, by) for month in found for by in self._shifts])
        return self.always | found.intersection(self.months)

    def time_slices(self, active: frozenset[Month]) -> list[TimeSlice]:
        """Return time slices for these months of the range, one for each offset in a month."""
        found = [windows_of_month(self._parts, month) for month in self.months if month in active]
        return [range_slice(window, self._range_end) for windows in found for window in windows]

    def contradicts(self, answer: RangeStats, window: Window, counts: Counts) -> bool:
        """Return whether the answer for one month differs from the all-time statistics.

        Compares only past months that are completely in the range and have one offset.
        """
        month = month_of(window.first)
        offset = self._known.get(month)
        if offset is None or (window.first, window.last) != (date(*month, 1), last_day(month)):
            return False
        return counts[self.offsets.index(offset)].get(month, 0) != answer.total_clicks


def shows_zone(counts: Counts) -> bool:
    """Return whether months differ between offsets, which shows that `timezone` has an effect."""
    return any(of_offset != counts[0] for of_offset in counts)


def _shifted(month: Month, by: int) -> Month:
    year, n = divmod(month[0] * 12 + month[1] - 1 + by, 12)
    return year, n + 1


class GuideCost:
    """Estimator of the requests that all-time statistics of half a node save, for one run."""

    def __init__(self, offsets: int = 1) -> None:
        self._price = offsets
        self._to_explore = 0.0
        #: [nodes, nodes with clicks in only one half], by size and clicks.
        self._seen: dict[tuple[int, int], list[int]] = {}

    def begin(self, keys: int, windows: int, active: int) -> None:
        """Record the all-time statistics of a batch, after which `active` of its windows remain."""
        self._to_explore += windows - active + EXPLORED * active * keys

    def observe(self, keys: int, clicks: int, *, one_sided: bool, guided: bool = False) -> None:
        """Record whether only one half of a node had clicks in a window, and whether that saved a request."""
        entry = self._seen.setdefault(_class(keys, clicks), [0, 0])
        entry[0] += 1
        entry[1] += one_sided
        self._to_explore += guided and one_sided

    def is_worth(self, keys: int, clicks: Iterable[int]) -> bool:
        """Return whether to request all-time statistics of half a node, given its clicks in each window."""
        windows = [(n, 1.0) for n in clicks if n > 0]
        if keys < 2 or not windows:
            return False
        if self._to_explore < self._price and self._gain(keys, windows) <= 0:
            return False
        self._to_explore -= self._price
        return True

    def _gain(self, keys: int, windows: list[tuple[int, float]]) -> float:
        """Return the expected savings minus cost; `windows` are (clicks, probability of any)."""
        # Both halves are taken to be as large as the larger one: half of three slashtags may be a pair.
        half = keys - keys // 2
        saved = 0.0
        expected = 0.0
        below: list[tuple[int, float]] = []
        for clicks, chance in windows:
            one_sided = self._one_sided(keys, clicks)
            expected += chance
            saved += chance * one_sided
            in_half = clicks if one_sided > 0.5 else max(1, clicks * half // keys)
            below.append((in_half, chance * (1 - one_sided / 2)))
        gain = saved - self._price * min(1.0, expected)
        if keys > 2 and expected > 0.01:
            gain += 2 * max(0.0, self._gain(half, below))
        return gain

    def _one_sided(self, keys: int, clicks: int) -> float:
        seen, one_sided = self._seen.get(_class(keys, clicks), (0, 0))
        # Assumes that on average each slashtag with clicks has two.
        first: float = min(1.0, 2.0 ** (1 - min(clicks, keys) / 2))
        return (one_sided + first) / (seen + 1)


def _class(keys: int, clicks: int) -> tuple[int, int]:
    return keys.bit_length(), min(clicks, 2**20).bit_length()
