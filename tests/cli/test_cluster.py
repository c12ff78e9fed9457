"""`slashtag export clicks --scheduler`: a cluster writes the dataset, and what goes wrong is one line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from slashtag.sandbox import Sandbox

from .conftest import APIKEY, APISECRET, Cli
from .test_entry import started

if not os.environ.get("CI"):
    pytest.importorskip("distributed")

import distributed

from tests.support.clusters import local_cluster, rows_of, true_rows
from tests.support.sandboxes import forget, settle

SPAN = ("2023-01-01", "2023-12-31")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Run a cluster whose workers have credentials, and no address of a service, in their environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SLASHTAG_BASE_URL", raising=False)
        patch.setenv("SLASHTAG_APIKEY", APIKEY)
        patch.setenv("SLASHTAG_APISECRET", APISECRET)
        with local_cluster(workers=2, threads=1) as cluster:
            yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def _quiet_box(box: Sandbox) -> Iterator[None]:
    yield
    box.latency = 0.0


def test_a_cluster_writes_the_dataset_and_skips_it_when_run_again(
    cli: Cli, box: Sandbox, scheduler: str, tmp_path: Path
) -> None:
    folder = tmp_path / "clicks"
    command = ("export", "clicks", *SPAN, "--all", "--scheduler", scheduler, "-o", str(folder))
    ran = cli(*command)
    rows = true_rows(box)
    assert (ran.code, ran.out) == (0, "")
    assert f"{len(rows):,} rows to {folder}; parts: 2 written, 0 skipped" in ran.err
    links = Counter(url.slashtag for url in box.truth.urls())
    shared = sum(n > 1 for n in links.values())
    assert f"\n{shared} slashtags belong to several links" in ran.err
    assert ran.err.count("\n") == 2
    assert sorted(rows_of(folder)) == sorted(rows)
    asked = sum("/stats" in arrival.path or "url_keys" in arrival.query for arrival in box.requests)
    assert f"requests: {asked:,} sent" in ran.err

    forget(box)
    assert "0 rows" in (again := cli(*command)).err
    assert "parts: 0 written, 2 skipped" in again.err
    assert not any("url_keys" in arrival.query for arrival in box.requests)


def test_links_that_are_named_need_no_credentials_here(
    cli: Cli, box: Sandbox, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLASHTAG_APIKEY")
    monkeypatch.delenv("SLASHTAG_APISECRET")
    key = next(iter(box.truth.urls())).slashtag
    ran = cli(
        "export", "clicks", *SPAN, "--keys", key, "--scheduler", scheduler, "-o", str(tmp_path), "--quiet"
    )
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert rows_of(tmp_path) == [row for row in true_rows(box) if row[0] == key]


def test_an_error_of_the_workers_is_one_line(
    cli: Cli, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLASHTAG_BASE_URL")
    ran = cli("export", "clicks", *SPAN, "--keys", "a", "--scheduler", scheduler, "-o", str(tmp_path))
    assert ran.code == 1
    assert "SLASHTAG_BASE_URL" in ran.error


@pytest.mark.parametrize(
    "options",
    [
        ("-o", "clicks", "--merged"),
        ("-o", "clicks", "--by", "tag"),
        ("-o", "clicks", "--dimensions"),
        ("-o", "clicks", "--fresh"),
        ("-o", "clicks", "--dry-run"),
        ("-o", "clicks", "--max-failures", "5"),
        ("-o", "clicks", "--rate", "50"),
        ("-o", "clicks.csv", "--excel"),
        ("-o", "clicks.csv"),
        ("-o", "clicks.jsonl.gz"),
        ("-o", "-"),
        ("--format", "csv"),
        (),
    ],
    ids=" ".join,
)
def test_what_does_not_go_with_a_cluster_is_wrong_usage(
    cli: Cli, box: Sandbox, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    ran = cli("export", "clicks", *SPAN, "--all", "--scheduler", "tcp://127.0.0.1:1", *options)
    assert (ran.code, ran.out) == (2, "")
    assert "--scheduler" in ran.err
    assert not box.requests
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://h"])
def test_an_address_that_cannot_be_is_wrong_usage(cli: Cli, address: str, tmp_path: Path) -> None:
    ran = cli("export", "clicks", *SPAN, "--all", "--scheduler", address, "-o", str(tmp_path))
    assert ran.code == 2


def test_without_distributed_the_extra_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(name: str, package: str | None = None) -> Any:
        if name == "distributed":
            raise ModuleNotFoundError(name)
        return import_module(name, package)

    monkeypatch.setattr("slashtag.cli.cluster.import_module", without)
    ran = cli("export", "clicks", *SPAN, "--all", "--scheduler", "tcp://127.0.0.1:1", "-o", str(tmp_path))
    assert ran.code == 1
    assert ran.error == 'error: --scheduler needs distributed: pip install "slashtag[dask]"'


@pytest.mark.parametrize("listens", ["nothing", "another service"])
def test_a_scheduler_that_does_not_answer_is_one_line(
    cli: Cli, box: Sandbox, listens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag.cli.cluster.PATIENCE", 0.5)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = box.port if listens == "another service" else bound.getsockname()[1]
        address = f"tcp://127.0.0.1:{port}"
        ran = cli("export", "clicks", *SPAN, "--all", "--scheduler", address, "-o", str(tmp_path))
    assert ran.code == 1
    assert ran.error.startswith(f"error: no Dask scheduler answers at {address}: start one")


def test_a_cluster_without_workers_is_one_line(
    cli: Cli, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag.cli.cluster.PATIENCE_FOR_WORKERS", 0.5)
    with local_cluster(0) as cluster:
        address = cluster.scheduler_address
        ran = cli("export", "clicks", *SPAN, "--all", "--scheduler", address, "-o", str(tmp_path))
    assert ran.code == 1
    assert f"has no workers: start some with `dask worker {address}`" in ran.error
    assert not box.requests


@pytest.mark.usefixtures("environment")
def test_ctrl_c_cancels_the_cluster_and_the_same_command_goes_on(
    cli: Cli, box: Sandbox, scheduler: str, tmp_path: Path
) -> None:
    folder = tmp_path / "clicks"
    command = ("export", "clicks", *SPAN, "--all", "--scheduler", scheduler, "-o", str(folder))
    box.latency = 0.1
    with started(*command, "--concurrency", "2") as process:
        while not any("url_keys" in arrival.query for arrival in box.requests):
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
        box.latency = 1.0  # so that nothing ends before it is cancelled
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (130, "")
    assert err == f"stopped; run the same command again to go on: {folder} holds the finished parts\n"
    settle(box)
    clicked = {key for key, _day, clicks in true_rows(box) if clicks}
    assert sum(arrival.query.get("url_keys") in clicked for arrival in box.requests) < len(clicked)
    sent = len(box.requests)
    with distributed.Client(scheduler) as client:
        plugins = client.run(lambda dask_worker: [*dask_worker.plugins])
    assert not any(name.startswith("slashtag-") for names in plugins.values() for name in names)
    box.latency = 0.0
    assert len(box.requests) == sent
    assert cli(*command).code == 0
    assert sorted(rows_of(folder)) == sorted(true_rows(box))
