"""Every benchmark runs and tells its rows; how long things take is not asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks.pacing import __main__ as pacing

from .support.processes import python

ROOT = Path(__file__).parents[1]
MEMBERS = {"what", "figure", "unit", "goal", "note", "met"}


# Not those that start many processes: `make bench` runs them.
@pytest.mark.parametrize(
    "script", ["benchmarks/request.py", "benchmarks/each.py", "-m benchmarks --only listing"]
)
def test_a_script_tells_its_rows(script: str) -> None:
    options = ("--size", "0.01", "--rounds", "1", "--json")
    told = python(*script.split(), *options, check=True, cwd=ROOT).stdout
    rows = json.loads(told)
    assert rows
    for row in rows:
        assert set(row) == MEMBERS
        assert row["figure"] is not None or row["note"]
        assert (row["met"] is None) == (row["goal"] is None or row["figure"] is None)
    assert len({row["what"] for row in rows}) == len(rows)


def test_pacing_measures_peers_beside_the_throttle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints(option: str) -> str:
        # By default the seeds are those of the commit: each would be another test.
        small = ["--only", "few calls: 1 ahead", "--seeds", "1", "--first-seed", "1", "--size", "0.05"]
        monkeypatch.setattr(sys, "argv", ["pacing", option, *small])
        pacing.main()
        return capsys.readouterr().out

    monkeypatch.setattr(pacing, "cost", lambda rate: 0.0)
    rows = json.loads(prints("--json"))["rows"]
    assert len(rows) == 4
    for row in rows:
        assert {"botocore adaptive", "plain backoff"} == set(row["peers"])
        assert all(0 < client["utilisation"] <= 1.01 for client in (row["found"], *row["peers"].values()))
    table = prints("--each")
    assert all(row["server"] in table for row in rows)
