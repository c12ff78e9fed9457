"""The doctor finds out how sandboxes differ, and names the settings to use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._resources.stats import Stats
from slashtag.cli.commands.doctor import DAY, EXCLUSIVE, INCLUSIVE, SECOND, read_end
from slashtag.sandbox import Fault

from .conftest import Cli, Ran, Serve, objects

MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC)
NOON = MIDNIGHT + DAY / 2
READINGS = {"inclusive": INCLUSIVE, "exclusive": EXCLUSIVE}
ALL_OK = dict.fromkeys(("credentials", "page size", "range end", "timezone"), "ok")


def findings(ran: Ran) -> dict[str, Any]:
    return {row["check"]: row for row in objects(ran.out)}


@pytest.fixture
def examine(cli: Cli, serve: Serve) -> Callable[..., dict[str, Any]]:
    """Examine a sandbox with these options, and with clicks on one link; return the findings by check."""

    def run(*clicks: str, **options: Any) -> dict[str, Any]:
        given = {"urls": 0, "clicks": 0} if clicks else {"urls": 40, "clicks": 600}
        with serve(**(given | options)) as box:
            for key in ("with,comma", "clicked") if clicks else ():
                box.add_url(key)
                for click in clicks:
                    box.add_click(key, click)
            ran = cli("doctor")
            assert {arrival.method for arrival in box.requests} == {"GET"}
            assert len(box.requests) < 120
        assert ran.code == 0
        return findings(ran)

    return run


Examine = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("range_end", READINGS)
def test_the_end_of_ranges_is_found(examine: Examine, range_end: str, seed: int) -> None:
    found = examine(range_end=range_end, seed=seed, clicks=30, urls=5)["range end"]
    assert (found["result"], found["found"]) == READINGS[range_end]


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        ({}, {}),
        ({"max_pagesize": 100}, {"page size": "differs"}),
        ({"clicks": 0, "urls": 0}, dict.fromkeys(("range end", "timezone"), "unknown")),
        ({"zero_days": True}, {}),
    ],
)
def test_what_differs_is_found(examine: Examine, options: dict[str, Any], differing: dict[str, str]) -> None:
    found = {check: row["result"] for check, row in examine(**options).items()}
    assert found == ALL_OK | differing


@pytest.mark.usefixtures("quick_retries")
def test_only_what_fails_at_first_ends_it(cli: Cli, serve: Serve) -> None:
    with serve(apisecret="another-secret-1") as box:
        ran = cli("doctor")
        assert (ran.code, len(box.requests), "slashtag login" in ran.error) == (1, 1, True)
    with serve(urls=40, faults=[Fault(kind="500", path="/api/v1/stats")]):
        ran = cli("doctor")
    found = findings(ran)
    assert (ran.code, found["range end"]["result"], found["page size"]["result"]) == (3, "failed", "ok")
    assert "3 attempts" in found["range end"]["found"]


@pytest.mark.parametrize("hour", ["00:00:00", "10:59:59", "11:00:00", "23:59:58"])
@pytest.mark.parametrize("range_end", READINGS)
def test_zones_that_are_obeyed_are_found_whatever_the_hour(
    examine: Examine, range_end: str, hour: str
) -> None:
    clicks = [f"2024-02-{day}T{hour}+00:00" for day in (28, 29)]
    assert examine(*clicks, range_end=range_end)["timezone"]["result"] == "ok"


@pytest.mark.parametrize("range_end", READINGS)
def test_zones_that_are_ignored_are_found(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, range_end: str
) -> None:
    collect = Stats.collect

    async def in_utc(*arguments: Any, timezone: object = None, **more: Any) -> Any:
        return await collect(*arguments, **more)

    monkeypatch.setattr(Stats, "collect", in_utc)
    assert examine(range_end=range_end)["timezone"]["result"] == "differs"


# -- how one end is read


def counting(clicks: Sequence[datetime], reading: str) -> Callable[[datetime, datetime], Any]:
    """Count as a service that reads range ends this way."""

    async def count(start: datetime, end: datetime) -> int:
        until = end if reading == "exclusive" else end + SECOND
        return sum(start <= click < until for click in clicks)

    return count


@given(
    st.sampled_from(list(READINGS)),
    st.lists(st.integers(-100, 100).map(lambda n: NOON + n * SECOND), min_size=1),
)
def test_the_first_click_is_read_right_whatever_follows(reading: str, clicks: list[datetime]) -> None:
    count = counting(clicks, reading)
    assert asyncio.run(read_end(count, MIDNIGHT, MIDNIGHT + DAY)) == READINGS[reading]
    assert asyncio.run(read_end(count, MIDNIGHT, MIDNIGHT + SECOND)) is None
