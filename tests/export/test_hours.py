"""Clicks by hour are those of the log, from as few requests as the days allow."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slashtag import AsyncSession, InvalidRequestError, parse_zone
from slashtag.export import _hours, hourly_clicks
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import altered
from tests.support.sending import connect

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


ACCOUNT = {"urls": 150, "clicks": 600, "tags": 2, "since": "2024-10-20", "until": "2024-11-02"}


def hourly_requests(box: Sandbox) -> int:
    """The number of requests about an hour at most."""
    found = 0
    for arrival in box.requests:
        ends = [datetime.fromisoformat(end) for end in arrival.query.get("date_range", "").split(",") if end]
        found += bool(ends) and ends[1] - ends[0] <= HOUR
    return found


@pytest.mark.parametrize(
    ("zone", "start", "end", "hours"),
    [
        ("+00:00", "2024-10-26", "2024-10-28", 72),
        ("Europe/Berlin", "2024-10-27", "2024-10-27", 25),
        ("Europe/Berlin", "2024-03-31", "2024-03-31", 23),
        ("Australia/Lord_Howe", "2024-10-06", "2024-10-06", 24),  # half an hour is skipped
        ("+00:00", "2024-10-26T22:40:00+00:00", "2024-10-27T01:09:59+00:00", 4),
    ],
)
async def test_every_hour_is_counted(
    box: Sandbox, session: AsyncSession, zone: str, start: str, end: str, hours: int
) -> None:
    found = await hourly_clicks(session, start, end, timezone=zone)
    # Of days the last one ends with the next, of times with a second.
    step, tz = (SECOND if "T" in end else timedelta(1)), parse_zone(zone)
    first, last = (datetime.fromisoformat(each).replace(tzinfo=tz) for each in (start, end))
    starts = [each.astimezone(UTC) for each in (*found, last + step)]
    assert (starts[0], len(found)) == (first, hours)
    assert {hour.minute for hour in list(found)[1:]} <= {0, 30}
    for (hour, clicks), this, following in zip(found.items(), starts, starts[1:], strict=False):
        assert (hour.isoformat(), following - this <= HOUR) == (this.astimezone(tz).isoformat(), True)
        assert clicks == box.truth.range(this, following - SECOND).total_clicks


async def test_links_tags_and_the_account_are_counted(box: Sandbox, session: AsyncSession) -> None:
    day, tag = "2024-10-30", box.truth.tags()[0].name
    keys = [url.slashtag for url in box.truth.urls()[:120]]
    for selected, meant in (
        ({"tags": [tag]}, {"tag": tag}),
        ({"keys": keys}, {"keys": keys}),
        ({"keys": session.urls.list()}, {}),
    ):
        found = await hourly_clicks(session, day, day, **selected)
        assert sum(found.values()) == box.truth.range(day, day, **meant).total_clicks
    assert set((await hourly_clicks(session, day, day, keys=[])).values()) == {0}


async def test_days_without_clicks_take_no_requests_of_hours(session: AsyncSession, box: Sandbox) -> None:
    one, *_, last = [url.slashtag for url in box.truth.urls()]
    box.add_click(one, "2023-06-02T10:00:00+00:00")
    box.add_click(last, "2023-06-02T11:00:00+00:00")
    box.add_click(last, "2023-06-30T11:00:00+00:00")
    told = list[Any]()
    keys = [url.slashtag for url in box.truth.urls()]
    found = await hourly_clicks(
        session, "2023-06-01", "2023-06-30", keys=keys, progress=lambda *at: told.append(at)
    )
    assert {hour.isoformat()[8:13]: clicks for hour, clicks in found.items() if clicks} == {
        "02T10": 1,
        "02T11": 1,
        "30T11": 1,
    }
    # Two batches on two days, after one request of the days for each batch.
    assert (hourly_requests(box), len(box.requests)) == (96, 98)
    assert told[-1] == (48, 48)


async def test_days_that_the_service_leaves_out_are_counted_by_hours(
    session: AsyncSession, box: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    def without_days(_: Any, answered: Any) -> Any:
        answered.data.pop("clicks", None)
        return answered

    with altered(box, without_days):
        found = await hourly_clicks(session, "2024-10-26", "2024-10-27")
    assert sum(found.values()) == box.truth.range("2024-10-26", "2024-10-27").total_clicks > 0
    assert not caplog.records


async def test_hours_to_come_are_not_asked_for(session: AsyncSession, box: Sandbox) -> None:
    today = datetime.now(UTC).date()
    name = box.truth.urls()[0].slashtag
    box.add_click(name, datetime.now(UTC))
    found = await hourly_clicks(session, today, today + timedelta(days=3), keys=[name])
    assert sum(found.values()) == 1
    assert len(found) == 96
    assert 1 <= hourly_requests(box) <= 25


@pytest.mark.parametrize(
    ("offset", "now", "is_over"),
    [
        ("+00:00", "2024-10-31T00", True),
        ("+09:00", "2024-10-30T16", True),
        ("-05:00", "2024-10-31T02", False),
    ],
)
async def test_hours_of_a_day_that_is_over_and_do_not_add_up_are_logged(
    box: Sandbox,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    offset: str,
    now: str,
    is_over: bool,
) -> None:
    def click_later(done: int, total: int | None) -> None:
        if done == 1:
            box.add_click(name, "2024-10-30T14:00:00+00:00")

    class Present(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.fromisoformat(f"{now}:30:00+00:00").astimezone(tz)

    monkeypatch.setattr(_hours, "datetime", Present)
    name = box.truth.urls()[0].slashtag
    box.add_click(name, "2024-10-30T10:00:00+00:00")
    day: Any = {"start": "2024-10-30", "end": "2024-10-30", "timezone": offset}
    async with connect(box, concurrency=1) as session:  # which asks in the order of the hours
        with caplog.at_level(logging.WARNING, "slashtag"):
            await hourly_clicks(session, **day, keys=[name])
            assert not caplog.records
            await hourly_clicks(session, **day, keys=[name], progress=click_later)
        assert ("2024-10-30" in caplog.text, session.metrics.inconsistent) == (is_over, is_over)


async def test_more_than_32_days_or_a_text_as_tags_are_refused_before_anything_is_sent(
    session: AsyncSession, box: Sandbox
) -> None:
    with pytest.raises(TypeError):
        await hourly_clicks(session, *["2024-01-01"] * 2, tags="ab")
    with pytest.raises(InvalidRequestError, match="32 days"):
        await hourly_clicks(session, "2024-01-01", "2024-02-02")
    assert box.requests == []
