"""vcrpy and OpenTelemetry see each request once, and no credential."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import slashtag

from .support.sending import PAGE, connect, get
from .support.wire import Wire, ok

SCRIPT = Path(__file__).parent / "support" / "observers.py"


@pytest.mark.parametrize(
    ("work", "seen"),
    [
        ("record_with_vcrpy", "40 requests recorded, 40 replayed"),
        ("trace_with_opentelemetry", "40 spans of 40 requests"),
    ],
)
def test_each_request_is_seen_once_and_no_credential(tmp_path: Path, work: str, seen: str) -> None:
    ran = subprocess.run(
        [sys.executable, SCRIPT, work], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(seen)


async def test_the_recipe_exports_all_metrics_as_gauges() -> None:
    page = (Path(__file__).parent.parent / "docs" / "monitoring.md").read_text("utf-8")
    (recipe,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "get_meter" in each)
    assert len(recipe.partition("\n\n\nobserve(")[0].splitlines()) <= 16
    names: dict[str, Any] = {"AsyncSession": slashtag.AsyncSession}
    exec(recipe.partition("\n\n\nobserve(")[0], names)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    async with Wire(ok(PAGE)) as wire, connect(wire) as session:
        names["observe"](session, provider.get_meter("slashtag"))
        await get(session)
        data: Any = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        found = {metric.name: metric.data.data_points[0].value for metric in metrics}
        told = {f"slashtag.{name}": value for name, value in session.metrics.to_dict().items()}
    provider.shutdown()
    assert found == {name: value for name, value in told.items() if value is not None}
    assert found["slashtag.requests"] == found["slashtag.attempts"] == 1
