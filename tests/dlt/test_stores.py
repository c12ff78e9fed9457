"""Each kind of warehouse holds what a load writes, whenever it is interrupted, and keeps others away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from datetime import time as clock_time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dlt
import pytest

from slashtag import ExportError
from slashtag.dlt import Warehouse
from slashtag.dlt._database import Database
from slashtag.dlt._folder import Folder
from slashtag.dlt._tables import Replacement
from slashtag.sandbox import Sandbox
from tests.support.buckets import s3_server
from tests.support.warehouses import (
    DAY,
    START,
    Clock,
    MemoryWarehouse,
    audit_of,
    held,
    load_into,
    rename,
    simulated_clock,
    swap,
    truth,
)

EVERY = pytest.mark.parametrize("target", ["duckdb", "sqlite", "filesystem", "postgres"], indirect=True)
CLICKS = ("clicks_daily", "clicks_by_tag", "clicks_by_dimension")
OPTIONS: dict[str, Any] = {"by_tag": True, "dimensions": ("country", "device")}


async def check(target: Any, box: Sandbox, today: date) -> None:
    """Fail unless each table has the truth, and no link that is gone has rows."""
    assert dlt.config["runtime.dlthub_telemetry"] is False
    for table in CLICKS:
        assert await held(target, table) == truth(box, table, today)


def change(box: Sandbox, clock: Clock) -> None:
    """Have a day with late clicks, links that are renamed and swapped, and a new one."""
    clock.today += DAY
    one, two, three, four, *_ = sorted(url.slashtag for url in box.truth.urls() if url.domain_id == 0)
    rename(box, one, f"renamed-{clock.today}")
    swap(box, two, three)
    new = box.add_url(f"new-{clock.today}")
    for link, ago in ((new, 3), (four, 17), (four, 0)):
        box.add_click(link, datetime.combine(clock.today - ago * DAY, clock_time(5), UTC), times=2)


@EVERY
async def test_what_is_loaded_is_the_truth_night_by_night(
    target: Warehouse, box: Sandbox, clock: Clock
) -> None:
    first = await load_into(target, box, **OPTIONS)
    await check(target, box, clock.today)
    change(box, clock)
    second = await load_into(target, box, **OPTIONS)
    await check(target, box, clock.today)
    assert (first.complete, second.complete) == (True, True)
    assert (await audit_of(target, box)).complete
    again = await load_into(target, box, **OPTIONS)
    assert not sum(again.rows.values())


@EVERY
async def test_rows_are_replaced_as_in_memory(target: Warehouse) -> None:
    memory = MemoryWarehouse()
    noon = datetime(2024, 3, 1, 12, 30, 15, 250_000)
    feb, mar = (date(2024, 2, 1), date(2024, 2, 29)), (date(2024, 3, 1), date(2024, 3, 31))
    days = [(name, day, 1) for name in ("a", "b'%s", "ü/\u2028") for day in (*feb, *mar)]
    link = (7, "a", None, "https://x.example/?q=%", 5, 301, None, noon, None, True, None)
    steps = [
        [Replacement("clicks_daily", None, None, days), Replacement("links", [7], None, [link])],
        [Replacement("clicks_daily", ["a"], mar, [("a", mar[0], 9)])],
        [Replacement("clicks_daily", ["b'%s", "none"], None, ())],
        [
            Replacement("clicks_daily", ["a", "ü/\u2028"], (date.min, feb[1]), ()),
            Replacement("links", [], None, ()),
        ],
        [
            Replacement("clicks_daily", [str(n) for n in range(1_200)], None, ()),
            Replacement("links", None, None, ()),
        ],
    ]
    with target:
        for step in steps:
            await target.replace(*step)
            await memory.replace(*step)
            for table, span in (("clicks_daily", None), ("clicks_daily", mar), ("links", None)):
                assert sorted(await target.rows(table, span)) == sorted(await memory.rows(table, span))


class Stop(BaseException):
    """A load is killed."""


@contextmanager
def killed(after: int) -> Iterator[list[int]]:
    """Kill what runs before the statement, or the file, with this number; gives how many are left."""
    left = [after]

    def counting(original: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Stop
            return original(*arguments)

        return counted

    with (
        patch.object(Database, "_execute", counting(Database._execute)),
        patch.object(Folder, "_write", counting(Folder._write)),
    ):
        yield left


@EVERY
async def test_a_load_that_is_killed_between_any_two_writes_goes_on(target: Warehouse) -> None:
    account: dict[str, Any] = {
        "urls": 6,
        "clicks": 60,
        "since": "2024-01-01T00:00:00Z",
        "until": "2024-03-10T12:00:00Z",
    }
    with Sandbox(tags=2, **account) as box, simulated_clock(box) as clock:
        for night in range(2):
            # Killed later and later, until it is done.
            for writes in range(night, 400, 7):
                try:
                    with killed(writes):
                        await load_into(target, box, **OPTIONS)
                    break
                except Stop:
                    continue
            await check(target, box, clock.today)
            change(box, clock)


@pytest.mark.parametrize("target", ["sqlite", "filesystem", "postgres"], indirect=True)
async def test_a_second_load_is_refused_while_one_is_under_way(target: Warehouse) -> None:
    place = None if target.destination == "postgres" else target.place
    other = Warehouse(place, target.destination, dataset=target.dataset)
    with target, pytest.raises(ExportError, match=r"lock|another load"), other:
        pass
    with other:
        assert await other.rows("links") == []


def test_a_file_that_another_program_has_open_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "clicks.duckdb"
    program = f"import duckdb; file = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ExportError, match="lock") as raised, Warehouse(path):
            pass
        other.communicate(b"\n")
    assert "\n" not in str(raised.value)
    with Warehouse(path):
        pass


def test_a_file_of_data_is_no_database(tmp_path: Path) -> None:
    (path := tmp_path / "clicks.csv").touch()
    with pytest.raises(ExportError, match="DuckDB"), Warehouse(path):
        pass


@pytest.mark.parametrize("target", ["duckdb", "postgres"], indirect=True)
async def test_a_table_that_was_dropped_is_filled_again(target: Any, box: Sandbox, clock: Clock) -> None:
    await load_into(target, box, **OPTIONS)
    for table in ("clicks_daily", "links", "loads"):
        with target:
            client = target._store._client
            client.execute_sql(f"DROP TABLE {client.make_qualified_table_name(table)}")
        await load_into(target, box, **OPTIONS)
        await check(target, box, clock.today)


@pytest.mark.parametrize("name", ["a b%20c", "q?x=1", "st*r[1]", "ä'b", "clicks.v2"])
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "filesystem"])
async def test_a_path_is_a_path_whatever_its_characters(tmp_path: Path, kind: str, name: str) -> None:
    for _ in range(2):
        with Warehouse(tmp_path / name, kind) as target:
            await target.replace(Replacement("clicks_daily", ["a"], None, [("a", START, 1)]))
            assert await target.rows("clicks_daily") == [("a", START, 1)]
    assert {path.name.removesuffix(".lock") for path in tmp_path.iterdir()} == {name}
    assert kind == "sqlite" or Warehouse(tmp_path / name).destination == kind


def test_no_password_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "pass@w:ord"
    monkeypatch.setenv(
        "DESTINATION__POSTGRES__CREDENTIALS", f"postgresql://loader:{secret}@127.0.0.1:1/clicks"
    )
    for destination in ("postgres", "no-such"):
        with pytest.raises(ExportError) as raised, Warehouse(destination=destination):
            pass
        assert secret not in repr(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "quoted", ["PASSWORD=s3cr3t;", "'secret=s3cr3t'", "?Token=s3cr3t&a=b", "AccountKey=s3cr3t"]
)
def test_no_setting_that_is_secret_is_shown(tmp_path: Path, quoted: str) -> None:
    with (
        patch("duckdb.connect", side_effect=OSError(f"refused: {quoted}")),
        pytest.raises(ExportError, match="refused") as raised,
        Warehouse(tmp_path / "clicks"),
    ):
        pass
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.filterwarnings("ignore")
async def test_a_bucket_has_one_file_a_month(box: Sandbox, clock: Clock) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("moto")
        pytest.importorskip("s3fs")
    with s3_server("lake") as system:
        target = Warehouse("s3://lake/a")
        for _ in range(2):
            assert (await load_into(target, box, **OPTIONS)).complete
            await check(target, box, clock.today)
            change(box, clock)
        system.invalidate_cache()
        files = system.glob("lake/a/slashtag/clicks_daily/*")
        assert [file.rpartition("/")[2] for file in files] == ["2024-02.parquet", "2024-03.parquet"]
