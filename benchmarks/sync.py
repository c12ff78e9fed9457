"""Measure slashtag sync: first loads beside exports, and ten days of an account that changes.

python benchmarks/sync.py [--only first|second|days] [--size FACTOR] [--rounds N] [--json]

First loads of 1,000, 5,000 and 10,000 links and three years into a DuckDB file, and exports of the same days
to Parquet, each in a process of its own. The second day of 5,000 links and three years, into SQLite and
DuckDB. Then ten days with late clicks, links that are new, gone, renamed,
swapped or made again, a load interrupted midway and a dead service, into each kind of destination: rows that
are not the truth, and requests, are counted. The days are printed to stderr.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
from tests.support.warehouse_days import DESTINATIONS, Day, simulate
from tests.support.warehouses import (
    LOADER,
    local,
    postgres_server,
    postgres_target,
    simulated_clock,
    small_account,
)

from benchmarks._measure import Row, parser, report, scaled

LINKS = (1_000, 5_000, 10_000)
TODAY = datetime.now(UTC).date()
SINCE = f"{TODAY.year - 3}-{TODAY:%m}-01"
SERVICE = """
import sys
from slashtag.sandbox import Sandbox

links, since, until = sys.argv[1:]
with Sandbox(
    urls=int(links), clicks=40 * int(links), since=since, until=until
) as box:
    print(box.base_url, box.apikey, box.apisecret, flush=True)
    sys.stdin.read()
"""


@contextmanager
def account(links: int) -> Iterator[dict[str, str]]:
    """Serve an account in a process of its own; gives the environment of its clients."""
    command = [sys.executable, "-c", SERVICE, str(links), f"{SINCE}T00:00:00Z", f"{TODAY}T00:00:00Z"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        values = process.stdout.readline().split()
        names = ("SLASHTAG_BASE_URL", "SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
        try:
            yield {**os.environ, **dict(zip(names, values, strict=True))}
        finally:
            process.stdin.close()


@dataclass
class Cost:
    """What a command took: seconds of the clock and of the CPU, and the peak of its memory in MB."""

    wall: float
    cpu: float
    peak: float


def run(environment: dict[str, str], *words: str) -> Cost:
    """Run a command in a process of its own."""
    began = perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "slashtag", *words, "--quiet"], env=environment)
    _, process.returncode, usage = os.wait4(process.pid, 0)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def first_loads(size: float) -> Iterator[Row]:
    """Compare first loads with exports of the same days."""
    peaks: list[float] = []
    for links in LINKS:
        with account(scaled(links, size, 10)) as environment, TemporaryDirectory() as folder:
            environment["DLT_DATA_DIR"] = f"{folder}/dlt"
            database, table = f"{folder}/clicks.duckdb", f"{folder}/clicks.parquet"
            sync = run(environment, "sync", database, "--since", SINCE)
            export = run(environment, "export", "clicks", SINCE, str(TODAY), "--all", "-o", table)
            with duckdb.connect(database) as file:
                ((rows,),) = file.execute("SELECT count(*) FROM slashtag.clicks_daily").fetchall()
            ((exported,),) = duckdb.sql(f"SELECT count(*) FROM '{table}'").fetchall()
        if rows != exported:
            raise RuntimeError(f"{rows:,} rows of sync, {exported:,} of export")
        peaks.append(sync.peak)
        note = (
            f"{rows:,} rows; {sync.wall:.1f} and {export.wall:.1f} s, CPU {sync.cpu:.1f} and "
            f"{export.cpu:.1f} s, peak memory {sync.peak:.0f} and {export.peak:.0f} MB"
        )
        print(f"{links:,} links: {note}", file=sys.stderr)
        what = f"sync of {links:,} links x 3 years / export to Parquet"
        yield Row(what, sync.wall / export.wall, goal="<= 1.5" if links == 5_000 else None, note=note)
    what = "sync: peak memory of 10,000 links / 1,000"
    yield Row(what, peaks[-1] / peaks[0], note=f"{peaks[-1]:.0f} and {peaks[0]:.0f} MB")


def second_day(size: float) -> Iterator[Row]:
    """Compare the second days of SQLite and DuckDB, each after a load of three years."""
    took: dict[str, float] = {}
    yesterday = datetime.combine(TODAY, time(), UTC) - timedelta(minutes=1)
    with account(scaled(5_000, size, 10)) as environment:
        for name in ("duckdb", "sqlite"):
            with TemporaryDirectory() as folder:
                environment["DLT_DATA_DIR"] = f"{folder}/dlt"
                target = {"destination": name, "path": f"{folder}/clicks"}
                arguments = json.dumps([yesterday.isoformat(), target, {"since": SINCE}])
                began = perf_counter()
                subprocess.run([sys.executable, "-c", LOADER, arguments], env=environment, check=True)
                first = perf_counter() - began
                words = ("sync", f"{folder}/clicks", "--destination", name, "--since", SINCE)
                cost = run(environment, *words)
            took[name] = cost.wall
            print(f"{name}: first load {first:.1f} s, second day {cost.wall:.1f} s", file=sys.stderr)
    note = f"{took['sqlite']:.1f} and {took['duckdb']:.1f} s, 5,000 links x 3 years"
    yield Row("sync: second day of SQLite / DuckDB", took["sqlite"] / took["duckdb"], goal="<= 3", note=note)


def ten_days(size: float) -> Iterator[Row]:
    """Give the most requests of a day, compared with links changed and new + batches + pages."""
    for name in DESTINATIONS:
        what = f"sync, {name}: requests of a day / links changed + batches + pages"
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            stack.enter_context(patch.dict(os.environ, DLT_DATA_DIR=str(folder / "dlt")))
            url = stack.enter_context(postgres_server()) if name == "postgres" else None
            if name == "postgres" and url is None:
                yield Row(what, None, goal="<= 1.05", note="PostgreSQL is not installed")
                continue
            target = postgres_target(url, "days", folder) if url else local(name, folder)
            box = stack.enter_context(small_account())
            clock = stack.enter_context(simulated_clock(box))
            days: list[Day] = []
            for day in simulate(box, clock, target, scaled(10, min(1, size), 3)):
                days.append(day)
                print(
                    f"{name:10}  {day.today}  {day.rows:6,} rows, {day.wrong} wrong, {day.loaded:5,} loaded, "
                    f"{day.requests:3} requests of {day.ideal:3} + 5 %",
                    file=sys.stderr,
                )
        yield Row(f"sync, {name}: wrong rows", float(sum(day.wrong for day in days)), goal="<= 0")
        note = f"{len(days)} days; requests {', '.join(str(day.requests) for day in days)}"
        yield Row(what, max(day.requests / day.ideal for day in days[1:]), goal="<= 1.05", note=note)


PARTS = {"days": ten_days, "second": second_day, "first": first_loads}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--only", choices=tuple(PARTS), help="one of the three")
    options = made.parse_args()
    report(
        [
            row
            for name, measure in PARTS.items()
            if options.only in (None, name)
            for row in measure(options.size)
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
