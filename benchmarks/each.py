"""Count the requests of per-link tables, and compare every figure with the truth.

python benchmarks/each.py [--size FACTOR] [--rounds N] [--json]

Tables over 5,000 links: an account as the sandbox makes it (200,000 clicks of four years, most on few links,
with lifelike labels), a dense one (every link is clicked every day), a sparse one (1 % of them are clicked).
A service in memory answers; what it counts for each link and day is the truth. Halving requests first halves
alone, and confirms nothing: the checks of a table are 2 to 8 % of its requests. Groups of 50 batches take 3 %
more than groups of 100, whose results would come later. The 20 tables: three accounts of the sandbox over 1,
3, 7 and 30 days, clicks by Zipf's law over 1 and 7 days.

Nothing here but the milliseconds depends on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import random
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import fmean
from time import process_time
from types import SimpleNamespace
from typing import Any, Self, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._measure import Row, parser, report, scaled
from slashtag import AllTime, DateRange, RangeStats, ShortUrl
from slashtag._core.call import Call
from slashtag._core.statistics_answers import PeriodAnswer, RangeAnswer
from slashtag._core.windows import windows
from slashtag._fanout import Tasks
from slashtag._resources.stats import Stats
from slashtag.sandbox.generate import fill
from slashtag.sandbox.store import Store

LINKS = 5_000
BATCH = 100
LAST = date(2025, 12, 31)
LABELS = ("device", "browser", "platform", "country", "referrer")

#: A click: its day and its labels.
Click = tuple[date, tuple[str, ...]]
Log = dict[str, list[Click]]


class Service:
    """A service in memory, as a session sends to it, that counts the requests it answers."""

    journal = None
    metrics = SimpleNamespace(inconsistent=0, name="")

    def __init__(self, log: Log) -> None:
        self.log = {key: sorted(clicks) for key, clicks in log.items()}
        self.clear()

    def of_operation(self) -> Self:
        """Return itself: whose turn it is makes no difference here."""
        return self

    def clear(self) -> None:
        """Forget the requests."""
        self.requests = 0
        self.seconds = 0.0

    async def send(self, call: Call[Any], /) -> Any:
        self.requests += 1
        await asyncio.sleep(0)
        began = process_time()
        if call.path == AllTime._path:
            answer: Any = self._all_time(call.keys)
        else:
            bounds = dict(call.params)["date_range"].split(",")
            answer = self.range(call.keys, *(datetime.fromisoformat(at).date() for at in bounds))
        self.seconds += process_time() - began
        return answer

    def range(self, keys: Sequence[str], first: date, last: date) -> RangeAnswer:
        """Count the clicks of some links on some days."""
        found: list[Click] = []
        for key in keys:
            log = self.log[key]
            if log:
                found += log[bisect_left(log, (first,)) : bisect_right(log, (last + timedelta(days=1),))]
        columns = zip(*(labels for _, labels in found), strict=True) if found else [()] * len(LABELS)
        maps: dict[str, Any] = {
            name: dict(Counter(column)) for name, column in zip(LABELS, columns, strict=True)
        }
        days = dict(Counter(day for day, _ in found))
        return RangeAnswer(len(found), clicks=days, **maps)

    def _all_time(self, keys: Sequence[str]) -> PeriodAnswer:
        counts = Counter((day.year, day.month) for key in keys for day, _ in self.log[key])
        breakdown: dict[int, dict[int, int]] = {}
        for (year, month), n in counts.items():
            breakdown.setdefault(year, {})[month] = n
        return PeriodAnswer(counts.total(), counts.total(), 0, clicks_breakdown=dict(breakdown))

    def hits(self) -> list[ShortUrl]:
        """List the links."""
        links = enumerate(self.log.items())
        return [ShortUrl(id=n, slashtag=key, hits=len(clicks)) for n, (key, clicks) in links]


def account(links: int, seed: int = 7) -> Log:
    """Return the click log of an account of the sandbox: 40 clicks a link over four years."""
    since, until = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2022, 2026))
    made = partial(fill, urls=links, clicks=40 * links, tags=0, seed=seed, since=since, until=until - 1)
    store = Store(None, made)
    names = dict(store.rows("SELECT id, slashtag FROM link ORDER BY created_at, id"))
    log: Log = {name: [] for name in names.values()}
    for link, at, *labels in store.rows(f"SELECT link, at, {', '.join(LABELS)} FROM click"):
        day = datetime.fromtimestamp(at, UTC).date()
        log[names[link]].append((day, tuple(store.labels[label] for label in labels)))
    return log


def clicked(links: int, days: int, labels: Sequence[tuple[str, ...]], *, share: float, chance: float) -> Log:
    """Return clicks of a share of the links, each on a day with this chance."""
    draw = random.Random(8)
    log: Log = {f"link-{n}": [] for n in range(links)}
    for key in draw.sample(list(log), max(1, int(links * share))):
        for day in range(days):
            if draw.random() < chance:
                log[key].append((LAST - timedelta(days=day), draw.choice(labels)))
    return log


def zipf(links: int, clicks: int, labels: Sequence[tuple[str, ...]], exponent: float) -> Log:
    """Return so many clicks on each of 60 days, which fall on the links by Zipf's law; labels by chance."""
    draw = random.Random(f"{exponent} {clicks}")
    log: Log = {f"link-{n}": [] for n in range(links)}
    weights = [(n + 1) ** -exponent for n in range(links)]
    for day in range(60):
        for key in draw.choices(list(log), weights, k=clicks):
            log[key].append((LAST - timedelta(days=day), draw.choice(labels)))
    return log


def stats_of(service: Service) -> Stats:
    """Return the statistics of a session with this service."""
    return Stats(
        cast("Any", service),
        Tasks(),
        workers=32,
        max_keys_bytes=7_500,
        paths={},
        range_end="inclusive",
    )


async def table(service: Service, query: DateRange, keys: list[Any], **options: Any) -> dict[str, RangeStats]:
    """Collect one result a link."""
    each = stats_of(service).collect_each(query, keys=keys, **options)
    return {key: found async for key, found in each}


async def arrivals(service: Service, query: DateRange, **options: Any) -> list[int]:
    """Return after how many requests each result came."""
    each = stats_of(service).collect_each(query, keys=list(service.hits()), **options)
    return [service.requests async for _ in each]


def check(service: Service, query: DateRange, found: dict[str, RangeStats]) -> int:
    """Compare every figure with the truth; return how many results are wrong."""
    first, last = query.bounds
    wrong = len(service.log.keys() ^ found.keys())
    for key, stats in found.items():
        truth = service.range((key,), first, last)
        counted = {day: n for day, n in stats.clicks.items() if n}
        wrong += (stats.total, counted) != (truth.total_clicks, truth.clicks)
        wrong += any(getattr(stats, name) != getattr(truth, name) for name in LABELS)
    return wrong


def halving(service: Service, query: DateRange, *, ordered: bool) -> int:
    """Count the requests of batches and, where they have clicks, of first halves."""
    requests, links = 0, service.hits()
    keys = [link.slashtag for link in (links if ordered else sorted(links, key=lambda link: -link.hits))]
    for window in windows(*query.bounds, UTC):
        has_clicks = [service.range((key,), window.first, window.last).total_clicks > 0 for key in keys]

        def splits(part: list[bool]) -> int:
            if len(part) < 2 or not any(part):
                return 0
            return 1 + splits(part[: len(part) // 2]) + splits(part[len(part) // 2 :])

        requests += sum(1 + splits(has_clicks[n : n + BATCH]) for n in range(0, len(keys), BATCH))
    return requests


def measure(service: Service, name: str, days: int, goal: float, *, ordered: bool = False) -> tuple[Row, int]:
    """Make a table; return its row, and how many results are wrong."""
    query = DateRange(LAST - timedelta(days=days - 1), LAST)
    service.clear()
    began = process_time()
    found = asyncio.run(table(service, query, list(service.hits()), ordered=ordered))
    milliseconds = 1000 * (process_time() - began - service.seconds) / service.requests
    before = halving(service, query, ordered=ordered)
    note = f"{service.requests:,} requests, {before:,} by halving; {milliseconds:.1f} ms of CPU a request"
    row = Row(f"{name}: requests / halving", service.requests / before, goal=f"<= {goal:g}", note=note)
    return row, check(service, query, found)


def rows(size: float) -> Iterator[Row]:
    """Make all tables."""
    links = scaled(LINKS, size, 50)
    wrong = 0
    real = account(links)
    labels = [labels for clicks in real.values() for _, labels in clicks]
    service = Service(real)
    for days, goal in ((1, 0.36), (3, 0.37), (7, 0.40), (30, 0.487), (90, 0.49), (365, 0.47)):
        row, different = measure(service, f"{days} days x {links:,} links, the sandbox's account", days, goal)
        wrong += different
        yield row
    sparse = clicked(links, 365, labels, share=0.01, chance=0.1)
    cases = (
        ("1 % clicked, in the order of the listing", sparse, 30, 0.55),
        ("every link clicked every day", clicked(links, 30, labels, share=1, chance=1), 30, 1.02),
        ("1 % clicked on a day in ten", sparse, 365, 1.05),
    )
    for name, log, days, goal in cases:
        name, is_listed = f"{days} days x {links:,} links, {name}", name.endswith("listing")
        row, different = measure(Service(log), name, days, goal, ordered=is_listed)
        wrong += different
        yield row
    row, different = measure(Service(account(10 * links)), f"1 day x {10 * links:,} links", 1, 0.34)
    wrong += different
    yield row
    tables = [(Service(account(links, seed)), days) for seed in (101, 102, 103) for days in (1, 3, 7, 30)]
    for days, clicks in ((1, 0.06), (7, 0.6 / 7)):
        logs = [zipf(links, int(clicks * links), labels, exponent) for exponent in (0, 0.5, 1, 1.3)]
        tables += [(Service(log), days) for log in logs]
    found = [measure(service, "", days, 1) for service, days in tables]
    wrong += sum(different for _, different in found)
    ratios = [row.figure for row, _ in found]
    note = f"{min(ratios):.2f} to {max(ratios):.2f}"
    yield Row("mean of 20 tables: requests / halving", fmean(ratios), goal="<= 0.37", note=note)
    now = datetime.now(UTC).date()
    moved = {
        key: [(day + (now - LAST), each) for day, each in clicks] for key, clicks in account(links).items()
    }
    for days, goal in ((1, 0.052), (30, 0.22)):
        service, query = Service(moved), DateRange(now - timedelta(days=days - 1), now)
        wrong += check(service, query, asyncio.run(table(service, query, list(service.hits()))))
        name, note = f"{days} days that end today x {links:,} links", f"{service.requests:,} requests"
        yield Row(f"{name}: requests / links", service.requests / links, goal=f"<= {goal:g}", note=note)
    for inferred, share, goal in ((True, 0.1, 0.25), (False, 0.0, 0.05)):
        service, query = Service(moved), DateRange(now - timedelta(days=7), now - timedelta(days=7))
        at = asyncio.run(arrivals(service, query, inferred=inferred))
        name = "first tenth of the results" if inferred else "first result, inferred=False"
        yield Row(
            f"{name}: share of the requests", at[int(share * len(at))] / service.requests, goal=f"<= {goal:g}"
        )
    yield Row("results of these tables that differ from the truth", float(wrong), "", "<= 0")


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size), options.json)


if __name__ == "__main__":
    main()
