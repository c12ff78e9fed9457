"""Destinations of loads into warehouses: files and a PostgreSQL server, and a present day to be set."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from email.utils import format_datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import duckdb

from slashtag._resources import stats
from slashtag.dlt import Monitor, _source, load, local_pipeline, slashtag_source
from slashtag.sandbox import Sandbox

DAY = timedelta(days=1)
START = date(2024, 2, 20)


class Clock:
    """The present day of loads and of the service's answers, at noon; loads may be some days ahead."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        self.ahead = timedelta()
        self.today = date(2024, 3, 10)

    @property
    def today(self) -> date:
        return self._today

    @today.setter
    def today(self, day: date) -> None:
        self._today = day
        self._box.headers["Date"] = format_datetime(self._noon(), usegmt=True)

    def _noon(self) -> datetime:
        return datetime.combine(self.today, clock_time(12), UTC)

    def now(self) -> datetime:
        return self._noon() + self.ahead


@contextmanager
def simulated_clock(box: Sandbox) -> Iterator[Clock]:
    """Give loads into a warehouse, and the answers of a sandbox, the present day of a clock."""
    clock = Clock(box)

    class Datetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.now()

    with patch.object(_source, "datetime", Datetime), patch.object(stats, "datetime", Datetime):
        yield clock


def small_account() -> Sandbox:
    return Sandbox(urls=130, clicks=1_300, tags=3, since="2024-02-01T00:00:00Z", until="2024-03-10T12:00:00Z")


def options(box: Sandbox, **more: Any) -> dict[str, Any]:
    return {
        "base_url": box.base_url,
        "apikey": box.apikey,
        "apisecret": box.apisecret,
        "since": START,
        **more,
    }


def truth(box: Sandbox, end: date) -> dict[tuple[str, date], int]:
    return {
        (name, day): clicks
        for name, true in box.truth.per_key(START.isoformat(), end.isoformat()).items()
        for day, clicks in true.clicks.items()
    }


LOADER = """
import json, sys
from datetime import datetime
from slashtag._resources import stats
from slashtag.dlt import _source, load, local_pipeline, slashtag_source

now, pipeline, source = json.loads(sys.argv[1])

class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.fromisoformat(now)

_source.datetime = stats.datetime = Clock
load(local_pipeline(**pipeline), slashtag_source(**source))
"""


@dataclass
class Target:
    """A destination: the arguments of its pipeline, and its rows."""

    arguments: dict[str, Any]
    read: Callable[[Target, str], list[tuple[Any, ...]]]

    def pipeline(self) -> Any:
        return local_pipeline(**self.arguments)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table of clicks: (series, date, clicks, final)."""
        return self.read(self, table)

    def start(self, box: Sandbox, now: datetime, **more: Any) -> subprocess.Popen[bytes]:
        """Start a load in a process of its own."""
        source = {name: str(value) for name, value in options(box).items()}
        arguments = json.dumps([now.isoformat(), self.arguments, {**source, **more}], default=str)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([sys.executable, "-c", LOADER, arguments], **quiet)

    def load(self, box: Sandbox, monitor: Monitor | None = None, **more: Any) -> dict[str, int]:
        return load(self.pipeline(), slashtag_source(**options(box, **more), monitor=monitor))

    def load_first(self, box: Sandbox, **more: Any) -> None:
        """Load an account for the first time, or take a copy of the file or folder that such a load made.

        The next load takes all that it knows from the destination.
        """
        path = self.arguments.get("path")
        if path is None:
            self.load(box, **more)
            return
        account = [box.base_url, box.headers, *box.truth.urls(), *box.truth.tags()]
        load = sha256(repr([self.arguments["destination"], account, more]).encode()).hexdigest()
        copy = path.parents[1] / f"first-load-{load[:20]}"
        if copy.exists():
            _copy(copy, path)
        else:
            self.load(box, **more)
            _copy(path, copy)

    def daily(self) -> dict[tuple[str, date], int]:
        rows = self.rows("clicks_daily")
        found = {(name, as_date(day)): clicks for name, day, clicks, _ in rows}
        assert len(found) == len(rows), "no day is there twice"
        return found


def _copy(path: Path, to: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, to)
    else:
        shutil.copyfile(path, to)


def as_date(value: Any) -> date:
    return date.fromisoformat(value[:10]) if isinstance(value, str) else value


def sql_rows(target: Target, table: str) -> list[tuple[Any, ...]]:
    with target.pipeline().sql_client() as client:
        name = client.make_qualified_table_name(table)
        return [tuple(row) for row in client.execute_sql(f"SELECT * FROM {name}") or ()]


def latest(target: Target, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of Parquet files to which each load only appends, as docs/warehouse.md reads them."""
    page = (Path(__file__).parents[2] / "docs" / "warehouse.md").read_text("utf-8")
    queries = re.findall(
        r"^    (SELECT .+read_parquet\('(clicks/slashtag/\w+/).+\n(?:    .+\n)+)", page, re.M
    )
    (query,) = (
        query.replace("'clicks/", f"'{target.arguments['path']}/") for query, path in queries if table in path
    )
    return duckdb.sql(query).fetchall()


def local(destination: str, folder: Path) -> Target:
    names = {"duckdb": "clicks.duckdb", "sqlite": "clicks.sqlite", "filesystem": "clicks"}
    arguments = {
        "destination": destination,
        "path": folder / names[destination],
        "pipelines_dir": folder / "pipelines",
    }
    return Target(arguments, latest if destination == "filesystem" else sql_rows)


def postgres_target(url: str, dataset: str, folder: Path) -> Target:
    os.environ["DESTINATION__POSTGRES__CREDENTIALS"] = url
    arguments = {"destination": "postgres", "dataset": dataset, "pipelines_dir": folder / "pipelines"}
    return Target(arguments, sql_rows)


def _server_programs() -> Path | None:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@contextmanager
def postgres_server() -> Iterator[str | None]:
    """Run a PostgreSQL server and give its URL, or None if Debian's package `postgresql` is not installed."""
    programs = _server_programs()
    if programs is None:
        yield None
        return
    # A server refuses to run as root, and its user may not enter pytest's folders.
    user = "postgres" if os.geteuid() == 0 else None
    with TemporaryDirectory(prefix="slashtag-postgres-", ignore_cleanup_errors=True) as folder:
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        make = [programs / "initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(make, check=True, user=user, stdout=subprocess.DEVNULL, cwd=folder)
        # Chosen last, as others may take it until the server does.
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        place = ["-h", "127.0.0.1", "-p", port]
        serve = [programs / "postgres", "-D", f"{folder}/data", "-F", *place, "-k", folder]
        with (
            open(f"{folder}/log", "wb") as log,
            subprocess.Popen(serve, user=user, cwd=folder, stdout=log, stderr=log) as server,
        ):
            try:
                ready = [programs / "pg_isready", "-q", *place]
                while subprocess.run(ready, check=False).returncode and server.poll() is None:
                    time.sleep(0.05)
                yield f"postgresql://postgres:unused@127.0.0.1:{port}/postgres"
            finally:
                server.send_signal(signal.SIGINT)
