"""`--all-profiles`: one file or table of every account, whatever becomes of one of them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from slashtag.cli import credentials_file
from slashtag.sandbox import Fault, Sandbox

from .conftest import APIKEY, APISECRET, Cli, names, objects

NOWHERE = "http://127.0.0.1:1"
YEAR = ("--all", "--all-profiles")


@pytest.fixture
def profiles(box: Sandbox, own: Sandbox) -> None:
    """Save two accounts; the environment has a third one, which does not answer."""
    credentials_file.save(box.base_url, APIKEY, APISECRET, "large")
    credentials_file.save(own.base_url, APIKEY, APISECRET)


def accounts(path: Path) -> Counter[str]:
    """Count the rows of each account."""
    with path.open(encoding="utf-8", newline="") as file:
        return Counter(row["account"] for row in csv.DictReader(file))


@pytest.mark.usefixtures("profiles")
def test_one_file_has_the_rows_of_all_accounts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLASHTAG_PROFILE", "nobody")
    monkeypatch.setenv("SLASHTAG_BASE_URL", NOWHERE)
    target = tmp_path / "links.csv"
    ran = cli("export", "urls", "--all-profiles", "-o", str(target))
    assert (ran.code, ran.out) == (0, "")
    assert accounts(target) == {"large": 130, "(no name)": 60}
    assert target.read_text("utf-8").startswith("account,")
    assert names(tmp_path) == ["links.csv"]
    rows = objects(cli("export", "tags", "--all-profiles").out)
    assert {row["account"] for row in rows} == {"large", "(no name)"}


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("form", ["xlsx", "parquet"])
def test_every_format_has_the_account(cli: Cli, tmp_path: Path, form: str) -> None:
    target = tmp_path / f"links.{form}"
    assert cli("export", "urls", "--all-profiles", "-o", str(target)).code == 0
    assert target.stat().st_size > 1_000


@pytest.mark.usefixtures("profiles")
def test_a_file_that_is_full_ends_all(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag.export._xlsx.MOST_ROWS", 100)
    assert cli("export", "urls", "--all-profiles", "-o", str(tmp_path / "links.xlsx")).code == 1
    assert not (tmp_path / "links.xlsx").exists()


@pytest.mark.usefixtures("profiles")
def test_top_ranks_each_account(cli: Cli, box: Sandbox) -> None:
    ran = cli("top", "2024", "--all-profiles", "--limit", "3", "--format", "json")
    rows = json.loads(ran.out)
    alone = json.loads(cli("top", "2024", "--profile", "large", "--limit", "3", "--format", "json").out)
    assert ran.code == 0
    assert rows == [{"account": "large", **row} for row in alone]
    assert next(iter(rows[0])) == "account"


@pytest.mark.usefixtures("profiles", "quick_retries")
def test_an_account_that_fails_does_not_stop_the_others(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    credentials_file.save(NOWHERE, APIKEY, APISECRET, "down")
    target = tmp_path / "clicks.csv"
    command = ("export", "clicks", "2024-01-01", "2024-01-31", *YEAR, "-o", str(target))
    ran = cli(*command)
    assert ran.code == 3
    assert "1 of 3 accounts: down" in ran.err
    once = accounts(target)
    assert set(once) == {"large", "(no name)"}
    sent = len(box.requests)
    # The next run asks the others for nothing that is known, and removes the journals once all is well.
    credentials_file.save(box.base_url, APIKEY, APISECRET, "down")
    assert cli(*command).code == 0
    assert accounts(target) == {**once, "down": once["large"]}
    assert len(box.requests) < 2.5 * sent
    assert names(tmp_path) == ["clicks.csv"]


@pytest.mark.usefixtures("profiles")
def test_an_account_that_fails_half_way_has_no_rows(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "clicks.csv"
    box.faults = [Fault(kind="400", path="*/stats*", every=2)]
    try:
        ran = cli(
            "export", "clicks", "2024-01-01", "2024-01-31", *YEAR, "-o", str(target), "--max-failures", "0"
        )
    finally:
        box.faults = []
    assert ran.code == 3
    assert "account large" in ran.err
    assert accounts(target) == {"(no name)": 60 * 31}


@pytest.mark.usefixtures("profiles")
def test_links_that_fail_are_listed_by_account(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "clicks.csv"
    box.faults = [Fault(kind="400", path="*/stats*", every=5)]
    try:
        ran = cli("export", "clicks", "2024-01-01", "2024-01-31", *YEAR, "-o", str(target))
    finally:
        box.faults = []
    assert ran.code == 3
    assert set(accounts(target)) == {"large", "(no name)"}
    assert "clicks.csv.large.failures.jsonl" in names(tmp_path)
    assert "accounts:" not in ran.err


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("command", [("export", "urls"), ("top", "2024")])
def test_if_all_fail_the_file_stays_as_it_was(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    credentials_file.save(NOWHERE, APIKEY, APISECRET, "a")
    credentials_file.save(NOWHERE, APIKEY, APISECRET, "b")
    target = tmp_path / "rows.csv"
    target.write_text("as it was")
    ran = cli(*command, "--all-profiles", "-o", str(target))
    assert ran.code == 1
    assert "2 of 2 accounts: a, b" in ran.err
    assert target.read_text() == "as it was"
    assert names(tmp_path) == ["rows.csv"]


def test_wrong_usage_is_refused(cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no profiles are saved" in cli("top", "--all-profiles").error
    # Given as options they are refused whatever the environment has.
    monkeypatch.setenv("SLASHTAG_PROFILE", "a")
    for arguments in (
        ("top", "--all-profiles", "--profile", "a"),
        ("top", "--profile", "b", "--all-profiles"),
        ("top", "--all-profiles", "--base-url", NOWHERE),
        ("export", "clicks", "2024", *YEAR, "--dry-run"),
    ):
        assert cli(*arguments).code == 2
    assert box.requests == []
