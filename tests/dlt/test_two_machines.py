"""Machines that load into one destination, each with a working folder of its own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import dlt
import pytest

from slashtag import ExportError
from slashtag.dlt import _pipeline
from slashtag.sandbox import Sandbox
from tests.support.warehouses import DAY, Clock, Target, truth

pytestmark = pytest.mark.unmeasured


def on_another_machine(target: Target, tmp_path: Path) -> Target:
    return replace(target, arguments={**target.arguments, "pipelines_dir": tmp_path / "other"})


def click(box: Sandbox, clock: Clock) -> None:
    for url in box.truth.urls()[:20]:
        box.add_click(url.slashtag, datetime.combine(clock.today, time(9), UTC))


@pytest.mark.parametrize("target", ["duckdb", "filesystem"], indirect=True)
def test_a_load_refuses_a_destination_that_another_has_changed_meanwhile(
    box: Sandbox, clock: Clock, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = on_another_machine(target, tmp_path)
    target.load_first(box)
    click(box, clock)
    locked = _pipeline._destination_locked

    def overtaken(pipeline: dlt.Pipeline) -> Any:
        # All is requested. The other machine sees more clicks, and is the first to load.
        patched.undo()
        click(box, clock)
        other.load(box)
        pipeline.activate()
        return locked(pipeline)

    with monkeypatch.context() as patched:
        patched.setattr(_pipeline, "_destination_locked", overtaken)
        with pytest.raises(ExportError, match="run this one again"):
            target.load(box)
    assert target.daily() == truth(box, clock.today)
    target.load(box)
    assert target.daily() == truth(box, clock.today)


def test_a_destination_restored_from_a_backup_is_filled(
    box: Sandbox, clock: Clock, duck: Target, tmp_path: Path
) -> None:
    duck.load_first(box)
    shutil.copy(tmp_path / "clicks.duckdb", tmp_path / "backup")
    for _ in range(2):
        clock.today += 5 * DAY
        click(box, clock)
        duck.load(box)
    shutil.copy(tmp_path / "backup", tmp_path / "clicks.duckdb")
    duck.load(box)
    assert duck.daily() == truth(box, clock.today)
