"""Runs of `slashtag export` that are killed, interrupted or run out of disk cost nothing but the rest."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox
from tests.support.processes import LONGEST, python

from .conftest import Cli, Serve, names
from .test_entry import SCRIPT, arrived, started

SPAN = ("2024-01-01", "2024-12-31")
#: Starts a program that can write no file larger than this.
LIMITED = "import os, resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))"
LIMITED += "; os.execv(sys.argv[2], sys.argv[2:])"


@pytest.fixture
def slow(serve: Serve) -> Iterator[Sandbox]:
    with serve(urls=110, clicks=1_200, tags=3, latency=0.03, max_pagesize=10) as box:
        yield box


def test_ctrl_c_says_how_to_go_on(cli: Cli, slow: Sandbox, tmp_path: Path) -> None:
    command = ["export", "clicks", "..".join(SPAN), "-o", str(tmp_path / "a.csv")]
    with started(*command) as running:
        arrived(slow, 90)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=LONGEST)
    assert running.returncode == 130
    (line,) = err.splitlines()
    assert line.startswith("stopped; run the same command again to go on: ")
    assert names(tmp_path) == [".a.csv.journal", ".a.csv.links"]
    slow.latency = 0.0
    ran = cli(*command)
    assert (ran.code, " replayed, " in ran.err) == (0, True)
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("limit", [150_000, 400_000])
def test_a_full_disk_is_one_line_and_the_journal_stays(
    cli: Cli, slow: Sandbox, tmp_path: Path, limit: int
) -> None:
    """The journal is what fills the smaller disk, the file the larger one."""
    # Several commits pass before the journal is too large.
    slow.latency = 0.02 if limit < 400_000 else 0.0
    (tmp_path / "a.csv").write_text("before")
    command = ["export", "clicks", "..".join(SPAN), "-o", str(tmp_path / "a.csv")]
    # Compiled files would be cut too, and break every later run.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = python("-c", LIMITED, limit, SCRIPT, *command, env=environment)
    assert ran.returncode == 1
    *warnings, line = ran.stderr.splitlines()
    assert len(warnings) <= 1
    assert line.startswith("error: ")
    assert "run the same command again" in line
    assert (tmp_path / "a.csv").read_text() == "before"
    assert ".a.csv.journal" in names(tmp_path)
    assert not [name for name in names(tmp_path) if name.endswith(".part")]
    slow.latency = 0.0
    ran = cli(*command)
    assert (ran.code, " replayed, " in ran.err) == (0, True)
    assert names(tmp_path) == ["a.csv"]
