"""What readers of a warehouse see while it is loaded, also by loads that are killed.

    python benchmarks/loads.py [LOADS] [DESTINATION ...]

Readers in processes of their own count the rows of `links` every 5 ms, while LOADS (20) loads run, each fourth of which
is killed at some point. Prints what they saw, for each destination: duckdb, sqlite, postgres, filesystem.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from multiprocessing import Event, Process, Queue
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from slashtag.sandbox import Sandbox
from tests.support.warehouses import postgres_server

LINKS = 1_000


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


def measure(destination: str, loads: int, url: str | None) -> None:
    with (
        TemporaryDirectory() as folder,
        Sandbox(urls=LINKS, clicks=5_000, tags=5, since="2026-11-01T00:00:00Z") as box,
    ):
        names = {"duckdb": "clicks.duckdb", "sqlite": "clicks.sqlite", "filesystem": "clicks"}
        path = f"{folder}/{names.get(destination, '')}"
        named = {"SLASHTAG_BASE_URL": box.base_url, "SLASHTAG_APIKEY": box.apikey, "SLASHTAG_APISECRET": box.apisecret}
        environment = {**os.environ, **named, "DLT_DATA_DIR": f"{folder}/dlt", "XDG_STATE_HOME": folder}
        command = [sys.executable, "-m", "slashtag", "sync", "--destination", destination, "--since", "2026-11-20"]
        command += [path] if destination != "postgres" else []
        if url:
            environment["DESTINATION__POSTGRES__CREDENTIALS"] = url
        subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
        ended, found = Event(), Queue()
        reader = Process(target=read, args=(destination, url or path, ended, found))
        reader.start()
        chance, codes, began = random.Random(7), [], time.perf_counter()
        usual = 4.0
        for n in range(loads):
            begun = time.perf_counter()
            with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as run:
                if n % 4 == 1:
                    try:
                        run.wait(usual * chance.uniform(0.4, 1.0))
                    except subprocess.TimeoutExpired:
                        run.send_signal(signal.SIGKILL)
                said = run.communicate()[1]
            codes.append(run.returncode)
            if run.returncode == 0:
                usual = time.perf_counter() - begun
            elif run.returncode > 0:
                print(said.strip(), flush=True)
        ended.set()
        looks, least, most, locked, errors = found.get()
        reader.join()
        took = time.perf_counter() - began
        killed = codes.count(-signal.SIGKILL)
        print(
            f"{destination:<11} {loads} loads, {killed} killed, {loads - killed - codes.count(0)} failed, {took:.0f} s: "
            f"{looks:,} looks saw {least:,} to {most:,} links of {LINKS:,}; {locked:,} found the file locked; "
            f"{len(errors)} errors {sorted(set(errors))[:3]}",
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
