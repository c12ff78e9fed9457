"""The queries of examples/warehouse.sql, and the one for dbt of docs/warehouse.md."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from slashtag.dlt import Warehouse
from slashtag.sandbox import Sandbox
from tests.support.warehouses import DAY, Clock, load_into, truth

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", ["duckdb", "postgres"], indirect=True)
async def test_the_queries_of_the_example_answer(box: Sandbox, clock: Clock, target: Warehouse) -> None:
    await load_into(target, box, by_tag=True)
    text = (ROOT / "examples" / "warehouse.sql").read_text("utf-8")
    queries = re.sub(r"\bslashtag\.", f"{target.dataset}.", text).split(";")[:-1]
    with target:
        client = target._store._client  # type: ignore[union-attr]
        months, days, top, tags, lost, unused = (
            [tuple(row) for row in client.execute_sql(query) or ()] for query in queries
        )
    daily = truth(box, "clicks_daily", clock.today)
    totals, by_day = Counter[str](), Counter[date]()
    for (name, day), clicks in daily.items():
        totals[name] += clicks
        by_day[day] += clicks
    assert sum(clicks for _, clicks in months) == totals.total()
    calendar = [clock.today - n * DAY for n in reversed(range(30))]
    assert days == [(day, by_day[day]) for day in calendar]
    by_clicks = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    assert [(name, clicks) for name, _, clicks in top] == by_clicks[:10]
    of_tags = Counter[str]()
    for (name, day), clicks in truth(box, "clicks_by_tag", clock.today).items():
        of_tags[name] += clicks * (clock.today - 30 * DAY <= day < clock.today)
    assert dict(tags) == of_tags
    assert lost == sorted(lost, key=lambda row: row[3])
    late = {name for name, day in daily if day > clock.today - 10 * DAY}
    assert {name for name, _ in unused} == totals.keys() - late


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
        file.execute("CREATE TABLE slashtag.loads (loaded_at TIMESTAMPTZ, complete BOOLEAN)")
        for hours, complete in loads:
            file.execute("INSERT INTO slashtag.loads VALUES (?, ?)", [now - timedelta(hours=hours), complete])
        assert (file.execute(block).fetchall() == []) is is_fine
