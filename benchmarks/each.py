"""Count the requests of per-link tables, and compare every figure with the truth.

python benchmarks/each.py [--size FACTOR] [--rounds N] [--json]

Tables of 1, 3, 30, 90 and 365 days over 5,000 links: an account like the demo's (clicks of four years, most
of them on few links), a dense one (every link is clicked every day) and a very sparse one (1 % of the links
are clicked). A service in memory answers; what it counts for each link and day is the truth. The notes give
the requests before halving, which asked all-time statistics of each link, and those of one a link and window.
The daily row is the table of a day on which 50 links were clicked, given the hits of the day before.

Nothing here depends on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._measure import Row, parser, report, scaled
from slashtag import AllTime, DateRange, RangeStats, ShortUrl
from slashtag._core.call import Call
from slashtag._core.payloads import PeriodAnswer, RangeAnswer
from slashtag._fanout import Tasks
from slashtag._resources.collect import ServiceTraits
from slashtag._resources.stats import Stats

LINKS = 5_000
BATCH = 100
LAST = date(2024, 12, 31)
SPANS = (1, 3, 30, 90, 365)
DEVICES, COUNTRIES = ("Mobile", "Desktop", "Tablet"), ("US", "DE", "FR", "IN")

#: Clicks by day, then by (device, country).
Log = dict[date, dict[tuple[str, str], int]]


class Service:
    """A service in memory that counts the requests it answers."""

    def __init__(self, logs: dict[str, Log]) -> None:
        self.logs = logs
        self.months: dict[str, dict[tuple[int, int], int]] = {}
        for key, log in logs.items():
            counts = self.months[key] = {}
            for day, clicks in log.items():
                month = day.year, day.month
                counts[month] = counts.get(month, 0) + sum(clicks.values())
        self.requests = 0

    async def __call__(self, call: Call[Any], /) -> Any:
        self.requests += 1
        await asyncio.sleep(0)
        if call.path == AllTime.path:
            return self._all_time(call.keys)
        first, last = (datetime.fromisoformat(at).date() for at in dict(call.params)["date_range"].split(","))
        return self.range(call.keys, first, last)

    def range(self, keys: tuple[str, ...], first: date, last: date) -> RangeAnswer:
        """Count the clicks of some links on some days."""
        days: dict[date, int] = {}
        device: dict[str, int] = {}
        country: dict[str, int] = {}
        span = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        for key in keys:
            log = self.logs[key]
            for day in span if log else ():
                for (on, place), n in log.get(day, {}).items():
                    days[day] = days.get(day, 0) + n
                    device[on] = device.get(on, 0) + n
                    country[place] = country.get(place, 0) + n
        return RangeAnswer(sum(days.values()), device=device, country=country, clicks=days)

    def _all_time(self, keys: tuple[str, ...]) -> PeriodAnswer:
        breakdown: dict[int, dict[int, int]] = {}
        for key in keys:
            for (year, month), n in self.months[key].items():
                counts = breakdown.setdefault(year, {})
                counts[month] = counts.get(month, 0) + n
        total = sum(sum(counts.values()) for counts in breakdown.values())
        return PeriodAnswer(total, total, 0, clicks_breakdown=dict(breakdown))

    def hits(self) -> list[ShortUrl]:
        """List the links."""
        return [
            ShortUrl(id=n, slashtag=key, hits=sum(months.values()))
            for n, (key, months) in enumerate(self.months.items())
        ]


def demo(links: int) -> dict[str, Log]:
    """Make 40 clicks a link over four years, of which few links have most."""
    draw = random.Random(7)
    logs: dict[str, Log] = {f"demo-{n}": {} for n in range(links)}
    keys = draw.sample(list(logs), links)
    weights = [1 / (rank + 1) for rank in range(links)]
    for key in draw.choices(keys, weights, k=40 * links):
        add(logs[key], LAST - timedelta(days=draw.randrange(4 * 365)), draw)
    return logs


def dense(links: int) -> dict[str, Log]:
    """Make a click of each link on each day of the last year and a month."""
    draw = random.Random(8)
    logs: dict[str, Log] = {f"dense-{n}": {} for n in range(links)}
    for log in logs.values():
        for day in range(400):
            add(log, LAST - timedelta(days=day), draw)
    return logs


def sparse(links: int) -> dict[str, Log]:
    """Make clicks of 1 % of the links, on a tenth of the days."""
    draw = random.Random(9)
    logs: dict[str, Log] = {f"sparse-{n}": {} for n in range(links)}
    for key in draw.sample(list(logs), max(1, links // 100)):
        for day in draw.sample(range(400), 40):
            add(logs[key], LAST - timedelta(days=day), draw)
    return logs


def add(log: Log, day: date, draw: random.Random) -> None:
    """Add one click."""
    clicks = log.setdefault(day, {})
    seen = draw.choice(DEVICES), draw.choice(COUNTRIES)
    clicks[seen] = clicks.get(seen, 0) + 1


async def table(service: Service, query: DateRange, keys: list[Any], **options: Any) -> dict[str, RangeStats]:
    """Collect one result a link."""
    stats = Stats(
        service,
        Tasks(),
        workers=32,
        max_keys_bytes=7_500,
        range_end="inclusive",
        traits=ServiceTraits(),
        replayed_from=lambda call: None,
        kept_order=lambda *_, **__: None,
    )
    return {key: found async for key, found in stats.collect_each(query, keys=keys, **options)}


def check(service: Service, query: DateRange, found: dict[str, RangeStats]) -> int:
    """Compare every figure with the truth; return how many results are wrong."""
    first, last = query.bounds
    wrong = len(service.logs.keys() ^ found.keys())
    for key, stats in found.items():
        truth = service.range((key,), first, last)
        counted = {day: n for day, n in stats.clicks.items() if n}
        true = (truth.total_clicks, truth.clicks, truth.device, truth.country)
        wrong += (stats.total, counted, stats.device, stats.country) != true
    return wrong


def one_by_one(service: Service, query: DateRange) -> tuple[int, int]:
    """Return the requests of one a link and window, and of all-time statistics asked of each link first."""
    windows = -(-query_days(query) // 32)
    every = len(service.logs) * windows
    if windows < 3:
        return every, every
    keys = list(service.logs)
    first, last = query.bounds
    spent = 0
    for n in range(0, len(keys), BATCH):
        active = [
            sum(
                (first.year, first.month) <= month <= (last.year, last.month) for month in service.months[key]
            )
            for key in keys[n : n + BATCH]
        ]
        spent += 1 + (len(active) + sum(active) if any(active) else 0)
    return every, spent


def query_days(query: DateRange) -> int:
    """Count the days of a range."""
    first, last = query.bounds
    return (last - first).days + 1


def rows(size: float) -> Iterator[Row]:
    """Make all tables."""
    links = scaled(LINKS, size, 50)
    wrong = 0
    for account in (demo, dense, sparse):
        service = Service(account(links))
        for days in SPANS:
            query = DateRange(LAST - timedelta(days=days - 1), LAST)
            service.requests = 0
            found = asyncio.run(table(service, query, list(service.hits())))
            wrong += check(service, query, found)
            every, before = one_by_one(service, query)
            yield Row(
                f"requests of {days} days x {links:,} links, {account.__name__} / one a link and window",
                service.requests / every,
                goal="<= 1.02",
                note=f"{service.requests:,} requests; {before:,} before; {every:,} one a link and window",
            )
    service = Service(demo(links))
    before_today = {link.slashtag: link.hits for link in service.hits()}
    draw = random.Random(1)
    today = LAST + timedelta(days=1)
    changed = draw.sample(list(service.logs), max(1, links // 100))
    for key in changed:
        add(service.logs[key], today, draw)
    service = Service(service.logs)
    query = DateRange(today, today)
    found = asyncio.run(table(service, query, list(service.hits()), changed_since=before_today))
    wrong += check(service, query, found)
    yield Row(
        f"requests of a day on which {len(changed)} of {links:,} links changed / one a change and a batch",
        service.requests / (len(changed) + links / BATCH),
        goal="<= 1.1",
        note=f"{service.requests:,} requests",
    )
    yield Row("results of these tables that differ from the truth", float(wrong), "", "<= 0")


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size), options.json)


if __name__ == "__main__":
    main()
