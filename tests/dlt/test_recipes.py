"""The Dagster recipe of docs/warehouse.md, and the queries of examples/warehouse.sql."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
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
    # A slashtag of links with two tags, one of a tag and without one, and one of two links of a tag.
    tags = [tag.name for tag in box.truth.tags()]
    places = [("x", tags[0]), ("x", tags[1]), ("y", tags[0]), ("y", None), ("z", tags[2]), ("z", tags[2])]
    for n, (slashtag, tag) in enumerate(places):
        link = box.add_url(
            f"shared-{slashtag}", tag=tag, domain_id=n % 2, destination=f"https://{n}.example/"
        )
        box.add_click(link, datetime.combine(clock.today - 2 * DAY, time(9), UTC), times=n + 200)
    target.load(box, by_tag=True)
    queries = (ROOT / "examples" / "warehouse.sql").read_text("utf-8")
    dataset = target.arguments.get("dataset", "slashtag")
    queries = re.sub(r"\bslashtag\.", f"{dataset}.", queries)
    with target.pipeline().sql_client() as client:
        months, top, tags, lost, unused = (
            [tuple(row) for row in client.execute_sql(query) or ()] for query in queries.split(";")[:-1]
        )
    daily = truth(box, clock.today)
    totals: Counter[str] = Counter()
    tagged: dict[str, set[str | None]] = {}
    names = {None: None} | {tag.id: tag.name for tag in box.truth.tags()}
    for url in box.truth.urls():
        tagged.setdefault(url.slashtag, set()).add(names[url.tag_id])
    for (slashtag, _), clicks in daily.items():
        totals[slashtag] += clicks
    assert {type(month) for month, _ in months} == {date}
    assert {type(clicks) for _, _, clicks in top} == {int}
    assert sum(clicks for _, clicks in months) == totals.total()
    by_clicks = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    assert [(slashtag, clicks) for slashtag, _, clicks in top] == by_clicks[:10]
    by_tag: Counter[str | None] = Counter()
    for (slashtag, day), clicks in daily.items():
        (name, *others) = tagged[slashtag]
        by_tag["(shared with other tags)" if others else name] += clicks * (day < clock.today)
    del by_tag[None]
    assert dict(tags) == by_tag
    assert by_tag["(shared with other tags)"] >= 200 + 201 + 202 + 203
    # No tag has more there than the service says.
    of_tags: Counter[str] = Counter()
    for name, day, clicks, _ in target.rows("clicks_by_tag"):
        of_tags[name] += clicks * (day < clock.today)
    assert all(dict(tags)[name] <= clicks for name, clicks in of_tags.items())
    assert lost == sorted(lost, key=lambda row: row[3])
    assert lost[0][3] < 0
    clicked = {slashtag for slashtag, day in daily if daily[slashtag, day]}
    late = {slashtag for slashtag, day in daily if daily[slashtag, day] and day > clock.today - 10 * DAY}
    assert {slashtag for slashtag, _ in unused} == clicked - late


@pytest.mark.parametrize(
    ("loads", "is_fine"),
    [
        ([], False),
        ([(3, True)], True),
        ([(3, False)], False),
        ([(27, True), (3, False)], False),
        ([(27, False), (3, True)], True),
        ([(27, True)], False),
    ],
)
def test_the_query_for_dbt_finds_nights_without_a_complete_load(
    loads: list[tuple[int, bool]], is_fine: bool
) -> None:
    text = (ROOT / "docs" / "warehouse.md").read_text("utf-8")
    block = text[text.index("    SELECT 'no complete load") :].partition("\n\n")[0]
    now = datetime.now(UTC)
    with duckdb.connect() as file:
        file.execute("CREATE SCHEMA slashtag")
        file.execute("CREATE TABLE slashtag.loads (loaded_at TIMESTAMPTZ, complete BOOLEAN, through DATE)")
        for hours, complete in loads:
            at = now - timedelta(hours=hours)
            file.execute("INSERT INTO slashtag.loads VALUES (?, ?, ?)", [at, complete, at.date()])
        assert (file.execute(block).fetchall() == []) is is_fine
