"""What was found about the service is forgotten: a session that lives for weeks survives bad hours."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import date

import pytest

from slashtag import AsyncSession, DateRange, SlashtagError
from slashtag._sending.health import KEPT, MOST_IN_VAIN, ServiceHealth
from tests.resources.accounts import scripted
from tests.resources.test_collect_each import Ledger
from tests.support import wire

TOTALS = {f"s{n}": int(n % 10 == 5) for n in range(20)}
CLICKS = {key: {date(2023, 5, 5): n} if n else {} for key, n in TOTALS.items()}
YEAR = DateRange("2023-01-01", "2023-12-31")
MINUTE, DAY = 60.0, 86_400.0
#: What the service does wrong in each of the bad hours.
FAULTS = [
    "no all time",
    "contradicts itself",
    "another path",
    "does not add up",
    "fails",
    "refuses",
]


class Service:
    """A service that answers well but for the hours in which `fault` says what it does instead."""

    def __init__(self) -> None:
        self.fault = ""
        self.fails_once = False
        self._well = Ledger(CLICKS, lambda day: day)

    def __call__(self, request: wire.Request) -> wire.Answer:
        is_all_time = "date_range" not in request.query
        if self.fault == "fails" or (self.fails_once and not is_all_time):
            self.fails_once = False
            return wire.envelope(500, "No.", None)
        if self.fault == "refuses":
            return wire.envelope(400, "No.", None)
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
    before, service = len(server.requests), server.script
    assert isinstance(service, Service)
    with suppress(SlashtagError) if service.fault else nullcontext():
        async with session.stats.collect_each(YEAR, keys=list(TOTALS)) as each:
            found = {key: stats.total async for key, stats in each}
        assert service.fault or found == TOTALS
    return len(server.requests) - before


@pytest.mark.unmeasured
async def test_a_week_with_bad_hours_is_normal_ten_minutes_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, service = [0.0], Service()
    #: Pauses between retries that are sent one at a time.
    pauses: list[int] = []
    monkeypatch.setattr("slashtag._sending.health.monotonic", lambda: now[0])
    monkeypatch.setattr("slashtag._sending.health.backoff", lambda _, n, **__: pauses.append(n) or 0.0)
    async with scripted(service) as (server, session):
        server.script = service
        normal = await job(server, session)
        noticed: dict[str, object] = {}
        for fault in FAULTS:
            service.fault = fault
            for _ in range(20 if fault == "fails" else 1):
                await job(server, session)
            now[0] += MINUTE
            service.fault = ""
            had_pauses = bool(pauses)
            noticed[fault] = await job(server, session) - normal or had_pauses
            now[0] += 10 * MINUTE
            pauses.clear()
            # A failure is an accident again.
            service.fails_once = True
            assert await job(server, session) == normal + 1, fault
            assert not pauses, fault
            assert await job(server, session) == normal, fault
            now[0] += DAY
        # They had been noticed: otherwise this test says nothing.
        for fault in ("no all time", "does not add up", "fails"):
            assert noticed[fault], fault


async def test_second_requests_are_made_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("slashtag._sending.health.monotonic", lambda: now[0])
    health = ServiceHealth(asyncio.sleep)
    for _ in range(MOST_IN_VAIN - 1):
        health.second_request(in_vain=True)
    health.second_request(in_vain=False)
    assert not health.contradictions_stay
    for _ in range(MOST_IN_VAIN):
        health.second_request(in_vain=True)
    assert health.contradictions_stay
    now[0] += KEPT
    assert not health.contradictions_stay
