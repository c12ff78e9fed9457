"""Every benchmark runs and tells its rows; how long things take is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
SCRIPTS = ["request", "listing", "spans", "each", "costs"]


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
    printed = run("-m", "benchmarks", "--only", "decode", "--rounds", "1", "--results", str(tmp_path))
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    check(rows)
    page = (tmp_path / "results.md").read_text().splitlines()
    assert len(page) == 2 + sum(row["goal"] is not None for row in rows) > 2
    header, *lines = printed.splitlines()
    assert header.split() == ["what", "figure", "goal", "met"]
    assert "orjson" in lines[0]
