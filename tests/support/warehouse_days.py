"""Days of an account with late clicks, new and vanished links, a killed load and a dead service."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from datetime import time as clock_time
from math import ceil

from slashtag import RetryPolicy, TransportError
from slashtag.dlt import Monitor
from slashtag.sandbox import Fault, Sandbox

from .sandboxes import forget, settle
from .warehouses import DAY, Clock, Target, truth

DESTINATIONS = ("duckdb", "sqlite", "filesystem", "postgres")


@dataclass
class Day:
    """A day's load: rows at the destination and loaded, requests, and how many would be ideal."""

    today: date
    rows: int
    loaded: int
    requests: int
    #: Links changed, new ones, batches of the others, and pages.
    ideal: int


def simulate(box: Sandbox, clock: Clock, target: Target, days: int) -> Iterator[Day]:
    """Load day after day, and check that the destination has the truth after each."""
    chance = random.Random(9)
    gone: dict[tuple[str, date], int] = {}
    before: dict[str, int] = {}
    for n in range(days):
        if n == 1:
            held = target.daily()
            _kill_midway(box, clock, target)
            assert target.daily() == held
        if n == 2:
            # The service goes away midway: nothing of this attempt is in the destination.
            held = target.daily()
            box.faults = [Fault(kind="reset", path="*/stats*")]
            try:
                target.load(box, session_options={"retry": RetryPolicy(max_attempts=1)})
            except TransportError:
                assert target.daily() == held
            else:
                raise AssertionError("the service was dead")
            box.faults = []
        forget(box)
        monitor = Monitor()
        loaded = target.load(box, monitor).rows["clicks_daily"]
        now = _hits(box)
        expected = {**gone, **truth(box, clock.today)}
        assert target.daily() == expected, f"day {n}"
        new = len(now.keys() - before.keys())
        changed = sum(before.get(name, count) != count for name, count in now.items())
        ideal = changed + new + ceil((len(now) - changed - new) / 100) + ceil(len(box.truth.urls()) / 500) + 1
        assert monitor.metrics is not None
        assert monitor.metrics.attempts == len(box.requests)
        yield Day(clock.today, len(expected), loaded, len(box.requests), ideal)
        before = now
        clock.today += DAY
        names = sorted(now)
        for name in chance.sample(names, 12):
            ago = chance.choice((0, 0, 0, 1, 2, 3))
            box.add_click(name, datetime.combine(clock.today - ago * DAY, clock_time(9), UTC), times=3)
        box.add_url(f"new-{n}")
        box.add_click(f"new-{n}", datetime.combine(clock.today - 5 * DAY, clock_time(9), UTC))
        vanished = chance.choice(
            [name for name in names if sum(u.slashtag == name for u in box.truth.urls()) == 1]
        )
        gone |= {key: clicks for key, clicks in expected.items() if key[0] == vanished}
        box.remove_url(vanished)


def _hits(box: Sandbox) -> dict[str, int]:
    found: dict[str, int] = {}
    for url in box.truth.urls():
        found[url.slashtag] = found.get(url.slashtag, 0) + url.hits
    return found


def _kill_midway(box: Sandbox, clock: Clock, target: Target) -> None:
    """Start a load and kill its process when some of its clicks are answered."""
    forget(box)
    box.latency = 0.1
    with target.start(box, clock.now(), session_options={"concurrency": 1}) as running:
        while sum("stats" in arrival.path for arrival in list(box.requests)) < 6:
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
    box.latency = 0.0
    settle(box)
