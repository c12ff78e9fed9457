"""Warehouses for tests: their rows beside the truth, a present day to be set, and a PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from email.utils import format_datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from unittest.mock import patch

from slashtag import AsyncSession
from slashtag.dlt import Load, Warehouse, _load, audit, load
from slashtag.dlt._tables import TABLES, Replacement, Row, Span
from slashtag.sandbox import Sandbox

from .processes import run, wait_until

DAY = timedelta(days=1)
START = date(2024, 2, 1)
#: Rows by all columns but the last, which has the clicks.
Rows = dict[tuple[Any, ...], int]


class MemoryWarehouse:
    """Tables in memory."""

    place = "memory"

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {table: [] for table in TABLES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def rows(self, table: str, span: Span | None = None) -> list[Row]:
        # A database has them in any order, a folder the newest first.
        return [row for row in reversed(self.tables[table]) if _is_meant(row, span, None)]

    async def replace(self, *changes: Replacement) -> None:
        for table, names, span, rows in changes:
            kept = [row for row in self.tables[table] if not _is_meant(row, span, names)]
            self.tables[table] = [*kept, *rows]


def _is_meant(row: Row, span: Span | None, names: Any) -> bool:
    return (names is None or row[0] in names) and (span is None or span[0] <= row[1] <= span[1])


class Clock:
    """The present day of loads and of the service's answers; loads may be some days ahead."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        self.ahead = timedelta()
        self.hour = 12
        self.today = date(2024, 3, 10)

    @property
    def today(self) -> date:
        return self._today

    @today.setter
    def today(self, day: date) -> None:
        self._today = day
        self._box.headers["Date"] = format_datetime(self._true(), usegmt=True)

    def _true(self) -> datetime:
        return datetime.combine(self.today, clock_time(self.hour), UTC)

    def now(self, zone: Any) -> datetime:
        return (self._true() + self.ahead).astimezone(zone)


@contextmanager
def simulated_clock(box: Sandbox) -> Iterator[Clock]:
    """Give loads into a warehouse, and the answers of a sandbox, the present day of a clock."""
    clock = Clock(box)

    class Datetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.now(tz)

    with patch.object(_load, "datetime", Datetime):
        yield clock


def session(box: Sandbox, **options: Any) -> AsyncSession:
    return AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, **options)


async def load_into(warehouse: Any, box: Sandbox, *, since: date = START, **options: Any) -> Load:
    async with session(box) as opened:
        return await load(opened, warehouse, since, **options)


async def audit_of(warehouse: Any, box: Sandbox, **options: Any) -> Load:
    async with session(box) as opened:
        return await audit(opened, warehouse, **options)


async def held(warehouse: Any, table: str) -> Rows:
    """Return the rows of a table of clicks; none is there twice."""
    with warehouse:
        rows = await warehouse.rows(table)
    found = {tuple(key): clicks for *key, clicks in rows}
    assert len(found) == len(rows)
    return found


def truth(
    box: Sandbox,
    table: str,
    end: date,
    *,
    since: date = START,
    timezone: Any = None,
    dimensions: Sequence[str] = ("country", "device"),
) -> Rows:
    """Return the rows that a table of clicks should have, counted in the sandbox's log."""
    span, truth = (since.isoformat(), end.isoformat()), box.truth
    if table == "clicks_by_tag":
        counts = {tag.name: truth.range(*span, tag=tag.name, timezone=timezone) for tag in truth.tags()}
    else:
        counts = truth.per_key(*span, timezone=timezone)
    if table != "clicks_by_dimension":
        days = {(name, day): n for name, true in counts.items() for day, n in true.clicks.items()}
        return dict(+Counter(days))
    months: Rows = Counter()
    first = since
    while first <= end:
        after = (first.replace(day=1) + 31 * DAY).replace(day=1)
        last = min(end, after - DAY)
        for name, true in truth.per_key(str(first), str(last), timezone=timezone).items():
            for dimension in dimensions:
                for label, n in getattr(true, dimension).items():
                    months[name, first.replace(day=1), dimension, label] = n
        first = after
    return dict(months)


def rename(box: Sandbox, old: str, new: str) -> None:
    """Give a link another slashtag; its clicks go with it."""
    box.store.write("UPDATE link SET slashtag = ? WHERE slashtag = ?", (new, old))


def swap(box: Sandbox, one: str, other: str) -> None:
    """Give each of two links the slashtag of the other."""
    for old, new in ((one, "between"), (other, one), ("between", other)):
        rename(box, old, new)


def retag(box: Sandbox, link: int, tag: int | None) -> None:
    """Give a link another tag, or none."""
    box.store.write("UPDATE link SET tag_id = ? WHERE id = ?", (tag, link))


def small_account() -> Sandbox:
    return Sandbox(urls=130, clicks=1_300, tags=3, since="2024-02-02T00:00:00Z", until="2024-03-10T12:00:00Z")


def open_local(kind: str, folder: Path) -> Warehouse:
    """Return a warehouse in a folder, of a kind that needs no server."""
    name = {"duckdb": "clicks.duckdb", "sqlite": "clicks.sqlite", "filesystem": "clicks"}[kind]
    return Warehouse(folder / name, kind)


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
        run(*make, check=True, user=user, cwd=folder)
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
                wait_until(lambda: server.poll() is not None or run(*ready).returncode == 0)
                yield f"postgresql://postgres:unused@127.0.0.1:{port}/postgres"
            finally:
                server.send_signal(signal.SIGINT)
