"""`slashtag sync` and `slashtag audit`: exit codes, what they say, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from slashtag.sandbox import Fault, Sandbox
from tests.support.sandboxes import refused_links
from tests.support.tables import cells

from .conftest import Cli, failing, names, objects

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

import duckdb

SINCE = ("--since", "2025-09-01")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def clicks(path: str) -> int:
    with duckdb.connect(path) as file:
        return int(file.execute("SELECT sum(clicks) FROM slashtag.clicks_daily").fetchall()[0][0])


def documented() -> list[list[str]]:
    """Return the arguments of the schedules of docs/warehouse.md, into a file and for fewer days."""
    page = (Path(__file__).parents[2] / "docs" / "warehouse.md").read_text("utf-8")
    lines = re.findall(r"/slashtag ((?:sync|audit) /srv.+?) \d?>>", page)
    return [line.replace("/srv/", "").replace("2022-01-01", SINCE[1]).split() for line in lines]


def test_the_documented_schedules_load_and_audit_a_file(
    cli: Cli, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", float)  # no backoff
    # The service is down at first, for longer than a call has attempts.
    with failing(box, Fault(kind="503", times=9)):
        first = cli("sync", "clicks.duckdb", *SINCE, "--by-tag")
    assert (first.code, first.out) == (0, "")
    assert clicks("clicks.duckdb") == box.truth.range("2025-09-01", "2100-01-01").total_clicks
    for command in documented():
        ran = cli(*command)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert names(tmp_path) == ["clicks.duckdb"]


def test_a_difference_is_a_row_and_the_exit_code_is_3_until_the_next_sync(cli: Cli, box: Sandbox) -> None:
    of = ("clicks.duckdb", "--dataset", "ours")
    assert cli("sync", *of, *SINCE).code == 0
    with duckdb.connect("clicks.duckdb") as file:
        table = "ours.clicks_daily"
        query = f"SELECT slashtag, date FROM {table} WHERE clicks = 1 ORDER BY 1, 2"
        name, day = file.execute(query).fetchall()[0]
        file.execute(f"UPDATE {table} SET clicks = 3 WHERE slashtag = ? AND date = ?", [name, day])
    found = cli("audit", *of, "--quiet")
    (row,) = objects(found.out)
    assert (found.code, row["table"], row["name"], row["date"]) == (3, "clicks_daily", name, str(day))
    assert (row["held"], row["counted"]) == (3, 1)
    mended = cli("sync", *of, *SINCE)
    assert (mended.code, "1 clicks_daily" in mended.err) == (0, True)
    assert cli("audit", *of).code == 0


def test_a_link_that_fails_is_told_and_the_exit_code_is_3(cli: Cli, own: Sandbox) -> None:
    sync = ("sync", "clicks.duckdb", "--since", "2024-06-01")
    with refused_links(own, {"a7"}, 403):
        ran = cli(*sync)
        audited = cli("audit", "clicks.duckdb")
    assert (ran.code, audited.code) == (3, 3)
    assert ran.err.count("failed: ") == 1
    assert "'a7'" in ran.err
    assert cli(*sync).code == 0


def test_a_listing_that_lost_many_links_is_not_loaded_and_the_exit_code_is_3(cli: Cli, own: Sandbox) -> None:
    sync = ("sync", "clicks.duckdb", "--since", "2024-06-01")
    assert cli(*sync).code == 0
    own.store.write("DELETE FROM link WHERE id % 2", ())
    assert [cli(*sync).code, cli(*sync, "--allow-shrink").code] == [3, 0]


@pytest.mark.parametrize(
    "change",
    ["UPDATE tag SET name = '' WHERE id = 501", "UPDATE link SET slashtag = '' WHERE slashtag = 'a7'"],
)
def test_a_link_or_tag_without_a_name_is_missing_and_the_exit_code_is_3(
    cli: Cli, own: Sandbox, change: str
) -> None:
    own.store.write(change, ())
    assert cli("sync", "clicks.duckdb", "--since", "2024-06-01", "--by-tag").code == 3


WRONG = """
sync --since 2025-09-01                                    | path
sync clicks.duckdb --since yesterday                       | 'yesterday'
sync clicks.duckdb                                         | --since
sync clicks.duckdb --since 2025-09-01 --dimensions size    | no dimension 'size'
sync clicks.duckdb --since 2025-09-01 --timezone Nowhere   | Nowhere
sync clicks.duckdb --since 2999-01-01                      | 2999-01-01
audit missing.duckdb                                       | missing.duckdb
"""


@pytest.mark.parametrize(("arguments", "says"), cells(WRONG))
def test_wrong_usage_exits_with_2_before_anything_is_sent_or_made(
    cli: Cli, box: Sandbox, tmp_path: Path, arguments: str, says: str
) -> None:
    ran = cli(*arguments.split())
    assert (ran.code, says in ran.error) == (2, True)
    assert (box.requests, names(tmp_path)) == ([], [])


def test_without_dlt_the_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("dlt")

    monkeypatch.setattr("slashtag.cli.commands.sync.import_module", missing)
    ran = cli("sync", "clicks.duckdb", *SINCE)
    assert (ran.code, "slashtag[dlt]" in ran.error) == (1, True)
