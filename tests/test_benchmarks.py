"""Every benchmark runs and tells its rows; how long things take is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MEMBERS = {"what", "figure", "unit", "goal", "note", "met"}


@pytest.mark.parametrize("script", ["request", "decode", "listing", "spans", "memory", "startup", "cluster"])
def test_a_script_tells_its_rows(script: str) -> None:
    told = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{script}.py"), "--size", "0.01", "--rounds", "1", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(told.stdout)
    assert rows
    for row in rows:
        assert set(row) == MEMBERS
        assert row["figure"] is not None or row["note"]
        assert (row["met"] is None) == (row["goal"] is None or row["figure"] is None)
    assert len({row["what"] for row in rows}) == len(rows)


def test_all_is_one_table(tmp_path: Path) -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            "--size",
            "0.01",
            "--only",
            "decode",
            "--results",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=BENCHMARKS.parent,
    )
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    page = (tmp_path / "results.md").read_text().splitlines()
    assert len(page) == 2 + sum(row["goal"] is not None for row in rows) > 2
    header, *lines = told.stdout.splitlines()
    assert header.split() == ["what", "figure", "goal", "met"]
    assert "orjson" in lines[0]
