"""The Dagster recipe of docs/warehouse.md, and the queries of examples/warehouse.sql."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from textwrap import dedent

import duckdb
import pytest

from slashtag.sandbox import Sandbox
from tests.support.warehouses import DAY, Clock, Target, truth

ROOT = Path(__file__).parents[2]
RUN_SCHEDULE = """
from datetime import UTC, datetime
import json
import dagster
from clicks import definitions, schedule

context = dagster.build_schedule_context(
    scheduled_execution_time=datetime.now(UTC),
    repository_def=definitions.get_repository_def(),
)
(request,) = definitions.resolve_schedule_def(schedule.name).evaluate_tick(context).run_requests
job = definitions.resolve_job_def("sync")
ran = job.execute_in_process(partition_key=request.partition_key)
(found,) = ran.asset_materializations_for_node("clicks")
print(json.dumps({name: value.value for name, value in found.metadata.items()}))
"""


def test_the_dagster_recipe_loads_a_file(box: Sandbox, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "warehouse.md").read_text("utf-8")
    (recipe,) = re.findall(r"^    import dagster\n(?:(?:    .*)?\n)+", page, re.M)
    now = datetime.now(UTC)
    recipe = dedent(recipe).replace("2022-01-01", (now - 9 * DAY).date().isoformat())
    (tmp_path / "clicks.py").write_text(recipe, "utf-8")
    box.add_click(box.truth.urls()[0].slashtag, now - 2 * DAY, times=7)
    names = ("base_url", "apikey", "apisecret")
    environment = {f"SLASHTAG_{name.upper()}": getattr(box, name) for name in names}
    command = [sys.executable, "-c", RUN_SCHEDULE]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **environment, "DAGSTER_DISABLE_TELEMETRY": "yes"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    first = json.loads(ran.stdout)
    links = len({url.slashtag for url in box.truth.urls()})
    assert (first["links"], first["clicks_daily"]) == (130, 10 * links)
    with duckdb.connect(str(tmp_path / "clicks.duckdb")) as file:
        found = file.execute("SELECT sum(clicks) FROM slashtag.clicks_daily").fetchall()
    assert found == [(7,)]


@pytest.mark.unmeasured
@pytest.mark.parametrize("target", ["duckdb", "postgres"], indirect=True)
def test_the_queries_of_the_example_answer(box: Sandbox, clock: Clock, target: Target) -> None:
    target.load(box)
    queries = (ROOT / "examples" / "warehouse.sql").read_text("utf-8")
    dataset = target.arguments.get("dataset", "slashtag")
    queries = re.sub(r"\bslashtag\.", f"{dataset}.", queries)
    with target.pipeline().sql_client() as client:
        months, top, tags, lost, unused = (
            [tuple(row) for row in client.execute_sql(query) or ()] for query in queries.split(";")[:-1]
        )
    daily = truth(box, clock.today)
    totals: Counter[str] = Counter()
    tagged: dict[str, set[str]] = {}
    names = {tag.id: tag.name for tag in box.truth.tags()}
    for url in box.truth.urls():
        if url.tag_id is not None:
            tagged.setdefault(names[url.tag_id], set()).add(url.slashtag)
    for (slashtag, _), clicks in daily.items():
        totals[slashtag] += clicks
    assert {type(month) for month, _ in months} == {date}
    assert {type(clicks) for _, _, clicks in top} == {int}
    assert sum(clicks for _, clicks in months) == totals.total()
    by_clicks = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    assert [(slashtag, clicks) for slashtag, _, clicks in top] == by_clicks[:10]
    assert dict(tags) == {
        name: sum(daily[slashtag, day] for slashtag, day in daily if slashtag in links and day < clock.today)
        for name, links in tagged.items()
    }
    assert lost == sorted(lost, key=lambda row: row[3])
    assert lost[0][3] < 0
    clicked = {slashtag for slashtag, day in daily if daily[slashtag, day]}
    late = {slashtag for slashtag, day in daily if daily[slashtag, day] and day > clock.today - 10 * DAY}
    assert {slashtag for slashtag, _ in unused} == clicked - late
