"""Each kind of warehouse holds what a load writes, whenever it is interrupted, and keeps others away."""

from __future__ import annotations

from datetime import UTC, date, datetime
from datetime import time as clock_time
from typing import Any

import pytest

from slashtag.dlt import Warehouse
from slashtag.dlt._tables import Replacement
from slashtag.sandbox import Sandbox
from tests.support.warehouses import (
    DAY,
    Clock,
    MemoryWarehouse,
    audit_of,
    held,
    load_into,
    rename,
    swap,
    truth,
)

EVERY = pytest.mark.parametrize("target", ["duckdb", "sqlite", "filesystem", "postgres"], indirect=True)
CLICKS = ("clicks_daily", "clicks_by_tag", "clicks_by_dimension")
OPTIONS: dict[str, Any] = {"by_tag": True, "dimensions": ("country", "device")}


async def check(target: Any, box: Sandbox, today: date) -> None:
    """Fail unless each table has the truth, and no link that is gone has rows."""
    for table in CLICKS:
        assert await held(target, table) == truth(box, table, today)


def change(box: Sandbox, clock: Clock) -> None:
    """Have a day with late clicks, links that are renamed and swapped, and a new one."""
    clock.today += DAY
    one, two, three, four, *_ = sorted(url.slashtag for url in box.truth.urls() if url.domain_id == 0)
    rename(box, one, "renamed")
    swap(box, two, three)
    new = box.add_url("new")
    for link, ago in ((new, 3), (four, 17), (four, 0)):
        box.add_click(link, datetime.combine(clock.today - ago * DAY, clock_time(5), UTC), times=2)


@EVERY
async def test_what_is_loaded_is_the_truth_night_by_night(
    target: Warehouse, box: Sandbox, clock: Clock
) -> None:
    first = await load_into(target, box, **OPTIONS)
    await check(target, box, clock.today)
    change(box, clock)
    second = await load_into(target, box, **OPTIONS)
    await check(target, box, clock.today)
    assert (first.complete, second.complete, second.mended) == (True, True, 1)
    assert (await audit_of(target, box)).is_proved
    again = await load_into(target, box, **OPTIONS)
    assert not sum(again.rows.values())


@EVERY
async def test_rows_are_replaced_as_in_memory(target: Warehouse) -> None:
    memory = MemoryWarehouse()
    noon = datetime(2024, 3, 1, 12, 30, 15, 250_000)
    feb, mar = (date(2024, 2, 1), date(2024, 2, 29)), (date(2024, 3, 1), date(2024, 3, 31))
    days = [(name, day, 1) for name in ("a", "b'%s", "ü/\u2028") for day in (*feb, *mar)]
    link = (7, "a", None, "https://x.example/?q=%", 5, 301, None, noon, None, True, None)
    steps = [
        [Replacement("clicks_daily", None, None, days), Replacement("links", [7], None, [link])],
        [Replacement("clicks_daily", ["a"], mar, [("a", mar[0], 9)])],
        [Replacement("clicks_daily", ["b'%s", "none"], None, ())],
        [
            Replacement("clicks_daily", ["a", "ü/\u2028"], (feb[0], mar[0]), ()),
            Replacement("links", [8], None, ()),
        ],
        [
            Replacement("clicks_daily", [str(n) for n in range(1_200)], None, ()),
            Replacement("links", None, None, ()),
        ],
    ]
    questions = [(None, None), (mar, None), (None, ["a"]), (feb, ["a", "b'%s"]), (None, [])]
    with target:
        for step in steps:
            await target.replace(*step)
            await memory.replace(*step)
            for table in ("clicks_daily", "links"):
                for span, names in questions:
                    if table == "links" and (span or names):
                        continue
                    expected = await memory.rows(table, span, names)
                    assert sorted(await target.rows(table, span, names)) == sorted(expected)
