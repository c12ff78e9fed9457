"""`slashtag sync`: loads and brings up to date, with exit codes and errors as elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox
from tests.support.sandboxes import refused_link

from .conftest import Cli, names

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

import duckdb

SINCE = ("--since", "2025-09-01")


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have dlt read and write no settings of whoever runs the tests."""
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))


def clicks(path: Path) -> int:
    with duckdb.connect(str(path)) as file:
        return int(file.execute("SELECT sum(clicks) FROM slashtag.clicks_daily").fetchall()[0][0])


def documented(path: Path) -> list[str]:
    """Return the arguments of the schedules of docs/warehouse.md, into a file and for fewer days."""
    page = (Path(__file__).parents[2] / "docs" / "warehouse.md").read_text("utf-8")
    (cron,) = re.findall(r"^    15 6,8 \* \* \* +/\S+/slashtag (sync .+?) 2>>\S+$", page, re.M)
    (job,) = re.findall(r"^ +- run: slashtag (sync .+)$", page, re.M)
    assert job.replace(" --destination bigquery", "") == cron.replace(" /srv/clicks.duckdb", "")
    return cron.replace("/srv/clicks.duckdb", str(path)).replace("2022-01-01", SINCE[1]).split()


@pytest.mark.unmeasured
def test_a_file_is_loaded_and_brought_up_to_date(
    cli: Cli, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag.cli.stderr.INTERVAL", 0.001)
    monkeypatch.setattr("slashtag.cli.stderr.PRINTED_EVERY", 0.001)
    path = tmp_path / "clicks.duckdb"
    first = cli("sync", str(path), *SINCE, "--by-tag")
    assert (first.code, first.out) == (0, "")
    # Progress is printed without a terminal.
    assert re.search(r" clicks_daily: [\d,]+ of [\d,]+ links; [\d,]+ requests/s", first.err, re.M)
    assert clicks(path) == box.truth.range("2025-09-01", "2100-01-01").total_clicks
    again = cli(*documented(path))
    assert (again.code, again.out, again.err) == (0, "", "")
    assert names(tmp_path) == ["clicks.duckdb", "dlt"]


def test_a_signal_is_no_error_of_the_destination(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "clicks.duckdb"

    def interrupt() -> None:
        while len(box.requests) < 5:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    box.latency = 0.05
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        ran = cli("sync", str(path), *SINCE)
        thread.join()
    finally:
        box.latency = 0.0
    assert ran.code == 143
    assert ran.error.startswith("stopped; ")
    assert cli("sync", str(path), *SINCE).code == 0
    assert clicks(path) == box.truth.range("2025-09-01", "2100-01-01").total_clicks


@pytest.mark.unmeasured
def test_a_link_that_fails_is_listed_and_the_exit_code_is_3(
    cli: Cli, own: Sandbox, quick_retries: None, tmp_path: Path
) -> None:
    path = tmp_path / "clicks.duckdb"
    with refused_link(own, "a7", 403):
        ran = cli("sync", str(path), "--since", "2024-06-01")
    assert ran.code == 3
    assert "failed: slashtag 'a7'" in ran.err
    assert cli("sync", str(path), "--since", "2024-06-01").code == 0


@pytest.mark.skipif(os.name != "posix", reason="there are no limits of file sizes")
def test_a_full_disk_is_one_line_and_costs_no_answers(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    sync = ["sync", str(tmp_path / "clicks"), "--quiet", "--since"]
    sync += [(datetime.now(UTC) - timedelta(days=40)).date().isoformat()]
    full = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000)); "
    command = [sys.executable, "-c", f"{full}os.execv(sys.argv[1], sys.argv[1:])"]
    command += [sys.executable, "-m", "slashtag", *sync]
    # Compiled files would be cut too, and break every later run.
    limited = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, env=limited, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert re.match(r"error: \w+ failed: ", line)
    sent = len(own.requests)
    assert cli(*sync).code == 0
    assert len(own.requests) - sent < sent


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (SINCE, "needs the path"),
        (("clicks", "--destination", "postgres", *SINCE), "takes no path"),
        (("clicks.duckdb", "--since", "yesterday"), "'--since': 'yesterday'"),
        (("clicks.duckdb",), "--since"),
        (("clicks.duckdb", *SINCE, "--dimensions", "size"), "no dimension 'size'"),
        (("clicks.duckdb", *SINCE, "--timezone", "Nowhere"), "Nowhere"),
        (("clicks.duckdb", "--since", "2999-01-01"), "after today"),
        (("clicks.sqlite", *SINCE), "--destination sqlite"),
        (("clicks.SQLITE3", *SINCE), "--destination sqlite"),
        (("clicks.db", *SINCE), "--destination duckdb"),
        (("clicks.parquet", *SINCE), "--destination filesystem"),
        (("clicks.2024.csv", *SINCE), "--destination filesystem"),
    ],
)
def test_wrong_usage_exits_with_2(
    cli: Cli,
    box: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli("sync", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.error
    assert not box.requests
    assert not [name for name in names(tmp_path) if name != "dlt"]


@pytest.mark.unmeasured
def test_what_exists_decides_whatever_its_name(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    today = datetime.now(UTC).date().isoformat()
    path = tmp_path / "clicks.db"
    given = cli("sync", str(path), "--destination", "duckdb", "--since", today)
    assert (given.code, cli("sync", str(path), "--since", today).code) == (0, 0)
    sent = len(box.requests)
    wrong = cli("sync", str(path), "--destination", "sqlite", "--since", today)
    assert (wrong.code, len(box.requests)) == (2, sent)
    assert "a DuckDB database" in wrong.error
    assert "a SQLite database" in wrong.error


def test_without_dlt_the_extra_is_named(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("dlt")

    monkeypatch.setattr("slashtag.cli.commands.sync.import_module", missing)
    ran = cli("sync", str(tmp_path / "clicks.duckdb"), *SINCE)
    assert ran.code == 1
    assert ran.error == 'error: sync needs dlt: pip install "slashtag[dlt]"'
