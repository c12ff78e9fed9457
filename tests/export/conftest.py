"""An account, a session of it, and the present day, to be set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date, datetime
from typing import Any

import pytest

from slashtag import AsyncSession
from slashtag.export import _update
from slashtag.sandbox import Sandbox


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with Sandbox(
        urls=25, clicks=1_500, tags=2, since="2023-11-01T00:00:00Z", until="2024-06-30T00:00:00Z"
    ) as box:
        yield box


@pytest.fixture
async def session(box: Sandbox) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
        yield session


class Clock:
    """Set the present day of an update."""

    def __init__(self) -> None:
        self.today = date(2024, 3, 10)

    def now(self, zone: Any) -> datetime:
        return datetime(self.today.year, self.today.month, self.today.day, 12, tzinfo=zone)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    class Datetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.now(tz)

    monkeypatch.setattr(_update, "datetime", Datetime)
    return clock
