"""Loads, which bring a warehouse up to date, and audits, which only say what differs."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from operator import attrgetter
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
    RangeStats,
    __version__,
    parse_zone,
)
from ._account import ID, SLASHTAG, Account
from ._reconcile import DAY, Comparison, Found, Series
from ._tables import TABLES, Replacement, Row, Span
from ._warehouse import Warehouse

#: Called with the name of what is read or compared, what is done of it, and all of it (None: not known).
TableProgress = Callable[[str, int, int | None], object]
#: Version of the tables.
FORMAT = 2
#: Names of missing links that a row of `loads` has, at most.
MOST_NAMES = 100
#: Names and months that are written at once.
MOST_WRITTEN = 1_000
_tag_row = attrgetter(*TABLES["tags"])


class Load(Struct, frozen=True, kw_only=True):
    """Result of a load: the days from `since` to `through` are as the service counts them, in `timezone`.

    `rows` has the number of rows by table that were added, changed or removed, `mended` that of days that
    were over at the last load. `missing` names slashtags and tags that could not be counted: the next load
    tries again.
    """

    since: date
    through: date
    timezone: str
    links: int
    rows: dict[str, int]
    mended: int
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

    `settings` is a row of `loads`, by column.
    """

    session: AsyncSession
    warehouse: Warehouse
    progress: TableProgress | None
    on_error: OnError | None
    failed: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    async def last_load(self) -> dict[str, Any] | None:
        """Return the last row of `loads`; raises ConfigurationError for one of a newer version."""
        rows = await self.warehouse.rows("loads")
        last = dict(zip(TABLES["loads"], max(rows), strict=True)) if rows else None
        if last is not None and last["format"] > FORMAT:
            problem = f"{self.warehouse.place} was loaded by a newer version of slashtag, {last['version']}"
            raise ConfigurationError(f"{problem}: update slashtag, or use another path or --dataset")
        return last

    async def list(self) -> None:
        """List links and tags."""
        held = await self.warehouse.rows("links")
        # Pages behind the last one are asked for where many are asked for ahead.
        ahead = 1 + len(held) // 5_000 if held else 8
        progress = self.progress and partial(self.progress, "links")
        links = self.session.urls.list(progress=progress, prefetch=ahead)
        self.account = Account(await links.to_list(), held)
        self.tags = sorted(map(_tag_row, await self.session.tags.list().to_list()))

    async def compare(
        self, settings: dict[str, Any], links: Series, span: Span, latest: date
    ) -> AsyncIterator[Found]:
        """Yield what differs, of one table after the other."""
        zone, names = parse_zone(settings["timezone"]), {name: id for id, name, *_ in self.tags if name}
        moved = {name for name, id in names.items() if id in self.account.retagged}
        of_tags = Series("clicks_by_tag", [*names], {*names}, {*names}, moved)
        dimensions = [name for name in settings["dimensions"].split(",") if name]
        for series in (links, of_tags)[: 1 + settings["by_tag"] if span[0] <= span[1] else 0]:
            progress = self.progress and partial(self.progress, series.table)
            comparison = Comparison(
                self.session,
                self.warehouse,
                series,
                span,
                latest,
                zone,
                dimensions if series is links else (),
                progress,
                self.on_error,
            )
            async for found in comparison.run():
                yield found
            self.failed[series.table] = comparison.failed

    @property
    def missing(self) -> tuple[str, ...]:
        """What could not be counted."""
        return tuple(name for names in self.failed.values() for name in sorted(names))


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
        last = await run.last_load()
        if last is not None and last["timezone"] != timezone:
            problem = f"{warehouse.place} holds days of {last['timezone']}, not {timezone}"
            raise ConfigurationError(f"{problem}: use that zone, or another path or --dataset")
        await run.list()
        account = run.account
        owner = account.check_owner(session, last["account"] if last else None)
        account.check_whole(allow_shrink=allow_shrink)
        earlier, later = (each.astimezone(zone).date() for each in _clocks(session))
        if last is not None:
            by_tag = by_tag or last["by_tag"]
            wanted |= {*last["dimensions"].split(",")}
            later = max(later, last["through"])
        this: dict[str, Any] = dict.fromkeys(TABLES["loads"]) | {
            "loaded_at": datetime.now(UTC).replace(tzinfo=None),
            "account": owner,
            "timezone": timezone,
            "since": min(first, last["since"]) if last else first,
            "through": earlier,
            "by_tag": by_tag,
            "dimensions": ",".join(name for name in RangeStats.SUMS if name in wanted),
            "complete": False,
            "version": __version__,
            "format": FORMAT,
        }
        await _begin(run, this)
        unknown = account.changed | account.uncounted
        if last is None or first < last["since"]:
            unknown = {*account.names}
        known = {*account.names} - unknown
        links = Series("clicks_daily", account.names, unknown, account.clicked, gone=account.of_gone)
        rows, mended, kept = Counter[str](), 0, list[Found]()
        async for found in run.compare(this, links, (this["since"], later), later):
            is_full = len(kept) >= MOST_WRITTEN
            if kept and (is_full or (kept[0].table, kept[0].span) != (found.table, found.span)):
                await _write(warehouse, kept)
                kept = []
            kept.append(found)
            rows.update(_table_of(found, cell) for cell in found.cells)
            if last is not None and found.name in known:
                mended += sum(len(cell) == 1 and cell[0] < last["through"] for cell in found.cells)
        await _write(warehouse, kept)
        missing = (*run.missing, *(str(row[ID]) for row in account.listed.values() if row[SLASHTAG] is None))
        this |= {
            "complete": not missing,
            "missing_links": len(missing),
            "missing": ",".join(missing[:MOST_NAMES]),
        }
        this |= {"requests": session.metrics.attempts, "seconds": round(monotonic() - began, 1)}
        counted = account.unlike({*account.names} - run.failed["clicks_daily"])
        await warehouse.replace(
            Replacement("links", [row[ID] for row in counted], None, counted), _row_of(this)
        )
    return Load(
        since=this["since"],
        through=this["through"],
        timezone=timezone,
        links=len(account.listed),
        rows=dict(sorted(rows.items())),
        mended=mended,
        missing=missing,
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
        await run.list()
        account = run.account
        account.check_owner(session, last["account"])
        names = [name for name in account.names if name not in account.changed]
        others = account.changed | account.ever_held - {*names}
        links = Series("clicks_daily", names, account.uncounted, account.clicked, gone=others)
        span, differences = (last["since"], last["through"] - DAY), list[Difference]()
        async for found in run.compare(last, links, span, last["through"]):
            for cell in found.cells:
                day, *label = cell
                clicks = found.held[cell], found.counted[cell]
                differences.append(Difference(_table_of(found, cell), found.name, day, *clicks, *label))
    return Audit(
        since=span[0],
        through=span[1],
        timezone=last["timezone"],
        links=len(account.listed),
        differences=tuple(differences),
        missing=run.missing,
        changed=tuple(sorted(account.changed)),
    )


async def _begin(run: _Run, this: dict[str, Any]) -> None:
    """Say whose the rows of clicks will be, before any is written, and remove those of other links.

    So a load that is interrupted leaves no rows under a slashtag that are those of other links.
    """
    account, changes = run.account, list[Replacement]()
    if foreign := account.changed & account.ever_held:
        changes += (
            Replacement(table, foreign, None, ()) for table in ("clicks_daily", "clicks_by_dimension")
        )
    if rows := [*account.unlike(), *account.gone_rows(this["loaded_at"])]:
        changes.append(Replacement("links", [row[ID] for row in rows], None, rows))
    if run.tags != sorted(await run.warehouse.rows("tags")):
        changes.append(Replacement("tags", None, None, run.tags))
    if changes:
        await run.warehouse.replace(*changes, _row_of(this))
        account.hold(rows)


async def _write(warehouse: Warehouse, found: list[Found]) -> None:
    """Replace all rows that some names have in a month, or in another span."""
    changes: dict[str, tuple[set[str], list[Row]]] = {}
    for each in found:
        for cell in {**each.held, **each.counted}:
            names, rows = changes.setdefault(_table_of(each, cell), (set(), []))
            names.add(each.name)
            if clicks := each.counted[cell]:
                rows.append((each.name, *cell, clicks))
    if found:
        first, last = found[0].span
        # `clicks_by_dimension` has months by their first day, also one of which only a part is held.
        span = first if first == date.min else first.replace(day=1), last
        await warehouse.replace(
            *(Replacement(table, names, span, rows) for table, (names, rows) in changes.items())
        )


def _table_of(found: Found, cell: tuple[Any, ...]) -> str:
    return found.table if len(cell) == 1 else "clicks_by_dimension"


def _row_of(load: dict[str, Any]) -> Replacement:
    return Replacement("loads", [load["loaded_at"]], None, [tuple(load.values())])


def _clocks(session: AsyncSession) -> tuple[datetime, datetime]:
    """Return the present by this machine's clock and the service's, the earlier one first.

    Days up to the later one are compared, one more at most than this machine knows; those before the earlier
    one count as over.
    """
    now, answered = datetime.now(UTC), session.metrics.oldest_answer
    served = now if answered is None else datetime.fromtimestamp(answered, UTC)
    return min(now, served), max(now, min(served, now + DAY))
