"""Loads, which bring a warehouse up to date, and audits, which only say what differs."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from time import monotonic
from typing import Any

from msgspec import Struct

from .. import (
    AsyncSession,
    ConfigurationError,
    DateRange,
    ExportError,
    InvalidRequestError,
    OnError,
    Progress,
    RangeStats,
    __version__,
    parse_zone,
)
from ._account import ID, SLASHTAG, Account
from ._reconcile import DAY, Comparison, Found, Series
from ._tables import BY_DIMENSION, TABLES, Replacement, Row, Span
from ._warehouse import Warehouse

#: Called with the name of what is read or compared, what is done of it, and all of it (None: not known).
TableProgress = Callable[[str, int, int | None], object]
#: Version of the tables.
FORMAT = 2
#: Names of missing links that a row of `loads` has, at most.
MOST_NAMES = 100
#: What is known before the first load.
_NO_LOAD: dict[str, Any] = {"through": date.min, "by_tag": False, "dimensions": ""}


class Load(Struct, frozen=True, kw_only=True):
    """Result of a load: the days from `since` to `through` are as the service counts them, in `timezone`.

    `rows` has the number of rows by table that were added, changed or removed. `missing` names slashtags and
    tags that could not be counted: the next load tries again.
    """

    since: date
    through: date
    timezone: str
    rows: dict[str, int]
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


class Difference(Struct, frozen=True):
    """Clicks of a slashtag or tag that are not held as counted: on a day, or in a month by label."""

    table: str
    name: str
    date: date
    held: int
    counted: int
    dimension: str | None = None
    label: str | None = None


class Audit(Struct, frozen=True, kw_only=True):
    """Result of an audit of the days from `since` to `through`, the last one that was over at the last load.

    `missing` names slashtags and tags that could not be counted, `changed` slashtags that other links have
    since then: they are not compared, and the next load brings them.
    """

    since: date
    through: date
    timezone: str
    links: int
    differences: tuple[Difference, ...]
    missing: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def is_proved(self) -> bool:
        """Whether all that was compared is as the service counts it."""
        return not (self.differences or self.missing)


@dataclass
class _Run:
    """What a load and an audit have in common: listings, and the comparison of all tables of clicks.

    `missing` names in the end what could not be counted.
    """

    session: AsyncSession
    warehouse: Warehouse
    progress: TableProgress | None
    on_error: OnError | None
    missing: list[str] = field(default_factory=list[str])

    async def last_load(self) -> dict[str, Any] | None:
        """Return the last row of `loads`, by column; raises ConfigurationError for one of a newer version."""
        rows = await self.warehouse.rows("loads")
        last = dict(zip(TABLES["loads"], max(rows), strict=True)) if rows else None
        if last is not None and last["format"] > FORMAT:
            problem = f"{self.warehouse.place} was loaded by a newer version of slashtag, {last['version']}"
            raise ConfigurationError(f"{problem}: update slashtag, or use another path or --dataset")
        return last

    async def list(self, *, allow_shrink: bool = True) -> Account:
        """List links and tags; raises as `Account.check`."""
        held = await self.warehouse.rows("links")
        # Pages behind the last one are asked for where many are asked for ahead.
        ahead = 1 + len(held) // 5_000
        links = self.session.urls.list(progress=self._bar("links"), prefetch=ahead)
        account = Account(await links.to_list(), await self.session.tags.list().to_list(), held)
        account.check(self.warehouse.place, allow_shrink=allow_shrink)
        return account

    async def compare(
        self, settings: dict[str, Any], all_series: Iterable[Series], today: date
    ) -> AsyncIterator[tuple[Span, Sequence[Found]]]:
        """Yield what differs, of one table after the other; `settings` is a row of `loads`."""
        dimensions = [name for name in settings["dimensions"].split(",") if name]
        for series in all_series:
            comparison = Comparison(
                self.session,
                self.warehouse,
                series,
                settings["since"],
                today,
                parse_zone(settings["timezone"]),
                dimensions if series.table == "clicks_daily" else (),
                self._bar(series.table),
                self.on_error,
            )
            async for span, found in comparison.run():
                yield span, found
            self.missing += sorted(comparison.failed)

    def _bar(self, table: str) -> Progress | None:
        return self.progress and partial(self.progress, table)


async def load(
    session: AsyncSession,
    warehouse: Warehouse,
    since: str | date,
    *,
    timezone: str = "+00:00",
    by_tag: bool = False,
    dimensions: Iterable[str] = (),
    allow_shrink: bool = False,
    progress: TableProgress | None = None,
    on_error: OnError | None = None,
) -> Load:
    """Bring the tables of a warehouse up to date, from `since` to today.

    All that is held is compared with the service, and what differs is replaced: see docs/warehouse.md. A load
    that was interrupted goes on where it stopped, as what is there does not differ. `since`, `by_tag` and
    `dimensions` (some of device, browser, platform, country and referrer) add to those of the loads before.
    What fails is passed to `on_error`, and the rest goes on. Raises InvalidRequestError for wrong arguments;
    ConfigurationError if the warehouse holds another account or time zone; ShrunkListingError if more than a
    tenth of the links, and ten or more, are not listed any more, unless `allow_shrink`; ExportError if the
    warehouse fails; errors of requests that all others would have too. See docs/service.md, List short URLs;
    Statistics for a date or date range; Statistics for all time.
    """
    began, zone = monotonic(), parse_zone(timezone)
    (first, _), wanted = DateRange(since, since).bounds, {*dimensions}
    if unknown := wanted.difference(RangeStats.SUMS):
        raise InvalidRequestError(f"no dimension {min(unknown)!r}: there are {', '.join(RangeStats.SUMS)}")
    if first > (today := datetime.now(zone).date()):
        raise InvalidRequestError(f"{since} is after today, {today}: there are no clicks yet")
    with warehouse:
        run = _Run(session, warehouse, progress, on_error)
        last = await run.last_load() or _NO_LOAD | {"since": first, "timezone": timezone}
        if last["timezone"] != timezone:
            problem = f"{warehouse.place} holds days of {last['timezone']}, not {timezone}"
            raise ConfigurationError(f"{problem}: use that zone, or another path or --dataset")
        account = await run.list(allow_shrink=allow_shrink)
        over, today = _days(session, zone)
        wanted |= {*last["dimensions"].split(",")}
        now = datetime.now(UTC).replace(tzinfo=None)
        this: dict[str, Any] = dict.fromkeys(TABLES["loads"]) | {
            "loaded_at": now,
            "timezone": timezone,
            "since": min(first, last["since"]),
            "through": over,
            "by_tag": by_tag or last["by_tag"],
            "dimensions": ",".join(name for name in RangeStats.SUMS if name in wanted),
            "complete": False,
            "version": __version__,
            "format": FORMAT,
        }
        # Says whose the rows of clicks will be before any is written, and removes those of other links: so an
        # interrupted load leaves none under a slashtag that are those of other links.
        foreign = (Replacement(table, account.foreign, None, ()) for table in ("clicks_daily", BY_DIMENSION))
        changed = [row for row in account.rows(account.changed, now) if row[SLASHTAG] in account.changed]
        tags = Replacement("tags", None, None, account.tags)
        await warehouse.replace(*foreign, _links(changed), tags, _row_of(this))
        rows = Counter[str]()
        all_series = account.series(by_tag=this["by_tag"])
        async for span, found in run.compare(this, all_series, max(today, last["through"])):
            await _write(warehouse, span, found)
            for each in found:
                rows.update(table for table, *_ in each.cells)
        uncounted = {None, *run.missing}
        run.missing += (str(row[ID]) for row in account.links.values() if row[SLASHTAG] is None)
        this |= {
            "complete": not run.missing,
            "missing_links": len(run.missing),
            "missing": ",".join(run.missing[:MOST_NAMES]),
            "requests": session.metrics.attempts,
            "seconds": round(monotonic() - began, 1),
        }
        await warehouse.replace(_links(account.rows(uncounted, now)), _row_of(this))
    return Load(
        since=this["since"],
        through=this["through"],
        timezone=timezone,
        rows=dict(sorted(rows.items())),
        missing=tuple(run.missing),
    )


async def audit(
    session: AsyncSession,
    warehouse: Warehouse,
    *,
    progress: TableProgress | None = None,
    on_error: OnError | None = None,
) -> Audit:
    """Compare the tables of a warehouse with the service as a load does, without writing anything.

    Days that were over at the last load are compared. Those of clicks that came later differ too: the next
    load brings them, and mends whatever else differs. Raises as `load`, and ExportError if there was none.
    """
    with warehouse:
        run = _Run(session, warehouse, progress, on_error)
        last = await run.last_load()
        if last is None:
            raise ExportError(f"{warehouse.place} holds no load of clicks: run `slashtag sync` first")
        account, over = await run.list(), last["through"]
        _, today = _days(session, parse_zone(last["timezone"]))
        all_series, differences = account.series(by_tag=last["by_tag"]), list[Difference]()
        async for _, found in run.compare(last, all_series, max(today, over, last["since"])):
            for each in found:
                for table, day, *label in each.cells:
                    is_over = day < (over.replace(day=1) if table == BY_DIMENSION else over)
                    if is_over and (table == "clicks_by_tag" or each.name not in account.elsewhere):
                        held, counted = (clicks[table, day, *label] for clicks in each[1:])
                        differences.append(Difference(table, each.name, day, held, counted, *label))
    return Audit(
        since=last["since"],
        through=over - DAY,
        timezone=last["timezone"],
        links=len(account.links),
        differences=tuple(differences),
        missing=tuple(run.missing),
        changed=tuple(sorted(account.changed)),
    )


async def _write(warehouse: Warehouse, span: Span, found: Sequence[Found]) -> None:
    """Replace all rows that some names have in a month."""
    changes: dict[str, tuple[set[str], list[Row]]] = {}
    for each in found:
        for table, *key in {**each.held, **each.counted}:
            names, rows = changes.setdefault(table, (set(), []))
            names.add(each.name)
            if clicks := each.counted[table, *key]:
                rows.append((each.name, *key, clicks))
    await warehouse.replace(
        *(Replacement(table, names, span, rows) for table, (names, rows) in changes.items())
    )


def _links(rows: list[Row]) -> Replacement:
    return Replacement("links", [row[ID] for row in rows], None, rows)


def _row_of(load: dict[str, Any]) -> Replacement:
    return Replacement("loads", [load["loaded_at"]], None, [tuple(load.values())])


def _days(session: AsyncSession, zone: tzinfo) -> tuple[date, date]:
    """Return today by this machine's clock and by the service's, the earlier one first.

    Days up to the later one are compared, one more at most than this machine knows; those before the earlier
    one count as over.
    """
    now, answered = datetime.now(UTC), session.metrics.oldest_answer
    served = now if answered is None else datetime.fromtimestamp(answered, UTC)
    earlier, later = min(now, served), max(now, min(served, now + DAY))
    return earlier.astimezone(zone).date(), later.astimezone(zone).date()
