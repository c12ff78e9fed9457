"""Loads of a warehouse: requests, seconds and memory of a first load, of nights, and of an audit.

    python benchmarks/loads.py [--size FACTOR] [--rounds NIGHTS] [--json]

In each night 140 links are clicked, 5 are new, 1 is renamed, and 5 get a click that is 35 to 400 days late;
then nothing changes. Each load is a process of its own, into a DuckDB file, whose table of clicks is held
against the sandbox's log in the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import Row, parser, report, scaled
from slashtag import AsyncSession
from slashtag.dlt import Warehouse, audit, load
from slashtag.sandbox import Sandbox

DAY = timedelta(days=1)


async def run(what: str, path: str, since: str, login: dict[str, str]) -> dict[str, Any]:
    began = time.perf_counter()
    async with AsyncSession(**login) as session:
        if what == "audit":
            found = len((await audit(session, Warehouse(path))).differences)
        else:
            found = sum((await load(session, Warehouse(path), since)).rows.values())
        requests = session.metrics.attempts
    seconds = round(time.perf_counter() - began, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"what": what, "requests": requests, "found": found, "seconds": seconds, "MB": peak}


def measure(what: str, path: Path, since: str, box: Sandbox) -> dict[str, Any]:
    login = {"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret}
    told = json.dumps([what, str(path), since, login])
    ran = subprocess.run([sys.executable, __file__, "--run", told], stdout=subprocess.PIPE, check=True)
    return {**json.loads(ran.stdout), "file kB": path.stat().st_size // 1024}


def change(box: Sandbox, rng: random.Random, night: int) -> None:
    """Do what happens in a day."""
    now, urls = datetime.now(UTC), box.truth.urls()
    weights = [url.hits + 0.3 for url in urls]
    for url in {url.id: url for url in rng.choices(urls, weights, k=140)}.values():
        box.add_click(url.id, now - rng.choice((0, 0, 0, 1)) * DAY, times=rng.choice((1, 1, 2)))
    for url in rng.sample(urls, 5):
        box.add_click(url.id, now - rng.randrange(35, 400) * DAY)
    for n in range(5):
        box.add_click(box.add_url(f"new-{night}-{n}"), now)
    named = ("renamed-" + str(night), rng.choice(urls).id)
    box.store.write("UPDATE link SET slashtag = ? WHERE id = ?", named)


def rows(size: float, nights: int) -> Iterator[Row]:
    """Give the figures of each load of an account of 5,000 links, at size 1, and three years."""
    links, years = scaled(5_000, size, 100), 3 if size >= 1 else 1
    now, rng = datetime.now(UTC), random.Random(3)
    # All months are whole ones.
    since = (now - 365.25 * years * DAY).date().replace(day=1).isoformat()
    quiet = f"<= {2 * -(-links // 100) + 15}"
    with (
        Sandbox(urls=links, clicks=40 * links, since=f"{since}T00:00:00Z", until=now.isoformat()) as box,
        TemporaryDirectory() as folder,
    ):
        path = Path(folder) / "clicks.duckdb"

        def measured(what: str, name: str, goal: str | None) -> Row:
            told = measure(what, path, since, box)
            note = ", ".join(
                f"{value} {key}" for key, value in told.items() if key not in ("what", "requests")
            )
            return Row(name, told["requests"], "requests", goal if size == 1 or goal == quiet else None, note)

        yield measured("load", "first load", "<= 26700")
        yield measured("load", "a load where nothing changed", quiet)
        for night in range(nights):
            change(box, rng, night)
            yield measured("load", f"night {night + 1}", "<= 400")
        yield measured("load", "again nothing changed", quiet)
        yield measured("audit", "an audit", quiet)
        with duckdb.connect(str(path)) as file:
            held = file.execute("SELECT slashtag, date, clicks FROM slashtag.clicks_daily").fetchall()
        counts = box.truth.per_key(since, str(now.date()))
        true = {(name, day, n) for name, of in counts.items() for day, n in of.clicks.items() if n}
        yield Row("wrong rows in the end", len(true ^ {*held}), "rows", "<= 0")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        print(json.dumps(asyncio.run(run(*json.loads(sys.argv[2])))))
    else:
        options = parser(__doc__).parse_args()
        report(rows(options.size, options.rounds or 3), options.json)
