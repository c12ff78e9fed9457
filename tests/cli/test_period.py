"""Commands take the days that they are about as people name them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest

from slashtag.cli import selection
from slashtag.sandbox import Sandbox

from .conftest import Cli, objects


class Clock(datetime):
    """A clock that stands still shortly before midnight in UTC, on the last day of March 2024."""

    @classmethod
    def now(cls, tz: object = None) -> Clock:
        return cls(2024, 3, 31, 23, 30, tzinfo=UTC).astimezone(tz)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "datetime", Clock)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        (["2024-02"], "2024-02-01", "2024-02-29"),
        (["last-month"], "2024-02-01", "2024-02-29"),
        (["last-quarter"], "2023-10-01", "2023-12-31"),
        (["2023-Q4..2024-02"], "2023-10-01", "2024-02-29"),
        (["2024"], "2024-01-01", "2024-03-31"),
        (["2023-11-05..2024-01"], "2023-11-05", "2024-01-31"),
        (["2023-11", "2024-01"], "2023-11-01", "2024-01-31"),
        (["2024-03-01", "yesterday"], "2024-03-01", "2024-03-30"),
        (["30d"], "2024-03-02", "2024-03-31"),
        (["6m", "--timezone", "Europe/Berlin"], "2023-10-02", "2024-04-01"),
    ],
)
def test_a_range_is_named_as_people_do(
    cli: Cli, box: Sandbox, arguments: list[str], first: str, last: str
) -> None:
    zone = ZoneInfo("Europe/Berlin" if "--timezone" in arguments else "UTC")
    ran = cli("stats", "range", *arguments, "--all")
    assert ran.code == 0
    start = datetime.combine(date.fromisoformat(first), time(), zone)
    end = min(datetime.combine(date.fromisoformat(last), time(23, 59, 59), zone), Clock.now(zone))
    truth = box.truth.range(start, end, timezone="+02:00" if zone.key != "UTC" else None)
    assert objects(ran.out)[0]["clicks"] == truth.total_clicks
    # A span that is not over ends today.
    days = [row["label"] for row in objects(ran.out) if row["dimension"] == "day"]
    assert (days[0], days[-1]) == (first, last)
    assert ran.err.startswith(f"{first} to {last}")
    assert ("so far" in ran.err) == (end == Clock.now(zone))


@pytest.mark.parametrize("arguments", [[], ["2024", "2023"], ["tomorrow"], ["2024-06-01T08:00"]])
@pytest.mark.parametrize(
    "command",
    [["stats", "range"], ["stats", "country", "DE"], ["report", "-o", "r.html"], ["export", "clicks"]],
)
def test_other_days_are_wrong_usage(cli: Cli, box: Sandbox, command: list[str], arguments: list[str]) -> None:
    assert cli(*command, *arguments, "--all").code == 2
    assert not box.requests


def test_a_day_is_named_too(cli: Cli, box: Sandbox) -> None:
    ran = cli("stats", "range", "yesterday", "--all")
    assert objects(ran.out)[0]["clicks"] == box.truth.range("2024-03-30", "2024-03-30").total_clicks
