"""What was found about the service is forgotten: a session that lives for weeks survives bad hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from slashtag import AsyncSession, DateRange
from slashtag._resources.service_traits import KEPT, MOST_IN_VAIN, ServiceTraits
from tests.resources.accounts import scripted
from tests.resources.test_collect_each import Ledger
from tests.support import wire

TOTALS = {f"s{n}": int(n % 10 == 5) for n in range(60)}
CLICKS = {key: {date(2023, 5, 5): n} if n else {} for key, n in TOTALS.items()}
YEAR = DateRange("2023-01-01", "2023-12-31")
MINUTE, DAY = 60.0, 86_400.0
FAULTS = [
    "no all time",
    "contradicts itself",
    "another path",
    "does not add up",
    "no all time",
    "another path",
    "no all time",
]


class Service:
    """A service that answers well but for the hours in which `fault` says what it does instead."""

    def __init__(self) -> None:
        self.fault = ""
        self._well = Ledger(CLICKS, lambda day: day)

    def __call__(self, request: wire.Request) -> wire.Answer:
        is_all_time = "date_range" not in request.query
        if self.fault == "another path" and is_all_time:
            if request.path.endswith("alltime"):
                return wire.html(404)
            request = replace(request, target=request.target.replace("/stats", "/stats/alltime", 1))
        elif is_all_time and request.path.endswith("/stats"):
            return wire.envelope(400, "Bad request. Date is required.", [])
        if self.fault == "no all time" and is_all_time:
            return wire.envelope(500, "No.", None)
        if self.fault == "contradicts itself" and not is_all_time:
            return wire.ok({"total_clicks": 9, "clicks": {"2023-05-05": 1}})
        if self.fault == "does not add up" and len(request.query["url_keys"][0].split(",")) > 1:
            return wire.ok({"total_clicks": 7, "clicks": {"2023-05-05": 7}})
        return self._well(request)


async def job(server: wire.Wire, session: AsyncSession) -> int:
    """Run the job of each hour; return how many requests it took."""
    before = len(server.requests)
    async with session.stats.collect_each(YEAR, keys=list(TOTALS)) as each:
        found = {key: stats.total async for key, stats in each}
    if not server.script.fault:  # type: ignore[attr-defined]
        assert found == TOTALS
    return len(server.requests) - before


async def test_a_week_with_bad_hours_is_normal_ten_minutes_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("slashtag._resources.service_traits.monotonic", lambda: now[0])
    service = Service()
    async with scripted(service) as (server, session):
        server.script = service
        normal = await job(server, session)
        degraded: dict[str, int] = {}
        for fault in FAULTS:
            service.fault = fault
            await job(server, session)
            now[0] += MINUTE
            service.fault = ""
            degraded[fault] = await job(server, session) - normal
            now[0] += 10 * MINUTE
            assert await job(server, session) == normal, fault
            now[0] += DAY
        # It had been noticed: otherwise this test says nothing.
        assert degraded["no all time"] > 0
        assert degraded["does not add up"] > 0


def test_second_requests_are_made_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("slashtag._resources.service_traits.monotonic", lambda: now[0])
    traits = ServiceTraits()
    for _ in range(MOST_IN_VAIN - 1):
        traits.second_request(in_vain=True)
    traits.second_request(in_vain=False)
    assert not traits.contradictions_stay
    for _ in range(MOST_IN_VAIN):
        traits.second_request(in_vain=True)
    assert traits.contradictions_stay
    now[0] += KEPT
    assert not traits.contradictions_stay
