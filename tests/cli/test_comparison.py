"""Days, weeks and months are compared with as many days, or it is said with which."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from slashtag.cli import selection
from slashtag.sandbox import Sandbox

from .conftest import Cli, objects

OVER = ("2024-10", "2024-q1", "2024-02-01..2024-03-26", "2024-05-03..2024-05-12")


class Clock(datetime):
    """A clock that stands still within the second month of a quarter, which has 31 days."""

    @classmethod
    def now(cls, tz: object = None) -> Clock:
        return cls(2024, 5, 26, 12, 0, tzinfo=UTC).astimezone(tz)  # type: ignore[arg-type]


def compared(cli: Cli, span: str, compare: str, by: str) -> dict[str, dict[str, Any]]:
    ran = cli("stats", span, "--compare", compare, "--by", by)
    assert ran.code == 0
    return {row[by]: row for row in objects(ran.out)}


@pytest.mark.parametrize("compare", ["previous", "last-year", "2023-08"])
@pytest.mark.parametrize("span", [*OVER, "this-month", "this-quarter"])
def test_a_week_is_compared_with_the_days_that_its_days_are_compared_with(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch, span: str, compare: str
) -> None:
    if span.startswith("this"):
        monkeypatch.setattr(selection, "datetime", Clock)
    by_day, by_week = (compared(cli, span, compare, by) for by in ("day", "week"))
    assert box.truth.range("2024-05-26", "2024-05-26").total_clicks or not span.startswith("this")
    for monday, row in by_week.items():
        week = [f"{date.fromisoformat(monday) + timedelta(n)}" for n in range(7)]
        of_days = [by_day[day]["clicks_before"] for day in week if day in by_day]
        assert row["clicks_before"] == (None if None in of_days else sum(of_days))


@pytest.mark.parametrize(
    ("span", "compare", "until", "told"),
    [
        ("this-quarter", "last-year", datetime(2023, 5, 26, 12, tzinfo=UTC), ""),
        # 147 days of a leap year end a day later in the other one.
        ("this-year", "last-year", datetime(2023, 5, 26, 23, 59, 59, tzinfo=UTC), "today"),
        ("2024-04..2024-05-25", "2023-04..2023-05", datetime(2023, 5, 25, 23, 59, 59, tzinfo=UTC), ""),
    ],
)
def test_a_part_of_a_month_is_compared_with_the_same_days(
    cli: Cli,
    box: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    span: str,
    compare: str,
    until: datetime,
    told: str,
) -> None:
    monkeypatch.setattr(selection, "datetime", Clock)
    ran = cli("stats", span, "--compare", compare, "--by", "month")
    may = {row["month"]: row for row in objects(ran.out)}["2024-05"]
    assert may["clicks_before"] == box.truth.range(datetime(2023, 5, 1, tzinfo=UTC), until).total_clicks
    assert ("today, which is not over" in ran.err) == bool(told)
    assert ".." not in ran.err


def test_a_month_that_has_fewer_days_so_far_is_told(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "datetime", Clock)
    # 56 days of each quarter: 30 of April and 26 of May; 31 of January and 25 of February.
    ran = cli("stats", "this-quarter", "--compare", "last-quarter", "--by", "month")
    assert "2024-05-01..26 is compared with 2024-02-01..25" in ran.err
    before = {row["month"]: row["clicks_before"] for row in objects(ran.out)}
    end = datetime(2024, 2, 25, 12, tzinfo=UTC)
    assert before == {
        "2024-04": box.truth.range("2024-01-01", "2024-01-31").total_clicks,
        "2024-05": box.truth.range(datetime(2024, 2, 1, tzinfo=UTC), end).total_clicks,
    }


def test_weekdays_that_a_span_has_more_often_are_told(cli: Cli, box: Sandbox) -> None:
    uneven = cli("stats", "2024-10", "--compare", "2024-09", "--by", "weekday")
    assert "Thursday 5 times and 4 before" in uneven.err
    even = cli("stats", "2023-02", "--compare", "2023-01-02..2023-01-29", "--by", "weekday")
    assert "times and" not in even.err


def test_top_says_how_many_days_two_spans_have(cli: Cli, box: Sandbox) -> None:
    assert "31 and 366 days" in cli("top", "2023-10", "--compare", "2024", "--limit", "1").err
    assert "days" not in cli("top", "2024-10", "--compare", "last-year", "--limit", "1").err


def test_the_tables_of_all_dimensions_say_which_days_they_have_and_by_how_much_clicks_changed(
    cli: Cli, box: Sandbox, tmp_path: Any
) -> None:
    for month in ("09", "10"):
        cli("stats", f"2024-{month}", "-o", str(tmp_path / f"{month}.csv"))
    ran = cli("diff", str(tmp_path / "09.csv"), str(tmp_path / "10.csv"))
    assert "2024-09-01 to 2024-09-30" in ran.err
    assert "2024-10-01 to 2024-10-31" in ran.err
    total = next(row for row in objects(ran.out) if row["key"].startswith("total"))
    old = box.truth.range("2024-09-01", "2024-09-30").total_clicks
    new = box.truth.range("2024-10-01", "2024-10-31").total_clicks
    assert total["difference"] == new - old
    assert total["change_percent"] == round(100 * (new - old) / old, 1)
