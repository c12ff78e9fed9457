"""vcrpy and OpenTelemetry see each request once, and no credential."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import slashtag

from .support.processes import python
from .support.sending import PAGE, connect, get, post
from .support.wire import Wire, html, ok

SCRIPT = Path(__file__).parent / "support" / "observers.py"


@pytest.mark.parametrize("work", ["record_with_vcrpy", "trace_with_opentelemetry"])
def test_each_request_is_seen_once_and_no_credential(tmp_path: Path, work: str) -> None:
    ran = python(SCRIPT, work, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr


async def test_the_recipe_exports_the_metrics_of_each_session_as_gauges() -> None:
    page = (Path(__file__).parent.parent / "docs" / "python.md").read_text("utf-8")
    (recipe,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "get_meter" in each)
    names: dict[str, Any] = {"AsyncSession": slashtag.AsyncSession}
    exec(recipe.partition("\n\n\nobserve(")[0], names)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    async with (
        Wire(lambda request: ok(PAGE) if request.method == "GET" else html(500)) as wire,
        connect(wire, name="one") as one,
        connect(wire, name="other") as other,
    ):
        names["observe"]([one, other], provider.get_meter("slashtag"))
        await get(one)
        with pytest.raises(slashtag.SlashtagError):
            await post(other)
        data: Any = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        found = {
            (metric.name, point.attributes["session"], point.attributes["kind"]): point.value
            for metric in metrics
            for point in metric.data.data_points
        }
    provider.shutdown()
    assert found["slashtag.requests", "one", ""] == found["slashtag.requests", "other", ""] == 1
    assert found["slashtag.statuses", "one", "200"] == found["slashtag.statuses", "other", "500"] == 1
    assert found["slashtag.failures", "other", "ServerError"] == 1


async def test_aioresponses_answers_a_session(slashtag_aioresponses: Any) -> None:
    slashtag_aioresponses.get(
        re.compile(r".*/urls\?.*"), payload={"status": 200, "message": "ok", "data": PAGE}
    )
    async with connect("https://links.example") as session:
        assert (await get(session)).items == []
