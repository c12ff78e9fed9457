"""Whatever happens between two loads, each table has the service's clicks after the next one.

Links and tags are added, also with the slashtag of another, removed, made again, renamed, swapped, given
other tags, clicked, also late; links are refused; rows are changed by hand; clocks differ; a load is stopped
midway.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from slashtag import parse_zone
from slashtag.dlt import _reconcile
from slashtag.sandbox import Sandbox
from tests.support.laws import examples
from tests.support.sandboxes import refused_links
from tests.support.warehouses import (
    DAY,
    START,
    MemoryWarehouse,
    audit_of,
    held,
    load_into,
    rename,
    retag,
    simulated_clock,
    swap,
    truth,
)

CHANGES = (
    "click",
    "click",
    "late",
    "late",
    "add",
    "share",
    "remove",
    "again",
    "rename",
    "swap",
    "retag",
    "rename tag",
)
MISHAPS = ("none", "none", "refused", "edited", "stopped", "ahead", "behind")
ZONES = ("+00:00", "-08:00", "+05:30", "Europe/Berlin")
TABLES = ("clicks_daily", "clicks_by_tag", "clicks_by_dimension")


class Stop(Exception):
    """A load is interrupted."""


class StoppedWarehouse(MemoryWarehouse):
    """Tables of which only so many changes are made."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    async def replace(self, *changes: Any) -> None:
        # As in a folder, whose files are replaced one after another.
        for change in changes:
            if self.left is not None:
                if not self.left:
                    raise Stop
                self.left -= 1
            await super().replace(change)


class Account:
    """An account over some days, and its loads."""

    def __init__(self, seed: int, box: Sandbox, clock: Any) -> None:
        self.rng, self.box, self.clock = random.Random(seed), box, clock
        self.zone = self.rng.choice(ZONES)
        self.warehouse = StoppedWarehouse()
        self.made = 0
        self.gone = Counter[tuple[Any, ...]]()
        # At all but noon the day is another one in some zones.
        clock.hour = self.rng.choice((2, 12, 22))
        clock.today = date(2024, self.rng.choice((2, 3, 4, 5)), self.rng.choice((21, 25, 28)))
        clock.today += self.rng.randrange(6) * DAY
        self.tags = [box.add_tag(f"tag-{n}") for n in range(self.rng.randrange(3))]
        for _ in range(self.rng.randint(4, 9)):
            self.add()

    def add(self, name: str | None = None) -> None:
        self.made += 1
        link = self.box.add_url(name or f"k{self.made}")
        retag(self.box, link, self.rng.choice([None, *self.tags]))
        for _ in range(self.rng.choice((0, 1, 4))):
            self.click(link, self.rng.randrange(60))

    def click(self, link: int, ago: int) -> None:
        day = max(START, self.clock.today - ago * DAY)
        country = self.rng.choice(("DE", "FR", "US"))
        at = datetime.combine(day, clock_time(1), UTC)
        self.box.add_click(link, at, times=self.rng.choice((1, 1, 3)), country=country)

    def change(self) -> None:
        rng, box, urls = self.rng, self.box, self.box.truth.urls()
        if len(urls) < 3:
            return
        one, other = rng.sample(urls, 2)
        match rng.choice(CHANGES):
            case "click":
                self.click(one.id, rng.randrange(4))
            case "late":
                self.click(one.id, rng.randrange(60))
            case "add":
                self.add()
            case "share":
                with suppress(sqlite3.IntegrityError):  # which two have already
                    box.add_url(one.slashtag, domain_id=1)
            case "remove":
                box.remove_url(one.id)
            case "again":
                box.remove_url(one.slashtag)
                self.add(one.slashtag)
            case "rename":
                self.made += 1
                rename(box, one.slashtag, f"r{self.made}")
            case "swap":
                swap(box, one.slashtag, other.slashtag)
            case "retag":
                retag(box, one.id, rng.choice([None, *self.tags]))
            case "rename tag" if self.tags:
                self.made += 1
                new = f"t{self.made}"
                box.store.write("UPDATE tag SET name = ? WHERE id = ?", (new, rng.choice(self.tags)))

    def load(self, **more: Any) -> Any:
        options = {"timezone": self.zone, "by_tag": True, "dimensions": ("country", "device"), **more}
        return asyncio.run(load_into(self.warehouse, self.box, **options))

    def edit(self) -> set[tuple[str, Any, date]]:
        """Change rows by hand, so that they do not cancel out; return which."""
        faults = set[tuple[str, Any, date]]()
        today = self.clock.now(parse_zone(self.zone)).date()
        for power, table in enumerate(TABLES):
            rows = self.warehouse.tables[table]
            present = {url.slashtag for url in self.box.truth.urls()} | {
                t.name for t in self.box.truth.tags()
            }
            places = [n for n, row in enumerate(rows) if row[0] in present and row[1] < today]
            if not places:
                continue
            n = self.rng.choice(places)
            row = rows[n]
            # An audit leaves labels of a month that was not over at the last load to the next one.
            if table != "clicks_by_dimension" or row[1] < today.replace(day=1):
                faults.add((table, row[0], row[1]))
            match self.rng.choice(("delete", "double", "more")):
                case "delete":
                    del rows[n]
                case "double":
                    rows.append(row)
                case "more":
                    rows[n] = (*row[:-1], row[-1] + 64 * 2**power)
        return faults

    def mishap(self) -> None:
        rng = self.rng
        match rng.choice(MISHAPS):
            case "refused" if self.box.truth.urls():
                with refused_links(self.box, {rng.choice(self.box.truth.urls()).slashtag}, 403):
                    self.load()
            case "edited":
                self.load()
                faults = self.edit()
                found = asyncio.run(audit_of(self.warehouse, self.box)).differences
                told = {(each.table, each.name, each.date) for each in found}
                assert faults <= told
                assert {(name, day) for table, name, day in told - faults} <= {f[1:] for f in faults} | {
                    (f[1], f[2].replace(day=1)) for f in faults
                }
            case "stopped":
                self.warehouse.left = rng.randrange(9)
                with suppress(Stop):
                    self.load()
                self.warehouse.left = None
                self.change()
            case "ahead" | "behind" as side:
                ends = [self.clock.now(parse_zone(self.zone)).date()]
                self.clock.ahead = DAY if side == "ahead" else -DAY
                ends.append(self.clock.now(parse_zone(self.zone)).date())
                assert self.load().through == min(ends)
                assert not self.wrong()
                self.clock.ahead = timedelta()

    def wrong(self) -> list[Any]:
        """Return the rows that differ from the truth, without clicks of links that are gone."""
        zone = parse_zone(self.zone)
        present = {url.slashtag for url in self.box.truth.urls()}
        of_gone = {row[1] for row in self.warehouse.tables["links"] if row[-1] is not None}
        held_links = self.warehouse.tables["links"]
        links = {(row[0], row[1], row[6], row[-2]) for row in held_links if row[-1] is None}
        true_links = {(url.id, url.slashtag, url.tag_id, True) for url in self.box.truth.urls()}
        found: list[Any] = [*links ^ true_links]
        for table in TABLES:
            rows = asyncio.run(held(self.warehouse, table))
            true = truth(self.box, table, self.clock.today, timezone=zone)
            kept = {key for key in rows if table != "clicks_by_tag" and key[0] in of_gone - present}
            found += [(table, *each) for each in rows.items() ^ true.items() if each[0] not in kept]
        return found


def run(seed: int) -> None:
    with Sandbox(urls=0, clicks=0, tags=0) as box, simulated_clock(box) as clock:
        account = Account(seed, box, clock)
        if account.rng.random() < 0.3:
            account.mishap()
        assert account.load().complete
        assert not account.wrong()
        for _ in range(account.rng.randint(1, 4)):
            clock.today += account.rng.randrange(4) * DAY
            for _ in range(account.rng.randint(1, 4)):
                account.change()
            account.mishap()
            assert account.load().complete
            assert not account.wrong()
        tables = {table: sorted(rows) for table, rows in account.warehouse.tables.items() if table != "loads"}
        clock.today += DAY
        assert not sum(account.load().rows.values())
        assert tables == {table: sorted(account.warehouse.tables[table]) for table in tables}


@given(st.integers(0, 2**32))
@examples(16)
def test_after_each_load_every_table_has_the_clicks_of_the_service(seed: int) -> None:
    with patch.object(_reconcile, "MOST_NAMES", 4):
        run(seed)
