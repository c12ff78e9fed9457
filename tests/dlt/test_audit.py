"""Audits find every day that is held otherwise than the service counts it, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from datetime import time as clock_time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import defstruct

from slashtag import (
    AuthenticationError,
    ConfigurationError,
    ExportError,
    InvalidRequestError,
    parse_zone,
)
from slashtag.dlt import Audit, _records, audit, audit_file
from slashtag.sandbox import Sandbox
from tests.support.laws import examples
from tests.support.loads_without_dlt import Warehouse
from tests.support.sandboxes import altered, forget, new_key, refused_link
from tests.support.warehouse_days import lagging, rename, swap
from tests.support.warehouses import DAY, START, Clock, Target, local, simulated_clock, truth

Cell = tuple[str, date]


def audited(target: Target, box: Sandbox, **more: Any) -> Audit:
    login = {"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret}
    return audit(target.pipeline(), **login | more)


def cells(found: Audit) -> set[Cell]:
    return {(each.slashtag, each.date) for each in found.differences}


def change(target: Target, *changes: tuple[object, ...]) -> None:
    """Carry out statements, each with its arguments."""
    with target.pipeline().sql_client() as client:
        table = client.make_qualified_table_name("clicks_daily")
        for statement, *arguments in changes:
            client.execute_sql(str(statement).format(table=table), *map(str, arguments))


WHERE = "WHERE slashtag = %s AND date = %s"
EDIT = f"UPDATE {{table}} SET clicks = clicks + %s {WHERE}"
DELETE = f"DELETE FROM {{table}} {WHERE}"
DOUBLE = f"INSERT INTO {{table}} SELECT * FROM {{table}} {WHERE}"


def click(box: Sandbox, key: str, day: date, hour: int = 9) -> None:
    box.add_click(key, datetime.combine(day, clock_time(hour), UTC))


def single(box: Sandbox) -> list[str]:
    """Slashtags that one link has, those with the most hits first."""
    names = Counter(url.slashtag for url in box.truth.urls())
    urls = sorted(box.truth.urls(), key=lambda url: -url.hits)
    return [url.slashtag for url in urls if names[url.slashtag] == 1]


@pytest.mark.unmeasured
@examples(2)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_fault_is_found_and_repaired_and_no_other_day(seed: int) -> None:
    chance = random.Random(seed)
    zone = chance.choice(("+00:00", "+05:30", "Europe/Berlin"))
    with (
        TemporaryDirectory() as folder,
        Sandbox(urls=0, clicks=0, tags=0) as box,
        simulated_clock(box) as clock,
    ):
        target = local("duckdb", Path(folder))
        clock.today = date(2024, 4, chance.choice((1, 2, 20)))
        names = [f"k{n}" for n in range(chance.randint(1, 9))]
        for name in names:
            box.add_url(name)
            for _ in range(chance.choice((0, 1, 9))):
                back = chance.randrange(60)
                # None after the present time: all-time statistics would have it, and no load.
                click(box, name, clock.today - back * DAY, chance.randrange(24) if back else 0)
        target.load(box, timezone=zone)
        last = clock.today - DAY
        days = [START + n * DAY for n in range((last - START).days)]
        drawn = chance.sample([(name, day) for name in names for day in days], 5)
        faults = set(drawn[: chance.randint(0, 5)])
        made: list[tuple[object, ...]] = []
        for n, cell in enumerate(sorted(faults)):
            # Each by another power of two, so that no two cancel each other.
            made += [(EDIT, 2**n, *cell)] if n != 1 else [(DELETE, *cell)]
            made += [(DOUBLE, *cell)] if n == 2 else []
        change(target, *made)
        found = audited(target, box)
        assert cells(found) == faults
        assert found.is_proved is (not faults)
        repaired = audited(target, box, repair=True)
        assert repaired.is_proved
        assert {(each.slashtag, each.date) for each in repaired.repaired} == faults

        def true(name: str) -> Any:
            return box.truth.range(str(START), str(last), keys=[name], timezone=parse_zone(zone))

        expected = {(name, day): clicks for name in names for day, clicks in true(name).clicks.items()}
        assert {cell: n for cell, n in target.daily().items() if cell[1] <= last} == expected


@pytest.mark.unmeasured
def test_an_audit_takes_a_request_for_each_hundred_links(box: Sandbox, clock: Clock, duck: Target) -> None:
    clock.today = date(2024, 3, 1)
    duck.load(box, since="2024-02-01")
    forget(box)
    found = audited(duck, box)
    assert (found.is_proved, found.first, found.last) == (True, date(2024, 2, 1), date(2024, 2, 29))
    assert len(box.requests) <= 2 + 2 + 1


def test_renamed_deleted_and_new_links_are_no_faults(box: Sandbox, clock: Clock, duck: Target) -> None:
    duck.load_first(box)
    renamed, one, other, deleted, faulty, clicked = single(box)[:6]
    rename(box, renamed, "renamed")
    rename(box, faulty, "faulty-renamed")
    swap(box, one, other)
    box.remove_url(deleted)
    box.add_url("new")
    for name in ("new", clicked):
        click(box, name, clock.today)
    found = audited(duck, box)
    assert found.is_proved
    assert found.renamed == {renamed: "renamed", faulty: "faulty-renamed", one: other, other: one}
    assert found.gone == (deleted,)
    change(duck, (EDIT, 2, faulty, START))
    assert cells(audited(duck, box)) == {(faulty, START)}
    # It has another name now, under which an ordinary load brings it.
    rows = duck.daily()
    assert cells(audited(duck, box, repair=True)) == {(faulty, START)}
    assert duck.daily() == rows
    duck.load(box)
    assert audited(duck, box).is_proved
    # A slashtag that another link shares now has other clicks than its rows.
    box.store.write("UPDATE link SET slashtag = ?, domain_id = 3 WHERE slashtag = ?", (clicked, "new"))
    assert [each.slashtags for each in audited(duck, box).unproved] == [(clicked,)]


async def test_a_listing_that_is_cut_short_proves_nothing(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    await warehouse.load()
    first: list[Any] = []

    def cut(asked: Any, answered: Any) -> Any:
        if asked.path.endswith("/urls") and len(first) < 2:
            first.append(asked)
            answered.data["items"] = answered.data["items"][:100]
        return answered

    with altered(box, cut):
        assert (await warehouse.audit()).unproved


def test_what_is_no_load_of_this_account_is_refused(
    box: Sandbox, clock: Clock, duck: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExportError, match="no finished load"):
        audited(duck, box)
    duck.load(box)
    forget(box)
    with monkeypatch.context() as patched:
        patched.setattr(_records, "TableRecord", defstruct("TableRecord", [("version", int)]))
        with pytest.raises(ConfigurationError):
            audited(duck, box)
        assert not box.requests
    with pytest.raises(AuthenticationError):
        audited(duck, box, apikey="another" * 3)
    with pytest.raises(AuthenticationError):
        audited(duck, box, apisecret="wrong-secret-1")


def test_a_new_apikey_is_of_the_same_account_if_the_links_are_the_same(
    box: Sandbox, clock: Clock, duck: Target
) -> None:
    duck.load_first(box)
    forget(box)
    with Sandbox(urls=40, clicks=0, tags=0, seed=2) as other:
        with pytest.raises(ConfigurationError, match="the destination holds"):
            audited(duck, other)
        assert not other.requests
    with new_key(box, "rotated" * 3):
        assert audited(duck, box).is_proved
        links = [(url.id, url.slashtag) for url in box.truth.urls()]
        for link, slashtag in links[: len(links) // 2]:
            box.store.write("UPDATE link SET slashtag = ? WHERE id = ?", (f"other-{slashtag}", link))
        with pytest.raises(ConfigurationError, match="another account"):
            audited(duck, box)


async def test_a_backend_that_lags_behind_is_never_taken_for_a_proof(
    box: Sandbox, clock: Clock, warehouse: Warehouse
) -> None:
    clock.today = date(2024, 4, 2)
    await warehouse.load()
    name, day = single(box)[0], date(2024, 3, 5)
    for first in (0, 1):
        click(box, name, day, first)
        with lagging(box, day, first):
            found = await warehouse.audit()
        assert not found.is_proved
        assert cells(found) <= {(name, day)}
    await warehouse.load()
    with lagging(box, day, 0):
        assert (await warehouse.audit()).differences == ()


async def test_a_link_that_fails_is_not_proved(box: Sandbox, clock: Clock, warehouse: Warehouse) -> None:
    await warehouse.load()
    name = single(box)[0]
    with refused_link(box, name, 403):
        found = await warehouse.audit()
    assert [each.slashtags for each in found.unproved] == [(name,)]
    assert found.differences == ()


@pytest.mark.parametrize("target", ["sqlite", "postgres", "filesystem"], indirect=True)
def test_other_destinations_are_audited_and_repaired(box: Sandbox, clock: Clock, target: Target) -> None:
    target.load_first(box, by_tag=True, dimensions=("country",))
    name, late = single(box)[0], START + 3 * DAY
    wrong = {(name, late)}
    if target.arguments["destination"] != "filesystem":
        change(target, (EDIT, 2, name, START))
        wrong.add((name, START))
    click(box, name, late)
    repaired = audited(target, box, repair=True)
    assert repaired.is_proved
    assert {(each.slashtag, each.date) for each in repaired.repaired} == wrong
    assert target.daily() == truth(box, clock.today)
    by_country = sum(row[4] for row in target.rows("clicks_by_dimension"))
    assert by_country == box.truth.range(str(START), str(clock.today)).total_clicks
    for tag in box.truth.tags():
        true = box.truth.range(str(START), str(clock.today), tag=tag.name).total_clicks
        assert sum(n for key, _, n, _ in target.rows("clicks_by_tag") if key == tag.name) == true


# -- loads


# -- files


@pytest.mark.parametrize(
    "ending", ["parquet", *(pytest.param(name, marks=pytest.mark.unmeasured) for name in ("csv", "jsonl"))]
)
def test_files_are_compared_with_what_they_should_hold(box: Sandbox, tmp_path: Path, ending: str) -> None:
    from slashtag.export import clicks_table
    from slashtag.tables import open_table

    path = tmp_path / f"c.{ending}"
    login = {"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret}
    rows = [(name, day, n) for (name, day), n in sorted(truth(box, date(2024, 3, 10)).items())]
    days = {"timezone": "+00:00", "since": START, "until": "2024-03-10"}
    lost = next(row for row in rows if row[2])
    for kept in (rows, [row for row in rows if row != lost]):
        with open_table(path, clicks_table("slashtag")) as writer:
            writer.write(kept)
        found = audit_file(path, **days, **login)
        assert cells(found) == set() if kept is rows else {lost[:2]}
    with pytest.raises(InvalidRequestError, match="--timezone"):
        audit_file(path, since=START, until="2024-03-10", **login)
    with open_table(path, clicks_table("slashtag")) as writer:
        writer.write(row for row in rows if row[0] != lost[0])
    assert audit_file(path, **days, **login).not_held == (lost[0],)
    assert not audit_file(path, **days, **login, all_links=True).is_proved
