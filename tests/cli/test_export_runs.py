"""Runs of `slashtag export` that are killed, interrupted or run out of disk cost nothing but the rest."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from slashtag.sandbox import Sandbox
from tests.support.journals import asked, committed
from tests.support.sandboxes import forget

from .conftest import APIKEY, APISECRET, names

SPAN = ("2022-01-01", "2024-12-31")
KILLS = 5
LATENCY = 0.03

#: Runs main() in a child for each line it reads, so that only the first has to import anything.
STARTER = """
import json, os, resource, sys
from slashtag.cli import app, main
from slashtag import *

for line in sys.stdin:
    arguments, err, limit = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.dup2(2, 1)
        sys.argv = ["slashtag", *arguments]
        if limit:
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        code = main()
        sys.stderr.flush()
        os._exit(code)
    print("began", child, flush=True)
    # It stays a process, if a dead one, until whoever started it has done with it.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    print("ended", flush=True)
    sys.stdin.readline()
    print("code", os.waitpid(child, 0)[1], flush=True)
"""


class Running:
    """Follow one run of the command line."""

    def __init__(self, starter: subprocess.Popen[str], err: Path) -> None:
        self._starter = starter
        self._err = err
        self._waited = False
        self._pid = self._read("began")

    def _read(self, what: str) -> int:
        assert self._starter.stdout is not None
        word, *number = self._starter.stdout.readline().split()
        assert word == what
        return int(number[0]) if number else 0

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self._pid, number)

    def end(self) -> None:
        """Kill it if nobody waited for it."""
        if not self._waited:
            self.send(signal.SIGKILL)
            self.wait()

    def wait(self) -> tuple[int, str]:
        """Return how it ended and what it said."""
        self._waited = True
        self._read("ended")
        assert self._starter.stdin is not None
        self._starter.stdin.write("\n")
        self._starter.stdin.flush()
        code = os.waitstatus_to_exitcode(self._read("code"))
        said = self._err.read_text("utf-8")
        assert APIKEY not in said
        assert APISECRET not in said
        return code, said


Start = Callable[..., Running]


@pytest.fixture(scope="module")
def slow() -> Iterator[Sandbox]:
    with Sandbox(
        urls=110, clicks=1_200, tags=3, latency=LATENCY, apikey=APIKEY, apisecret=APISECRET, max_pagesize=10
    ) as box:
        yield box


@pytest.fixture(scope="module")
def starter(slow: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "SLASHTAG_BASE_URL": slow.base_url,
        "SLASHTAG_APIKEY": APIKEY,
        "SLASHTAG_APISECRET": APISECRET,
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
        "COLUMNS": "80",
    }
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process


@pytest.fixture
def start(
    starter: subprocess.Popen[str], slow: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Start]:
    folder = tmp_path_factory.mktemp("said")
    forget(slow)
    slow.latency = LATENCY
    runs: list[Running] = []

    def run(*arguments: str, limit: int = 0) -> Running:
        assert starter.stdin is not None
        err = folder / f"{random.getrandbits(64):x}"
        starter.stdin.write(json.dumps([arguments, str(err), limit]) + "\n")
        starter.stdin.flush()
        runs.append(Running(starter, err))
        return runs[-1]

    yield run
    for one in runs:
        one.end()


def arrived(box: Sandbox, count: int) -> None:
    """Wait until so many requests have arrived."""
    for _ in range(2_000):
        if len(box.requests) >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"only {len(box.requests)} requests")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("what", ["urls", "clicks"])
def test_an_export_killed_again_and_again_ends_with_the_truth(
    start: Start, slow: Sandbox, tmp_path: Path, what: str
) -> None:
    rng = random.Random()
    file = tmp_path / f"{what}.jsonl"
    journal = tmp_path / f".{file.name}.journal"
    command = ["export", what, "-o", str(file), "--concurrency", "2" if what == "clicks" else "1"]
    if what == "clicks":
        command += [*SPAN, "--all"]
    held: set[bytes] = set()
    pages: set[bytes] = set()
    # Which links there are is asked anew; of pages alone, whether the last one is still the same.
    again = int(what == "urls")

    def listed() -> set[bytes]:
        return asked(arrival for arrival in list(slow.requests) if arrival.path.endswith("/urls"))

    kills = KILLS if what == "clicks" else 3
    if what == "urls":
        slow.latency = 0.15  # a handful of pages, of which each run finds more in the journal
    for number in range(kills):
        forget(slow)
        running = start(*command)
        arrived(slow, 1)
        if number == 0 and what == "clicks":
            # The others are killed at any moment, on a busy machine each of them before its first commit.
            while not committed(journal) - listed():
                time.sleep(0.005)
        else:
            time.sleep(rng.uniform(0.0, 0.5))
        running.send(signal.SIGKILL)
        code, said = running.wait()
        assert (code, said) == (-signal.SIGKILL, "")
        assert len(held & asked(slow.requests)) <= again, "what was committed is not asked for again"
        assert not file.exists()
        pages |= listed()
        held |= committed(journal) - (pages if what == "clicks" else set())
    forget(slow)
    slow.latency = 0.0
    code, said = start(*command).wait()
    assert code == 0
    assert len(held & asked(slow.requests)) <= again
    told = re.search(r"(\d+) requests?, ", said)
    assert told is not None
    # Pages beyond the end, of which eight are asked for ahead, may be given up before they arrive.
    assert 0 <= int(told[1]) - len(slow.requests) <= 8
    written = rows(file)
    if what == "urls":
        assert [row["id"] for row in written] == [url.id for url in slow.truth.urls()]
    else:
        truth = slow.truth.per_key(*SPAN)
        first, last = map(date.fromisoformat, SPAN)
        days = [first + timedelta(n) for n in range((last - first).days + 1)]
        assert sorted((row["slashtag"], row["date"], row["clicks"]) for row in written) == sorted(
            (key, str(day), true.clicks.get(day, 0)) for key, true in truth.items() for day in days
        )
        assert held
    assert names(tmp_path) == [file.name]


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_say_how_to_go_on(
    start: Start, slow: Sandbox, tmp_path: Path, number: int, exit_code: int
) -> None:
    command = ["export", "clicks", *SPAN, "--all", "-o", str(tmp_path / "a.csv"), "--concurrency", "4"]
    running = start(*command)
    arrived(slow, 40)
    running.send(number)
    code, said = running.wait()
    assert code == exit_code
    (line,) = said.splitlines()
    assert line.startswith("stopped; run the same command again to go on: ")
    assert names(tmp_path) == [".a.csv.journal"]
    slow.latency = 0.0
    code, said = start(*command).wait()
    assert code == 0
    assert " replayed, " in said
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("limit", [150_000, 400_000])
def test_a_full_disk_is_one_line_and_the_journal_stays(
    start: Start, slow: Sandbox, tmp_path: Path, limit: int
) -> None:
    """The journal is what fills the smaller disk, the file the larger one."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    # Several commits pass before the journal is too large.
    slow.latency = 0.02 if limit < 400_000 else 0.0
    (tmp_path / "a.csv").write_text("before")
    command = ["export", "clicks", *SPAN, "--all", "-o", str(tmp_path / "a.csv"), "--concurrency", "4"]
    code, said = start(*command, limit=limit).wait()
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith("error: ")
    assert "run the same command again" in line or "run the job again" in line
    assert (tmp_path / "a.csv").read_text() == "before"
    assert ".a.csv.journal" in names(tmp_path)
    assert not [name for name in names(tmp_path) if name.endswith(".part")]
    slow.latency = 0.0
    code, said = start(*command).wait()
    assert code == 0
    assert " replayed, " in said
    assert names(tmp_path) == ["a.csv"]
