"""The present day, to be set."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from slashtag.export import _update


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
