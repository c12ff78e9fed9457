"""What was found about the service is forgotten: a session that lives for weeks survives bad hours."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import date, datetime

import pytest

from slashtag import AsyncSession, DateRange, SlashtagError
from tests.resources.accounts import scripted
from tests.support import wire

TOTALS = {f"s{n}": int(n % 10 == 5) for n in range(20)}
MAY = date(2023, 5, 5)
YEAR = DateRange("2023-01-01", "2023-12-31")
MINUTE, DAY = 60.0, 86_400.0
#: What the service does wrong in each of the bad hours.
FAULTS = ["contradicts itself", "fails", "refuses"]


class Service:
    """A service that answers well but for the hours in which `fault` says what it does instead."""

    def __init__(self) -> None:
        self.fault = ""
        self.fails_once = False

    def __call__(self, request: wire.Request) -> wire.Answer:
        if self.fault == "fails" or self.fails_once:
            self.fails_once = False
            return wire.envelope(500, "No.", None)
        if self.fault == "refuses":
            return wire.envelope(400, "No.", None)
        if self.fault == "contradicts itself":
            return wire.ok({"total_clicks": 9, "clicks": {"2023-05-05": 1}})
        first, last = (datetime.fromisoformat(at).date() for at in request.query["date_range"][0].split(","))
        total = sum(TOTALS[key] for key in request.query["url_keys"][0].split(",") if first <= MAY <= last)
        return wire.ok({"total_clicks": total, "clicks": {str(MAY): total}})


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
        assert noticed["fails"]
