"""A file of clicks is brought up to date by asking for what is new or young."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slashtag import AsyncSession, DateRange, ExportError, Failure, InvalidRequestError
from slashtag.export import _update, update_sqlite
from slashtag.export._jobs import Rows
from slashtag.sandbox import Fault, Sandbox

from .conftest import Clock

DAY = timedelta(days=1)


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with Sandbox(
        urls=25, clicks=1_500, tags=2, since="2024-01-01T00:00:00Z", until="2024-06-30T00:00:00Z"
    ) as box:
        yield box


@pytest.fixture
async def session(box: Sandbox) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
        yield session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clicks.sqlite"


def rows(path: Path) -> dict[tuple[str, str], tuple[int, int]]:
    with closing(sqlite3.connect(path)) as file:
        found = file.execute("SELECT slashtag, date, clicks, partial FROM clicks").fetchall()
    return {(slashtag, day): (clicks, partial) for slashtag, day, clicks, partial in found}


def truth(
    box: Sandbox, start: date, today: date, keys: Any = None, timezone: Any = None
) -> dict[tuple[str, str], tuple[int, int]]:
    counted = box.truth.per_key(start, today, keys=keys, timezone=timezone)
    return {
        (slashtag, day.isoformat()): (clicks, int(day == today))
        for slashtag, true in counted.items()
        for day, clicks in true.clicks.items()
    }


START = date(2024, 1, 15)
SINCE = DateRange(START, "2099-12-31")


def asked_from(box: Sandbox) -> date:
    """The first day of all statistics that were asked for."""
    ranges = [one.query["date_range"] for one in box.requests if "date_range" in one.query]
    return min(datetime.fromisoformat(span.split(",")[0]).date() for span in ranges)


async def test_a_new_file_holds_every_day_up_to_today(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    summary = await update_sqlite(session, SINCE, path)
    assert rows(path) == truth(box, START, clock.today)
    assert summary.rows == len(rows(path))
    assert summary.failures == 0


async def test_run_twice_it_changes_nothing(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    await update_sqlite(session, SINCE, path)
    before = path.read_bytes()
    box.requests.clear()
    summary = await update_sqlite(session, SINCE, path)
    assert summary.rows == 0
    assert path.read_bytes() == before
    assert asked_from(box) == clock.today - 3 * DAY


@pytest.mark.parametrize(("days", "lookback"), [(1, 0), (1, 3), (40, 3), (5, 100)])
async def test_a_later_run_asks_from_the_lookback_before_the_last_date(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock, days: int, lookback: int
) -> None:
    await update_sqlite(session, SINCE, path)
    last = clock.today
    clock.today += days * DAY
    box.requests.clear()
    await update_sqlite(session, SINCE, path, lookback=lookback)
    assert rows(path) == truth(box, START, clock.today)
    assert asked_from(box) == max(START, last - lookback * DAY)


async def test_clicks_that_come_late_are_counted_within_the_lookback(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    await update_sqlite(session, SINCE, path)
    name = box.truth.urls()[0].slashtag
    for ago in (2, 9):
        when = clock.now(UTC) - ago * DAY
        box.add_click(name, when, times=5)
    summary = await update_sqlite(session, SINCE, path)
    late = truth(box, START, clock.today)
    different = {key for key, value in rows(path).items() if late[key] != value}
    assert different == {(name, (clock.today - 9 * DAY).isoformat())}
    assert summary.rows == 1
    await update_sqlite(session, SINCE, path, lookback=9)
    assert rows(path) == late


async def test_a_slashtag_that_is_new_is_asked_for_from_the_start(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    names = list(dict.fromkeys(url.slashtag for url in box.truth.urls()))
    await update_sqlite(session, SINCE, path, keys=names[:10])
    clock.today += 20 * DAY
    await update_sqlite(session, SINCE, path, keys=names[5:])
    found = rows(path)
    assert {key: found[key] for key in found if key[0] in names[5:]} == truth(
        box, START, clock.today, names[5:]
    )
    await update_sqlite(session, SINCE, path)
    assert rows(path) == truth(box, START, clock.today)


async def test_an_earlier_start_and_gaps_are_filled(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    await update_sqlite(session, DateRange("2024-02-01", "2024-02-10"), path)
    await update_sqlite(session, DateRange("2024-03-01", "2024-03-05"), path)
    await update_sqlite(session, SINCE, path)
    assert rows(path) == truth(box, START, clock.today)


async def test_a_key_that_failed_is_made_up_for_by_the_next_run(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    await update_sqlite(session, SINCE, path)
    clock.today += 10 * DAY
    failures: list[Failure] = []
    box.faults = [Fault(kind="400", path="/api/v1/stats", every=4)]
    summary = await update_sqlite(session, SINCE, path, on_error=failures.append)
    assert 0 < len(failures) == summary.failures < 25
    box.faults = []
    clock.today += 10 * DAY
    await update_sqlite(session, SINCE, path)
    assert rows(path) == truth(box, START, clock.today)


async def test_days_are_those_of_the_timezone_and_another_one_is_refused(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    await update_sqlite(session, SINCE, path, timezone="+09:00")
    assert rows(path) == truth(box, START, clock.today, timezone="+09:00")
    before = path.read_bytes()
    with pytest.raises(ExportError, match=r"holds days of the timezone UTC\+09:00, not UTC"):
        await update_sqlite(session, SINCE, path)
    assert path.read_bytes() == before


async def test_a_range_that_is_over_or_has_not_begun(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    await update_sqlite(session, DateRange(START, "2024-02-10"), path)
    assert {key: n for key, (n, _) in rows(path).items()} == {
        key: n for key, (n, _) in truth(box, START, date(2024, 2, 10)).items()
    }
    assert {partial for _, partial in rows(path).values()} == {0}
    box.requests.clear()
    summary = await update_sqlite(session, DateRange("2024-05-01", "2024-06-01"), path, keys=["a", "b"])
    assert (summary.rows, box.requests) == (0, [])


async def test_the_links_of_a_tag_are_kept(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    tag = box.truth.tags()[0]
    await update_sqlite(session, SINCE, path, tags=[tag.name])
    chosen = {url.slashtag for url in box.truth.urls() if url.tag_id == tag.id}
    assert {slashtag for slashtag, _ in rows(path)} == chosen


async def test_progress_counts_all_slashtags_once(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_update, "_LOOKED_UP", 7)
    names = list(dict.fromkeys(url.slashtag for url in box.truth.urls()))
    await update_sqlite(session, SINCE, path, keys=names[:10])
    told: list[Any] = []
    await update_sqlite(session, SINCE, path, keys=iter(names), progress=lambda *at: told.append(at))
    assert told == [(n, len(names)) for n in range(1, len(names) + 1)]


async def test_a_slashtag_that_cannot_be_asked_for_is_told(
    session: AsyncSession, path: Path, clock: Clock
) -> None:
    failures: list[Failure] = []
    with pytest.raises(InvalidRequestError, match="comma"):
        # It is told all the same, but nothing came of the update.
        await update_sqlite(session, SINCE, path, keys=["a,b"], on_error=failures.append)
    assert [failure.call.keys for failure in failures] == [("a", "b")]
    with pytest.raises(InvalidRequestError):
        await update_sqlite(session, SINCE, path, keys=["a,b"])


async def test_only_whole_days_are_taken(session: AsyncSession, path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="whole days"):
        await update_sqlite(session, DateRange("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"), path)
    with pytest.raises(InvalidRequestError, match="lookback"):
        await update_sqlite(session, SINCE, path, lookback=-1)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"not a database at all, for sure" * 9, "folder", "other", "missing/x"])
async def test_a_file_that_cannot_hold_it_is_told_and_left(
    box: Sandbox, session: AsyncSession, path: Path, content: Any
) -> None:
    if content == "folder":
        path.mkdir()
    elif content == "missing/x":
        path = path / "x"
    elif content == "other":
        with closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE clicks (who, what)")
    else:
        path.write_bytes(content)
    with pytest.raises(ExportError, match="cannot be updated"):
        await update_sqlite(session, SINCE, path)
    assert content == "other" or box.requests == []


async def test_a_count_that_sqlite_cannot_hold_is_told_and_a_batch_is_whole_or_not_there(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert = _update._Store._upsert
    batches: list[int] = []

    def failing(self: Any, rows: Any) -> None:
        batches.append(len(rows))
        if len(batches) == 2:
            rows = [*rows[:5], (rows[5][0], rows[5][1], 2**70, 0)]
        upsert(self, rows)

    monkeypatch.setattr(_update._Store, "_upsert", failing)
    monkeypatch.setattr(_update, "Rows", lambda write: Rows(write, 100))
    with pytest.raises(ExportError, match="cannot be updated"):
        await update_sqlite(session, SINCE, path)
    assert len(rows(path)) == batches[0] == 100
    await update_sqlite(session, SINCE, path)
    assert rows(path) == truth(box, START, clock.today)


async def test_it_is_cancelled_cleanly_and_goes_on(
    box: Sandbox, session: AsyncSession, path: Path, clock: Clock
) -> None:
    box.latency = 0.02
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.08):
                await update_sqlite(session, SINCE, path)
    box.latency = 0.0
    await update_sqlite(session, SINCE, path)
    assert rows(path) == truth(box, START, clock.today)
