"""Days of an account: late clicks, links that come, go and change, a load interrupted, a dead service."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from datetime import time as clock_time
from math import ceil
from typing import Any

from slashtag import ExportError, RetryPolicy, TransportError
from slashtag.dlt import Monitor
from slashtag.sandbox import Fault, Sandbox

from .sandboxes import forget, settle
from .warehouses import DAY, Clock, Target, truth

DESTINATIONS = ("duckdb", "sqlite", "filesystem", "postgres")


@dataclass
class Day:
    """A day's load: rows at the destination, wrong ones and loaded ones; requests, and the ideal number."""

    today: date
    rows: int
    wrong: int
    loaded: int
    requests: int
    #: Links changed, new ones, batches of the others, and pages.
    ideal: int


def simulate(box: Sandbox, clock: Clock, target: Target, days: int) -> Iterator[Day]:
    """Load day after day, and compare the destination with the truth after each.

    Slashtags that no link has any more keep their rows.
    """
    chance = random.Random(9)
    gone: dict[tuple[str, date], int] = {}
    before: dict[str, list[tuple[int, int]]] = {}
    for n in range(days):
        if n == 1:
            held = target.daily()
            _interrupt(box, target)
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
        loaded = target.load(box, monitor)["clicks_daily"]
        now: dict[str, list[tuple[int, int]]] = {}
        for url in box.truth.urls():
            now.setdefault(url.slashtag, []).append((url.id, url.hits))
        expected = {**gone, **truth(box, clock.today)}
        wrong = len(dict(target.daily().items() ^ expected.items()))
        new = len(now.keys() - before.keys())
        changed = sum(before.get(name, links) != links for name, links in now.items())
        ideal = changed + new + ceil((len(now) - changed - new) / 100) + ceil(len(box.truth.urls()) / 500) + 1
        assert monitor.metrics is not None
        assert monitor.metrics.attempts == len(box.requests)
        # Months before the days that are loaded: all time, and for the tests' first month, which begins on
        # the 20th, and for a last one that the lookback cuts, a range each.
        ideal += 3 * ceil(changed / 100)
        # Second answers: two each for the latest links, the latest tags, and the last days of the links with
        # the most hits.
        ideal += 3 * 2
        yield Day(clock.today, len(expected), wrong, loaded, len(box.requests), ideal)
        before = now
        clock.today += DAY
        names = sorted(now)
        for name in chance.sample(names, 12):
            ago = chance.choice((0, 0, 0, 1, 2, 3))
            box.add_click(name, datetime.combine(clock.today - ago * DAY, clock_time(9), UTC), times=3)
        vanished, renamed, again, one, other = chance.sample([k for k in names if len(now[k]) == 1], 5)
        gone |= {key: clicks for key, clicks in expected.items() if key[0] in (vanished, renamed)}
        box.remove_url(vanished)
        rename(box, renamed, f"renamed-{n}")
        swap(box, one, other)
        box.remove_url(again)
        for name in (again, f"new-{n}"):
            box.add_url(name)
            box.add_click(name, datetime.combine(clock.today - 5 * DAY, clock_time(9), UTC))


def rename(box: Sandbox, old: str, new: str) -> None:
    """Give a link another slashtag; its clicks go with it."""
    box.store.write("UPDATE link SET slashtag = ? WHERE slashtag = ?", (new, old))


def swap(box: Sandbox, one: str, other: str) -> None:
    """Give each of two links the slashtag of the other."""
    for old, new in ((one, "between"), (other, one), ("between", other)):
        rename(box, old, new)


@contextmanager
def lagging(box: Sandbox, day: date, first: int = 0, key: str | None = None) -> Iterator[None]:
    """Have every second answer, of statistics of a slashtag if one is given, lack the clicks of a day."""
    answer, asked_so_far = box._service.answer, 0
    start = int(datetime.combine(day, clock_time(), UTC).timestamp())
    hide = "UPDATE click SET link = -link WHERE at >= ? AND at < ?"

    def lag(asked: Any, headers: Any) -> Any:
        nonlocal asked_so_far
        if "/stats" not in asked.path or key not in (None, asked.query.get("url_keys")):
            return answer(asked, headers)
        asked_so_far += 1
        if asked_so_far % 2 == first:
            return answer(asked, headers)
        box.store.write(hide, (start, start + 86_400))
        try:
            return answer(asked, headers)
        finally:
            box.store.write(hide, (start, start + 86_400))

    box._service.answer = lag  # type: ignore[method-assign]
    try:
        yield
    finally:
        box._service.answer = answer  # type: ignore[method-assign]


def _interrupt(box: Sandbox, target: Target) -> None:
    """Start a load and interrupt it when some of its clicks are there."""

    def progress(table: str, done: int, total: int | None) -> None:
        if table == "clicks_daily" and done >= 3:
            raise RuntimeError("stopped")

    try:
        target.load(box, Monitor(progress))
    except ExportError:
        settle(box)
    else:
        raise AssertionError("the load was over before")
