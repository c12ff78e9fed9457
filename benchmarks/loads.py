"""What readers of a warehouse see while it is loaded, also by loads that are killed.

    python benchmarks/loads.py [LOADS] [DESTINATION ...]

A reader in a process of its own counts the rows of `links` every 5 ms, while LOADS (20) loads run, each
fourth of which is killed at some point. Prints what it saw, for each destination: duckdb, sqlite, postgres
and filesystem.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import time
from datetime import date, timedelta
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.warehouses import postgres_server

from slashtag.dlt import load, local_pipeline, slashtag_source
from slashtag.sandbox import Sandbox

CONTEXT = get_context("fork")
Event, Process, Queue = CONTEXT.Event, CONTEXT.Process, CONTEXT.Queue
LINKS = 400
UNTIL = date.today()
SINCE = (UNTIL - timedelta(days=3)).isoformat()


def count(destination: str, place: str, open_file: list[Any]) -> int | None:
    """Return the number of links, None if the reader is locked out."""
    if destination == "postgres":
        if not open_file:
            import psycopg2

            open_file.append(psycopg2.connect(place))
            open_file[0].autocommit = True
        cursor = open_file[0].cursor()
        cursor.execute("SELECT count(*) FROM slashtag.links")
        return cursor.fetchone()[0]
    try:
        if destination == "sqlite":
            file = sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=0.1)
            try:
                return file.execute("SELECT count(*) FROM links").fetchone()[0]
            finally:
                file.close()
        if destination == "duckdb":
            with duckdb.connect(place, read_only=True) as opened:
                return opened.execute("SELECT count(*) FROM slashtag.links").fetchall()[0][0]
        return duckdb.sql(f"SELECT count(*) FROM '{place}/slashtag/links/*.parquet'").fetchall()[0][0]
    except (duckdb.IOException, sqlite3.OperationalError) as error:
        if "lock" in str(error) or "No such file" in str(error):
            return None
        raise


def read(destination: str, place: str, ended: Any, found: Any) -> None:
    seen, locked, errors = [], 0, []
    opened: list[Any] = []
    while not ended.is_set():
        try:
            rows = count(destination, place, opened)
            if rows is None:
                locked += 1
            else:
                seen.append(rows)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {str(error)[:100]}")
        time.sleep(0.005)
    found.put((len(seen), min(seen, default=None), max(seen, default=None), locked, errors))


def serve(found: Any, ended: Any) -> None:
    """Serve an account."""
    since = f"{SINCE}T00:00:00Z"
    with Sandbox(urls=LINKS, clicks=5_000, tags=5, since=since, until=f"{UNTIL}T00:00:00Z") as box:
        found.put({"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret})
        ended.wait()


def load_once(arguments: dict[str, Any], account: dict[str, str]) -> None:
    load(local_pipeline(**arguments), slashtag_source(**account, since=SINCE))


def measure(destination: str, loads: int, url: str | None) -> None:
    """Load again and again while a reader looks, and print what it saw."""
    with TemporaryDirectory() as folder:
        names = {"duckdb": "clicks.duckdb", "sqlite": "clicks.sqlite", "filesystem": "clicks"}
        path = f"{folder}/{names.get(destination, '')}"
        arguments: dict[str, Any] = {"destination": destination, "pipelines_dir": f"{folder}/dlt"}
        arguments |= {} if destination == "postgres" else {"path": path}
        if url:
            os.environ["DESTINATION__POSTGRES__CREDENTIALS"] = url
        ended, found = Event(), Queue()
        server = Process(target=serve, args=(found, ended))
        server.start()
        account = found.get()

        def start() -> Any:
            run = Process(target=load_once, args=(arguments, account))
            run.start()
            return run

        start().join()
        reader = Process(target=read, args=(destination, url or path, ended, found))
        reader.start()
        chance, codes, began, usual = random.Random(7), list[int | None](), time.perf_counter(), 4.0
        for n in range(loads):
            begun, run = time.perf_counter(), start()
            run.join(usual * chance.uniform(0.3, 0.8) if n % 4 == 1 else None)
            if run.is_alive():
                run.kill()
                run.join()
            codes.append(run.exitcode)
            if run.exitcode == 0:
                usual = time.perf_counter() - begun
        ended.set()
        looks, least, most, locked, errors = found.get()
        reader.join()
        server.join()
        took, killed = time.perf_counter() - began, codes.count(-signal.SIGKILL)
        print(
            f"{destination:<11} {loads} loads, {killed} killed, {loads - killed - codes.count(0)} failed, "
            f"{took:.0f} s: {looks:,} looks saw {least:,} to {most:,} links of {LINKS:,}; {locked:,} found "
            f"the file locked; {len(errors)} errors {sorted(set(errors))[:3]}",
            flush=True,
        )


def main() -> None:
    given = sys.argv[1:]
    loads = int(given.pop(0)) if given and given[0].isdigit() else 20
    for destination in given or ["duckdb", "sqlite", "postgres", "filesystem"]:
        if destination == "postgres":
            with postgres_server() as url:
                measure(destination, loads, url)
        else:
            measure(destination, loads, None)


if __name__ == "__main__":
    main()
