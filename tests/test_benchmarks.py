"""Every benchmark runs and tells its rows; how long things take is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.pacing import __main__ as pacing

from slashtag._core.throttle import throttle

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MEMBERS = {"what", "figure", "unit", "goal", "note", "met"}


def run(*arguments: str) -> str:
    """Run a benchmark with little work; give what it printed."""
    told = subprocess.run(
        [sys.executable, *arguments, "--size", "0.01"],
        capture_output=True,
        text=True,
        check=True,
        cwd=BENCHMARKS.parent,
    )
    return told.stdout


# Not those that start many processes: `make bench` runs them.
SCRIPTS = ["request", "listing", "each"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_tells_its_rows(script: str) -> None:
    check(json.loads(run(f"benchmarks/{script}.py", "--rounds", "1", "--json")))


def check(rows: list[dict[str, Any]]) -> None:
    assert rows
    for row in rows:
        assert set(row) == MEMBERS
        assert row["figure"] is not None or row["note"]
        assert (row["met"] is None) == (row["goal"] is None or row["figure"] is None)
    assert len({row["what"] for row in rows}) == len(rows)


def test_all_is_one_table(tmp_path: Path) -> None:
    printed = run("-m", "benchmarks", "--only", "listing", "--rounds", "1", "--results", str(tmp_path))
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    check(rows)
    page = (tmp_path / "results.md").read_text().splitlines()
    assert len(page) == 2 + sum(row["goal"] is not None for row in rows) > 2
    header, *lines = printed.splitlines()
    assert header.split() == ["what", "figure", "goal", "met"]
    assert lines


@pytest.fixture
def pacing_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Return what the benchmark of pacing prints of few servers and small jobs."""
    monkeypatch.setattr(pacing, "cost", lambda rate: 0.0)

    def prints(option: str) -> str:
        # By default the seeds are those of the commit: each would be another test.
        small = ["--only", "few calls: 1 ahead", "--seeds", "1", "--first-seed", "1", "--size", "0.05"]
        monkeypatch.setattr(sys, "argv", ["pacing", option, *small])
        pacing.main()
        return capsys.readouterr().out

    return prints


def test_pacing_measures_peers_beside_the_throttle(pacing_prints: Callable[[str], str]) -> None:
    rows = json.loads(pacing_prints("--json"))["rows"]
    assert len(rows) == 4
    for row in rows:
        assert row["row"] == "few calls"
        assert {"botocore adaptive", "plain backoff"} == set(row["peers"])
        assert all(0 < client["utilisation"] <= 1.01 for client in (row["found"], *row["peers"].values()))
    lines = pacing_prints("--each").splitlines()
    assert sum(line.startswith("few calls") for line in lines) == 1  # the class
    assert all(any(row["server"] in line for line in lines) for row in rows)


def test_pacing_moves_each_constant_of_the_throttle_and_restores_it(
    pacing_prints: Callable[[str], str],
) -> None:
    def constants() -> dict[str, object]:
        return {name: value for name, value in vars(throttle).items() if name.isupper()}

    before = constants()
    moved = {line.split()[0] for line in pacing_prints("--constants").splitlines()[1:]}
    assert constants() == before
    assert moved == {name for name, value in before.items() if not isinstance(value, str)}
