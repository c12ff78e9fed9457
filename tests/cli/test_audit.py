"""`slashtag audit`: rows of what differs, exit codes, and what is refused."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, objects

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

import duckdb

from slashtag.dlt import Audit, Difference, Monitor, Unproved

SINCE = ("--since", "2025-09-01")
DAYS = ("--timezone", "+00:00", *SINCE, "--until", "2025-11-30")


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have dlt read and write no settings of whoever runs the tests."""
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.unmeasured
def test_a_difference_is_a_row_and_the_exit_code_is_3_until_it_is_repaired(cli: Cli, box: Sandbox) -> None:
    assert cli("sync", "clicks.duckdb", *SINCE).code == 0
    whole = cli("audit", "clicks.duckdb")
    assert (whole.code, whole.out) == (0, "")
    with duckdb.connect("clicks.duckdb") as file:
        table = "slashtag.clicks_daily"
        name, day = file.execute(
            f"SELECT slashtag, date FROM {table} WHERE clicks = 1 ORDER BY 1, 2"
        ).fetchall()[0]
        file.execute(f"UPDATE {table} SET clicks = 3 WHERE slashtag = ? AND date = ?", [name, day])
    found = cli("audit", "clicks.duckdb", "--summary", "run.json")
    (row,) = objects(found.out)
    assert found.code == 3
    assert (row["slashtag"], row["date"], row["held"], row["counted"]) == (name, str(day), 3, 1)
    said = json.loads(Path("run.json").read_text("utf-8"))
    assert (said["exit_code"], said["differences"], said["repaired"], said["not_proved"]) == (3, 1, 0, 0)
    repaired = cli("audit", "clicks.duckdb", "--repair")
    assert (repaired.code, repaired.out) == (0, "")
    assert cli("audit", "clicks.duckdb", "--by-day", "--pipelines-dir", "work").code == 0
    assert Path("work").is_dir()
    again = cli("sync", "clicks.duckdb", *SINCE, "--reload", "2025-10-01", "2025-10-03")
    assert again.code == 0
    for days in (("2025-08-01", "2025-08-31"), ("2100-01-01", "2100-01-02")):
        assert cli("sync", "clicks.duckdb", *SINCE, "--reload", *days).code == 2
    assert f"{3 * len({url.slashtag for url in box.truth.urls()}):,} clicks_daily" in again.err


@pytest.mark.unmeasured
def test_a_file_is_audited_if_its_zone_and_days_are_given(cli: Cli, box: Sandbox) -> None:
    assert cli("export", "clicks", "2025-09-01", "2025-11-30", "--all", "-o", "q.csv").code == 0
    assert cli("audit", "q.csv", *DAYS, "--all").code == 0
    lines = Path("q.csv").read_text("utf-8").splitlines(keepends=True)
    lost = next(line for line in lines if line.endswith(",1\n"))
    Path("q.csv").write_text("".join(line for line in lines if line != lost), "utf-8")
    found = cli("audit", "q.csv", *DAYS)
    assert (found.code, len(objects(found.out))) == (3, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing.duckdb",),
        (),
        ("q.csv",),
        ("q.csv", "--timezone", "+00:00"),
        ("q.csv", *DAYS, "--repair"),
        ("bad.csv", *DAYS),
        ("cells.csv", *DAYS),
        ("folder", "--destination", "filesystem", "--all"),
    ],
)
def test_what_cannot_be_audited_is_refused_before_anything_is_sent(
    cli: Cli, box: Sandbox, arguments: tuple[str, ...]
) -> None:
    Path("q.csv").write_text("slashtag,date,clicks\nk,2025-09-01,1\n", "utf-8")
    Path("bad.csv").write_text("link,day\nk,2025-09-01\n", "utf-8")
    Path("cells.csv").write_text("slashtag,date,clicks\nk,yesterday,1\n", "utf-8")
    Path("folder").mkdir()
    ran = cli("audit", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert not box.requests


def test_differences_and_repairs_of_a_warehouse_are_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    day = date(2025, 9, 3)
    found = Audit(
        first=day,
        last=day,
        timezone="+00:00",
        links=20,
        differences=(Difference("k", day, 3, 1, 1),),
        repaired=(Difference("r", day, 3, 1, 1),),
        repair_requests=1_234,
    )
    given: dict[str, Any] = {}
    module = SimpleNamespace(
        audit=lambda pipeline, **options: given.update(options, pipeline=pipeline) or found,
        local_pipeline=lambda *arguments, **options: (*arguments, options["dataset"]),
        Monitor=Monitor,
    )
    monkeypatch.setattr("slashtag.cli.commands.audit.imported", lambda _: module)
    Path("c.duckdb").touch()
    ran = cli("audit", "c.duckdb", "--repair", "--dataset", "clicks", "--by-day")
    (row,) = objects(ran.out)
    assert (ran.code, row["slashtag"], row["held"], row["counted"]) == (3, "k", 3, 1)
    assert ("1 day" in ran.err, "1,234 requests" in ran.err) == (True, True)
    assert (given["pipeline"], given["repair"], given["by_day"]) == ((None, "c.duckdb", "clicks"), True, True)


@pytest.mark.parametrize(("first", "last"), [(1, 30), (3, 2)])
def test_what_is_no_fault_and_what_is_not_proved_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, first: int, last: int
) -> None:
    names = tuple(f"k{n}" for n in range(20))
    found = Audit(
        first=date(2025, 9, first),
        last=date(2025, 9, last),
        timezone="+00:00",
        links=20,
        unproved=(Unproved(names[:3], "the answers contradict each other"),),
        renamed={"old": "new"},
        gone=names,
        not_held=("k1",),
    )
    module = SimpleNamespace(audit_file=lambda *_, **__: found, Monitor=Monitor)
    monkeypatch.setattr("slashtag.cli.commands.audit.imported", lambda _: module)
    Path("q.csv").touch()
    ran = cli("audit", "q.csv", *DAYS)
    assert (ran.code, ran.out) == (3, "")
    assert ("2025-09-01 to 2025-09-30" in ran.err) is (first < last)
    for said in ("'old' is 'new'", "'k0', ", " others", "not proved: 'k0' and 2 others", "20 links"):
        assert said in ran.err
