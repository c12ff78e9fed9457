"""After each of ten days each destination holds the truth, whatever came late, was new, or has vanished."""

from __future__ import annotations

import random
import time
from datetime import UTC, date, datetime
from datetime import time as clock_time
from pathlib import Path

import pytest

from slashtag import RetryPolicy, TransportError
from slashtag.dlt import Monitor
from slashtag.sandbox import Fault, Sandbox
from tests.support.sandboxes import forget, settle

from .conftest import DAY, START, Clock, Target, local, sql_rows


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    if request.param != "postgres":
        return local(request.param, tmp_path)
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", request.getfixturevalue("postgres"))
    arguments = {
        "destination": "postgres",
        "dataset": f"d{tmp_path.name}",
        "pipelines_dir": tmp_path / "pipelines",
    }
    return Target(arguments, sql_rows)


def truth(box: Sandbox, end: date) -> dict[tuple[str, date], int]:
    return {
        (name, day): clicks
        for name in dict.fromkeys(url.slashtag for url in box.truth.urls())
        for day, clicks in box.truth.range(START.isoformat(), end.isoformat(), keys=[name]).clicks.items()
    }


def hits(box: Sandbox) -> dict[str, int]:
    found: dict[str, int] = {}
    for url in box.truth.urls():
        found[url.slashtag] = found.get(url.slashtag, 0) + url.hits
    return found


# Each load costs dlt a second or two, so that only one destination goes all the way here.
@pytest.mark.parametrize(
    ("target", "days"),
    [
        pytest.param("duckdb", 10, marks=pytest.mark.unmeasured),
        ("sqlite", 3),
        ("filesystem", 3),
        pytest.param("postgres", 3, marks=pytest.mark.unmeasured),
    ],
    indirect=["target"],
)
def test_each_day_ends_with_the_truth(box: Sandbox, clock: Clock, target: Target, days: int) -> None:
    chance = random.Random(9)
    gone: dict[tuple[str, date], int] = {}
    before: dict[str, int] = {}
    for n in range(days):
        monitor = Monitor()
        if n == 1:
            held = target.daily()
            kill_midway(box, clock, target)
            assert target.daily() == held
        if n == 2:
            # The service goes away midway: nothing of this attempt is in the destination.
            held = target.daily()
            box.faults = [Fault(kind="reset", path="*/stats*")]
            with pytest.raises(TransportError):
                target.load(box, session_options={"retry": _HASTY})
            box.faults = []
            assert target.daily() == held
        forget(box)
        loaded = target.load(box, monitor)
        now = hits(box)
        expected = {**gone, **truth(box, clock.today)}
        assert target.daily() == expected, f"day {n}"
        if n:
            changed = sum(before.get(name) != count for name, count in now.items())
            new = len(now.keys() - before.keys())
            goal = changed + new + -(-(len(now) - changed) // 100) + 2
            assert monitor.requests == len(box.requests) <= 1.1 * goal
            # Two rows for each series: the day that is over now, and the present one; and what came late.
            assert loaded.rows["clicks_daily"] <= 2 * len(now) + 20 * new + 12
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


_HASTY = RetryPolicy(max_attempts=1)


def kill_midway(box: Sandbox, clock: Clock, target: Target) -> None:
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
