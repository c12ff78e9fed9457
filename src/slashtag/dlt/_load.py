"""Loads, which bring a warehouse up to date, and audits, which only say what differs."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
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
from ..counts import DAY
from ._account import ID, Account
from ._reconcile import Comparison, Found, Series
from ._tables import BY_DIMENSION, TABLES, Replacement, Row, Span
from ._warehouse import Warehouse

#: Called with the name of what is read or compared, what is done of it, and all of it (None: not known).
TableProgress = Callable[[str, int, int | None], object]
#: Version of the tables.
FORMAT = 2


class Difference(Struct, frozen=True):
    """Clicks of a slashtag or tag that are not held as counted: on a day, or in a month by label."""

    table: str
    name: str
    date: date
    held: int
    counted: int
    dimension: str | None = None
    label: str | None = None


class Load(Struct, frozen=True, kw_only=True):
    """Result of a load, or of an audit, which has the `differences`.

    After a load the days from `since` to `through` are as the service counts them, in `timezone`; an audit
    compared them. `rows` has by table how many rows of clicks differed before a load. `missing` names
    slashtags and tags that could not be counted, and after a load the ids of links and tags whose name cannot
    be read: the next load tries again.
    """

    since: date
    through: date
    timezone: str
    rows: dict[str, int] = {}
    missing: tuple[str, ...]
    differences: tuple[Difference, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, or differs after an audit."""
        return not (self.missing or self.differences)


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
    """Bring the tables of a warehouse up to date, from the month of `since` to today.

    All that is held is compared with the service, and what differs is replaced: see docs/warehouse.md. A load
    that was interrupted goes on where it stopped, as what is there does not differ. `since`, `by_tag` and
    `dimensions` (some of `RangeStats.SUMS`) add to those of the loads before.
    What fails is passed to `on_error`, and the rest goes on. Raises InvalidRequestError for wrong arguments;
    ConfigurationError if the warehouse holds another account or time zone; ShrunkListingError if more than a
    tenth of the links, and ten or more, are not listed any more, unless `allow_shrink`; ExportError if the
    warehouse fails; errors of requests that all others would have too. See docs/service.md, List short URLs;
    Statistics for a date or date range; Statistics for all time.
    """
    zone, wanted = parse_zone(timezone), {*dimensions}
    first, _ = DateRange(since, datetime.now(zone).date()).bounds
    if unknown := wanted.difference(RangeStats.SUMS):
        raise InvalidRequestError(f"no dimension {min(unknown)!r}: there are {', '.join(RangeStats.SUMS)}")
    with warehouse:
        last = await _last_load(warehouse) or {
            "since": first,
            "timezone": timezone,
            "by_tag": False,
            "dimensions": "",
        }
        if last["timezone"] != timezone:
            raise ConfigurationError(
                f"{warehouse.place} holds days of {last['timezone']}, not {timezone}: use that zone, or "
                "another path or --dataset"
            )
        account = await _list(session, warehouse, progress, allow_shrink)
        over, _ = _days(session, zone)
        wanted |= {*last["dimensions"].split(",")}
        # In the order of the columns.
        this: dict[str, Any] = {
            "loaded_at": datetime.now(UTC).replace(tzinfo=None),
            "timezone": timezone,
            # Months are compared as a whole.
            "since": min(first, last["since"]).replace(day=1),
            "through": over,
            "by_tag": by_tag or last["by_tag"],
            "dimensions": ",".join(name for name in RangeStats.SUMS if name in wanted),
            "complete": False,
            "missing": None,
            "version": __version__,
            "format": FORMAT,
        }
        all_series = account.series(by_tag=this["by_tag"])
        # What is written from now on is noted before, in case of an interruption: with which settings, and of
        # which links the rows of a name will be.
        await warehouse.replace(_links(account.begun(all_series[0])), _row_of(this))
        rows, missing = Counter[str](), list[str]()
        async for span, found in _compare(session, warehouse, all_series, this, progress, on_error, missing):
            await _write(warehouse, span, found)
            rows.update(table for each in found for table, *_ in each.cells)
        links = account.rows({None, *missing}, this["loaded_at"])
        missing += (
            str(id) for id, name, *_ in [*account.links.values(), *account.tags * this["by_tag"]] if not name
        )
        this |= {"complete": not missing, "missing": ",".join(missing)}
        await warehouse.replace(_links(links), Replacement("tags", None, None, account.tags), _row_of(this))
    return Load(since=this["since"], through=over, timezone=timezone, rows=rows, missing=tuple(missing))


async def audit(
    session: AsyncSession,
    warehouse: Warehouse,
    *,
    progress: TableProgress | None = None,
    on_error: OnError | None = None,
) -> Load:
    """Compare the tables of a warehouse with the service as a load does, without writing a row.

    Tables that are missing in a database are made. Days that were over at the last load are compared. Those
    of clicks that came later differ too, and those of links that were renamed since: the next load brings
    them, and mends whatever else differs. Raises as `load`, and ExportError if there was none.
    """
    with warehouse:
        last = await _last_load(warehouse)
        if last is None:
            raise ExportError(f"{warehouse.place} holds no load of clicks: run `slashtag sync` first")
        account, over = await _list(session, warehouse, progress, True), last["through"]
        differences, missing = list[Difference](), list[str]()
        all_series = account.series(by_tag=last["by_tag"])
        async for _, found in _compare(session, warehouse, all_series, last, progress, on_error, missing):
            for each in found:
                for table, day, *label in each.cells:
                    if day < (over.replace(day=1) if table == BY_DIMENSION else over):
                        held, counted = (clicks[table, day, *label] for clicks in each[1:])
                        differences.append(Difference(table, each.name, day, held, counted, *label))
    return Load(
        since=last["since"],
        through=over - DAY,
        timezone=last["timezone"],
        missing=tuple(missing),
        differences=tuple(differences),
    )


async def _last_load(warehouse: Warehouse) -> dict[str, Any] | None:
    """Return the last row of `loads`, by column; raises ConfigurationError for one of a newer version."""
    rows = await warehouse.rows("loads")
    last = dict(zip(TABLES["loads"], max(rows), strict=True)) if rows else None
    if last and last["format"] > FORMAT:
        raise ConfigurationError(
            f"{warehouse.place} was loaded by a newer version of slashtag, {last['version']}: update "
            "slashtag, or use another path or --dataset"
        )
    return last


async def _list(
    session: AsyncSession,
    warehouse: Warehouse,
    progress: TableProgress | None,
    allow_shrink: bool,
) -> Account:
    """List links and tags; raises as `Account.check`."""
    links, tags = session.urls.list(progress=progress and partial(progress, "links")), session.tags.list()
    account = Account(await links.to_list(), await tags.to_list(), await warehouse.rows("links"))
    account.check(warehouse.place, allow_shrink=allow_shrink)
    return account


async def _compare(
    session: AsyncSession,
    warehouse: Warehouse,
    all_series: Iterable[Series],
    settings: dict[str, Any],
    progress: TableProgress | None,
    on_error: OnError | None,
    missing: list[str],
) -> AsyncIterator[tuple[Span, Sequence[Found]]]:
    """Yield what differs, of one table after the other; `settings` is a row of `loads`.

    Adds to `missing` what could not be counted.
    """
    zone = parse_zone(settings["timezone"])
    _, today = _days(session, zone)
    dimensions = [name for name in settings["dimensions"].split(",") if name]
    for series in all_series:
        comparison = Comparison(
            session,
            warehouse,
            series,
            settings["since"],
            today,
            zone,
            dimensions if series.table == "clicks_daily" else (),
            progress and partial(progress, series.table),
            on_error,
        )
        async for each in comparison.run():
            yield each
        missing += sorted(comparison.failed)


async def _write(warehouse: Warehouse, span: Span, found: Sequence[Found]) -> None:
    """Replace all rows that some names have in a month."""
    names = {each.name for each in found}
    rows: dict[str, list[Row]] = {table: [] for each in found for table, *_ in each.cells}
    for each in found:
        for (table, *key), clicks in each.counted.items():
            if clicks and table in rows:
                rows[table].append((each.name, *key, clicks))
    await warehouse.replace(*(Replacement(table, names, span, rows[table]) for table in rows))


def _links(rows: list[Row]) -> Replacement:
    return Replacement("links", [row[ID] for row in rows], None, rows)


def _row_of(load: dict[str, Any]) -> Replacement:
    return Replacement("loads", [load["loaded_at"]], None, [tuple(load.values())])


def _days(session: AsyncSession, zone: tzinfo) -> list[date]:
    """Return today by this machine's clock and by the service's, the earlier one first.

    Days up to the later one are compared; those before the earlier one count as over.
    """
    now = datetime.now(UTC).timestamp()
    return sorted(
        datetime.fromtimestamp(at, zone).date() for at in (now, session.metrics.oldest_answer or now)
    )
