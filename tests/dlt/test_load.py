"""What loads and audits do about what they meet: each case by the tables that it leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from datetime import time as clock_time
from typing import Any

import msgspec
import pytest

from slashtag import ConfigurationError, ExportError, Failure, InvalidRequestError, RetryPolicy
from slashtag.dlt import ShrunkListingError, load
from slashtag.dlt._tables import TABLES
from slashtag.sandbox import Arrival, Sandbox
from tests.support.sandboxes import altered, forget, refused_links, refused_tag
from tests.support.warehouses import (
    DAY,
    START,
    Clock,
    MemoryWarehouse,
    audit_of,
    held,
    load_into,
    retag,
    session,
    swap,
    truth,
)

from .test_law import Stop, StoppedWarehouse

CLICKS = ("clicks_daily", "clicks_by_tag", "clicks_by_dimension")
ALL: dict[str, Any] = {"by_tag": True, "dimensions": ("country", "device")}


async def wrong(warehouse: Any, box: Sandbox, clock: Clock, *tables: str) -> list[Any]:
    """Return the rows that are not those of the truth."""
    found = list[Any]()
    for table in tables or CLICKS:
        found += (await held(warehouse, table)).items() ^ truth(box, table, clock.today).items()
    return found


def click(box: Sandbox, link: Any, day: date, times: int = 1) -> None:
    box.add_click(link, datetime.combine(day, clock_time(9), UTC), times=times)


def some_links(box: Sandbox, count: int) -> list[Any]:
    """Return links whose slashtag no other link has."""
    names = [url.slashtag for url in box.truth.urls()]
    return [url for url in box.truth.urls() if names.count(url.slashtag) == 1][:count]


@contextmanager
def all_time(box: Sandbox, alter: Any) -> Iterator[None]:
    """Have all-time statistics be as `alter` makes them of the months by year."""

    def answer(asked: Any, answered: Any) -> Any:
        if not asked.path.endswith("alltime"):
            return answered
        changed = alter(answered.data)
        if changed is None:
            return msgspec.structs.replace(answered, status=500, message="An error.", data=[])
        return msgspec.structs.replace(answered, data=changed)

    with altered(box, answer):
        yield


def _more(data: Any) -> Any:
    years = {year: {month: n + 1 for month, n in of.items()} for year, of in data["clicks_breakdown"].items()}
    return {**data, "clicks_breakdown": years, "clicks_total": sum(sum(of.values()) for of in years.values())}


def _none(data: Any) -> Any:
    return {**data, "clicks_breakdown": {}, "clicks_total": 0}


@pytest.mark.parametrize("alter", [_more, lambda data: {**data, "clicks_breakdown": {}}])
async def test_the_days_decide_where_all_time_statistics_are_wrong(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse, alter: Any
) -> None:
    clock.today += 30 * DAY
    with all_time(box, alter):
        for _ in range(2):
            assert (await load_into(memory, box, **ALL)).complete
            assert not await wrong(memory, box, clock)
            click(box, box.truth.urls()[3].id, date(2024, 3, 2))


async def test_statistics_that_lag_behind_or_are_missing_are_loaded_once_they_are_there(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    clock.today += 30 * DAY
    with all_time(box, lambda _: None):
        async with session(box, retry=RetryPolicy(max_attempts=1, max_elapsed=1)) as opened:
            loaded = await load(opened, memory, START, **ALL)
    assert (loaded.complete, {*loaded.missing} >= {url.slashtag for url in box.truth.urls()}) == (False, True)
    with all_time(box, _none):
        assert (await load_into(memory, box, **ALL)).complete
    assert (await load_into(memory, box, **ALL)).complete
    assert not await wrong(memory, box, clock)


async def test_fewer_clicks_are_asked_for_once_more_before_a_row_is_lowered(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    (link,) = some_links(box, 1)
    click(box, link.id, START, 5)
    await load_into(memory, box)
    hide = "UPDATE click SET link = -link WHERE abs(link) = ?"
    box.store.write(hide, (link.id,))

    def lagging(asked: Arrival, answer: Callable[[], Any]) -> Any:
        if not asked.no_cache:
            return answer()
        box.store.write(hide, (link.id,))
        try:
            return answer()
        finally:
            box.store.write(hide, (link.id,))

    box.middleware, usual = lagging, box.middleware
    loaded = await load_into(memory, box)
    box.middleware = usual
    assert (loaded.rows, (await held(memory, "clicks_daily"))[link.slashtag, START]) == ({}, 5)
    await load_into(memory, box)
    assert (link.slashtag, START) not in await held(memory, "clicks_daily")
    assert not await wrong(memory, box, clock, "clicks_daily")


async def test_tags_and_labels_may_be_switched_on_later_and_are_kept_up_to_date_from_then_on(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    await load_into(memory, box)
    assert not await held(memory, "clicks_by_tag")
    await load_into(memory, box, **ALL)
    assert not await wrong(memory, box, clock)
    one, other, *_ = (url for url in some_links(box, 50) if url.tag_id is not None)
    click(box, one.id, START)
    retag(box, other.id, next(tag.id for tag in box.truth.tags() if tag.id != other.tag_id))
    assert (await load_into(memory, box)).complete
    assert not await wrong(memory, box, clock)


async def test_an_earlier_since_adds_days_and_a_later_one_takes_none_away(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    await load_into(memory, box, since=date(2024, 3, 5), **ALL)
    await load_into(memory, box, **ALL)
    assert not await wrong(memory, box, clock)
    again = await load_into(memory, box, since=date(2024, 3, 8), **ALL)
    assert (again.rows, again.since) == ({}, START)


def _lack(_: Any, answered: Any) -> Any:
    """Leave a country out of the statistics of days."""
    if "total_clicks" in (answered.data or ()):
        answered.data["country"].pop("US", None)
    return answered


@pytest.mark.parametrize(("zone", "questions"), [("+00:00", 1), ("Europe/Berlin", 4)])
async def test_nights_without_changes_cost_a_request_a_batch_and_leave_the_tables_as_they_are(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse, zone: str, questions: int
) -> None:
    clock.today += 30 * DAY
    for link in box.truth.urls():
        for day, hour in (("2024-02-29", 23), ("2024-03-31", 22)):  # the next month in Berlin
            box.add_click(link.id, f"{day}T{hour}:30:00Z")
    with altered(box, _lack):
        await load_into(memory, box, timezone=zone, dimensions=("country",))
    before = {table: [*rows] for table, rows in memory.tables.items() if table != "loads"}
    days, labels = ([row[-1] for row in before[f"clicks_{of}"]] for of in ("daily", "by_dimension"))
    assert sum(days) == sum(labels)
    for _ in range(3):
        forget(box)
        loaded = await load_into(memory, box, timezone=zone)
        asked = sum("url_keys" in each.query for each in box.requests)
        assert (loaded.rows, asked, len(box.requests) <= asked + 15) == ({}, 6 * questions, True)
    assert before == {table: memory.tables[table] for table in before}


async def test_links_and_tags_that_always_fail_cost_the_others_nothing(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    clock.today += 30 * DAY
    lost = {url.slashtag for url in some_links(box, 3)}
    for _ in range(3):
        failures = list[Failure]()
        with refused_links(box, lost, 403), refused_tag(box, tag := box.truth.tags()[0].name, 403):
            forget(box)
            loaded = await load_into(memory, box, **ALL, on_error=failures.append)
        assert {*loaded.missing} == {*lost, tag}
        assert sorted(name for each in failures for name in each.keys or (str(each.tag),)) == sorted(
            loaded.missing
        )
        assert {key[0] for key, _ in await wrong(memory, box, clock)} <= {*lost, tag}
        assert {row[1] for row in memory.tables["links"] if not row[-2]} == lost
        # Halves of the batch that has them, down to each alone, which is not asked again.
        refused = [
            each.query.get("url_keys", each.query.get("tag", ""))
            for each in box.requests
            if each.status == 403
        ]
        assert len(refused) <= 7 * len(loaded.missing)
        assert sorted(name for name in refused if "," not in name) == sorted(loaded.missing)
        click(box, some_links(box, 9)[8].id, clock.today - 40 * DAY)
    assert (await load_into(memory, box, **ALL)).complete
    assert not await wrong(memory, box, clock)


async def test_clicks_that_come_while_a_load_runs_are_those_of_the_next(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse, caplog: pytest.LogCaptureFixture
) -> None:
    clock.today += 30 * DAY
    links, seen = some_links(box, 20), 0

    def meanwhile(_: Any, answered: Any) -> Any:
        nonlocal seen
        seen += 1
        click(box, links[seen % 20].id, START + seen % 40 * DAY)
        return answered

    with altered(box, meanwhile), caplog.at_level(logging.WARNING, "slashtag"):
        for _ in range(2):
            assert (await load_into(memory, box, **ALL)).complete
    assert not caplog.records
    await load_into(memory, box, **ALL)
    assert not await wrong(memory, box, clock)


async def test_a_link_that_is_gone_keeps_its_rows(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    (link,) = some_links(box, 1)
    click(box, link.id, START, 7)
    await load_into(memory, box, **ALL)
    box.remove_url(link.id)
    await load_into(memory, box, **ALL)
    (row,) = (row for row in memory.tables["links"] if row[0] == link.id)
    assert (row[-1] is not None, (await held(memory, "clicks_daily"))[link.slashtag, START]) == (True, 7)


async def test_rows_that_should_not_be_there_are_told_and_removed(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    await load_into(memory, box, **ALL)
    name = some_links(box, 1)[0].slashtag
    memory.tables["clicks_daily"] += [("nobody", START, 3), (name, date(2020, 1, 1), 3), (name, START, -2)]
    memory.tables["clicks_by_dimension"].append(("nobody", START.replace(day=1), "country", "DE", 3))
    memory.tables["clicks_by_tag"].append(("no tag", START, 3))
    tables = {table: [*rows] for table, rows in memory.tables.items()}
    told = {(each.table, each.name, each.date) for each in (await audit_of(memory, box)).differences}
    assert memory.tables == tables
    assert {row[:1] for row in told} == {("clicks_daily",), ("clicks_by_dimension",), ("clicks_by_tag",)}
    assert {("clicks_daily", "nobody", START), ("clicks_daily", name, date(2020, 1, 1))} <= told
    await load_into(memory, box, **ALL)
    assert not await wrong(memory, box, clock)


async def test_a_warehouse_belongs_to_an_account_and_a_zone(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    await load_into(memory, box)
    tables = {table: [*rows] for table, rows in memory.tables.items()}
    with pytest.raises(ConfigurationError, match=r"\+00:00"):
        await load_into(memory, box, timezone="+01:00")
    with Sandbox(urls=130, clicks=10, seed=5) as other:
        for run in (load_into, audit_of):
            with pytest.raises(ConfigurationError, match="another account") as raised:
                await run(memory, other)
            assert other.apikey not in str(raised.value)
    assert memory.tables == tables
    assert box.apikey not in str(tables)
    box.apikey = "another-key-0123456789"
    assert (await load_into(memory, box)).complete
    memory.tables["loads"][-1] = (*memory.tables["loads"][-1][:-1], 99)
    with pytest.raises(ConfigurationError, match="newer version"):
        await load_into(memory, box)


@pytest.mark.parametrize(
    ("had", "gone", "is_loaded"),
    [(130, 13, True), (130, 14, False), (40, 9, True), (40, 10, False), (40, 40, False), (9, 8, True)],
)
async def test_a_listing_that_lost_a_tenth_and_ten_links_is_not_loaded(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse, had: int, gone: int, is_loaded: bool
) -> None:
    # Links that are gone at an earlier load do not count.
    for end in (had + 40, had):
        for url in box.truth.urls()[end:]:
            box.remove_url(url.id)
        await load_into(memory, box, allow_shrink=True)
    before = [*memory.tables["links"]]
    # Links that are renamed, or lead elsewhere, are still there.
    box.store.write("UPDATE link SET slashtag = slashtag || '-x' WHERE id % 2", ())
    box.store.write("UPDATE link SET destination = destination || '/x' WHERE NOT id % 2", ())
    for url in box.truth.urls()[:gone]:
        box.remove_url(url.id)
    if not is_loaded:
        with pytest.raises(ShrunkListingError, match=f"{gone} of the {had}"):
            await load_into(memory, box)
        assert memory.tables["links"] == before
    assert (await load_into(memory, box, allow_shrink=not is_loaded)).complete


async def test_wrong_arguments_are_refused_before_anything_is_opened(box: Sandbox) -> None:
    for given in ({"dimensions": ("size",)}, {"since": date(2999, 1, 1)}, {"timezone": "Nowhere"}):
        with pytest.raises(InvalidRequestError):
            await load_into(None, box, **given)
    with pytest.raises(ExportError, match="holds no load"):
        await audit_of(MemoryWarehouse(), box)
    assert not box.requests


@pytest.mark.parametrize("how", ["swapped", "refused", "taken", *range(8)])
async def test_links_that_get_the_slashtags_of_others_have_their_own_days_where_sums_are_equal(
    box: Sandbox, clock: Clock, how: str | int
) -> None:
    memory = StoppedWarehouse()
    clock.today += 30 * DAY
    for url in box.truth.urls()[9:]:
        box.remove_url(url.id)
    tags = [box.add_tag(name) for name in ("alone", "other")]
    one, two, three = (
        box.add_url(name, tag=tag) for name, tag in (("one", "alone"), ("two", None), ("three", "other"))
    )
    for link, day in ((one, 3), (two, 9), (three, 20)):
        click(box, link, date(2024, 3, day))
    memory.left = how if isinstance(how, int) else None
    with suppress(Stop):
        await load_into(memory, box, **ALL)
    memory.left = None
    if isinstance(how, int):
        complete = [*TABLES["loads"]].index("complete")
        # Links, and then the load, are noted before anything else.
        assert [row[complete] for row in memory.tables["loads"]] == [False] * (how > 1)
    if how == "taken":
        box.remove_url(one)
        await load_into(memory, box, **ALL)
        assert not await wrong(memory, box, clock, "clicks_by_tag")
        click(box, box.add_url("one"), date(2024, 3, 9))
    else:
        swap(box, "one", "two")
    if how == "refused":
        with refused_links(box, {"one"}, 403):
            await load_into(memory, box, **ALL)
    if isinstance(how, int):
        await load_into(memory, box, **ALL)
        swap(box, "one", "two")
        retag(box, three, tags[0])
        retag(box, one, tags[1])
        memory.left = how
        with suppress(Stop):
            await load_into(memory, box, **ALL)
        memory.left = None
    await load_into(memory, box, **ALL)
    assert not await wrong(memory, box, clock)


async def test_what_cancels_out_among_links_is_seen_once_they_are_asked_about_with_others(
    clock: Clock, memory: MemoryWarehouse
) -> None:
    with Sandbox(urls=0, clicks=0) as box:
        for n in range(7):
            click(box, box.add_url(f"k{n}"), START, 3)
        clock.today += 30 * DAY
        await load_into(memory, box)
        rows = memory.tables["clicks_daily"]
        assert len(rows) == 7
        rows[:] = [(name, day, {"k0": 2, "k6": 4}.get(name, 3)) for name, day, _ in rows]
        for _ in range(5):
            await load_into(memory, box)
        assert {clicks for *_, clicks in memory.tables["clicks_daily"]} == {3}


async def test_a_link_whose_answers_contradict_themselves_is_missing(
    box: Sandbox, clock: Clock, memory: MemoryWarehouse
) -> None:
    (link,) = some_links(box, 1)

    def contradict(asked: Any, answered: Any) -> Any:
        if link.slashtag not in asked.query.get("url_keys", "").split(","):
            return answered
        return msgspec.structs.replace(answered, data=answered.data | {"total_clicks": 10**6})

    with altered(box, contradict):
        await load_into(memory, box)
    # `complete` and `missing`.
    assert memory.tables["loads"][-1][-4:-2] == (False, link.slashtag)
    assert (await load_into(memory, box)).complete
