"""A Parquet dataset of months is brought up to date by whole months."""

from __future__ import annotations

import asyncio
import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slashtag import AsyncSession, BadRequestError, DateRange, ExportError, Failure
from slashtag.export import update_parquet
from slashtag.export._dataset import _Dataset
from slashtag.export._update import Days
from slashtag.sandbox import Fault, Sandbox

from .conftest import Clock

dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")

DAY = timedelta(days=1)
START = date(2023, 12, 1)
SINCE = DateRange(START, "2099-12-31")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "clicks"


def rows(folder: Path) -> dict[tuple[str, date], tuple[int, bool]]:
    table = dataset.dataset(folder, partitioning="hive").to_table().to_pylist()
    for row in table:
        assert row["month"] == row["date"].strftime("%Y-%m")
    found = {(row["slashtag"], row["date"]): (row["clicks"], row["partial"]) for row in table}
    assert len(found) == len(table)
    return found


def truth(box: Sandbox, start: date, today: date, **options: Any) -> dict[tuple[str, date], tuple[int, bool]]:
    return {
        (slashtag, day): (clicks, day == today)
        for slashtag, true in box.truth.per_key(start, today, **options).items()
        for day, clicks in true.clicks.items()
    }


def files(folder: Path) -> dict[str, int]:
    """Each file by the inode, which a replaced one does not keep."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.stat().st_ino for path in found}


def replaced(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return sorted(name[6:13] for name, inode in after.items() if before.get(name) != inode)


async def test_a_new_dataset_holds_every_day_of_its_months_up_to_today(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    summary = await update_parquet(session, DateRange("2023-12-15", "2099-12-31"), folder)
    assert rows(folder) == truth(box, START, clock.today)
    assert summary.rows == len(rows(folder))
    assert sorted(files(folder)) == [
        f"month={month}/clicks.parquet" for month in ("2023-12", "2024-01", "2024-02", "2024-03")
    ]


async def test_its_columns_are_typed(session: AsyncSession, folder: Path, clock: Clock) -> None:
    await update_parquet(session, DateRange("2024-03-01", "2024-03-02"), folder)
    schema = parquet.read_schema(folder / "month=2024-03" / "clicks.parquet")
    assert [str(kind) for kind in schema.types] == ["string", "date32[day]", "int64", "bool"]


@pytest.mark.parametrize(
    ("days", "lookback", "months"),
    [
        (0, 3, ["2024-03"]),
        (1, 3, ["2024-03"]),
        (0, 10, ["2024-02", "2024-03"]),
        (30, 0, ["2024-03", "2024-04"]),
        (60, 100, ["2023-12", "2024-01", "2024-02", "2024-03", "2024-04", "2024-05"]),
    ],
)
async def test_a_later_run_replaces_months_from_the_lookback_on(
    box: Sandbox,
    session: AsyncSession,
    folder: Path,
    clock: Clock,
    days: int,
    lookback: int,
    months: list[str],
) -> None:
    await update_parquet(session, SINCE, folder)
    before = files(folder)
    clock.today += days * DAY
    box.requests.clear()
    await update_parquet(session, SINCE, folder, lookback=lookback)
    assert rows(folder) == truth(box, START, clock.today)
    assert replaced(before, files(folder)) == months
    asked = [one.query["date_range"] for one in box.requests if "date_range" in one.query]
    assert min(asked)[:7] == months[0]


async def test_the_first_days_of_a_month_look_back_into_the_month_before(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    clock.today = date(2024, 2, 29)
    await update_parquet(session, SINCE, folder)
    name = box.truth.urls()[0].slashtag
    box.add_click(name, datetime(2024, 2, 29, 23), times=4)
    clock.today = date(2024, 3, 1)
    await update_parquet(session, SINCE, folder)
    assert rows(folder) == truth(box, START, clock.today)


async def test_run_twice_it_holds_the_same(session: AsyncSession, folder: Path, clock: Clock) -> None:
    await update_parquet(session, SINCE, folder)
    before = rows(folder)
    await update_parquet(session, SINCE, folder)
    assert rows(folder) == before


async def test_an_earlier_start_and_a_month_that_is_gone_are_filled(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, DateRange("2024-01-01", "2024-03-31"), folder)
    await update_parquet(session, SINCE, folder)
    (folder / "month=2024-01" / "clicks.parquet").unlink()
    await update_parquet(session, SINCE, folder)
    assert rows(folder) == truth(box, START, clock.today)


async def test_months_written_with_failures_are_made_up_for_by_the_next_run(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    failures: list[Failure] = []
    box.faults = [Fault(kind="400", path="/api/v1/stats", every=9)]
    summary = await update_parquet(session, SINCE, folder, on_error=failures.append)
    assert 0 < summary.failures == len(failures) < 25
    assert 0 < len(rows(folder)) < len(truth(box, START, clock.today))
    box.faults = []
    await update_parquet(session, SINCE, folder)
    assert rows(folder) == truth(box, START, clock.today)


def keys_of(box: Sandbox) -> list[str]:
    return list(dict.fromkeys(url.slashtag for url in box.truth.urls()))


def asked_from(box: Sandbox) -> dict[str, str]:
    """The first day that each slashtag was asked for, of statistics of days."""
    first: dict[str, str] = {}
    for one in box.requests:
        if span := one.query.get("date_range"):
            for name in one.query["url_keys"].split(","):
                first[name] = min(span[:10], first.get(name, span))
    return first


@pytest.mark.parametrize("earlier", [False, True])
async def test_a_day_that_was_not_over_is_asked_for_again_however_long_ago(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock, earlier: bool
) -> None:
    clock.today = date(2024, 4, 30)
    await update_parquet(session, DateRange("2024-04-01", "2024-04-30"), folder)
    if earlier:
        # Earlier versions noted the last date that was asked for.
        path = folder / "month=2024-04" / "clicks.parquet"
        table = parquet.ParquetFile(path).read()
        notes = parquet.read_metadata(path).metadata
        notes = {name: notes[name] for name in notes if name.startswith(b"slashtag")}
        notes[b"slashtag.through"] = b"2024-04-30"
        parquet.write_table(table.replace_schema_metadata(notes), path)
    box.add_click(keys_of(box)[0], datetime(2024, 4, 30, 23), times=5)
    clock.today = date(2024, 5, 20)
    await update_parquet(session, DateRange("2024-05-01", "2024-05-20"), folder)
    clock.today = date(2024, 6, 20)
    april = date(2024, 4, 1)
    await update_parquet(session, DateRange(april, "2024-06-20"), folder)
    assert rows(folder) == truth(box, april, clock.today)


async def test_days_after_the_range_are_kept(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, SINCE, folder)
    before = rows(folder)
    box.add_click(keys_of(box)[0], datetime(2024, 2, 9, 12), times=5)
    box.add_click(keys_of(box)[0], datetime(2024, 2, 11, 12), times=5)
    summary = await update_parquet(session, DateRange(START, "2024-02-10"), folder)
    assert summary.rows == 25 * 10
    after = rows(folder)
    assert after.keys() == before.keys()
    late = (keys_of(box)[0], date(2024, 2, 9))
    assert {key: after[key][0] - before[key][0] for key in after if after[key] != before[key]} == {late: 5}


async def test_slashtags_that_are_not_asked_for_are_kept_and_made_up_for_by_the_next_run_that_asks(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, SINCE, folder)
    before, some = rows(folder), keys_of(box)[:3]
    clock.today = date(2024, 4, 20)
    await update_parquet(session, SINCE, folder, keys=some)
    others = {key: n for key, n in before.items() if key[0] not in some}
    assert rows(folder) == {**others, **truth(box, START, clock.today, keys=some)}
    # March is whole for some, and not for the others.
    box.requests.clear()
    await update_parquet(session, SINCE, folder)
    first = asked_from(box)
    assert {first[name] for name in some} == {"2024-04-01"}
    assert {first[name] for name in first.keys() - some} == {"2024-03-01"}
    assert rows(folder) == truth(box, START, clock.today)


async def test_a_slashtag_that_is_new_is_asked_for_from_the_start(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    names = keys_of(box)
    await update_parquet(session, SINCE, folder, keys=names[:10])
    box.requests.clear()
    await update_parquet(session, SINCE, folder, keys=names)
    first = asked_from(box)
    assert {first[name] for name in names[:10] if name in first} == {"2024-03-01"}
    assert rows(folder) == truth(box, START, clock.today)


async def test_a_link_that_is_new_leaves_the_months_before_it_as_they_are(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, SINCE, folder)
    before, expected = files(folder), truth(box, START, clock.today)
    box.add_url("new", created_at="2024-02-20T12:00:00Z")
    await update_parquet(session, SINCE, folder)
    assert replaced(before, files(folder)) == ["2024-02", "2024-03"]
    assert rows(folder) == {
        **expected,
        **truth(box, date(2024, 2, 1), clock.today, keys=["new"]),
    }


async def test_rows_of_a_slashtag_that_fails_are_kept(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, SINCE, folder)
    before = rows(folder)
    clock.today += DAY
    failures: list[Failure] = []
    box.faults = [Fault(kind="400", path="/api/v1/stats", every=4)]
    await update_parquet(session, SINCE, folder, on_error=failures.append)
    assert 0 < len(failures) < 25
    assert rows(folder).keys() >= before.keys()
    box.faults = []
    await update_parquet(session, SINCE, folder)
    assert rows(folder) == truth(box, START, clock.today)


async def test_months_without_an_answer_are_left_as_they_are(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, SINCE, folder)
    before = files(folder)
    failures: list[Failure] = []
    summary = await update_parquet(session, SINCE, folder, keys=["a,b"], on_error=failures.append)
    assert (summary.rows, summary.failures) == (0, 1)
    assert files(folder) == before


def test_days_that_an_answer_lacks_are_kept(folder: Path, clock: Clock) -> None:
    """As when the service leaves out the days of a window."""
    days = [date(2024, 2, n) for n in range(1, 30)]
    for told, clicks in ((days, 1), (days[:7] + days[9:], 2)):
        dataset = _Dataset(folder, Days(DateRange(days[0], days[-1]), None, 3))
        dataset.open()
        assert dataset.begin({"a": date.min}) == {days[0]: ["a"]}
        dataset.answered("a", days[0], told)
        dataset.write([("a", day, clicks, False) for day in told])
        dataset.finish(0)
    assert rows(folder) == {("a", day): (1 if day in days[7:9] else 2, False) for day in days}


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_asked_for_nothing_that_is_held_is_lost_and_asking_for_all_makes_it_whole(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock, seed: int
) -> None:
    rng = random.Random(seed)
    names, held = keys_of(box), set[tuple[str, date]]()
    for _ in range(5):
        clock.today += rng.randrange(12) * DAY
        first, last = sorted(START + rng.randrange((clock.today - START).days + 1) * DAY for _ in range(2))
        keys = None if rng.random() < 0.4 else rng.sample(names, rng.randrange(1, 8))
        await update_parquet(
            session, DateRange(first, last), folder, keys=keys, lookback=rng.choice([0, 3, 40])
        )
        found = rows(folder)
        true = truth(box, START, clock.today)
        asked = {(name, day) for name, day in true if first <= day <= last and name in (keys or names)}
        assert found.keys() >= held | asked
        assert {key: n for key, (n, _) in found.items()} == {key: true[key][0] for key in found}
        assert all(not found[key][1] or key[1] == clock.today for key in asked)
        held = set(found)
    await update_parquet(session, SINCE, folder, keys=names)
    assert rows(folder) == truth(box, START, clock.today)


async def test_an_error_leaves_the_dataset_as_it_was(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    box.faults = [Fault(kind="400", path="/api/v1/stats", every=9)]
    with pytest.raises(BadRequestError):
        await update_parquet(session, SINCE, folder)
    assert not folder.exists()
    box.faults = []
    await update_parquet(session, DateRange(START, "2024-01-31"), folder)
    before = files(folder)
    box.latency = 0.02
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await update_parquet(session, SINCE, folder)
    assert files(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["month=2023-12", "month=2024-01"]


async def test_days_are_those_of_the_timezone_and_another_one_is_refused(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    await update_parquet(session, SINCE, folder, timezone="-05:00")
    assert rows(folder) == truth(box, START, clock.today, timezone="-05:00")
    with pytest.raises(ExportError, match="holds days of the timezone UTC-05:00, not UTC"):
        await update_parquet(session, SINCE, folder)


async def test_no_links_and_no_days_are_no_error(session: AsyncSession, folder: Path, clock: Clock) -> None:
    await update_parquet(session, DateRange("2024-03-01", "2024-03-02"), folder, keys=[])
    assert rows(folder) == {}
    assert len(files(folder)) == 1
    assert (await update_parquet(session, DateRange("2024-05-01", "2024-06-01"), folder)).rows == 0


@pytest.mark.parametrize("content", [b"not parquet", None])
async def test_a_file_of_another_kind_is_told_and_left(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock, content: bytes | None
) -> None:
    path = folder / "month=2024-03" / "clicks.parquet"
    path.parent.mkdir(parents=True)
    if content is None:
        pyarrow = pytest.importorskip("pyarrow")
        parquet.write_table(pyarrow.table({"a": [1]}), path)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ExportError, match="not a file of such a dataset"):
        await update_parquet(session, SINCE, folder)
    assert (path.read_bytes(), box.requests) == (before, [])


async def test_a_folder_that_cannot_be_made_is_told(
    box: Sandbox, session: AsyncSession, folder: Path, clock: Clock
) -> None:
    folder.touch()
    with pytest.raises(ExportError, match="cannot be made"):
        await update_parquet(session, SINCE, folder)
    with pytest.raises(ExportError, match="cannot be made"):
        await update_parquet(session, SINCE, folder / "deeper" / "still")
    assert box.requests == []


@pytest.mark.parametrize(("name", "match"), [("", "is empty"), ("a\0b", "cannot be the name")])
async def test_a_path_that_cannot_be_one_is_told_before_anything_is_sent(
    box: Sandbox, session: AsyncSession, name: str, match: str
) -> None:
    with pytest.raises(ExportError, match=match):
        await update_parquet(session, SINCE, name)
    assert box.requests == []
