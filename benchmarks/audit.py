"""Measure slashtag audit: faults found of those injected, false alarms, requests and seconds.

python benchmarks/audit.py [--only NAME] [--links N] [--seed N] [--size FACTOR] [--json]

Loads 1,000 and 5,000 links and three years into DuckDB, and 1,000 into SQLite, PostgreSQL, and Parquet in a
folder and in a bucket of a simulated S3, and audits them as they are. Then injects faults by a seed: late
clicks at the service, and at the destination edited rows, deleted rows, doubled rows and a lost day; audits,
repairs and audits again. What is found are days of links; to count requests, the lost day is one fault. At
the end all rows are held against the click log.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, time, timedelta
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.parquet
from tests.support.buckets import rows_in_bucket, s3_server
from tests.support.sandboxes import forget
from tests.support.warehouses import Target, as_date, local, postgres_server, postgres_target

from benchmarks._measure import Row, parser, report, scaled
from slashtag.dlt import Audit, audit, load, slashtag_source
from slashtag.sandbox import Sandbox

NAMES = ("duckdb", "sqlite", "postgres", "filesystem", "s3")
CASES = (*((name, 1_000) for name in NAMES), ("duckdb", 5_000))
#: Destinations of a warehouse of files.
FILES = ("filesystem", None)
OF_EACH_KIND = 10
TODAY = datetime.now(UTC)
SINCE = date(TODAY.year - 3, TODAY.month, 1)
Cell = tuple[str, date]


class Warehouse:
    """A destination that holds an account, and changes made to it behind its back."""

    def __init__(self, target: Target, box: Sandbox, seed: int) -> None:
        self.target, self.box, self.chance = target, box, random.Random(seed)
        self.login = {"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret}

    def load(self) -> float:
        began = perf_counter()
        load(self.target.pipeline(), slashtag_source(since=SINCE, **self.login))
        return perf_counter() - began

    def audit(self, **options: Any) -> tuple[Audit, int, float]:
        """Audit; give the result, the requests and the seconds."""
        forget(self.box)
        began = perf_counter()
        found = audit(self.target.pipeline(), **self.login, **options)
        return found, len(self.box.requests), perf_counter() - began

    def inject(self) -> dict[str, set[Cell]]:
        """Make faults, each on a day of a link that has no other, before the present month."""
        rows = {(name, as_date(day)): n for name, day, n, _ in self.target.rows("clicks_daily")}
        end = TODAY.date().replace(day=1)
        names = sorted({name for name, _ in rows})
        lost = SINCE + timedelta(self.chance.randrange((end - SINCE).days))
        clicked = sorted(cell for cell, n in rows.items() if n and cell[1] < end and cell[1] != lost)
        kinds = ("edited", "deleted", "doubled", "late")
        drawn = self.chance.sample(clicked, OF_EACH_KIND * len(kinds))
        faults = {kind: set(drawn[n :: len(kinds)]) for n, kind in enumerate(kinds)}
        for name, day in faults["late"]:
            self.box.add_click(name, datetime.combine(day, time(9), UTC))
        faults["lost day"] = {(name, lost) for name in names}
        (self._alter_files if self.target.arguments["destination"] in FILES else self._alter_rows)(faults)
        return faults

    def _alter_rows(self, faults: dict[str, set[Cell]]) -> None:
        with self.target.pipeline().sql_client() as client:
            table = client.make_qualified_table_name("clicks_daily")
            if self.target.arguments["destination"] == "sqlite":
                # With its primary key no row can come twice: the table is made anew without it.
                client.execute_sql("CREATE TABLE anew AS SELECT * FROM clicks_daily")
                client.execute_sql("DROP TABLE clicks_daily")
                client.execute_sql("ALTER TABLE anew RENAME TO clicks_daily")
            if self.target.arguments["destination"] == "postgres":
                client.execute_sql(f"ALTER TABLE {table} DROP CONSTRAINT clicks_daily_pkey")
            for kind, statement in (
                ("edited", f"UPDATE {table} SET clicks = clicks + 2"),
                ("deleted", f"DELETE FROM {table}"),
                ("doubled", f"INSERT INTO {table} SELECT * FROM {table}"),
            ):
                for cell in faults[kind]:
                    client.execute_sql(f"{statement} WHERE slashtag = %s AND date = %s", *map(str, cell))
            (_, lost) = next(iter(faults["lost day"]))
            client.execute_sql(f"DELETE FROM {table} WHERE date = %s", str(lost))

    def _alter_files(self, faults: dict[str, set[Cell]]) -> None:
        lacking = faults["deleted"] | faults["lost day"]
        with self.target.pipeline().destination_client() as client:
            for path in client.list_table_files("clicks_daily"):
                with client.fs_client.open(path, "rb") as file:
                    table = pyarrow.parquet.read_table(file)
                rows = []
                for row in table.to_pylist():
                    cell = row["slashtag"], row["date"]
                    row["clicks"] += 2 * (cell in faults["edited"])
                    rows += [row] * (1 + (cell in faults["doubled"]) - (cell in lacking))
                with client.fs_client.open(path, "wb") as file:
                    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, table.schema), file)

    def wrong_rows(self) -> int:
        """Return the days of links that the destination holds otherwise than the click log."""
        end = TODAY.date() - timedelta(1)
        true = {
            (name, day): clicks
            for name, counts in self.box.truth.per_key(str(SINCE), str(end)).items()
            for day, clicks in counts.clicks.items()
        }
        rows = [(row[0], as_date(row[1]), row[2]) for row in self.target.rows("clicks_daily")]
        held = {(name, day): n for name, day, n in rows if day <= end}
        return len(held.items() ^ true.items()) + len(rows) - len({row[:2] for row in rows})


def measure(name: str, links: int, seed: int) -> Iterator[Row]:
    """Give the rows of one destination and number of links."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(patch.dict(os.environ, DLT_DATA_DIR=str(folder / "dlt")))
        what = f"audit, {name}, {links:,} links x 3 years"
        url = stack.enter_context(postgres_server()) if name == "postgres" else None
        if name == "postgres" and url is None:
            yield Row(what, None, note="PostgreSQL is not installed")
            return
        if name == "s3":
            stack.enter_context(s3_server("lake"))
            target = Target(
                {"destination": None, "path": "s3://lake/a", "pipelines_dir": folder}, rows_in_bucket
            )
        else:
            target = postgres_target(url, "audited", folder) if url else local(name, folder)
        span = {"since": f"{SINCE}T00:00:00Z", "until": TODAY.isoformat()}
        box = stack.enter_context(Sandbox(urls=links, clicks=40 * links, seed=seed, **span))
        warehouse = Warehouse(target, box, seed)
        loading = warehouse.load()
        batches = ceil(len({url.slashtag for url in box.truth.urls()}) / 100)
        clean, requests, seconds = warehouse.audit()
        pages = sum(each.path.endswith("/urls") for each in box.requests)
        note = f"{requests} requests, {pages} of the listing, {batches} batches; {seconds:.1f} s"
        note += f" after a load of {loading:.0f} s"
        yield Row(f"{what}: requests over batches", float(requests - batches), "", "<= 12", note)
        yield Row(f"{what}: false alarms", float(len(clean.differences) + len(clean.unproved)), "", "<= 0")

        faults = warehouse.inject()
        injected = set[Cell]().union(*faults.values())
        found, requests, seconds = warehouse.audit()
        told = {(each.slashtag, each.date) for each in found.differences}
        each = ", ".join(f"{kind} {len(cells & told)}/{len(cells)}" for kind, cells in faults.items())
        yield Row(f"{what}: found / injected", len(told & injected) / len(injected), "", ">= 1", each)
        yield Row(f"{what}: false alarms beside faults", float(len(told - injected)), "", "<= 0")
        single = len(injected) - len(faults["lost day"]) + 1
        note = f"{requests} requests, {seconds:.1f} s; {single} faults if the lost day is one"
        yield Row(f"{what}: requests to find a fault", (requests - batches) / single, "", "<= 30", note)

        repaired, both, seconds = warehouse.audit(repair=True)
        note = f"{both} requests in all, {repaired.repair_requests} of the load, {seconds:.1f} s"
        yield Row(f"{what}: requests to find and repair one", (both - batches) / single, "", "<= 30", note)
        left = len(repaired.differences) + len(repaired.unproved)
        yield Row(f"{what}: left after repair", float(left), "", "<= 0")
        yield Row(f"{what}: wrong rows at the end", float(warehouse.wrong_rows()), "", "<= 0")


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--only", choices=NAMES, help="one destination")
    made.add_argument("--links", type=int, help="one number of links")
    made.add_argument("--seed", type=int, default=1, help="of the account and the faults")
    options = made.parse_args()
    rows = [
        row
        for name, links in CASES
        if options.only in (None, name) and options.links in (None, links)
        for row in measure(name, scaled(links, options.size, 10), options.seed)
    ]
    report(rows, options.json)


if __name__ == "__main__":
    main()
