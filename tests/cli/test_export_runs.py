"""Runs of `slashtag export` that are killed, interrupted or run out of disk cost nothing but the rest."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox
from tests.support.journals import asked, committed
from tests.support.sandboxes import forget

from .conftest import Serve, names, objects
from .test_entry import SCRIPT, run, started

SPAN = ("2022-01-01", "2024-12-31")
KILLS = 3
LATENCY = 0.03
#: Starts a program that can write no file larger than this.
LIMITED = "import os, resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))"
LIMITED += "; os.execv(sys.argv[2], sys.argv[2:])"


@pytest.fixture
def slow(serve: Serve) -> Iterator[Sandbox]:
    with serve(urls=110, clicks=1_200, tags=3, latency=LATENCY, max_pagesize=10) as box:
        yield box


def arrived(box: Sandbox, count: int) -> None:
    """Wait until so many requests have arrived."""
    for _ in range(4_000):
        if len(box.requests) >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"only {len(box.requests)} requests")


def listed(box: Sandbox) -> set[bytes]:
    """Requests for links: which there are is asked anew."""
    return asked(arrival for arrival in list(box.requests) if arrival.path.endswith("/urls"))


def test_an_export_killed_again_and_again_ends_with_the_truth(slow: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "clicks.jsonl"
    journal = tmp_path / f".{file.name}.journal"
    command = ["export", "clicks", *SPAN, "--all", "-o", str(file), "--concurrency", "2"]
    held: set[bytes] = set()
    pages: set[bytes] = set()
    for number in range(KILLS):
        forget(slow)
        with started(*command) as running:
            arrived(slow, 1)
            # The others are killed at any moment, on a busy machine each of them before its first commit.
            while number == 0 and not committed(journal) - listed(slow):
                time.sleep(0.005)
            time.sleep(random.uniform(0.0, 0.5))
            running.kill()
            assert running.communicate()[1] == ""
        assert not held & asked(slow.requests), "what was committed is not asked for again"
        assert not file.exists()
        pages |= listed(slow)
        held |= committed(journal) - pages
    forget(slow)
    slow.latency = 0.0
    ran = run(SCRIPT, *command)
    assert ran.returncode == 0, ran.stderr
    assert held
    assert not held & asked(slow.requests)
    told = re.search(r"(\d+) requests?, ", ran.stderr)
    assert told is not None
    # Pages beyond the end, of which eight are asked for ahead, may be given up before they arrive.
    assert 0 <= int(told[1]) - len(slow.requests) <= 8
    first, last = map(date.fromisoformat, SPAN)
    days = [first + timedelta(n) for n in range((last - first).days + 1)]
    assert sorted(
        (row["slashtag"], row["date"], row["clicks"]) for row in objects(file.read_text())
    ) == sorted(
        (key, str(day), true.clicks.get(day, 0))
        for key, true in slow.truth.per_key(*SPAN).items()
        for day in days
    )
    assert names(tmp_path) == [file.name]


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_say_how_to_go_on(
    slow: Sandbox, tmp_path: Path, number: int, exit_code: int
) -> None:
    command = ["export", "clicks", *SPAN, "--all", "-o", str(tmp_path / "a.csv"), "--concurrency", "4"]
    with started(*command) as running:
        arrived(slow, 40)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert running.returncode == exit_code
    (line,) = err.splitlines()
    assert line.startswith("stopped; run the same command again to go on: ")
    assert names(tmp_path) == [".a.csv.journal"]
    slow.latency = 0.0
    ran = run(SCRIPT, *command)
    assert (ran.returncode, " replayed, " in ran.stderr) == (0, True)
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("limit", [150_000, 400_000])
def test_a_full_disk_is_one_line_and_the_journal_stays(slow: Sandbox, tmp_path: Path, limit: int) -> None:
    """The journal is what fills the smaller disk, the file the larger one."""
    # Several commits pass before the journal is too large.
    slow.latency = 0.02 if limit < 400_000 else 0.0
    (tmp_path / "a.csv").write_text("before")
    command = ["export", "clicks", *SPAN, "--all", "-o", str(tmp_path / "a.csv"), "--concurrency", "4"]
    # Compiled files would be cut too, and break every later run.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = run(sys.executable, "-c", LIMITED, str(limit), SCRIPT, *command, env=environment)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    assert "run the same command again" in line or "run the job again" in line
    assert (tmp_path / "a.csv").read_text() == "before"
    assert ".a.csv.journal" in names(tmp_path)
    assert not [name for name in names(tmp_path) if name.endswith(".part")]
    slow.latency = 0.0
    ran = run(SCRIPT, *command)
    assert (ran.returncode, " replayed, " in ran.stderr) == (0, True)
    assert names(tmp_path) == ["a.csv"]
