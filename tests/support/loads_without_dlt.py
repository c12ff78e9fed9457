"""Loads of clicks without dlt, whose pipelines take most of the time: rows, and the state it would keep."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from copy import deepcopy
from datetime import date
from functools import partial
from typing import Any
from unittest.mock import patch

from slashtag import AsyncSession, parse_zone
from slashtag.dlt import Monitor, _late
from slashtag.dlt._account import bind
from slashtag.dlt._audit import Audit, _AuditRun, _Subject
from slashtag.dlt._held import Held
from slashtag.dlt._incremental import ClicksLoad
from slashtag.dlt._records import Reload, record_of
from slashtag.dlt._source import LoadSession
from slashtag.sandbox import Sandbox

from .warehouses import DAY, START


def held_of(rows: Iterable[tuple[str, date, int]]) -> Held:
    """A table with these rows."""
    values = [(name, day.isoformat(), n) for name, day, n in rows]

    def execute(query: str, arguments: Sequence[str]) -> Any:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE TABLE held (slashtag, date, clicks)")
            database.executemany("INSERT INTO held VALUES (?, ?, ?)", values)
            return database.execute(query.replace("%s", "?"), list(arguments)).fetchall()

    return Held(execute, "held")


class Warehouse:
    """What loads of an account left: rows by table and key, the row of `loads` of each, and the state."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.state: dict[str, Any] = {}
        self.rows: dict[str, dict[tuple[Any, ...], tuple[Any, ...]]] = {"clicks_daily": {}}
        self.said: list[dict[str, Any]] = []
        #: Links and tags that the last load listed.
        self.listed: dict[str, int] = {}

    def session(self, **options: Any) -> AsyncSession:
        login = {"base_url": self.box.base_url, "apikey": self.box.apikey, "apisecret": self.box.apisecret}
        return AsyncSession(**login | options)

    async def load(
        self,
        monitor: Monitor | None = None,
        *,
        since: date = START,
        lookback: int = 3,
        timezone: str = "+00:00",
        by_tag: bool = False,
        dimensions: tuple[str, ...] = (),
        zeros: bool = True,
        reload: Reload | None = None,
        allow_shrink: bool = False,
        **options: Any,
    ) -> dict[str, int]:
        """Load as the resources of the source do; return how many rows each table of clicks got."""
        monitor, state = monitor or Monitor(), deepcopy(self.state)
        source = LoadSession(monitor, allow_shrink=allow_shrink)
        read_reload = partial(source.read_reload, reload or Reload(), parse_zone(timezone), lookback)
        links, tags = source.list_links, source.list_tags
        tables: list[tuple[str, Any, tuple[str, ...], tuple[str, ...]]] = [
            ("clicks_daily", links, ("slashtag", "date"), ())
        ]
        if by_tag:
            tables.append(("clicks_by_tag", tags, ("tag", "date"), ()))
        if dimensions:
            key = ("slashtag", "month", "dimension", "label")
            tables.append(("clicks_by_dimension", links, key, dimensions))
        found: dict[str, list[tuple[Any, ...]]] = {}
        async with self.session(**options) as session:
            monitor.metrics = session.metrics
            source._state, source._pipeline, source._new_key = state, self, bind(state, session)
            listed = {"links": (await links(session)).table.num_rows}
            listed["tags"] = (await tags(session)).table.num_rows
            for name, read, key, of in tables:
                kept = state.setdefault("resources", {}).setdefault(name, {})
                table = ClicksLoad(name, key, kept, since, lookback, timezone, monitor, of, zeros)
                source.tables.append(table)
                with patch.object(_late, "held_at", lambda _: self.held()):
                    parts = [part async for part in table.tables(read, read_reload, session)]
                found[name] = [tuple(row.values()) for part in parts for row in part.to_pylist()]
            self.said += source.summary().to_pylist()
        self.state, self.listed = state, listed
        for name, rows in found.items():
            self._merge(name, rows)
        return {name: len(rows) for name, rows in found.items()}

    def _merge(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        kept = self.rows.setdefault(name, {})
        width = 4 if name == "clicks_by_dimension" else 2
        assert len({row[:width] for row in rows}) == len(rows), "no row comes twice"
        # All rows of a month are replaced.
        months = {row[:2] for row in rows}
        for key in [key for key in kept if key[:2] in months]:
            del kept[key]
        kept.update({row[:width]: row[width:] for row in rows if width == 2 or not row[-1]})

    def daily(self) -> dict[tuple[str, date], int]:
        return {(name, day): clicks for (name, day), (clicks, _) in self.rows["clicks_daily"].items()}

    def held(self) -> Held:
        return held_of((name, day, n) for (name, day), n in self.daily().items())

    async def audit(self, *, by_day: bool = False, **options: Any) -> Audit:
        """Audit without repair."""
        record = record_of(self.state)
        assert record is not None
        span = record.since, record.through - DAY
        subject = _Subject(self.held(), *span, record.timezone, series=record.series, loaded=record.through)
        async with self.session(**options) as session:
            return await _AuditRun(subject, by_day, Monitor()).run(session)
