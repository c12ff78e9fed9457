"""What loads request again and which rows they bring, without dlt."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from datetime import time as clock_time
from typing import Any

import msgspec
import pytest

from slashtag import ConfigurationError, Failure, RetryPolicy
from slashtag.dlt import Monitor, ShrunkListingError, _records
from slashtag.dlt._records import Reload
from slashtag.sandbox import Sandbox
from tests.support.loads_without_dlt import Warehouse
from tests.support.sandboxes import altered, forget, new_key, refused_link
from tests.support.warehouse_days import lagging, rename, swap
from tests.support.warehouses import DAY, START, Clock, truth


def click(box: Sandbox, key: str, day: date, hour: int = 9, **more: Any) -> None:
    box.add_click(key, datetime.combine(day, clock_time(hour), UTC), **more)


def single(box: Sandbox) -> list[str]:
    """Slashtags that one link has, those with the most hits first."""
    names = [url.slashtag for url in box.truth.urls()]
    urls = sorted(box.truth.urls(), key=lambda url: -url.hits)
    return [url.slashtag for url in urls if names.count(url.slashtag) == 1]


def unclick(box: Sandbox, day: date) -> None:
    start = int(datetime.combine(day, clock_time(), UTC).timestamp())
    box.store.write("DELETE FROM click WHERE at >= ? AND at < ?", (start, start + 86_400))


async def test_one_link_that_fails_does_not_stop_the_others(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    retry = RetryPolicy(max_attempts=2, backoff_base=0.001)
    await warehouse.load(dimensions=("country",))
    idle, *_, clicked = reversed(single(box))
    for one in (idle, clicked):
        clock.today += DAY
        click(box, clicked, clock.today, country="SE")
        failures: list[Failure] = []
        with refused_link(box, one, 500):
            await warehouse.load(Monitor(on_error=failures.append), dimensions=("country",), retry=retry)
        assert {failure.keys for failure in failures} == {(one,)}
        assert (warehouse.said[-1]["complete"], warehouse.said[-1]["missing"]) == (False, one)
        missing = truth(box, clock.today).items() - warehouse.daily().items()
        assert missing == {((one, clock.today), int(one == clicked))}
    # Its days and its month are loaded by the next load.
    await warehouse.load(dimensions=("country",))
    assert warehouse.said[-1]["complete"]
    assert warehouse.daily() == truth(box, clock.today)
    countries = box.truth.range(START.isoformat(), clock.today.isoformat()).country
    rows = warehouse.rows["clicks_by_dimension"].values()
    assert sum(clicks for clicks, _ in rows) == sum(countries.values())


async def test_zeros_may_be_left_out_and_come_back(box: Sandbox, clock: Clock, warehouse: Warehouse) -> None:
    await warehouse.load(zeros=False)
    assert warehouse.daily() == {cell: n for cell, n in truth(box, clock.today).items() if n}
    clock.today += DAY
    click(box, box.truth.urls()[0].slashtag, clock.today)
    # Clicks of yesterday disappear: then a zero has to replace them.
    unclick(box, clock.today - DAY)
    box.add_url("new")
    await warehouse.load(zeros=False)
    found, true = warehouse.daily(), truth(box, clock.today)
    assert {cell: n for cell, n in found.items() if n} == {cell: n for cell, n in true.items() if n}
    assert {day for (_, day), n in found.items() if not n} == {clock.today - DAY}
    # So has what another link, that has its slashtag now, may have.
    one, other = single(box)[:2]
    swap(box, one, other)
    await warehouse.load(zeros=False)
    true = truth(box, clock.today)
    assert {cell: n for cell, n in warehouse.daily().items() if n} == {
        cell: n for cell, n in true.items() if n
    }
    await warehouse.load()
    assert warehouse.daily() == true


async def test_a_day_that_was_over_falls_only_if_two_answers_say_so(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    day, name = clock.today - 2 * DAY, single(box)[0]
    tag = box.truth.tags()[0]
    click(box, name, day)
    await warehouse.load(by_tag=True, dimensions=("country",))
    held = dict(warehouse.rows["clicks_by_tag"])
    assert warehouse.daily()[name, day]
    click(box, name, clock.today)
    failures: list[Failure] = []
    with lagging(box, day, key=name):
        await warehouse.load(Monitor(on_error=failures.append))
    assert [failure.keys for failure in failures] == [(name,)]
    assert warehouse.said[-1]["missing"] == name
    assert warehouse.daily() == truth(box, clock.today)
    # The next load asks again, though the hits are the same.
    unclick(box, day)
    await warehouse.load(by_tag=True, dimensions=("country",))
    assert warehouse.daily() == truth(box, clock.today)
    assert warehouse.daily()[name, day] == 0
    true = box.truth.range(str(START), str(clock.today), tag=tag.name).clicks
    assert {d: n for (key, d), (n, _) in warehouse.rows["clicks_by_tag"].items() if key == tag.name} == true
    assert held.keys() == warehouse.rows["clicks_by_tag"].keys()


@pytest.mark.parametrize("first", [0, 1])
async def test_clicks_of_a_backend_that_lags_behind_are_told(
    box: Sandbox, clock: Clock, warehouse: Warehouse, first: int
) -> None:
    await warehouse.load()
    clock.today += DAY
    click(box, max(box.truth.urls(), key=lambda url: url.hits).slashtag, clock.today - DAY, 20)
    failures: list[Failure] = []
    with lagging(box, clock.today - DAY, first):
        await warehouse.load(Monitor(on_error=failures.append))
    assert warehouse.daily() == truth(box, clock.today) or failures
    assert warehouse.said[-1]["complete"] is (not failures)
    await warehouse.load()
    assert warehouse.daily() == truth(box, clock.today)


@pytest.mark.parametrize("status", [500, 401])
async def test_last_days_without_a_second_answer_are_told(
    box: Sandbox, clock: Clock, warehouse: Warehouse, status: int
) -> None:
    def refuse(asked: Any, answered: Any) -> Any:
        if "/stats" in asked.path and asked.no_cache:
            return msgspec.structs.replace(answered, status=status, message="An error.", data=[])
        return answered

    failures: list[Failure] = []
    retry = RetryPolicy(max_attempts=1)
    with altered(box, refuse):
        if status == 401:
            with pytest.raises(Exception, match="401"):
                await warehouse.load(Monitor(on_error=failures.append), retry=retry)
            return
        await warehouse.load(Monitor(on_error=failures.append), retry=retry)
    assert warehouse.daily() == truth(box, clock.today)
    assert [failure.label for failure in failures] == ["clicks_daily"]
    assert not warehouse.said[-1]["complete"]
    await warehouse.load()
    assert warehouse.said[-1]["complete"]


async def test_late_clicks_whatever_the_lookback_and_days_given_are_loaded_again(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    clock.today = date(2024, 4, 20)
    more: dict[str, Any] = {"by_tag": True, "dimensions": ("country",)}
    await warehouse.load(**more)
    tagged = [
        url.slashtag for url in box.truth.urls() if url.tag_id is not None and url.slashtag in single(box)
    ]
    late = {(tagged[0], START), (tagged[0], date(2024, 3, 30)), (tagged[1], date(2024, 4, 2))}
    for name, day in late:
        click(box, name, day)
    loaded = await warehouse.load(**more)
    assert loaded["clicks_daily"] == len(late)
    assert warehouse.daily() == truth(box, clock.today)

    def check_others() -> None:
        for tag in box.truth.tags():
            true = box.truth.range(str(START), str(clock.today), tag=tag.name).total_clicks
            rows = warehouse.rows["clicks_by_tag"].items()
            assert sum(n for (key, _), (n, _) in rows if key == tag.name) == true
        countries = box.truth.range(str(START), str(clock.today)).country
        by_country = sum(n for n, _ in warehouse.rows["clicks_by_dimension"].values())
        assert by_country == sum(countries.values())

    check_others()
    # Days that are given are loaded again of all, whatever is known of them.
    rows = warehouse.rows["clicks_daily"]
    names = single(box)
    wrong = [(names[0], START), (names[1], START + DAY), (names[2], clock.today - DAY)]
    for cell in wrong:
        rows[cell] = (rows[cell][0] + 3, True)
    await warehouse.load(reload=Reload(span=(START, START + DAY)), **more)
    assert {cell for cell, _ in warehouse.daily().items() - truth(box, clock.today).items()} == {wrong[2]}
    await warehouse.load(reload=Reload(span=(START, clock.today)))
    assert warehouse.daily() == truth(box, clock.today)
    check_others()


async def test_a_day_is_repaired_only_if_it_still_has_the_clicks_that_were_counted(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    """Meanwhile another link may have got the slashtag."""
    await warehouse.load()
    name, day = single(box)[0], START + DAY
    cell, rows = (name, day), warehouse.rows["clicks_daily"]
    counted = truth(box, clock.today)[cell]
    rows[cell] = (counted + 3, True)
    for expected in (counted + 1, counted):
        await warehouse.load(reload=Reload(days={name: {day: expected}}, only=True))
        assert warehouse.daily()[cell] == (counted if expected == counted else counted + 3)


# -- listings and accounts


async def test_a_listing_that_shrank_is_not_loaded_unless_that_is_allowed(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    await warehouse.load(since=clock.today)
    for url in box.truth.urls()[:14]:
        box.remove_url(url.id)
    forget(box)
    with pytest.raises(ShrunkListingError, match="116 links"):
        await warehouse.load(since=clock.today)
    # It was read again, past caches, and nothing else was requested.
    assert any(arrival.no_cache for arrival in box.requests)
    assert not any("stats" in arrival.path for arrival in box.requests)
    await warehouse.load(since=clock.today, allow_shrink=True)
    assert warehouse.listed["links"] == 116
    await warehouse.load(since=clock.today)
    assert warehouse.listed["links"] == 116


async def test_a_listing_of_a_replica_that_lags_is_read_again(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    await warehouse.load(since=clock.today)
    pages = itertools.count()

    def cut(asked: Any, answered: Any) -> Any:
        if asked.path.endswith("/urls") and next(pages) == 0:
            answered.data["items"] = answered.data["items"][:50]
        return answered

    with altered(box, cut):
        await warehouse.load(since=clock.today)
    assert warehouse.listed["links"] == 130


@pytest.mark.parametrize("first", [0, 1])
async def test_a_replica_that_lags_and_answers_in_turn_is_told(
    box: Sandbox, clock: Clock, warehouse: Warehouse, first: int
) -> None:
    await warehouse.load(since=clock.today)
    before = {url.id for url in box.truth.urls()} | {tag.id for tag in box.truth.tags()}
    counts = dict(warehouse.listed)
    for n in range(3):
        box.add_url(f"new-{n}")
    box.store.write(
        "INSERT INTO tag (name, description, created_at) SELECT 'new', '', max(created_at) FROM tag", ()
    )
    asked_so_far = {"urls": itertools.count(first), "tags": itertools.count(first)}

    def lag(asked: Any, answered: Any) -> Any:
        answers = asked_so_far.get(asked.path.rpartition("/")[2])
        if answers is not None and next(answers) % 2:
            items = answered.data["items"]
            answered.data["items"] = [item for item in items if id_of(item) in before]
        return answered

    failures: list[Failure] = []
    with altered(box, lag):
        await warehouse.load(Monitor(on_error=failures.append), since=clock.today)
    assert warehouse.listed == {"links": counts["links"] + 3, "tags": counts["tags"] + 1}
    assert {"links", "tags"} <= {each.label for each in failures}
    assert warehouse.said[-1]["complete"] is False


def id_of(item: Any) -> int:
    return int(item["id"] if isinstance(item, dict) else item.id)


async def test_links_whose_clicks_cannot_be_requested_are_listed_and_told(
    box: Sandbox, clock: Clock, warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    box.add_url("a,b")
    loaded = await warehouse.load(since=clock.today)
    assert (warehouse.listed["links"], loaded["clicks_daily"]) == (
        131,
        len(truth(box, clock.today)) // 20 - 1,
    )
    assert "'a,b'" in caplog.text
    assert (warehouse.said[-1]["complete"], warehouse.said[-1]["missing"]) == (False, "a,b")


async def test_another_account_timezone_or_version_is_refused(
    box: Sandbox, clock: Clock, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    await warehouse.load(since=clock.today)
    forget(box)
    with pytest.raises(ConfigurationError, match="clicks of timezone"):
        await warehouse.load(timezone="Europe/Berlin")
    with monkeypatch.context() as patched:
        patched.setattr(_records, "TableRecord", msgspec.defstruct("TableRecord", [("version", int)]))
        with pytest.raises(ConfigurationError, match="another version"):
            await warehouse.load()
    assert not any("stats" in arrival.path for arrival in box.requests)
    with new_key(box, "a-new-key-of-some-account"):
        before = warehouse.state["account"]["key"]
        names = single(box)
        for name in names[:20]:
            rename(box, name, f"{name}-2")
        with pytest.raises(ConfigurationError, match="another account"):
            await warehouse.load(since=clock.today)
        assert not any("stats" in arrival.path for arrival in box.requests)
        for name in names[:20]:
            rename(box, f"{name}-2", name)
        await warehouse.load(since=clock.today)
        assert warehouse.state["account"]["key"] != before


async def test_a_clock_that_is_wrong_is_told(box: Sandbox, clock: Clock, warehouse: Warehouse) -> None:
    clock.ahead = 2 * DAY
    with pytest.raises(ConfigurationError, match="clock"):
        await warehouse.load()
    assert not any("stats" in arrival.path for arrival in box.requests)
